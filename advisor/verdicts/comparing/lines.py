"""HEAD of a script against BASE, line by line: what crosses in a frame, and gates on its bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from advisor import units
from advisor.profiles.crossings import CrossingKind, LineAdvice, Place, ScriptRun
from advisor.profiles.schema import Profile
from advisor.verdicts.ceilings import Scope, line_seconds, scopes
from advisor.verdicts.comparing.comparisons import require_alike
from advisor.verdicts.comparing.conditions import Condition, conditions
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
        tuple(ComparedFrames(b, h, tuple(_lines(b, h))) for b, h in pairs),
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


def _lines(base: Scope, head: Scope) -> Iterator[ComparedLine]:
    """HEAD's lines in their order, then those that only BASE has."""
    before, now = _moved(base), _moved(head)
    for key in dict.fromkeys((*now, *before)):
        yield ComparedLine(key[2], before.get(key), now.get(key))


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
