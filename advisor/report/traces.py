"""What tools saw: within a frame or a run on a profile's page, and of a file of nsys as a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from advisor import units
from advisor.nsys.exports import FileTrace
from advisor.profiles.schema import Measured, Profile
from advisor.profiles.traces import (
    Activity,
    Migrations,
    Span,
    StrategyTrace,
    Timeline,
    in_lines,
    lanes,
    line_of,
    thinned,
    worked,
)
from advisor.report import blocks, words
from advisor.report.axes import Tick, percent
from advisor.report.blocks import Block
from advisor.report.charts import Category, recommended
from advisor.report.page import Page, Section, filled

SLOWER = "Traced times are usually longer than untraced ones and are not used for the verdict."
NONE = "none"
"""It was looked for, and not there."""
_PAGE = 4096
"""Bytes: static memory below it comes with loading any kernel, whatever the strategy."""
_CALLED = {"cpu_page_faults": "page faults by the CPU", "gpu_page_faults": "page faults by the GPU"}


def traces(profile: Profile) -> tuple[blocks.Block, ...]:
    """The timeline of one strategy, the recommended or else the fastest; and what nsys recorded of each.

    Nothing where no timeline was recorded and no trace was asked for.
    """
    rows, trace = profile.measured(), profile.trace
    seen, chosen = {name: trace.of(name) for name in rows}, recommended(profile)
    recorded = {name: (found and found.timeline) or rows[name].timeline for name, found in seen.items()}
    drawn = {name: timeline for name, timeline in recorded.items() if timeline}
    first = min(drawn, key=lambda name: (name != chosen, rows[name].median_seconds), default=None)
    frames = []
    for name, traced in seen.items():
        picture = (timeline_view(rows[name], drawn[name]),) if name == first else ()
        if parts := (*picture, *(_seen(traced) if traced else ())):
            frames.append(_fold(profile, name, parts))
    return _told(profile, frames)


def _told(profile: Profile, found: list[blocks.Fold]) -> tuple[blocks.Block, ...]:
    trace, said = profile.trace, ""
    asked = trace.reason != "not asked for"
    if not found and not asked:
        return ()
    if asked and trace.strategies:
        missing = (
            f" {words.code(m.strategy)} has no trace: {words.line(m.reason, 200)}." for m in trace.missing
        )
        tool = words.name(trace.tool or "nsys")
        said = f"Each strategy also ran under {tool}; traced times are not used.{''.join(missing)}"
    elif asked:
        said = f"No nsys trace: {words.line(trace.reason, 400)}"
    notes = (blocks.Prose(words.line(note, 300), forms="html") for note in trace.notes)
    alone = [replace(frame, open=True) for frame in found] if len(found) == 1 else found
    return filled(blocks.Prose(said, forms="html md"), *notes, *alone)


def _fold(profile: Profile, strategy: str, parts: tuple[blocks.Block, ...]) -> blocks.Fold:
    here = recommended(profile) == strategy
    return blocks.Fold(f"{words.code(strategy)}{' (recommended)' * here}", parts, open=here)


def _seen(traced: StrategyTrace) -> tuple[blocks.Block, ...]:
    lasted = units.seconds(traced.frame_seconds)
    title = f"per frame, over {words.count(traced.frames, 'steady frame')} of {lasted}"
    absent = f" Not observed: {'; '.join(not_observed(traced.absent))}." if traced.absent else ""
    figures = [*facts(traced.activity, traced.frames, traced.idle_share, "the traced frame")]
    for made in traced.allocations or ():
        if not made.kind.endswith("static") or made.bytes >= _PAGE:
            sizes = f"{words.count(made.count, 'allocation')}, the largest {units.size(made.largest_bytes)}"
            figures.append(
                blocks.Fact(f"allocated, {words.name(made.kind)}", f"{units.size(made.bytes)} ({sizes})")
            )
    return filled(
        blocks.Prose(f"Recorded by nsys, {title}.{absent}"),
        blocks.Facts(tuple(figures)),
        blocks.Fold("By range", filled(blocks.Facts(tuple(steps(traced))))),
    )


def facts(seen: Activity, frames: int, idle: float | None, whole: str) -> Iterator[blocks.Fact]:
    """All of it, per frame; `idle` is the GPU's idle share of the `whole`."""
    for label, value, note in figures(seen, frames):
        yield blocks.Fact(label, f"{value} ({note})" if note else value)
    if idle is not None:
        yield blocks.Fact("GPU idle", f"{units.percent(idle)} of {whole}")


def steps(trace: StrategyTrace) -> Iterator[blocks.Fact]:
    """Each range with the host's time in it, and what was launched or happened there; per frame."""
    for step in trace.ranges:
        found = figures(step.activity, trace.frames)
        seen = [f"{label} {value}" for label, value, _ in found if value not in ("0", NONE)]
        times = f"{units.seconds(step.seconds)} each, {_number(step.count, trace.frames, 'time')}"
        yield blocks.Fact(words.name(step.name), "; ".join([times, *seen]))


def figures(seen: Activity, frames: int) -> Iterator[tuple[str, str, str]]:
    """Label, value and what qualifies it, of everything that was observed; per frame."""
    if seen.copies == ():
        yield "copies", NONE, ""
    for c in seen.copies or ():
        path = " to ".join(part for part in (c.source, c.destination) if part)
        each = f"{_number(c.count, frames, 'copy')}, {units.seconds(c.seconds / frames)}"
        rate = units.rate(c.bytes_per_second) if c.bytes_per_second else ""
        yield (
            f"copies {c.kind}",
            units.size(round(c.bytes / frames)),
            "; ".join(filter(None, (path, each, rate))),
        )
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
    for direction, mine in words.grouped(seen, lambda m: m.direction).items():
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


def not_observed(absent: Mapping[str, str]) -> list[str]:
    """The figures that are absent, called as where they are there; those with the same reason together."""
    by_reason = words.grouped(absent, lambda figure: absent[figure])
    return [
        f"{words.listing(_CALLED.get(n, n.replace('_', ' ')) for n in names)} ({words.line(why, 200)})"
        for why, names in by_reason.items()
    ]


def trace_page(told: FileTrace) -> Page:
    """One file: each strategy with its figures per frame, or the totals."""
    tool = told.tool or "nsys export of unknown version"
    parts = [blocks.Banners("note", tuple(map(words.line, told.notes))), *map(_strategy, told.strategies)]
    if told.whole:
        whole, lasted = told.whole, units.seconds(told.whole.seconds or 0.0)
        idle = whole.idle_share if whole.seconds is not None else None
        seen = *facts(whole.activity, 1, idle, lasted), *_unseen(whole.absent)
        parts.append(blocks.Facts(seen, "No advisor ranges found. Totals:"))
    return Page(
        kind="trace",
        brand="trace",
        name=tool,
        sections=(Section("figures", "Figures", filled(*parts, blocks.Prose(SLOWER)), brief=True),),
    )


def _strategy(trace: StrategyTrace) -> blocks.Block:
    frames = f"{words.count(trace.frames, 'steady frame')} of {units.seconds(trace.frame_seconds)}"
    ranges = [replace(fact, label=f"in {fact.label}") for fact in steps(trace)]
    found = facts(trace.activity, trace.frames, trace.idle_share, "the frame")
    seen = *found, *ranges, *_unseen(trace.absent)
    return blocks.Facts(seen, f"{words.name(trace.strategy)}: {frames}, figures per frame")


def _unseen(absent: Mapping[str, str]) -> Iterator[blocks.Fact]:
    return (blocks.Fact("not observed", why) for why in not_observed(absent))


LINE_HEIGHT = 40
AXIS_HEIGHT = 22
MOST_DRAWN = 40
"""Spans of a timeline, so that the page stays small."""
NAME_LENGTH = 14
_PHONE = 282.0
"""Pixels that a timeline is wide on a phone of 390; a letter in it takes 7 at most, beside a margin of 6."""
_LETTER, _MARGIN = 7.0, 7.0
_COLOURS: dict[str, Category] = {"copy": "transfer", "kernel": "kernel", "migration": "transfer-2"}
_SOURCES = {"events": "recorded with CUDA events", "nsys": "recorded by nsys"}
_HOW = {
    "events": "Host stages are timed by the host's clock, GPU work by CUDA events fitted to it within "
    "microseconds. Recording usually slows a frame: these are not the measured times",
    "nsys": "Recorded by nsys. Tracing usually slows a frame: these are not the measured times",
}


@dataclass(frozen=True)
class Piece:
    x: str
    width: str
    category: Category
    title: str
    name: str
    """Its number in the key, and its name where it is wide enough for that also on a phone."""


@dataclass(frozen=True)
class Line:
    """One line of a timeline; `top` is where its name begins, in pixels."""

    name: str
    top: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class TimelineRow:
    """The spans of one kind, added up, in the picture's key; `number` is what they bear there."""

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


def timeline_view(row: Measured, timeline: Timeline) -> TimelineView:
    spans = timeline.spans
    if len(spans) > MOST_DRAWN:
        # Migrations are drawn by direction alone: those of several causes alternate.
        spans = tuple(
            s.model_copy(update={"label": _head(s)}) if s.track == "migration" else s for s in spans
        )
    drawn = thinned(timeline.model_copy(update={"spans": spans}), MOST_DRAWN)
    lines, rows = lanes(drawn), tuple(_rows(timeline))
    numbers = _numbers(rows)
    frame = units.seconds(timeline.frame_seconds)
    return TimelineView(
        title=f"One frame of {words.name(row.strategy)}, {frame}",
        source=_SOURCES[timeline.source],
        how=f"{_HOW[timeline.source]}, whose median is {units.seconds(row.median_seconds)}.",
        description=f"A frame of {frame}. " + "; ".join(row.text for row in rows[:12]),
        height=LINE_HEIGHT * len(lines) + AXIS_HEIGHT,
        lines=tuple(
            Line(name, i * LINE_HEIGHT, tuple(_piece(span, drawn, numbers) for span in spans))
            for i, (name, spans) in enumerate(lines)
        ),
        ticks=(
            Tick(0, "0"),
            *(Tick(i / 4, units.seconds(timeline.frame_seconds * i / 4)) for i in (1, 2, 3, 4)),
        ),
        rows=rows,
        left_out=f"{words.count(drawn.left_out, 'span')} not drawn" if drawn.left_out else "",
    )


def _head(span: Span) -> str:
    return span.label.partition(",")[0]


def _short(span: Span) -> str:
    """Its name where there is little room: on the host's line all are the host's, and so on."""
    ways = {"host-to-device": "to-device", "device-to-host": "to-host"}
    head = span.label.removeprefix("host:").removeprefix("device:")
    if span.track not in ("host", "kernel"):
        head = ways.get(_head(span), _head(span))
    return words.name(head, NAME_LENGTH)


def _numbers(rows: Iterable[TimelineRow]) -> dict[tuple[str, str], str]:
    """By line and label; of what is drawn without its cause, all that it may be."""
    told = [(row, label) for row in rows for label in {row.label, row.label.partition(",")[0]}]
    found = words.grouped(told, lambda pair: (pair[0].track, pair[1]))
    return {key: ", ".join(row.number for row, _ in same) for key, same in found.items()}


def _piece(span: Span, timeline: Timeline, numbers: Mapping[tuple[str, str], str]) -> Piece:
    begin, length = span.begin_seconds, span.end_seconds - span.begin_seconds
    frame, times, lasted = timeline.frame_seconds, "", units.seconds(length)
    if span.merged > 1:
        times, lasted = f"{span.merged} × ", f"{units.seconds(worked(span))} within {lasted}"
    number = numbers.get((line_of(span), words.name(span.label)), "")
    letters, texts = (length / frame * _PHONE - _MARGIN) / _LETTER, (f"{number} {_short(span)}", number)
    return Piece(
        x=percent(begin / frame),
        width=percent(max(length / frame, 0.001)),
        category=category(span),
        title=f"{times}{words.name(span.label)}: {lasted}, from {units.seconds(begin) if begin else 0}",
        name=next((text for text in texts if len(text) <= letters), "").strip(),
    )


def category(span: Span) -> Category:
    """Its colour, the same as in the bars of the frame's parts."""
    if span.track == "host":
        return "wait" if span.label == "synchronize" else "host"
    return _COLOURS[span.track]


def _rows(timeline: Timeline) -> Iterator[TimelineRow]:
    """By line and kind, in the order of their first."""
    ordered = sorted(timeline.spans, key=lambda s: (in_lines(s), s.begin_seconds))
    kinds = words.grouped(ordered, lambda span: (line_of(span), span.label))
    for number, ((line, label), spans) in enumerate(list(kinds.items())[:MOST_DRAWN], start=1):
        count = sum(span.merged for span in spans)
        seconds = units.seconds(sum(worked(span) for span in spans))
        name = words.name(label.removeprefix("host:"))
        yield TimelineRow(
            number=str(number),
            track=line,
            label=words.name(label),
            category=category(spans[0]),
            text=f"{line}: {name} {f'{count} times, ' if count > 1 else ''}{seconds}",
        )
