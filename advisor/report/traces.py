"""What happened within a frame: its timeline for each strategy, and what nsys saw of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from advisor import units
from advisor.profiles.schema import Measured, Profile
from advisor.profiles.traces import StrategyTrace
from advisor.report import words
from advisor.report.blocks import Block, Fact, Facts, Fold, Prose
from advisor.report.observed import facts, not_observed, steps
from advisor.report.page import filled
from advisor.report.timelines import timeline_view

_PAGE = 4096
"""Bytes: static memory below it comes with loading any kernel, and says nothing of a strategy."""
NOT_HEADLINE = (
    "Times under a trace are not the measured ones above, mostly longer, and never take their place."
)


def traces(profile: Profile) -> tuple[Block, ...]:
    """The timelines of all measured strategies, nsys's in the place of our own where there is one.

    Nothing where no timeline was recorded and no trace was asked for.
    """
    asked = profile.trace.reason != "not asked for"
    notes = (Prose(words.line(note, 300), forms="html") for note in profile.trace.notes)
    found = [
        frame
        for number, row in enumerate(profile.measured().values(), 1)
        if (frame := _frame(profile, row, number))
    ]
    if not found and not asked:
        return ()
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
    return f"{tool} looked on while each strategy ran a few more frames. {NOT_HEADLINE}{missing}"


def _frame(profile: Profile, row: Measured, number: int) -> Fold | None:
    """One strategy: the timeline of a frame and, where nsys looked on, its figures per frame."""
    traced, chosen = profile.trace.of(row.strategy), profile.recommendation
    timeline = (traced and traced.timeline) or row.timeline
    if timeline is None:
        return None
    here = chosen is not None and chosen.strategy == row.strategy
    title = f"{words.code(row.strategy)}{' (recommended)' * here}"
    figures = _seen(traced) if traced else ()
    return Fold(title, (timeline_view(row, timeline, number), *figures), open=here)


def _seen(traced: StrategyTrace) -> tuple[Block, ...]:
    ranges = Facts(tuple(Fact(name, value) for name, value in steps(traced)))
    absent = f" Not observed: {'; '.join(not_observed(traced.absent))}." if traced.absent else ""
    return filled(
        Prose(f"{_figures_title(traced)}.{absent}"),
        Facts(tuple(_figures(traced))),
        Fold("By range", filled(ranges)),
    )


def _figures_title(traced: StrategyTrace) -> str:
    frames = words.count(traced.frames, "steady frame")
    return f"Seen by nsys, per frame, over {frames} of {units.seconds(traced.frame_seconds)}"


def _figures(traced: StrategyTrace) -> Iterator[Fact]:
    yield from facts(traced.activity, traced.frames)
    if traced.idle_share is not None:
        yield Fact("GPU idle", f"{units.percent(traced.idle_share)} of the traced frame")
    for made in traced.allocations or ():
        if made.kind.endswith("static") and made.bytes < _PAGE:
            continue
        sizes = f"{words.count(made.count, 'allocation')}, the largest {units.size(made.largest_bytes)}"
        yield Fact(f"allocated, {words.name(made.kind)}", f"{units.size(made.bytes)} ({sizes})")
