"""What happened within a frame: its timeline for each strategy, and what nsys saw of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from advisor import units
from advisor.profiles import Measured, Profile
from advisor.report import words
from advisor.report.charts import Category, Tick, percent
from advisor.report.methods import Entry
from advisor.report.trace_text import figures, steps
from advisor.traces.lanes import TRACKS, lanes, thinned
from advisor.traces.records import Span, StrategyTrace, Timeline

LINE_HEIGHT = 40
AXIS_HEIGHT = 22
MOST_DRAWN = 40
"""Spans of one timeline, so that a page of all strategies stays small."""
NAMED_SHARE = 0.3
NAME_LENGTH = 14
_SOURCES = {"events": "our own events", "nsys": "seen by nsys"}
_HOW = {
    "events": "Drawn from our own events: the host's clock, and the stream's marks fitted to it within "
    "microseconds. Watching makes a frame slower: these are not the measured times.",
    "nsys": "As nsys saw it. Tracing makes a frame slower: these are not the measured times.",
}
NOT_HEADLINE = "Times under a trace are longer than the measured ones above, and never take their place."


@dataclass(frozen=True)
class Piece:
    """A drawn span, across in percent."""

    x: str
    width: str
    category: Category
    title: str
    name: str
    """Written into it where it is wide enough also on a phone."""


@dataclass(frozen=True)
class Line:
    """One line of a timeline; `top` is where its name begins, in pixels."""

    name: str
    top: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class TimelineRow:
    """The spans of one kind, added up, for the table."""

    track: str
    label: str
    count: str
    seconds: str


@dataclass(frozen=True)
class TimelineView:
    """One frame."""

    identifier: str
    title: str
    source: str
    how: str
    description: str
    height: int
    lines: tuple[Line, ...]
    ticks: tuple[Tick, ...]
    rows: tuple[TimelineRow, ...]
    left_out: str


@dataclass(frozen=True)
class StrategyFrame:
    """One strategy: the timeline of a frame and, where nsys looked on, its figures per frame."""

    strategy: str
    chosen: bool
    timeline: TimelineView
    figures: tuple[Entry, ...]
    figures_title: str
    steps: tuple[Entry, ...]
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
        timeline=_timeline(row.strategy, timeline, number),
        figures=tuple(_figures(traced)) if traced else (),
        figures_title=_figures_title(traced) if traced else "",
        steps=tuple(Entry(name, value) for name, value in steps(traced)) if traced else (),
        absent=_absent(traced) if traced else "",
    )


def _figures_title(traced: StrategyTrace) -> str:
    frames = words.count(traced.frames, "steady frame")
    return f"Seen by nsys, per frame, over {frames} of {units.seconds(traced.frame_seconds)}"


def _figures(traced: StrategyTrace) -> Iterator[Entry]:
    for label, value, note in figures(traced.activity, traced.frames):
        yield Entry(label, f"{value} ({note})" if note else value)
    if traced.idle_share is not None:
        yield Entry("GPU idle", f"{units.percent(traced.idle_share)} of the traced frame")
    for made in traced.allocations or ():
        sizes = f"{words.count(made.count, 'allocation')}, the largest {units.size(made.largest_bytes)}"
        yield Entry(f"allocated, {words.name(made.kind)}", f"{units.size(made.bytes)} ({sizes})")


def _absent(traced: StrategyTrace) -> str:
    if not traced.absent:
        return ""
    return f"Not observed: {words.listing(name.replace('_', ' ') for name in traced.absent)}."


def _timeline(strategy: str, timeline: Timeline, number: int) -> TimelineView:
    drawn = thinned(timeline, MOST_DRAWN)
    lines = lanes(drawn)
    frame = units.seconds(timeline.frame_seconds)
    left_out = words.count(drawn.left_out, "span") + " not drawn" if drawn.left_out else ""
    return TimelineView(
        identifier=f"timeline-{number}",
        title=f"One frame of {words.name(strategy)}, {frame}",
        source=_SOURCES[timeline.source],
        how=_HOW[timeline.source],
        description=_description(timeline, frame),
        height=LINE_HEIGHT * len(lines) + AXIS_HEIGHT,
        lines=tuple(
            Line(TRACKS[track], i * LINE_HEIGHT, tuple(_piece(span, drawn) for span in spans))
            for i, (track, spans) in enumerate(lines)
        ),
        ticks=_ticks(timeline.frame_seconds),
        rows=tuple(_rows(timeline)),
        left_out=left_out,
    )


def _piece(span: Span, timeline: Timeline) -> Piece:
    begin, length = span.begin_seconds, span.end_seconds - span.begin_seconds
    times = f"{span.merged} × " if span.merged > 1 else ""
    return Piece(
        x=percent(begin / timeline.frame_seconds),
        width=percent(max(length / timeline.frame_seconds, 0.001)),
        category=category(span),
        title=f"{times}{words.name(span.label)}: {units.seconds(length)}, from {_from(begin)} on",
        name=words.name(span.label, NAME_LENGTH) if length >= NAMED_SHARE * timeline.frame_seconds else "",
    )


def _from(seconds: float) -> str:
    return units.seconds(seconds) if seconds else "0"


def category(span: Span) -> Category:
    """Its colour, the same as in the bars of the frame's parts."""
    if span.track == "host":
        return "wait" if span.label == "synchronize" else "host"
    by_track: dict[str, Category] = {"copy": "transfer", "kernel": "kernel", "migration": "transfer-2"}
    return by_track[span.track]


def _ticks(frame: float) -> tuple[Tick, ...]:
    quarters = [Tick(percent(i / 4), units.seconds(frame * i / 4), "middle") for i in (1, 2, 3)]
    return (Tick("0%", "0", "start"), *quarters, Tick("100%", units.seconds(frame), "end"))


def _rows(timeline: Timeline) -> Iterator[TimelineRow]:
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for span in timeline.spans:
        key = (TRACKS[span.track], span.label)
        counts[key] += span.merged
        seconds[key] += span.end_seconds - span.begin_seconds
    for (track, label), count in list(counts.items())[:MOST_DRAWN]:
        yield TimelineRow(track, words.name(label), str(count), units.seconds(seconds[track, label]))


def _description(timeline: Timeline, frame: str) -> str:
    """In words, for those who do not see the picture."""
    said = [f"{row.track}: {row.label} {row.seconds}" for row in _rows(timeline)]
    return f"A frame of {frame}. " + "; ".join(said[:12])
