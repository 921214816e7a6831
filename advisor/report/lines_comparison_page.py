"""The page of two profiles of a script: what crosses in a frame now, and which lines changed that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from advisor import units
from advisor.profiles.crossings import LineAdvice
from advisor.report import blocks, records, words
from advisor.report.blocks import NOTHING, Column, Fact, TableCell, columns, row
from advisor.report.comparison_page import gated, sides_of
from advisor.report.line_tables import moved
from advisor.report.page import Page, Section, filled
from advisor.verdicts.ceilings import Scope, ceiling_of
from advisor.verdicts.comparing.conditions import differing
from advisor.verdicts.comparing.gates import Ruling
from advisor.verdicts.comparing.lines import ComparedFrames, LineComparison
from advisor.verdicts.comparing.promised import promises


def lines_comparison_page(
    comparison: LineComparison, rulings: Sequence[Ruling] = (), files: tuple[str, str] = ("", "")
) -> Page:
    verdicts = tuple(_verdict(each, comparison) for each in comparison.frames)
    none = blocks.Verdict("nothing", "none", "", "No loop that crosses is in both profiles")
    first = (
        blocks.Verdicts(verdicts or (none,), named=len(verdicts) > 1),
        blocks.Bullets(tuple(_promises(comparison))),
        blocks.Banners("note", tuple(_notes(comparison))),
    )
    tables = tuple(map(_table, comparison.frames))
    changed = (replace(t, rows=tuple(row for row in t.rows if row.cells[0].mark != "same")) for t in tables)
    new, gone = map(_items, (comparison.new_advice, comparison.gone_advice))
    advice = (
        blocks.Items(new, "New in HEAD", label="New advice"),
        blocks.Items(gone, "Gone since BASE", label="Advice gone"),
        blocks.Prose("Both profiles have the same advice." * (not new and not gone)),
    )
    apart = [
        Fact(words.name(c.what), words.line(f"{c.base}; now {c.head}", 240))
        for c in differing(comparison.conditions)
    ]
    conditions = blocks.Facts(tuple(apart), title="What differs:" if apart else "No difference was recorded.")
    sections = (
        *gated(rulings, first),
        Section("changed", "Changed", filled(*changed), forms="md"),
        Section("lines", "All lines", tables, nav="Lines", brief=True, folded=True),
        Section("advice", "Advice", filled(*advice), nav="Advice", folded=True),
        Section("comparable", "Comparable?", (conditions,), nav="Comparable?", folded=True, closed=True),
    )
    title = f"{words.name(comparison.head.workload.file)}, HEAD vs. BASE"
    where = f"on {words.name(comparison.head.device.name)}"
    meta = tuple(f"{side.label} {side.value}" for side in sides_of(comparison, files))
    figures = records.sides_of(comparison.base, comparison.head)
    return Page("compare", "comparison of lines", title, sections, where=where, meta=meta, records=figures)


def _items(advice: Sequence[LineAdvice]) -> tuple[blocks.Item, ...]:
    titles = ((one, f"line {one.place.line}: {words.line(one.advice.title, 200)}") for one in advice)
    return tuple(blocks.Item((words.name(one.advice.rule),), "", title) for one, title in titles)


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
        sentences.append("Memory could change at most {} of it, now {}.".format(*most))
    tone: Literal["clear", "tie"] = "clear" if before != now else "tie"
    return blocks.Verdict("measured", tone, _name(each), change, remark=" ".join(sentences))


def _promises(comparison: LineComparison) -> Iterator[str]:
    for promise in promises(comparison):
        lines = words.listing(str(place.line) for place in promise.places)
        basis = "measured when tried" if promise.tried else "estimated"
        noun = "line" if len(promise.places) == 1 else "lines"
        saved, low, high = map(units.seconds, (promise.saved, *promise.between))
        promised = f"promised {units.seconds(promise.seconds)} of a frame ({basis})"
        yield f"Advice followed on {noun} {lines} of BASE: {promised}, got {saved} ({low} to {high})."


def _between(scope: Scope) -> str:
    middle = units.seconds(scope.seconds or 0.0)
    interval = scope.loop.interval_seconds if scope.loop else None
    return f"{middle} ({words.seconds_between(*interval)})" if interval else middle


def _name(each: ComparedFrames) -> str:
    loop = each.head.loop
    return f"Loop at line {loop.place.line}" if loop else "The whole run"


def _notes(comparison: LineComparison) -> Iterator[str]:
    for name in comparison.unmatched:
        yield f"Only one of the two has {name}: it is not compared."
    for side, profile in (("BASE", comparison.base), ("HEAD", comparison.head)):
        if profile.script and profile.script.exit_code:
            yield f"The script of {side} ended with exit code {profile.script.exit_code}."


def _table(each: ComparedFrames) -> blocks.Table:
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
    caption, title = (
        "What crosses in a frame. Lines are matched by file and text.",
        f"{_name(each)}, per frame:",
    )
    return blocks.Table("lines", "line", shown, tuple(rows), caption, title, left_out="column")
