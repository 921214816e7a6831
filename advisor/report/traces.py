"""What happened within a frame: its timeline for each strategy, and what nsys saw of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from advisor import units
from advisor.nsys.exports import FileTrace, WholeTrace
from advisor.profiles.schema import Measured, Profile
from advisor.profiles.scripts import ScriptRun
from advisor.profiles.traces import Activity, Migrations, StrategyTrace
from advisor.report import words
from advisor.report.blocks import Banners, Block, Fact, Facts, Fold, Prose
from advisor.report.page import Page, Section, filled
from advisor.report.timelines import timeline_view
from advisor.version import __version__

_PAGE = 4096
"""Bytes: static memory below it comes with loading any kernel, and says nothing of a strategy."""


def traces(profile: Profile) -> tuple[Block, ...]:
    """The timelines of all measured strategies, nsys's in the place of our own where there is one.

    Nothing where no timeline was recorded and no trace was asked for.
    """
    rows = enumerate(profile.measured().values(), 1)
    return _told(profile, [frame for number, row in rows if (frame := _frame(profile, row, number))])


def run_traces(profile: Profile, script: ScriptRun) -> tuple[Block, ...]:
    """What nsys saw of a script's runs, which have no frames: in figures alone."""
    traced = filter(None, (profile.trace.of(row.strategy) for row in script.measured))
    return _told(profile, [_fold(profile, t.strategy, _seen(t, "run")) for t in traced])


def _told(profile: Profile, found: list[Fold]) -> tuple[Block, ...]:
    asked = profile.trace.reason != "not asked for"
    if not found and not asked:
        return ()
    notes = (Prose(words.line(note, 300), forms="html") for note in profile.trace.notes)
    alone = [replace(frame, open=True) for frame in found] if len(found) == 1 else found
    return filled(Prose(_nsys(profile) if asked else "", forms="html md"), *notes, *alone)


def _nsys(profile: Profile) -> str:
    trace = profile.trace
    if not trace.strategies:
        return f"There is no trace of nsys: {words.line(trace.reason, 400)}"
    missing = "".join(
        f" `{words.name(m.strategy)}` is not in it: {words.line(m.reason, 200)}." for m in trace.missing
    )
    tool = words.name(trace.tool or "nsys")
    return f"Each strategy also ran under {tool}; traced times are not used.{missing}"


def _frame(profile: Profile, row: Measured, number: int) -> Fold | None:
    """One strategy: the timeline of a frame and, where it was traced, its figures per frame."""
    traced = profile.trace.of(row.strategy)
    timeline = (traced and traced.timeline) or row.timeline
    if timeline is None:
        return None
    figures = _seen(traced, "frame") if traced else ()
    return _fold(profile, row.strategy, (timeline_view(row, timeline, number), *figures))


def _fold(profile: Profile, strategy: str, blocks: tuple[Block, ...]) -> Fold:
    here = profile.recommendation is not None and profile.recommendation.strategy == strategy
    return Fold(f"{words.code(strategy)}{' (recommended)' * here}", blocks, open=here)


def _seen(traced: StrategyTrace, unit: str) -> tuple[Block, ...]:
    """`unit` is what the figures are of: a frame, or a run."""
    ranges = Facts(tuple(Fact(name, value) for name, value in steps(traced)))
    absent = f" Not observed: {'; '.join(not_observed(traced.absent))}." if traced.absent else ""
    return filled(
        Prose(f"{_figures_title(traced, unit)}.{absent}"),
        Facts(tuple(_figures(traced, unit))),
        Fold("By range", filled(ranges)),
    )


def _figures_title(traced: StrategyTrace, unit: str) -> str:
    if unit == "run":
        return f"Seen by nsys, in one run of {units.seconds(traced.frame_seconds)}"
    frames = words.count(traced.frames, "steady frame")
    return f"Seen by nsys, per frame, over {frames} of {units.seconds(traced.frame_seconds)}"


def _figures(traced: StrategyTrace, unit: str) -> Iterator[Fact]:
    yield from facts(traced.activity, traced.frames)
    if traced.idle_share is not None:
        yield Fact("GPU idle", f"{units.percent(traced.idle_share)} of the traced {unit}")
    for made in traced.allocations or ():
        if made.kind.endswith("static") and made.bytes < _PAGE:
            continue
        sizes = f"{words.count(made.count, 'allocation')}, the largest {units.size(made.largest_bytes)}"
        yield Fact(f"allocated, {words.name(made.kind)}", f"{units.size(made.bytes)} ({sizes})")


NONE = "none"
"""It was looked for, and not there."""
_CALLED = {"cpu_page_faults": "page faults by the CPU", "gpu_page_faults": "page faults by the GPU"}


def facts(seen: Activity, frames: int) -> Iterator[Fact]:
    """All of it, per frame."""
    for label, value, note in figures(seen, frames):
        yield Fact(label, f"{value} ({note})" if note else value)


def steps(trace: StrategyTrace) -> Iterator[tuple[str, str]]:
    """Each range with the host's time in it, and what was launched or happened there; per frame."""
    for step in trace.ranges:
        times = _number(step.count, trace.frames, "time")
        seen = [
            f"{label} {value}"
            for label, value, _ in figures(step.activity, trace.frames)
            if value not in ("0", NONE)
        ]
        yield words.name(step.name), "; ".join([f"{units.seconds(step.seconds)} each, {times}", *seen])


def figures(seen: Activity, frames: int) -> Iterator[tuple[str, str, str]]:
    """Label, value and what qualifies it, of everything that was observed; per frame."""
    if seen.copies == ():
        yield "copies", NONE, ""
    for c in seen.copies or ():
        path = " to ".join(part for part in (c.source, c.destination) if part)
        rate = c.bytes_per_second
        each = f"{_number(c.count, frames, 'copy')}, {units.seconds(c.seconds / frames)}"
        yield f"copies {c.kind}", units.size(round(c.bytes / frames)), _joined(path, each, rate)
    yield from _migrations(seen.migrations or (), frames)
    for who, faults in (("CPU", seen.cpu_page_faults), ("GPU", seen.gpu_page_faults)):
        if faults is not None:
            yield f"page faults by the {who}", _plain(faults / frames), ""
    for k in seen.kernels or ():
        runs = _number(k.count, frames, "run")
        yield f"kernel {words.name(k.name)}", units.seconds(k.seconds / frames), runs
    for s in seen.synchronizations or ():
        yield f"waits, {s.kind}", units.seconds(s.seconds / frames), _number(s.count, frames, "wait")


def _migrations(seen: Sequence[Migrations], frames: int) -> Iterator[tuple[str, str, str]]:
    """All that moved one way, then by cause."""
    for direction in dict.fromkeys(m.direction for m in seen):
        mine = [m for m in seen if m.direction == direction]
        total = units.size(round(sum(m.bytes for m in mine) / frames))
        causes = [
            (m.cause or "cause unknown")
            + (f" {units.size(round(m.bytes / frames))}" if len(mine) > 1 else "")
            + f" in {_number(m.count, frames, 'move')}"
            for m in mine
        ]
        lasted = units.seconds(sum(m.seconds for m in mine) / frames)
        yield f"migrations {direction}", total, f"{', '.join(causes)}; {lasted}"


def _number(count: int, frames: int, noun: str) -> str:
    """How many a frame: 1 run, 2.5 runs."""
    return f"{_plain(count / frames)} {noun if count == frames else words.plural(noun)}"


def _plain(value: float) -> str:
    return str(round(value)) if value == round(value) else units.digits(value)


def _joined(path: str, each: str, rate: float | None) -> str:
    parts = [path, each, units.rate(rate) if rate else ""]
    return "; ".join(part for part in parts if part)


def not_observed(absent: Mapping[str, str]) -> list[str]:
    """The figures that are absent, called as where they are there; those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for figure, why in absent.items():
        by_reason.setdefault(why, []).append(_CALLED.get(figure, figure.replace("_", " ")))
    return [f"{words.listing(names)} ({words.line(why, 200)})" for why, names in by_reason.items()]


SLOWER = "Times under a tool are mostly longer than without it; they are not the measured ones."


def trace_page(told: FileTrace) -> Page:
    """One file: each strategy with its figures per frame, or the totals."""
    tool = told.tool or "an export of nsys that does not say its version"
    blocks: list[Block] = [Banners("note", tuple(map(words.line, told.notes)))] if told.notes else []
    blocks += map(_strategy, told.strategies)
    if told.whole:
        blocks.append(_whole(told.whole))
    return Page(
        kind="trace",
        brand="trace",
        title=tool,
        name=tool,
        where="",
        basis="measured",
        sections=(Section("figures", "Figures", (*blocks, Prose(SLOWER))),),
        tool=f"advisor {__version__}",
    )


def _strategy(trace: StrategyTrace) -> Facts:
    frames = words.count(trace.frames, "steady frame")
    seen = list(facts(trace.activity, trace.frames))
    if trace.idle_share is not None:
        seen.append(Fact("GPU idle", f"{units.percent(trace.idle_share)} of the frame"))
    seen += [Fact(f"in {name}", value) for name, value in steps(trace)]
    seen += [Fact("not observed", why) for why in not_observed(trace.absent)]
    title = (
        f"{words.name(trace.strategy)}: {frames} of {units.seconds(trace.frame_seconds)}, figures per frame"
    )
    return Facts(tuple(seen), title)


def _whole(whole: WholeTrace) -> Facts:
    seen = list(facts(whole.activity, 1))
    if whole.idle_share is not None and whole.seconds is not None:
        idle = f"{units.percent(whole.idle_share)} of {units.seconds(whole.seconds)}"
        seen.append(Fact("GPU idle", idle))
    seen += [Fact("not observed", why) for why in not_observed(whole.absent)]
    return Facts(tuple(seen), "None of advisor's ranges is in it; in all:")
