"""HEAD of a script against BASE, line by line: what crosses in a frame, gates on its bytes, advice followed.

Advice on a line is followed where HEAD has no such crossing there any more, and the advice's rule fires
neither there nor on a new line of the file. What is gained is the whole frame's: several lines have one gain
together, and it includes whatever else changed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from advisor import units
from advisor.errors import INTERRUPTED
from advisor.profiles.amounts import Interval
from advisor.profiles.crossings import Crossing, CrossingKind, LineAdvice, Place, ScriptRun
from advisor.profiles.schema import Profile
from advisor.verdicts.ceilings import Scope, ceiling_of, line_seconds, scopes
from advisor.verdicts.comparing.comparisons import DECIDING, require_alike
from advisor.verdicts.comparing.conditions import Condition, conditions, differing
from advisor.verdicts.comparing.gates import Finding, Gate, Ruling, rule

Outcome = Literal["new", "more", "less", "same", "gone"]
_Key = tuple[str, str, CrossingKind, int]


@dataclass(frozen=True)
class Moved:
    """Bytes that a line moves in a frame; `seconds` with the kernels it waits for, None without a GPU."""

    place: Place
    times: float
    bytes: float
    seconds: float | None


@dataclass(frozen=True)
class ComparedLine:
    """A line in both, by its text and file; None where one has no such crossing in its frames."""

    kind: CrossingKind
    base: Moved | None
    head: Moved | None

    @property
    def place(self) -> Place:
        side = self.head or self.base
        assert side is not None
        return side.place

    @property
    def outcome(self) -> Outcome:
        if self.base is None or self.head is None:
            return "new" if self.base is None else "gone"
        before, now = ((side.bytes, side.times) for side in (self.base, self.head))
        return "same" if before == now else "more" if now > before else "less"


@dataclass(frozen=True)
class ComparedFrames:
    """One loop in both, or the whole runs."""

    base: Scope
    head: Scope
    lines: tuple[ComparedLine, ...]


@dataclass(frozen=True)
class LineComparison:
    base: Profile
    head: Profile
    conditions: tuple[Condition, ...]
    frames: tuple[ComparedFrames, ...]
    unmatched: tuple[str, ...] = ()
    """Loops of one of the two alone, in words."""
    new_advice: tuple[LineAdvice, ...] = ()
    gone_advice: tuple[LineAdvice, ...] = ()


def compare_lines(base: Profile, head: Profile, *, anyway: bool = False) -> LineComparison:
    """Two profiles of a script. Raises `UsageError` where that makes no sense (see `comparisons.compare`)."""
    require_alike(base, head, anyway=anyway)
    assert base.script is not None
    assert head.script is not None
    before, now = scopes(base.script), scopes(head.script)
    pairs = _pairs(before, now)
    paired = {id(scope) for pair in pairs for scope in pair}
    alone = [
        f"the loop at line {scope.loop.place.line} of {side}"
        for side, all_ in (("BASE", before), ("HEAD", now))
        for scope in all_
        if scope.loop and id(scope) not in paired
    ]
    return LineComparison(
        base,
        head,
        conditions(base, head),
        tuple(_frames(b, h) for b, h in pairs),
        tuple(alone),
        tuple(_advice_apart(head.script, base.script)),
        tuple(_advice_apart(base.script, head.script)),
    )


def _pairs(base: Sequence[Scope], head: Sequence[Scope]) -> list[tuple[Scope, Scope]]:
    """Loops by file and text, in order; what is the only one in both belongs together in any case."""
    if len(base) == len(head) == 1 and (base[0].loop is None) == (head[0].loop is None):
        return [(base[0], head[0])]
    known = {_name(scope, base): scope for scope in base}
    return [(known[name], scope) for scope in head if (name := _name(scope, head)) in known]


def _name(scope: Scope, among: Sequence[Scope]) -> tuple[str, str, int]:
    if scope.loop is None:
        return "", "", 0
    place = scope.loop.place
    places = [s.loop.place for s in among if s.loop]
    alike = sorted(p.line for p in places if (p.file, p.text) == (place.file, place.text))
    return place.file, place.text, alike.index(place.line)


def _frames(base: Scope, head: Scope) -> ComparedFrames:
    """HEAD's lines in their order, then those that only BASE has."""
    before, now = _moved(base), _moved(head)
    keys = dict.fromkeys((*now, *before))
    return ComparedFrames(base, head, tuple(ComparedLine(k[2], before.get(k), now.get(k)) for k in keys))


def _moved(scope: Scope) -> Mapping[_Key, Moved]:
    """Moved bytes by file, text and kind of line; lines of the same text in their order."""
    counts: Counter[tuple[str, str, CrossingKind]] = Counter()
    moved: dict[_Key, Moved] = {}
    for _, crossing in sorted(scope.crossings, key=lambda pair: pair[1].place.line):
        key = (crossing.place.file, crossing.place.text, crossing.kind)
        seconds, frames = line_seconds(crossing), scope.frames
        moved[(*key, counts[key])] = Moved(
            crossing.place,
            crossing.count / frames,
            crossing.bytes / frames,
            None if seconds is None else seconds / frames,
        )
        counts[key] += 1
    return moved


def _advice_apart(run: ScriptRun, other: ScriptRun) -> Iterator[LineAdvice]:
    """Advice that only the first has, once for all devices."""
    known = {(a.advice.rule, a.place.file, a.place.text) for a in other.advice}
    for line in run.advice:
        key = (line.advice.rule, line.place.file, line.place.text)
        if key not in known:
            known.add(key)
            yield line


def judge_lines(comparison: LineComparison, gates: Sequence[Gate]) -> tuple[Ruling, ...]:
    """Gates on bytes per frame. Bytes are counted, not sampled: they have no interval."""
    return tuple(rule(gate, list(_findings(comparison, gate))) for gate in gates)


def _findings(comparison: LineComparison, gate: Gate) -> Iterator[Finding]:
    codes = [side.script.exit_code if side.script else 0 for side in (comparison.base, comparison.head)]
    if codes[1] not in (0, codes[0]):
        ended = "The script ended with exit code {} in BASE and {} in HEAD.".format(*codes)
        yield Finding("inconclusive" if codes[1] == INTERRUPTED else "failed", ended)
    for name in comparison.unmatched:
        yield Finding("inconclusive", f"Only one of the two has {name}.")
    for each in comparison.frames:
        before, now = each.base.copied_bytes, each.head.copied_bytes
        sizes = f"{units.size(before)} in BASE, {units.size(now)} in HEAD"
        if now <= before * (1 + gate.limit):
            yield Finding("passed", f"Bytes per frame: {sizes}.")
        else:
            grown = (line for line in each.lines if line.outcome in ("new", "more") and line.kind != "wait")
            more = [f"line {line.place.line} `{line.place.text}`" for line in grown]
            by = f", by {', '.join(more[:3])}" if more else ""
            yield Finding("failed", f"A frame copies more: {sizes}{by}")
    if not comparison.frames and not comparison.unmatched:
        if comparison.head.script and comparison.head.script.crossings:
            yield Finding("failed", "Nothing crosses in BASE, but something does in HEAD.")
        else:
            yield Finding("passed", "Nothing crosses in HEAD.")


@dataclass(frozen=True)
class Promise:
    """Seconds of a frame that the advice on `places` was to save, and that HEAD saves.

    `tried`: BASE measured the changes of these lines; else the promise is an estimate. `between` holds where
    the 95 % intervals of both frames do.
    """

    places: tuple[Place, ...]
    seconds: float
    tried: bool
    saved: float
    between: Interval


def promises(comparison: LineComparison) -> Iterator[Promise]:
    """One for each loop in which HEAD follows advice of BASE, where both frames were measured alike."""
    failed = any(side.script and side.script.exit_code for side in (comparison.base, comparison.head))
    if failed or any(c.what in DECIDING for c in differing(comparison.conditions)):
        return
    for frames in comparison.frames:
        gains, sides = _followed(comparison, frames), (frames.base.loop, frames.head.loop)
        times = [(side.frame_seconds, side.interval_seconds) for side in sides if side]
        timed = [(seconds, *interval) for seconds, interval in times if seconds and interval]
        if gains and len(timed) == len(sides):
            (before, low, high), (now, least, most) = timed
            seconds, tried = _together(comparison.base, frames.base, gains)
            places = tuple(dict.fromkeys(place for place, _ in gains))
            yield Promise(places, seconds, tried, before - now, (low - most, high - least))


Followed = tuple[Place, str]
"""A line, and the rule whose advice HEAD follows there: other findings of the line promise nothing of it."""


def _followed(comparison: LineComparison, frames: ComparedFrames) -> dict[Followed, float]:
    """Advice that HEAD follows, with the gain that the rule promised for all crossings of the line."""
    assert comparison.base.script is not None
    assert comparison.head.script is not None
    crossings, still = dict(frames.base.crossings), {_use(c) for _, c in frames.head.crossings}
    before, now = comparison.base.script.advice, comparison.head.script.advice
    gains: dict[Followed, float] = {}
    for line in before:
        gain, crossing = line.advice.gain, crossings.get(line.crossing)
        if crossing is None or _use(crossing) in still or line.advice.device != comparison.base.device.name:
            continue
        of_rule = (line.advice.rule, line.place.file)
        texts = [
            {a.place.text for a in side if (a.advice.rule, a.place.file) == of_rule} for side in (before, now)
        ]
        # In HEAD, there or on a line where it did not in BASE.
        fires = texts[1] - (texts[0] - {line.place.text})
        if gain and gain.seconds_per_frame and not fires:
            key = line.place, line.advice.rule
            gains[key] = gains.get(key, 0.0) + gain.seconds_per_frame
    return gains


def _use(crossing: Crossing) -> tuple[object, ...]:
    """The line and how it moves what it moves."""
    place, how = crossing.place, (crossing.memory, crossing.staged, crossing.non_blocking)
    return place.file, place.text, crossing.kind, *how


def _together(base: Profile, scope: Scope, gains: Mapping[Followed, float]) -> tuple[float, bool]:
    """Seconds of a frame that all lines together promise, and whether these changes were tried: a patch of
    just these lines counts before their sum, which is never more than memory can change."""
    tried = base.trials if base.trials and base.trials.loop == scope.number else None
    trials = {(t.place, t.rule): t for t in tried.trials if t.outcome == "faster"} if tried else {}
    patch = tried.patch if tried else None
    in_patch = {key for key, t in trials.items() if t.in_patch}
    if patch and patch.speedup and patch.holds and in_patch == set(gains) and scope.seconds:
        return scope.seconds * (1 - 1 / patch.speedup), True
    alone = trials.get(next(iter(gains))) if len(gains) == 1 else None
    if tried and tried.frame_seconds and alone and alone.frame_seconds:
        return tried.frame_seconds - alone.frame_seconds, True
    ceiling = base.script and ceiling_of(base.script, scope)
    return min(sum(gains.values()), ceiling.seconds if ceiling else math.inf), False
