"""Tables of a script's page: the lines of a frame, those outside of frames, sources with figures, totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from advisor import units
from advisor.profiles.crossings import Crossing, LineLoop, LinePrediction, Origin, Place, ScriptRun
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


def source_of(crossing: Crossing, run: ScriptRun) -> str:
    """Where the host memory comes from; of a wait what it holds back."""
    if crossing.kind == "wait":
        held = crossing.holds_back
        return f"holds back line {label(held, files(run))}" if held else ""
    how = "staged by the library" if crossing.staged else crossing.memory
    told = [*([] if how == "unknown" else [how]), *_origin(crossing.origin, crossing, run)]
    repeats = crossing.repeats
    if repeats and crossing.kind == "upload" and repeats.checked > 1 and repeats.same >= repeats.checked - 1:
        told.append("the same bytes again")
    elif repeats and repeats.returned == repeats.checked:
        told.append("what a download brought")
    return ", ".join(told)


def _origin(origin: Origin | None, crossing: Crossing, run: ScriptRun) -> Iterator[str]:
    if origin is None:
        return
    if origin.kind in _KINDS:
        yield _KINDS[origin.kind]
    if origin.place and origin.place != crossing.place:
        yield f"made at line {label(origin.place, files(run))}"
    if origin.each_frame:
        yield "new in each frame"


def lines_table(run: ScriptRun, scope: Scope, name: str, crossings: Sequence[tuple[int, Crossing]]) -> blocks.Table:
    """The lines of a scope, as measured or for each device as predicted; the longest stay in short forms."""
    predictions = run.predictions[:_MOST_DEVICES] if scope.seconds is None or run.played else ()
    columns = Column("per frame" if scope.loop else "in all", figures=False)
    measured = () if run.played else (Column("time"),)
    predicted = tuple(Column(words.name(p.device), basis="predicted", brief="time") for p in predictions)
    rows = (_row(run, scope, i, crossing, predictions) for i, crossing in crossings)
    return blocks.Table(
        "lines",
        "line",
        (columns, *measured, *predicted, Column("from", figures=False)),
        tuple(rows),
        caption=_caption(scope, name, predicted=bool(predictions)),
        title=f"{name[:1].upper()}{name[1:]}:",
        identifier=f"lines-{'all' if scope.number is None else scope.number}",
        label=f"Lines of {name}",
        predicted=bool(predictions),
        brief_notes=False,
        left_out="column",
    )


def _caption(scope: Scope, name: str, *, predicted: bool) -> str:
    unit = "per frame" if scope.loop else "in the run"
    how = "Predicted time" if predicted else "Time"
    told = "" if predicted else " It includes the kernels that the line waits for, which stand below."
    return f"What crosses in the {name}. {how} {unit}.{told}"


def _row(
    run: ScriptRun, scope: Scope, i: int, crossing: Crossing, predictions: Sequence[LinePrediction]
) -> Row:
    place, seconds = crossing.place, line_seconds(crossing)
    each = None if seconds is None else seconds / scope.frames
    times = crossing.count / scope.frames
    time = () if run.played else (_time(crossing, scope, each),)
    expected = tuple(_predicted(p, i, times) for p in predictions)
    weight = each or max((p.likely_seconds[i] or 0.0 for p in predictions), default=0.0) * times
    return Row(
        f"{label(place, files(run))}  {words.line(place.text, 60)}".rstrip(),
        (
            TableCell(moved(crossing, scope.frames), crossing.call),
            *time,
            *expected,
            TableCell(words.line(source_of(crossing, run), 80)),
        ),
        rank=-weight,
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
            tuple(
                _line(run, excerpt.file, number, text) for number, text in enumerate(excerpt.lines, excerpt.first)
            ),
            timed=not run.played,
        )
        for excerpt in run.sources
    )


def _line(run: ScriptRun, file: str, number: int, text: str) -> blocks.SourceLine:
    its = [c for c in run.crossings if (c.place.file, c.place.line) == (file, number)]
    spent = [s for s in map(line_seconds, its) if s is not None]
    copied = sum(c.bytes for c in its if c.kind != "lock")
    seconds = sum(spent)
    return blocks.SourceLine(
        number,
        words.line(text.expandtabs(4).rstrip(), 240) if not text.strip() else _kept_indentation(text),
        time=units.seconds(seconds) if spent else "",
        size=units.size(copied) if copied else "",
        count=words.count(sum(c.count for c in its), "time") if its else "",
        share=min(1.0, seconds / run.seconds) if run.seconds else 0.0,
        marked=bool(its),
    )


def _kept_indentation(text: str) -> str:
    flat = text.expandtabs(4).rstrip()
    indent = len(flat) - len(flat.lstrip())
    return " " * indent + words.line(flat, 240)


def totals(run: ScriptRun, scopes: Iterable[Scope]) -> blocks.Facts:
    """Where the run's time and bytes are; times add up to those of the run."""
    return blocks.Facts((*_bytes(run), *(() if run.played else _seconds(run, tuple(scopes)))))


def _bytes(run: ScriptRun) -> Iterator[Fact]:
    for kind, way in (("upload", "Host to GPU"), ("download", "GPU to host")):
        its = sum(c.bytes for c in run.crossings if c.kind == kind or (c.kind == "wait" and kind == "download"))
        counted = run.counted_bytes.get(kind)  # type: ignore[call-overload]
        beside = "not counted apart" if counted is None else f"{units.size(counted)} counted in the driver"
        yield Fact(way, f"{units.size(its)} on lines", beside)


def _seconds(run: ScriptRun, scopes: Sequence[Scope]) -> Iterator[Fact]:
    kinds = {"copies": ("upload", "download"), "page-locking": ("lock",), "calls that wait": ("wait",)}
    whole, spent = run.seconds - run.overhead_seconds, 0.0
    parts = [
        (name, sum(_own(c) for c in run.crossings if c.kind in those)) for name, those in kinds.items()
    ]
    parts.append(("kernels waited for", sum(c.kernel_seconds or 0.0 for c in run.crossings)))
    for name, seconds in parts:
        spent += seconds
        if seconds:
            yield Fact(name.capitalize(), units.seconds(seconds), units.percent(seconds / run.seconds))
    yield Fact("Everything else", units.seconds(max(0.0, whole - spent)), "host code, launches, other kernels")
    yield Fact("Recording", units.seconds(run.overhead_seconds), units.percent(run.overhead_seconds / run.seconds))
    yield Fact("The run", units.seconds(run.seconds))


def _own(crossing: Crossing) -> float:
    return (line_seconds(crossing) or 0.0) - (crossing.kernel_seconds or 0.0)
