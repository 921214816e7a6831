"""The page of a history: for each series its times over commits, what changed where, and by how much."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from advisor import units
from advisor.profiles.histories import QUICKEST, History
from advisor.report import blocks, words
from advisor.report.charts import HEIGHT, LOW, Crossover, LineChart, Style, line_chart, styles
from advisor.report.machine import pairs
from advisor.report.mixes import described
from advisor.report.page import MARKED, Page, Section, filled, kept_rows, lead, legend, panels
from advisor.report.records import records_of
from advisor.report.several_pages import cell
from advisor.verdicts.comparing.conditions import Condition
from advisor.verdicts.histories import FEWEST, Change, Series, can_look
from advisor.verdicts.scores import bytes_of

MOST_POINTS = 120
"""Most points of a chart."""
INSTALL = "pip install 'gpu-memory-advisor[history]'"
_HASH = re.compile("[0-9a-f]{7,40}")
_PREDICTED = "Profile each commit on the device to confirm."
_HOW = (
    "Predictions are followed without host stages, which depend on the load of the CPU that timed them: "
    "every difference in kernels and copies is a change, and neighbours without one have one recommendation. "
    "Measured times are compared by their logarithms; a change is significant by Student's t-test, "
    "corrected for every place of every line on this page (Bonferroni, 95 %): 1 to 4 % of pages of "
    "unchanged code show one. The commit of a change is the first one profiled after it; its interval "
    "assumes that place. Lines of different machines, and measured and predicted times, are never compared."
)


def history_page(history: History, lines: Sequence[Series]) -> Page:
    looks = styles(list(dict.fromkeys(name for series in lines for name in series.track.with_figures)))
    named, ends = list(zip(_names(lines), lines, strict=True)), (history.entries[0], history.entries[-1])
    verdicts = tuple(_verdict(series, name) for name, series in named)
    height = HEIGHT if len(lines) == 1 else LOW
    charts = [filled(_chart(series, name, looks, height)) for name, series in named]
    missing = not can_look() and any(len(series.entries) >= FEWEST for series in lines)
    workloads = list(dict.fromkeys(words.name(series.profile.workload.name) for series in lines))
    devices = dict.fromkeys(words.name(c.track.device.name) for c in lines if c.track.basis == "measured")
    confirm, left_out = _PREDICTED * any(v.basis == "predicted" for v in verdicts), []
    for reason, files in words.grouped(history.left_out, lambda each: each.reason).items():
        listed = words.listing((words.name(each.file, 120) for each in files), limit=3)
        left_out.append(blocks.Item((listed,), "left out", words.line(reason, 300)))
    sections = (
        lead(
            *panels(verdicts, charts),
            blocks.Prose(confirm, "Next", kind="next together"),
            blocks.Prose(f"To find change points: {INSTALL}" * missing, "Next", kind="next together"),
            blocks.Items(tuple(left_out), "Files left out", most=10),
        ),
        *(section(series, name, i) for i, (name, series) in enumerate(named, 1)),
        Section("method", "Method", (blocks.Prose(_HOW),), nav="Method", folded=True, closed=True),
    )
    title = f"{words.listing(workloads)} over {words.count(len(history.entries), 'profile')}"
    meta = (" to ".join(f"{entry.label} ({entry.time:%Y-%m-%d})" for entry in ends),)
    profiles = [entry.profile for entry in history.entries]
    page = Page(
        "history",
        "history",
        title,
        sections,
        basis=blocks.basis_of([series.track.basis for series in lines]),
        where=f"on {words.listing(devices)}" if devices else "",
        meta=meta,
        records=records_of(*profiles),
    )
    return described(page, *profiles)


def _names(lines: Sequence[Series]) -> list[str]:
    """A name for each series, of what distinguishes it: workload, parameters, device, machine."""
    profiles, parameters = [series.profile for series in lines], []
    for profile in profiles:  # those that are the same in all profiles of the workload are left out
        same = [p.workload.parameters for p in profiles if p.workload.name == profile.workload.name]
        items = profile.workload.parameters.items()
        parameters.append(pairs({k: v for k, v in items if any(other.get(k) != v for other in same)}))
    tags = [[words.name(profile.workload.name) for profile in profiles], parameters]
    devices = [words.name(series.track.device.name) for series in lines]
    labels = [*(tag for tag in tags if len(set(tag)) > 1), devices]
    names = [", ".join(filter(None, parts)) for parts in zip(*labels, strict=True)]
    return [
        f"{name} ({words.name(series.machine)})" if names.count(name) > 1 else name
        for name, series in zip(names, lines, strict=True)
    ]


def _verdict(series: Series, name: str) -> blocks.Verdict:
    predicted = _is_predicted(series)
    last, step = series.changes[-1] if series.changes else None, ""
    unsure = bool(last and (last.around or last.same_code))
    newest = f"{_newest(series)}." if series.newest and last else ""
    before = series.entries[max(last.first - 1, 0)].label if last else ""
    if last and not last.same_code and _HASH.fullmatch(before):
        file = words.line(series.profile.workload.file, 120)
        command = words.code(f"advisor compare --run {file} --against {before}", 200)
        step = f"See what changed in a frame: {command}"
    cause = _UNSURE.format(_conditions(last.around)) if last and last.around else ""
    if last and last.same_code:
        cause = _SAME_CODE
    headline = f"{'Predicted: ' * predicted}{_headline(series)}"
    chosen, now = [stop.optima.chosen for stop in series.track.stops], ""
    if chosen[-1]:
        since = next((i + 1 for i in range(len(chosen) - 1, -1, -1) if chosen[i] != chosen[-1]), 0)
        where = f"since {words.code(series.entries[since].label)}" if since else "throughout"
        now = f"{words.code(chosen[-1])} is recommended {where}."
    reason = " ".join(filter(None, (newest, cause, now)))
    tone: blocks.Tone = (
        "none" if not series.looked else "inconclusive" if unsure or series.newest else "clear"
    )
    return blocks.Verdict("predicted" if predicted else "measured", tone, name, headline, reason, step)


def _newest(series: Series) -> str:
    """The strategy whose time differs in the newest profile alone, and by how much."""
    if not series.newest:
        return ""
    strategy = max(series.newest, key=lambda name: abs(math.log(series.newest[name].value)))
    size = words.slower(series.newest[strategy])
    return f"{words.code(strategy)} is {size} in the newest profile: one profile so far"


def _headline(series: Series) -> str:
    many = words.count(len(series.entries), "profile")
    if not series.changes:
        if series.looked:
            return _newest(series) or f"No change detected in {many}"
        needed = 2 if _is_predicted(series) else FEWEST
        few = f"too few to look for changes ({needed} are needed)"
        why = few if len(series.entries) < needed else "changes were not looked for"
        return f"{many}: {why}"
    last, chosen = series.changes[-1], series.track.stops[-1].optima.chosen
    # The strategy recommended last if it changed, else that with the largest step.
    strategy = max(last.steps, key=lambda name: (name == chosen, abs(last.steps[name].ratio.value - 1)))
    others = len(last.steps) - 1
    changed = words.listing(dict.fromkeys(words.name(c.what) for c in last.around), limit=3)
    beside = f" ({changed} changed, too)" if changed else ""
    if last.same_code:
        beside = " (not the code: the commit is the same before and after)"
    more = f"; {words.count(others, 'other strategy')} changed, too" if others else ""
    size = words.slower(last.steps[strategy].ratio)
    where = f"{words.code(strategy)} {size} at {place(series, last)}{beside}{more}"
    if len(series.changes) == 1:
        return f"One change in {many}: {where}"
    return f"{len(series.changes)} changes in {many}; the last: {where}"


def _chart(series: Series, name: str, looks: dict[str, Style], height: int) -> LineChart:
    """The newest profiles; the table has the others at changes."""
    first = max(0, len(series.entries) - MOST_POINTS)
    changes = []
    for change in (change for change in series.changes if change.at > first):
        steps = (f"{words.name(name)} {words.slower(step.ratio)}" for name, step in change.steps.items())
        title = f"{series.entries[change.at].label}, {words.listing(steps, limit=4)}"
        changes.append(Crossover(change.at - first - 1, change.at - first, title))
    notes = [f"The newest {MOST_POINTS} of {len(series.entries)} profiles."] * bool(first)
    notes += ["Changes are between dotted lines."] * bool(changes)
    return line_chart(
        f"{_what(series)} over commits, {name}", "commit", series.track.stops[first:], looks,
        height=height, predicted=_is_predicted(series), changes=changes, note=" ".join(notes),
        ends="quickest frame and the median" * (series.track.basis == "cpu"),
    )  # fmt: skip


MOST_ROWS = 200
"""Most rows of a table, the ones that matter."""
_SAME_CODE = (
    "The commit is the same before and after: the cause is the machine or its software, not the code."
)
_UNSURE = "The cause may also be {}, which changed at the same commit."
_CLOCKS = ("clocks", "clock throttling")
"""Conditions that change with every run: named only beside a change."""


def section(series: Series, name: str, number: int) -> Section:
    table = _table(series, name)
    around = []
    for entry, conditions in zip(series.entries, series.around, strict=True):
        lasting = [condition for condition in conditions if condition.what not in _CLOCKS]
        if lasting:
            around.append(blocks.Item((words.name(entry.label),), "", _conditions(lasting)))
    inside = filled(
        _steps(series, name) if series.changes else None,
        table,
        blocks.Prose(legend(table), forms="md txt"),
        blocks.Items(tuple(_memory(series)), "Changes of memory", label="memory"),
        blocks.Items(tuple(around), "Changes besides the code", label="also changed"),
    )
    badge = "" if series.track.basis == "cpu" else series.track.basis
    return Section(f"course-{number}", name, inside, nav=name, badge=badge, brief=True, closed=True)


def _memory(series: Series) -> Iterator[blocks.Item]:
    """Where the memory of a strategy, which not every profile has, differs from that before."""
    for strategy in series.track.with_figures:
        sizes = (bytes_of(stop.results.get(strategy)) for stop in series.track.stops)
        recorded = [(e, size) for e, size in zip(series.entries, sizes, strict=True) if size is not None]
        for (_, before), (entry, now) in pairwise(recorded):
            if before != now:
                text = f"{words.code(strategy)}: {units.size(before)} to {units.size(now)}"
                yield blocks.Item((words.name(entry.label),), "", text)


def place(series: Series, change: Change) -> str:
    """The first commit after the change, and the range of commits that it may be."""
    place = words.code(series.entries[change.at].label)
    if change.first == change.last:
        return place
    ends = (words.code(series.entries[i].label) for i in (change.first, change.last))
    return f"{place} (or another from {' to '.join(ends)})"


def _conditions(around: Sequence[Condition]) -> str:
    texts = (f"{words.name(c.what)} ({words.line(c.base, 80)} to {words.line(c.head, 80)})" for c in around)
    return words.listing(dict.fromkeys(texts))


def _steps(series: Series, name: str) -> blocks.Table:
    steps = [(change, name, step) for change in series.changes for name, step in change.steps.items()]
    steps.sort(key=lambda each: -each[0].at)
    rows = []
    for change, strategy, step in steps:
        ratio = blocks.ratio_cell(step.ratio)
        where = place(series, change).replace("`", "")
        rows.append(blocks.row(words.name(strategy), ratio, where, rank=-float(change.at)))
    heads = (
        blocks.Column("after / before", notes="95 % interval", brief="change"),
        blocks.Column("commit", figures=False),
    )
    caption = "Changes, latest first: time after divided by time before."
    table = blocks.Table("steps", "strategy", heads, tuple(rows), caption, "Changes:", f"Changes, {name}")
    return replace(table, predicted=_is_predicted(series))


def _table(series: Series, name: str) -> blocks.Table:
    strategies = series.track.with_figures
    rows = tuple(_rows(series, strategies))
    only = f" {MOST_ROWS} of {len(rows)} profiles: those at changes, the others evenly spread."
    only *= len(rows) > MOST_ROWS
    heads = tuple(blocks.Column(words.code(each)) for each in strategies)
    caption = f"{_what(series)}{_INTERVAL[series.track.basis]}. {MARKED}{only}"
    rows = kept_rows(rows, MOST_ROWS)
    title = f"{_what(series)}, {name}:"
    table = blocks.Table("history", "commit", heads, rows, caption, title, predicted=_is_predicted(series))
    return replace(table, label=f"Times, {name}", brief_notes=False, left_out="strategy")


_INTERVAL = {
    "predicted": "",
    "measured": ", with its interval below",
    "cpu": f", {QUICKEST:.0%} of frames take less; from the quickest to the median below",
}


def _is_predicted(series: Series) -> bool:
    return series.track.basis == "predicted"


def _what(series: Series) -> str:
    return "Predicted kernels and copies per frame" if _is_predicted(series) else "Time per frame"


def _rows(series: Series, strategies: Sequence[str]) -> Iterator[blocks.Row]:
    """A row for each profile; by rank the ends and the changes stay longest, then evenly spread others."""
    stops, places = series.track.stops, {change.at for change in series.changes}
    for i, (entry, stop) in enumerate(zip(series.entries, stops, strict=True)):
        new = i in (0, len(stops) - 1) or stops[i].optima.chosen != stops[i - 1].optima.chosen
        rank = 0.0 if new or i in places or i + 1 in places else 20.0 - (i & -i).bit_length()
        cells = tuple(cell(stop, name) for name in strategies)
        yield blocks.Row(words.name(entry.label), cells, note=f"{entry.time:%Y-%m-%d}", rank=rank)
