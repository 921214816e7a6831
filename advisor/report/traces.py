"""What happened within a frame: its timeline for each strategy, and what nsys saw of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from advisor import units
from advisor.profiles.schema import Measured, Profile
from advisor.profiles.traces import StrategyTrace
from advisor.report import words
from advisor.report.observed import figures, not_observed, steps
from advisor.report.page import Fact
from advisor.report.timelines import TimelineView, timeline_view

_PAGE = 4096
"""Bytes: static memory below it comes with loading any kernel, and says nothing of a strategy."""
NOT_HEADLINE = (
    "Times under a trace are not the measured ones above, mostly longer, and never take their place."
)


@dataclass(frozen=True)
class StrategyFrame:
    """One strategy: the timeline of a frame and, where nsys looked on, its figures per frame."""

    strategy: str
    chosen: bool
    timeline: TimelineView
    figures: tuple[Fact, ...]
    figures_title: str
    steps: tuple[Fact, ...]
    absent: str


@dataclass(frozen=True)
class Traces:
    """The section; empty where no timeline was recorded. `nsys` says what became of the trace."""

    frames: tuple[StrategyFrame, ...]
    nsys: str
    notes: tuple[str, ...]

    @property
    def any(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.frames or self.nsys)


def traces(profile: Profile) -> Traces:
    """The timelines of all measured strategies, nsys's in the place of our own where there is one."""
    chosen = profile.recommendation.strategy if profile.recommendation else None
    rows = profile.measured()
    frames = [
        _frame(row, profile.trace.of(name), name == chosen, number)
        for number, (name, row) in enumerate(rows.items(), start=1)
    ]
    asked = profile.trace.reason != "not asked for"
    return Traces(
        frames=tuple(frame for frame in frames if frame),
        nsys=_nsys(profile) if asked else "",
        notes=tuple(words.line(note, 300) for note in profile.trace.notes),
    )


def _nsys(profile: Profile) -> str:
    trace = profile.trace
    if not trace.strategies:
        return f"There is no trace of nsys: {words.line(trace.reason, 400)}"
    missing = "".join(
        f" `{words.name(m.strategy)}` is not in it: {words.line(m.reason, 200)}." for m in trace.missing
    )
    tool = words.name(trace.tool or "nsys")
    return f"{tool} looked on while each strategy ran a few more frames. {NOT_HEADLINE}{missing}"


def _frame(row: Measured, traced: StrategyTrace | None, chosen: bool, number: int) -> StrategyFrame | None:
    timeline = (traced and traced.timeline) or row.timeline
    if timeline is None:
        return None
    return StrategyFrame(
        strategy=words.name(row.strategy),
        chosen=chosen,
        timeline=timeline_view(row, timeline, number),
        figures=tuple(_figures(traced)) if traced else (),
        figures_title=_figures_title(traced) if traced else "",
        steps=tuple(Fact(name, value) for name, value in steps(traced)) if traced else (),
        absent=_absent(traced) if traced else "",
    )


def _figures_title(traced: StrategyTrace) -> str:
    frames = words.count(traced.frames, "steady frame")
    return f"Seen by nsys, per frame, over {frames} of {units.seconds(traced.frame_seconds)}"


def _figures(traced: StrategyTrace) -> Iterator[Fact]:
    for label, value, note in figures(traced.activity, traced.frames):
        yield Fact(label, f"{value} ({note})" if note else value)
    if traced.idle_share is not None:
        yield Fact("GPU idle", f"{units.percent(traced.idle_share)} of the traced frame")
    for made in traced.allocations or ():
        if made.kind.endswith("static") and made.bytes < _PAGE:
            continue
        sizes = f"{words.count(made.count, 'allocation')}, the largest {units.size(made.largest_bytes)}"
        yield Fact(f"allocated, {words.name(made.kind)}", f"{units.size(made.bytes)} ({sizes})")


def _absent(traced: StrategyTrace) -> str:
    return f"Not observed: {'; '.join(not_observed(traced.absent))}." if traced.absent else ""
