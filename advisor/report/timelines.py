"""One frame as a picture: what the host, the copy engines and the kernels did when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from advisor import units
from advisor.profiles.traces import Span, Timeline, in_lines, lanes, line_of, thinned, worked
from advisor.report import words
from advisor.report.answer import Category
from advisor.report.blocks import Block
from advisor.report.charts import Tick, percent

LINE_HEIGHT = 40
AXIS_HEIGHT = 22
MOST_DRAWN = 40
"""Spans of a timeline, so that the page stays small."""
NAME_LENGTH = 14
_PHONE = 282.0
"""Pixels that a timeline is wide on a phone of 390; a letter in it takes 7 at most, beside a margin of 6."""
_LETTER, _MARGIN = 7.0, 7.0
_COLOURS: dict[str, Category] = {"copy": "transfer", "kernel": "kernel", "migration": "transfer-2"}
_SOURCES = {"cpu": "recorded on this CPU", "events": "recorded with CUDA events", "nsys": "recorded by nsys"}
_HOW = {
    "cpu": "Timed by the host's clock, NumPy in place of the GPU. Recording",
    "events": "Host stages are timed by the host's clock, GPU work by CUDA events fitted to it within "
    "microseconds. Recording",
    "nsys": "Recorded by nsys. Tracing",
}
_SLOWS = "usually slows a frame: these are not the measured times, whose median is"


@dataclass(frozen=True)
class Piece:
    x: str
    width: str
    category: Category
    title: str
    name: str
    """The number in the key, with the span's name where both fit also on a phone."""


@dataclass(frozen=True)
class Line:
    """One line of a timeline; `top` is where its name begins, in pixels."""

    name: str
    top: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class TimelineRow:
    """The spans of one kind, added up, in the picture's key; `number` marks them in the picture."""

    number: str
    track: str
    label: str
    category: Category
    text: str


@dataclass(frozen=True)
class TimelineView(Block):
    title: str
    source: str
    how: str
    description: str
    height: int
    lines: tuple[Line, ...]
    ticks: tuple[Tick, ...]
    rows: tuple[TimelineRow, ...]
    left_out: str


def timeline_view(
    name: str, median: float, timeline: Timeline, how: str = "", *, cpu: bool = False
) -> TimelineView:
    """The picture of one frame of the strategy or GPU `name`; `how` replaces the note on the median.

    cpu: no GPU took part in the frame.
    """
    spans, source = timeline.spans, "cpu" if cpu else timeline.source
    if len(spans) > MOST_DRAWN:
        # Migrations are drawn by direction alone: those of several causes alternate.
        spans = tuple(
            s.model_copy(update={"label": s.label.partition(",")[0]}) if s.track == "migration" else s
            for s in spans
        )
    drawn = thinned(timeline.model_copy(update={"spans": spans}), MOST_DRAWN)
    lines, rows = lanes(drawn), tuple(_rows(timeline))
    # Numbers by line and label; a label without its cause has the numbers of all causes.
    labelled = [(row, label) for row in rows for label in {row.label, row.label.partition(",")[0]}]
    by_label = words.grouped(labelled, lambda pair: (pair[0].track, pair[1])).items()
    numbers = {key: ", ".join(row.number for row, _ in same) for key, same in by_label}
    frame = units.seconds(timeline.frame_seconds)
    pieces = (
        Line(name, i * LINE_HEIGHT, tuple(_piece(span, drawn, numbers) for span in spans))
        for i, (name, spans) in enumerate(lines)
    )
    ticks = (Tick(i / 4, units.seconds(timeline.frame_seconds * i / 4)) for i in (1, 2, 3, 4))
    return TimelineView(
        title=f"One frame of {words.name(name)}, {frame}",
        source=_SOURCES[source],
        how=how or f"{_HOW[source]} {_SLOWS} {units.seconds(median)}.",
        description=f"A frame of {frame}. " + "; ".join(row.text for row in rows[:12]),
        height=LINE_HEIGHT * len(lines) + AXIS_HEIGHT,
        lines=tuple(pieces),
        ticks=(Tick(0, "0"), *ticks),
        rows=rows,
        left_out=f"{words.count(drawn.left_out, 'span')} not drawn" if drawn.left_out else "",
    )


def _piece(span: Span, timeline: Timeline, numbers: Mapping[tuple[str, str], str]) -> Piece:
    begin, length = span.begin_seconds, span.end_seconds - span.begin_seconds
    frame, times, lasted = timeline.frame_seconds, "", units.seconds(length)
    if span.merged > 1:
        times, lasted = f"{span.merged} × ", f"{units.seconds(worked(span))} within {lasted}"
    number = numbers.get((line_of(span), words.name(span.label)), "")
    label = span.label.removeprefix("host:").removeprefix("device:")  # the line names the side
    if span.track not in ("host", "kernel"):
        label = span.label.partition(",")[0]
        label = {"host-to-device": "to-device", "device-to-host": "to-host"}.get(label, label)
    letters = (length / frame * _PHONE - _MARGIN) / _LETTER
    texts = f"{number} {words.name(label, NAME_LENGTH)}", number
    width = percent(max(length / frame, 0.001))
    title = f"{times}{words.name(span.label)}: {lasted}, from {units.seconds(begin) if begin else 0}"
    name = next((text for text in texts if len(text) <= letters), "").strip()
    return Piece(x=percent(begin / frame), width=width, category=category(span), title=title, name=name)


def category(span: Span) -> Category:
    """The span's colour, as in the bars of a frame's parts."""
    if span.track == "host":
        return "wait" if span.label == "synchronize" else "host"
    return _COLOURS[span.track]


def _rows(timeline: Timeline) -> Iterator[TimelineRow]:
    ordered = sorted(timeline.spans, key=lambda s: (in_lines(s), s.begin_seconds))
    kinds = words.grouped(ordered, lambda span: (line_of(span), span.label))
    for number, ((line, label), spans) in enumerate(list(kinds.items())[:MOST_DRAWN], start=1):
        count = sum(span.merged for span in spans)
        seconds = units.seconds(sum(worked(span) for span in spans))
        name = words.name(label.removeprefix("host:").removeprefix("device:"))
        text = f"{line}: {name} {f'{count} times, ' if count > 1 else ''}{seconds}"
        yield TimelineRow(
            number=str(number), track=line, label=words.name(label), category=category(spans[0]), text=text
        )
