"""A script by line: the tables of its page, and the page of two of its profiles compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from advisor import units
from advisor.profiles.crossings import Crossing, LineLoop, LinePrediction, Place, ScriptRun
from advisor.report import blocks, records, words
from advisor.report.blocks import NOTHING, Column, Fact, TableCell, columns, row
from advisor.report.comparison_page import advice, comparable, gated, sides_of
from advisor.report.page import Page, Section, filled
from advisor.verdicts.ceilings import Scope, ceiling_of, line_seconds
from advisor.verdicts.comparing.gates import Ruling
from advisor.verdicts.comparing.lines import ComparedFrames, LineComparison, Promise, promises

_WAYS = {"upload": " up", "download": " down", "wait": "wait", "lock": "page-lock"}
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


def moved(kind: str, count: float, size: float) -> str:
    """1 × 977 KiB up; 2.5 × wait."""
    return f"{count:.3g} × {units.size(size / count) if kind in ('upload', 'download') else ''}{_WAYS[kind]}"


def source_of(crossing: Crossing, run: ScriptRun) -> tuple[str, str]:
    """The origin of a crossing's host memory, and details; for a wait, the line that it holds back."""
    if crossing.kind == "wait":
        line = crossing.holds_back
        return (f"holds back line {label(line, files(run))}" if line else ""), ""
    origin, facts = crossing.origin, []
    if origin and origin.place and origin.place != crossing.place:
        facts.append(f"made at line {label(origin.place, files(run))}")
    if origin and origin.each_frame:
        facts.append("new each frame" + ", kept" * origin.kept)
    if origin and crossing.memory != "pinned":  # whose library page-locked it says nothing
        facts += [_KINDS[origin.kind]] if origin.kind in _KINDS else []
    repeats = crossing.repeats  # of the copied bytes themselves
    if repeats and crossing.kind == "upload" and repeats.compared > 1 and repeats.same == repeats.compared:
        facts.append("the same bytes again")
    elif repeats and repeats.returned == repeats.checked:
        facts.append("what a download brought")
    if crossing.unread:
        facts.append(f"{units.percent(crossing.unread / crossing.count)} unread")
    how = "staged by the library" if crossing.staged else crossing.memory
    first = [*([] if how == "unknown" else [how]), *facts[:1]]
    return ", ".join(first), ", ".join(facts[1:])


def lines_table(run: ScriptRun, scope: Scope, name: str, *, predicted: bool) -> blocks.Table:
    """The lines of a scope, as measured or for each device as predicted; the longest stay in short forms."""
    predictions = run.predictions[:_MOST_DEVICES] if predicted else ()
    timed = [_timed] if not predicted and scope.seconds is not None else []
    writers = timed or [partial(_predicted, prediction) for prediction in predictions]
    alone = len(predictions) == 1
    heads = tuple(Column(words.name(p.device), brief="time" * alone, basis="predicted") for p in predictions)
    where = f" on {words.name(predictions[0].device)}" if alone else ""
    rows = []
    for i, _ in scope.crossings:
        crossing, times = run.crossings[i], run.crossings[i].count / scope.frames
        moves = TableCell(moved(crossing.kind, times, crossing.bytes / scope.frames), crossing.call)
        source, more = source_of(crossing, run)
        cells = [write(run, i, scope) for write in writers]
        rank = -max((cell.sort or 0.0 for cell in cells), default=0.0)
        line = f"{label(crossing.place, files(run))}  {words.line(crossing.place.text, 60)}".rstrip()
        rows.append(row(line, moves, *cells, TableCell(words.line(source, 80), more), rank=rank))
    how, kernels, waits = "Predicted time" if predicted else "Time", "", ""
    if not predicted:
        kernels = " It includes the kernels that the line waits for, which stand below."
        waits = ", with kernels that a line waits for" * any(c.kernel_seconds for _, c in scope.crossings)
    unit = "per frame" if scope.loop else "in the run"
    first = Column("per frame" if scope.loop else "in all", figures=False)
    heads = (first, *(columns("time") if timed else heads), Column("from", figures=False))
    caption = f"What crosses in the {name}. {how} {unit}.{kernels}"
    title = f"{name[:1].upper()}{name[1:]}{', predicted' * predicted}{where}{waits}:"
    table = blocks.Table("lines", "line", heads, tuple(rows), caption, title, predicted=predicted)
    return replace(table, brief_notes=False, left_out="column", source_lines=True)


def _timed(run: ScriptRun, i: int, scope: Scope) -> TableCell:
    seconds = line_seconds(run.crossings[i])
    kernels = (run.crossings[i].kernel_seconds or 0.0) / scope.frames
    note = f"{units.seconds(kernels)} kernels" if kernels else ""
    if seconds is None:
        return TableCell(NOTHING, note)
    return TableCell(units.seconds(seconds / scope.frames), note, sort=seconds / scope.frames)


def _predicted(prediction: LinePrediction, run: ScriptRun, i: int, scope: Scope) -> TableCell:
    likely, between = prediction.likely_seconds[i], prediction.seconds[i]
    times = run.crossings[i].count / scope.frames
    if likely is None or between is None:
        return TableCell("not predicted")
    low, high = (end * times for end in between)
    return TableCell(units.seconds(likely * times), words.seconds_between(low, high), sort=likely * times)


def sources(run: ScriptRun) -> Iterator[blocks.Source]:
    """The user's files with what each line moves and takes beside it, over the whole run."""
    by_line = words.grouped(run.crossings, lambda c: (c.place.file, c.place.line))
    for source in run.sources:
        lines = []
        for number, text in enumerate(source.lines, 1):
            its = by_line.get((source.file, number), [])
            flat = text.expandtabs(4).rstrip()
            shown = " " * (len(flat) - len(flat.lstrip())) + words.line(flat, 240)
            spent = [s for s in map(line_seconds, its) if s is not None]
            copied = sum(c.bytes for c in its if c.kind != "lock")
            time = units.seconds(sum(spent)) if spent else ""
            size = units.size(copied) if copied else ""
            count = words.count(sum(c.count for c in its), "time") if its else ""
            lines.append(blocks.SourceLine(number, shown, time, size, count, marked=bool(its)))
        yield blocks.Source(words.name(source.file, 120), tuple(lines), timed=not run.played)


def totals(run: ScriptRun) -> blocks.Facts:
    """Where the run's bytes and time are; the times are the host's and add up to that of the run."""
    ways = {"Host to GPU": ("upload",), "GPU to host": ("download", "wait")}
    sizes = {way: sum(c.bytes for c in run.crossings if c.kind in kinds) for way, kinds in ways.items()}
    facts = [Fact(way, units.size(size), "on lines") for way, size in sizes.items()]
    if run.played:
        return blocks.Facts(tuple(facts))
    kinds = {"Copies": ("upload", "download"), "Page-locking": ("lock",), "Calls that wait": ("wait",)}
    parts = {
        name: sum(c.host_seconds or 0.0 for c in run.crossings if c.kind in those)
        for name, those in kinds.items()
    }
    parts["Kernels waited for"] = sum(c.kernel_seconds or 0.0 for c in run.crossings)
    parts["Recording"] = run.overhead_seconds
    parts["Everything else"] = max(0.0, run.seconds - sum(parts.values()))
    timed = ((name, seconds) for name, seconds in parts.items() if seconds)
    facts += [Fact(name, units.seconds(s), units.percent(s / run.seconds)) for name, s in timed]
    return blocks.Facts((*facts, Fact("The run", units.seconds(run.seconds))))


def lines_comparison_page(
    comparison: LineComparison, rulings: Sequence[Ruling] = (), files: tuple[str, str] = ("", "")
) -> Page:
    verdicts = tuple(_verdict(each, comparison) for each in comparison.frames)
    none = blocks.Verdict("nothing", "none", "", "No loop that crosses is in both profiles")
    first = (
        blocks.Verdicts(verdicts or (none,), named=len(verdicts) > 1),
        blocks.Bullets(tuple(map(_followed, promises(comparison)))),
        blocks.Banners("note", tuple(_notes(comparison))),
    )
    tables = tuple(map(_compared_table, comparison.frames))
    changed = (replace(t, rows=tuple(row for row in t.rows if row.cells[0].mark != "same")) for t in tables)
    sides = sides_of(comparison, files)
    sections = (
        *gated(rulings, first),
        Section("changed", "Changed", filled(*changed), forms="md"),
        Section("lines", "All lines", tables, nav="Lines", brief=True, folded=True),
        advice(comparison),
        comparable(comparison.conditions, sides),
    )
    title = f"{words.name(comparison.head.workload.file)}, HEAD vs. BASE"
    where = f"on {words.name(comparison.head.device.name)}"
    meta = tuple(f"{side.label} {side.value}" for side in sides)
    figures = records.sides_of(comparison.base, comparison.head)
    return Page("compare", "comparison of lines", title, sections, where=where, meta=meta, records=figures)


def _verdict(each: ComparedFrames, comparison: LineComparison) -> blocks.Verdict:
    before, now = each.base.copied_bytes, each.head.copied_bytes
    change = "The same bytes cross in a frame" if before == now else "More bytes in a frame"
    if before and before != now:
        more = "more" if now > before else "fewer"
        change = f"{units.percent(abs(now / before - 1))} {more} bytes in a frame"
    runs = (comparison.base.script, comparison.head.script)
    ceilings = [run and ceiling_of(run, s) for run, s in zip(runs, (each.base, each.head), strict=True)]
    sentences = [f"{units.size(before)} in BASE, {units.size(now)} in HEAD."]
    if each.base.seconds and each.head.seconds:
        sentences.append(f"A frame took {_between(each.base)}, now {_between(each.head)}.")
    if all(ceilings):
        most = (units.seconds(c.seconds) for c in ceilings if c)
        sentences.append("Memory could change about {} of it, now {}.".format(*most))
    tone: Literal["clear", "tie"] = "clear" if before != now else "tie"
    return blocks.Verdict("measured", tone, _frames_name(each), change, remark=" ".join(sentences))


def _followed(promise: Promise) -> str:
    lines = words.listing(str(place.line) for place in promise.places)
    saved, low, high = map(units.seconds, (promise.saved, *promise.between))
    basis = "measured when tried" if promise.tried else "estimated"
    promised = f"promised {units.seconds(promise.seconds)} of a frame ({basis})"
    noun = "line" if len(promise.places) == 1 else "lines"
    return f"Advice followed on {noun} {lines} of BASE: {promised}, got {saved} ({low} to {high})."


def _between(scope: Scope) -> str:
    middle = units.seconds(scope.seconds or 0.0)
    interval = scope.loop.interval_seconds if scope.loop else None
    return f"{middle} ({words.seconds_between(*interval)})" if interval else middle


def _frames_name(each: ComparedFrames) -> str:
    loop = each.head.loop
    return f"Loop at line {loop.place.line}" if loop else "The whole run"


def _notes(comparison: LineComparison) -> Iterator[str]:
    for name in comparison.unmatched:
        yield f"Only one of the two has {name}: it is not compared."
    for side, profile in (("BASE", comparison.base), ("HEAD", comparison.head)):
        if profile.script and profile.script.exit_code:
            yield f"The script of {side} ended with exit code {profile.script.exit_code}."


def _compared_table(each: ComparedFrames) -> blocks.Table:
    marks = {"new": "slower", "more": "slower", "gone": "faster", "less": "faster", "same": "same"}
    order = list(marks)
    timed = each.base.seconds is not None and each.head.seconds is not None
    rows = []
    for i, line in enumerate(sorted(each.lines, key=lambda line: order.index(line.outcome))):
        mark = marks[line.outcome]
        outcome, sides = TableCell(line.outcome, mark=mark, badge=f"outcome {mark}"), (line.base, line.head)
        moves = (moved(line.kind, side.times, side.bytes) if side else NOTHING for side in sides)
        spent = [side.seconds if side else None for side in sides] if timed else []
        times = (NOTHING if s is None else TableCell(units.seconds(s), sort=s) for s in spent)
        name = f"{line.place.line}  {words.line(line.place.text, 60)}"
        rows.append(row(name, outcome, *moves, *times, rank=i))
    heads = ("BASE", "HEAD", "time BASE", "time HEAD")
    shown = columns(Column("", figures=False), *heads[: 4 if timed else 2])
    caption = "What crosses in a frame. Lines are matched by file and text."
    name = _frames_name(each)
    table = blocks.Table("lines", "line", shown, tuple(rows), caption, f"{name}, per frame:", label=name)
    return replace(table, left_out="column")
