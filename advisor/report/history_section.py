"""One series of a history as a section: steps, times, and what else changed, commit by commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from advisor import stats, units
from advisor.profiles.histories import Entry
from advisor.report import blocks, words
from advisor.report.axes import ratio_axis
from advisor.report.page import MARKED, Section, filled, legend
from advisor.report.sweep_verdicts import cell
from advisor.verdicts.comparing.conditions import Condition
from advisor.verdicts.histories import Change, Series, physical_bytes
from advisor.verdicts.tracks import Stop

MOST_ROWS = 200
"""Of a table, which tells those that matter."""
_UNSURE = "The cause may also be {}, which changed at the same commit."
_CLOCKS = ("clocks", "clock throttling")
"""These change with every run: they are told beside a step alone."""


def section(series: Series, name: str, number: int) -> Section:
    """The section of the page."""
    table = _table(series, name, number)
    return Section(
        f"course-{number}",
        name,
        filled(
            _steps(series, number) if series.changes else None,
            blocks.Items(tuple(_causes(series)), "Other possible causes", label="possible cause"),
            table,
            blocks.Prose(legend(table), forms="md txt"),
            blocks.Items(tuple(_memory(series)), "Changes of memory", label="memory"),
            blocks.Items(tuple(_recommended(series)), "Changes of the recommendation", label="recommended"),
            blocks.Items(tuple(_surroundings(series)), "Changes besides the code", label="also changed"),
        ),
        nav=name,
        badge="" if series.track.basis == "cpu" else series.track.basis,
        brief=True,
    )


def place(series: Series, change: Change) -> str:
    """The first commit after the step; the others that it may be."""
    place = words.code(series.entries[change.at].label)
    if change.first == change.last:
        return place
    ends = (words.code(series.entries[i].label) for i in (change.first, change.last))
    return f"{place} (or another from {' to '.join(ends)})"


def cause(change: Change) -> str:
    """What else may have made the step: it is never laid on the code without a word."""
    if change.same_code:
        return (
            "The commit is the same before and after: the cause is the machine or its software, not the code."
        )
    return _UNSURE.format(_conditions(change.around)) if change.around else ""


def _conditions(around: Sequence[Condition]) -> str:
    told = (f"{words.name(c.what)} ({words.line(c.base, 80)} to {words.line(c.head, 80)})" for c in around)
    return words.listing(dict.fromkeys(told))


def _steps(series: Series, number: int) -> blocks.Table:
    """Every step of every strategy, by its commit."""
    found = [(change, name, step) for change in series.changes for name, step in change.steps.items()]
    found.sort(key=lambda each: -each[0].at)
    axis = ratio_axis([(step.ratio.low, step.ratio.high) for _, _, step in found])
    rows = (
        blocks.Row(
            words.name(strategy),
            (
                blocks.TableCell(
                    "",
                    mark=_mark(step.ratio),
                    strip=axis.strip(step.ratio.value, step.ratio.low, step.ratio.high),
                ),
                blocks.TableCell(
                    units.ratio(step.ratio.value), words.ratio_between(step.ratio.low, step.ratio.high)
                ),
                blocks.TableCell(place(series, change).replace("`", "")),
                blocks.TableCell(_blamed(change)),
            ),
            rank=-float(change.at),
        )
        for change, strategy, step in found
    )
    ends = " to ".join(axis.ends)
    return blocks.Table(
        "steps",
        "strategy",
        (
            blocks.Column(ends, figures=False, forms="html"),
            blocks.Column("after / before", notes="95 % interval", brief="step"),
            blocks.Column("commit", figures=False),
            blocks.Column("cause", figures=False),
        ),
        tuple(rows),
        caption="Steps, latest first: time after divided by time before.",
        title="Steps:",
        identifier=f"steps-{number}",
        predicted=series.track.basis == "predicted",
    )


def _mark(ratio: stats.Ratio) -> str:
    return "slower" if ratio.low > 1 else "faster"


def _blamed(change: Change) -> str:
    if change.same_code:
        return "not the code"
    return "code or other changes" if change.around else "code"


def _causes(series: Series) -> Iterator[blocks.Item]:
    for change in reversed(series.changes):
        if told := cause(change):
            yield blocks.Item((place(series, change).replace("`", ""),), "", told)


def _table(series: Series, name: str, number: int) -> blocks.Table:
    shown, predicted = series.track.with_figures, series.track.basis == "predicted"
    rows = list(_rows(series, shown))
    cut = len(rows) > MOST_ROWS
    if cut:
        kept = sorted(sorted(range(len(rows)), key=lambda i: rows[i].rank)[:MOST_ROWS])
        rows = [rows[i] for i in kept]
    what = "Predicted time" if predicted else "Time"
    only = (
        f" {MOST_ROWS} of {len(series.entries)} profiles: those at changes, the others evenly spread." * cut
    )
    return blocks.Table(
        "history",
        "commit",
        tuple(blocks.Column(words.name(each)) for each in shown),
        tuple(rows),
        caption=f"{what} per frame, with its {'range' if predicted else 'interval'} below. {MARKED}{only}",
        title=f"{what} per frame, {name}:",
        identifier=f"course-{number}",
        code_heads=True,
        predicted=predicted,
        brief_notes=False,
        left_out="strategy",
    )


def _rows(series: Series, strategies: Sequence[str]) -> Iterator[blocks.Row]:
    """The ends and the commits of changes matter most, then every other one, every fourth and so on."""
    stops, places = series.track.stops, {change.at for change in series.changes}
    for i, (entry, stop) in enumerate(zip(series.entries, stops, strict=True)):
        new = i in (0, len(stops) - 1) or stops[i].optima.chosen != stops[i - 1].optima.chosen
        rank = 0.0 if new or i in places or i + 1 in places else 20.0 - (i & -i).bit_length()
        cells = tuple(cell(stop, name) for name in strategies)
        yield blocks.Row(words.name(entry.label), cells, note=f"{entry.time:%Y-%m-%d}", rank=rank)


def _memory(series: Series) -> Iterator[blocks.Item]:
    """Where a strategy takes other memory than in the profile before."""
    for strategy in series.track.with_figures:
        rows = [(entry, physical_bytes(stop.results.get(strategy))) for entry, stop in _pairs(series)]
        known = [(entry, size) for entry, size in rows if size is not None]
        for (_, before), (entry, now) in pairwise(known):
            if before != now:
                told = f"{words.code(strategy)}: {units.size(before)} to {units.size(now)}"
                yield blocks.Item((words.name(entry.label),), "", told)


def _pairs(series: Series) -> Iterator[tuple[Entry, Stop]]:
    return zip(series.entries, series.track.stops, strict=True)


def _recommended(series: Series) -> Iterator[blocks.Item]:
    told = [(entry, stop.optima.chosen) for entry, stop in _pairs(series) if stop.optima.chosen]
    for (_, before), (entry, now) in pairwise(told):
        if before != now:
            change = f"{words.code(before)} to {words.code(now)}"
            yield blocks.Item((words.name(entry.label),), "", change)


def _surroundings(series: Series) -> Iterator[blocks.Item]:
    for entry, found in zip(series.entries, series.around, strict=True):
        lasting = [condition for condition in found if condition.what not in _CLOCKS]
        if lasting:
            yield blocks.Item((words.name(entry.label),), "", _conditions(lasting))
