"""Tables of a script's page: the lines of a frame, those outside of frames, sources with figures, totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor import units
from advisor.profiles.crossings import Crossing, LineLoop, LinePrediction, Place, ScriptRun
from advisor.report import blocks, words
from advisor.report.blocks import NOTHING, Column, Fact, Row, TableCell
from advisor.verdicts.ceilings import Scope, line_seconds

_WAYS = {"upload": "up", "download": "down"}
_MOST_DEVICES = 4
"""Columns of predicted times in one table."""
_KINDS = {"mmap": "a mapped file", "bytes": "bytes", "foreign": "memory of another library"}


def label(place: Place, files: int) -> str:
    """`34`, or `camera.py:34` where lines of several files stand together."""
    return f"{words.name(place.file, 40)}:{place.line}" if files > 1 else str(place.line)


def files(run: ScriptRun) -> int:
    return len({c.place.file for c in run.crossings})


def loop_name(loop: LineLoop, run: ScriptRun) -> str:
    return f"loop at {'line ' * (files(run) == 1)}{label(loop.place, files(run))}"


def moved(crossing: Crossing, frames: int) -> str:
    """1 × 977 KiB up; 2.5 waits."""
    times = f"{crossing.count / frames:.3g}"
    if crossing.kind in _WAYS:
        return f"{times} × {units.size(crossing.bytes / crossing.count)} {_WAYS[crossing.kind]}"
    return f"{times} × {'wait' if crossing.kind == 'wait' else 'page-lock'}"


def source_of(crossing: Crossing, run: ScriptRun) -> tuple[str, str]:
    """Where the host memory comes from, and what else is known of it; of a wait what it holds back."""
    if crossing.kind == "wait":
        held = crossing.holds_back
        return (f"holds back line {label(held, files(run))}" if held else ""), ""
    origin, told = crossing.origin, []
    if origin and origin.place and origin.place != crossing.place:
        told.append(f"made at line {label(origin.place, files(run))}")
    if origin and origin.each_frame:
        told.append("new each frame")
    told += [*([_KINDS[origin.kind]] if origin and origin.kind in _KINDS else []), *_contents(crossing)]
    how = "staged by the library" if crossing.staged else crossing.memory
    first = [*([] if how == "unknown" else [how]), *told[:1]]
    return ", ".join(first), ", ".join(told[1:])


def _contents(crossing: Crossing) -> Iterator[str]:
    """What is known of the bytes themselves."""
    repeats = crossing.repeats
    if repeats and crossing.kind == "upload" and repeats.compared > 1 and repeats.same == repeats.compared:
        yield "the same bytes again"
    elif repeats and repeats.returned == repeats.checked:
        yield "what a download brought"
    if crossing.unread:
        yield f"{units.percent(crossing.unread / crossing.count)} unread"


def lines_table(
    run: ScriptRun, scope: Scope, name: str, *, predicted: bool, identifier: str = "lines"
) -> blocks.Table:
    """The lines of a scope, as measured or for each device as predicted; the longest stay in short forms."""
    predictions = run.predictions[:_MOST_DEVICES] if predicted else ()
    timed = not predicted and scope.seconds is not None
    devices = (Column(words.name(p.device), basis="predicted") for p in predictions)
    return blocks.Table(
        "lines",
        "line",
        (
            Column("per frame" if scope.loop else "in all", figures=False),
            *([Column("time")] if timed else devices),
            Column("from", figures=False),
        ),
        tuple(_row(run, scope, i, predictions, timed=timed) for i, _ in scope.crossings),
        caption=_caption(scope, name, predicted=predicted),
        title=f"{name[:1].upper()}{name[1:]}:",
        identifier=f"{identifier}-{'all' if scope.number is None else scope.number}",
        predicted=predicted,
        brief_notes=False,
        left_out="column",
        source_lines=True,
    )


def _caption(scope: Scope, name: str, *, predicted: bool) -> str:
    unit = "per frame" if scope.loop else "in the run"
    how = "Predicted time" if predicted else "Time"
    told = "" if predicted else " It includes the kernels that the line waits for, which stand below."
    return f"What crosses in the {name}. {how} {unit}.{told}"


def _row(run: ScriptRun, scope: Scope, i: int, predictions: Sequence[LinePrediction], *, timed: bool) -> Row:
    crossing = run.crossings[i]
    place, seconds, times = crossing.place, line_seconds(crossing), crossing.count / scope.frames
    each = None if seconds is None else seconds / scope.frames
    likely = [(p.likely_seconds[i] or 0.0) * times for p in predictions]
    cells = [_time(crossing, scope, each)] if timed else [_predicted(p, i, times) for p in predictions]
    source, more = source_of(crossing, run)
    moves = TableCell(moved(crossing, scope.frames), crossing.call)
    return Row(
        f"{label(place, files(run))}  {words.line(place.text, 60)}".rstrip(),
        (moves, *cells, TableCell(words.line(source, 80), more)),
        rank=-max(likely, default=each or 0.0),
    )


def _time(crossing: Crossing, scope: Scope, each: float | None) -> TableCell:
    kernels = (crossing.kernel_seconds or 0.0) / scope.frames
    note = f"{units.seconds(kernels)} kernels" if kernels else ""
    return TableCell(NOTHING if each is None else units.seconds(each), note, sort=each)


def _predicted(prediction: LinePrediction, i: int, times: float) -> TableCell:
    likely, between = prediction.likely_seconds[i], prediction.seconds[i]
    if likely is None or between is None:
        return TableCell("not predicted")
    low, high = (end * times for end in between)
    return TableCell(units.seconds(likely * times), words.seconds_between(low, high), sort=likely * times)


def sources(run: ScriptRun) -> tuple[blocks.Source, ...]:
    """The user's files with what each line moves and takes beside it, over the whole run."""
    return tuple(
        blocks.Source(
            words.name(excerpt.file, 120),
            tuple(_line(run, excerpt.file, i, text) for i, text in enumerate(excerpt.lines, excerpt.first)),
            timed=not run.played,
        )
        for excerpt in run.sources
    )


def _line(run: ScriptRun, file: str, number: int, text: str) -> blocks.SourceLine:
    its = [c for c in run.crossings if (c.place.file, c.place.line) == (file, number)]
    spent = [s for s in map(line_seconds, its) if s is not None]
    copied = sum(c.bytes for c in its if c.kind != "lock")
    return blocks.SourceLine(
        number,
        _kept_indentation(text),
        time=units.seconds(sum(spent)) if spent else "",
        size=units.size(copied) if copied else "",
        count=words.count(sum(c.count for c in its), "time") if its else "",
        marked=bool(its),
    )


def _kept_indentation(text: str) -> str:
    flat = text.expandtabs(4).rstrip()
    indent = len(flat) - len(flat.lstrip())
    return " " * indent + words.line(flat, 240)


def totals(run: ScriptRun) -> blocks.Facts:
    """Where the run's bytes and time are; the times are the host's and add up to that of the run."""
    return blocks.Facts((*_bytes(run), *(() if run.played else _seconds(run))))


def _bytes(run: ScriptRun) -> Iterator[Fact]:
    for name, *kinds in (("Host to GPU", "upload"), ("GPU to host", "download", "wait")):
        yield Fact(name, units.size(sum(c.bytes for c in run.crossings if c.kind in kinds)), "on lines")


def _seconds(run: ScriptRun) -> Iterator[Fact]:
    kinds = {"Copies": ("upload", "download"), "Page-locking": ("lock",), "Calls that wait": ("wait",)}
    parts = {
        name: sum(c.host_seconds or 0.0 for c in run.crossings if c.kind in those)
        for name, those in kinds.items()
    }
    parts["Kernels waited for"] = sum(c.kernel_seconds or 0.0 for c in run.crossings)
    parts["Recording"] = run.overhead_seconds
    parts["Everything else"] = max(0.0, run.seconds - sum(parts.values()))
    for name, seconds in parts.items():
        if seconds:
            yield Fact(name, units.seconds(seconds), units.percent(seconds / run.seconds))
    yield Fact("The run", units.seconds(run.seconds))
