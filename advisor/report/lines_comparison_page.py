"""The page of two profiles of a script: what crosses in a frame now, and which lines changed that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from advisor import units
from advisor.profiles.crossings import LineAdvice
from advisor.report import blocks, records, words
from advisor.report.blocks import NOTHING, Column, Fact, Row, TableCell
from advisor.report.comparison_page import gated, sides_of
from advisor.report.page import Page, Section, filled
from advisor.verdicts.ceilings import Scope, ceiling_of
from advisor.verdicts.comparing.conditions import differing
from advisor.verdicts.comparing.gates import Ruling
from advisor.verdicts.comparing.lines import ComparedFrames, ComparedLine, LineComparison, Moved
from advisor.verdicts.comparing.promised import Promise, promises

_WAYS = {"upload": "up", "download": "down", "wait": "wait", "lock": "page-lock"}


def lines_comparison_page(
    comparison: LineComparison, rulings: Sequence[Ruling] = (), files: tuple[str, str] = ("", "")
) -> Page:
    verdicts = tuple(_verdict(each, comparison) for each in comparison.frames)
    none = blocks.Verdict("nothing", "none", "", "No loop that crosses is in both profiles")
    first = (
        blocks.Verdicts(verdicts or (none,), named=len(verdicts) > 1),
        blocks.Bullets(tuple(map(_promise, promises(comparison)))),
        blocks.Banners("note", tuple(_notes(comparison))),
    )
    tables = tuple(map(_table, comparison.frames))
    changed = (replace(t, rows=tuple(row for row in t.rows if row.cells[0].mark != "same")) for t in tables)
    conditions = filled(*_conditions(comparison))
    return Page(
        kind="compare",
        brand="comparison of lines",
        name=f"{words.name(comparison.head.workload.file)}, HEAD vs. BASE",
        where=f"on {words.name(comparison.head.device.name)}",
        meta=tuple(f"{side.label} {side.value}" for side in sides_of(comparison, files)),
        records=records.sides_of(comparison.base, comparison.head),
        sections=(
            *gated(rulings, first),
            Section("changed", "Changed", filled(*changed), forms="md"),
            Section("lines", "All lines", tables, nav="Lines", brief=True, folded=True),
            Section("advice", "Advice", filled(*_advice(comparison)), nav="Advice", folded=True),
            Section("comparable", "Comparable?", conditions, nav="Comparable?", folded=True),
        ),
    )


def _verdict(each: ComparedFrames, comparison: LineComparison) -> blocks.Verdict:
    before, now = each.base.copied_bytes, each.head.copied_bytes
    change = "The same bytes cross in a frame" if before == now else f"{_apart(before, now)} bytes in a frame"
    runs = (comparison.base.script, comparison.head.script)
    ceilings = [run and ceiling_of(run, s) for run, s in zip(runs, (each.base, each.head), strict=True)]
    told = [f"{units.size(before)} in BASE, {units.size(now)} in HEAD."]
    if each.base.seconds and each.head.seconds:
        told.append(f"A frame took {_between(each.base)}, now {_between(each.head)}.")
    if all(ceilings):
        most = (units.seconds(c.seconds) for c in ceilings if c)
        told.append("Memory could change at most {} of it, now {}.".format(*most))
    return blocks.Verdict(
        "measured", "clear" if before != now else "tie", _name(each), change, remark=" ".join(told)
    )


def _promise(kept: Promise) -> str:
    lines = words.listing(str(place.line) for place in kept.places)
    basis = "measured when tried" if kept.tried else "estimated"
    noun = "line" if len(kept.places) == 1 else "lines"
    saved, low, high = map(units.seconds, (kept.saved, *kept.between))
    promised = f"promised {units.seconds(kept.seconds)} of a frame ({basis})"
    return f"Advice followed on {noun} {lines} of BASE: {promised}, got {saved} ({low} to {high})."


def _apart(before: float, now: float) -> str:
    if not before:
        return "More"
    share = units.percent(abs(now / before - 1))
    return f"{share} {'more' if now > before else 'fewer'}"


def _between(scope: Scope) -> str:
    told = units.seconds(scope.seconds or 0.0)
    interval = scope.loop.interval_seconds if scope.loop else None
    return f"{told} ({words.seconds_between(*interval)})" if interval else told


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
    order = ("new", "more", "gone", "less", "same")
    rows = sorted(each.lines, key=lambda line: order.index(line.outcome))
    timed = each.base.seconds is not None and each.head.seconds is not None
    times = (Column("time BASE"), Column("time HEAD")) if timed else ()
    number = each.head.number
    return blocks.Table(
        "lines",
        "line",
        (Column("", figures=False), Column("BASE"), Column("HEAD"), *times),
        tuple(_row(line, timed=timed, rank=i) for i, line in enumerate(rows)),
        caption="What crosses in a frame. Lines are matched by file and text.",
        title=f"{_name(each)}, per frame:",
        identifier=f"lines-{'all' if number is None else number}",
        left_out="column",
    )


def _row(line: ComparedLine, *, timed: bool, rank: int) -> Row:
    mark = {"new": "slower", "more": "slower", "gone": "faster", "less": "faster"}.get(line.outcome, "same")
    sides = (line.base, line.head)
    times = (_seconds(side) for side in sides) if timed else ()
    return Row(
        f"{line.place.line}  {words.line(line.place.text, 60)}",
        (
            TableCell(line.outcome, mark=mark, badge=f"outcome {mark}"),
            *(TableCell(_moved(side, line)) for side in sides),
            *times,
        ),
        rank=rank,
    )


def _moved(side: Moved | None, line: ComparedLine) -> str:
    if side is None:
        return NOTHING
    size = f"{units.size(side.bytes / side.times)} " if line.kind in ("upload", "download") else ""
    return f"{side.times:.3g} × {size}{_WAYS[line.kind]}"


def _seconds(side: Moved | None) -> TableCell:
    if side is None or side.seconds is None:
        return TableCell(NOTHING)
    return TableCell(units.seconds(side.seconds), sort=side.seconds)


def _advice(comparison: LineComparison) -> Iterator[blocks.Block | None]:
    yield blocks.Items(tuple(_items(comparison.new_advice)), "New in HEAD", label="New advice")
    yield blocks.Items(tuple(_items(comparison.gone_advice)), "Gone since BASE", label="Advice gone")
    if not (comparison.new_advice or comparison.gone_advice):
        yield blocks.Prose("Both profiles have the same advice.")


def _items(told: Iterable[LineAdvice]) -> Iterator[blocks.Item]:
    for each in told:
        title = f"line {each.place.line}: {words.line(each.advice.title, 200)}"
        yield blocks.Item((words.name(each.advice.rule),), "", title)


def _conditions(comparison: LineComparison) -> Iterator[blocks.Block | None]:
    apart = differing(comparison.conditions)
    facts = (Fact(words.name(c.what), words.line(f"{c.base}; now {c.head}", 240)) for c in apart)
    yield blocks.Facts(tuple(facts), title="What differs:" if apart else "No difference was recorded.")
