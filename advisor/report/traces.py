"""What happened within a frame: its timeline for each strategy, and what nsys saw of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from advisor import units
from advisor.profiles.schema import Measured, Profile
from advisor.profiles.scripts import ScriptRun
from advisor.profiles.traces import StrategyTrace
from advisor.report import words
from advisor.report.blocks import Block, Fact, Facts, Fold, Prose
from advisor.report.observed import facts, not_observed, steps
from advisor.report.page import filled
from advisor.report.timelines import timeline_view

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
