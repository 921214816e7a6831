"""The page of a history: for each series its times over commits, what changed where, and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from advisor.profiles.histories import History
from advisor.report import blocks, words
from advisor.report.history_section import cause, place, section
from advisor.report.lines import Crossover, Curve, LineChart, Sample, Style, line_chart, styles
from advisor.report.methods import pairs
from advisor.report.page import Page, Section, filled, lead, panels
from advisor.report.sweep_page import leading, sample
from advisor.verdicts.histories import FEWEST, Change, Series, can_look

MOST_POINTS = 120
"""Of a chart, which draws more in groups."""
INSTALL = "pip install 'gpu-memory-advisor[history]'"
_PREDICTED = "Predicted, not measured. Profile each commit on the device to confirm."
_SPAN = "The step is between the dotted lines."
_HOW = (
    "Times are compared by their logarithms. A step is shown if it is significant by Student's t-test, "
    "corrected for every place of every line on this page (Bonferroni, 95 %): about 2 % of pages of "
    "unchanged code show one. The commit of a step is the first one profiled after it; its interval assumes "
    "that place. Lines of different machines, and measured and predicted times, are never compared."
)


def history_page(history: History, found: Sequence[Series]) -> Page:
    """Everything a history says; `found` are its series."""
    looks = styles(list(dict.fromkeys(name for series in found for name in series.track.with_figures)))
    names = _names(found)
    named = list(zip(names, found, strict=True))
    told = tuple(_verdict(series, name) for name, series in named)
    charts = [filled(_chart(series, name, looks, i)) for i, (name, series) in enumerate(named, 1)]
    missing = not can_look() and any(len(series.entries) >= FEWEST for series in found)
    workloads = list(dict.fromkeys(words.name(series.profile.workload.name) for series in found))
    devices = dict.fromkeys(words.name(c.track.device.name) for c in found if c.track.basis == "measured")
    predicted = all(series.track.basis != "measured" for series in found)
    return Page(
        kind="history",
        brand="history",
        name=f"{words.listing(workloads)} over {words.count(len(history.entries), 'profile')}",
        where=f"on {words.listing(devices)}" if devices else "",
        basis="predicted" if predicted else "measured",
        meta=(_between(history),),
        sections=(
            lead(
                blocks.Verdicts(_summed(told, named), named=len(told) > 1, forms="md txt"),
                panels(told, charts),
                blocks.Prose(
                    _PREDICTED * any(v.basis == "predicted" for v in told), "Next", kind="next together"
                ),
                blocks.Prose(f"To find change points: {INSTALL}" * missing, "Next", kind="next together"),
                blocks.Items(tuple(_left_out(history)), "Files left out", most=10),
            ),
            *(section(series, name, i) for i, (name, series) in enumerate(named, 1)),
            Section(
                "method", "Method", filled(blocks.Prose(_HOW), _machines(found)), nav="Method", folded=True
            ),
        ),
    )


def _left_out(history: History) -> Iterator[blocks.Item]:
    """One for each reason."""
    for reason, files in words.grouped(history.left_out, lambda each: each.reason).items():
        listed = words.listing((words.name(each.file, 120) for each in files), limit=3)
        yield blocks.Item((listed,), "left out", words.line(reason, 300))


def _between(history: History) -> str:
    first, last = history.entries[0], history.entries[-1]
    return f"{first.label} ({first.time:%Y-%m-%d}) to {last.label} ({last.time:%Y-%m-%d})"


def _names(found: Sequence[Series]) -> list[str]:
    """Each series by what tells it from the others: workload, parameters, device, machine."""
    profiles = [series.profile for series in found]
    tags = [
        [words.name(profile.workload.name) for profile in profiles],
        [pairs(profile.workload.parameters) for profile in profiles],
    ]
    kept = [tag for tag in tags if len(set(tag)) > 1]
    devices = [
        f"{words.name(series.track.device.name)}{', on the CPU' * (series.track.basis == 'cpu')}"
        for series in found
    ]
    names = [", ".join(filter(None, parts)) for parts in zip(*kept, devices, strict=True)]
    machines = [words.name(series.machine) for series in found]
    same = [names.count(name) > 1 for name in names]
    return [
        f"{name} ({machine})" if twice else name
        for name, machine, twice in zip(names, machines, same, strict=True)
    ]


def _verdict(series: Series, name: str) -> blocks.Verdict:
    predicted = series.track.basis == "predicted"
    last = series.changes[-1] if series.changes else None
    unsure = bool(last and (last.around or last.same_code))
    return blocks.Verdict(
        basis="predicted" if predicted else "measured",
        tone="none" if not series.looked else "inconclusive" if unsure else "clear",
        device=name,
        headline=f"{'Predicted: ' * predicted}{_headline(series)}",
        reason=" ".join(filter(None, (cause(last) if last else "", _now(series)))),
    )


def _summed(
    told: Sequence[blocks.Verdict], named: Sequence[tuple[str, Series]]
) -> tuple[blocks.Verdict, ...]:
    """Joins series with too few profiles into one row."""
    few = [name for name, series in named if len(series.entries) < FEWEST]
    if len(few) < 2:
        return tuple(told)
    why = f"each has fewer than {FEWEST} profiles, too few to look for steps"
    kept = (verdict for verdict in told if verdict.device not in few)
    return (*kept, blocks.Verdict("nothing", "none", words.listing(few, limit=3), why))


def _headline(series: Series) -> str:
    many = words.count(len(series.entries), "profile")
    if not series.changes:
        if series.looked:
            return f"No step in {many}"
        few = f"too few to look for steps ({FEWEST} are needed)"
        why = few if len(series.entries) < FEWEST else "steps were not looked for"
        return f"{many}: {why}"
    last = series.changes[-1]
    strategy = _foremost(series, last)
    others = len(last.steps) - 1
    more = f" (and {words.count(others, 'other strategy')})" if others else ""
    size = words.slower(last.steps[strategy].ratio)
    where = f"{words.code(strategy)}{more} {size} at {place(series, last)}{_beside(last)}"
    if len(series.changes) == 1:
        return f"One step in {many}: {where}"
    return f"{len(series.changes)} steps in {many}; the last: {where}"


def _beside(change: Change) -> str:
    """Says in a few words that a step need not come from the code."""
    if change.same_code:
        return " (not the code: the commit is the same before and after)"
    changed = words.listing(dict.fromkeys(words.name(c.what) for c in change.around), limit=3)
    return f" ({changed} changed, too)" if changed else ""


def _foremost(series: Series, change: Change) -> str:
    """The strategy recommended last if it changed, else that with the largest step."""
    chosen = series.track.stops[-1].optima.chosen
    if chosen in change.steps:
        return chosen
    return max(change.steps, key=lambda name: abs(change.steps[name].ratio.value - 1))


def _now(series: Series) -> str:
    """What is recommended now, and since when."""
    chosen = [stop.optima.chosen for stop in series.track.stops]
    last = chosen[-1]
    if last is None:
        return ""
    since = next((i + 1 for i in range(len(chosen) - 1, -1, -1) if chosen[i] != last), 0)
    where = f"since {words.code(series.entries[since].label)}" if since else "throughout"
    return f"{words.code(last)} is recommended {where}."


def _chart(series: Series, name: str, looks: dict[str, Style], index: int) -> LineChart | None:
    track, predicted = series.track, series.track.basis == "predicted"
    size = -(-len(series.entries) // MOST_POINTS)
    groups = [range(i, min(i + size, len(series.entries))) for i in range(0, len(series.entries), size)]
    shown = leading(track.stops, track.with_figures)
    curves = [
        Curve(s, looks[s], tuple(_joined([sample(track.stops[i], s) for i in group]) for group in groups))
        for s in track.with_figures
    ]
    changes = [
        Crossover(max(change.at - 1, 0) // size, change.at // size, _told(series, change))
        for change in series.changes
    ]
    notes = [f"Each point is the median of {size} consecutive profiles, each line their intervals."] * (
        size > 1
    )
    notes += [_SPAN] * bool(changes)
    return line_chart(
        f"history-{index}",
        f"{'Predicted time' if predicted else 'Time'} of one frame over commits, {name}",
        "commit",
        [series.entries[group[0]].label for group in groups],
        [curve for curve in curves if curve.strategy in shown],
        predicted=predicted,
        note=" ".join(notes),
        others=[curve for curve in curves if curve.strategy not in shown],
        changes=changes,
        ordered=True,
    )


def _joined(samples: Sequence[Sample | None]) -> Sample | None:
    """One point for several: their median, all their intervals."""
    known = [each for each in samples if each]
    if len(known) < 2:
        return known[0] if known else None
    middle = median(each.middle for each in known)
    return Sample(middle, min(s.low for s in known), max(s.high for s in known), known[-1].chosen)


def _told(series: Series, change: Change) -> str:
    """For the chart, which shows the place alone until somebody points at it."""
    steps = (f"{words.name(name)} {words.slower(step.ratio)}" for name, step in change.steps.items())
    return f"{series.entries[change.at].label}, {words.listing(steps, limit=4)}"


def _machines(found: Sequence[Series]) -> blocks.Items:
    """The machines, where there are several."""
    machines = words.grouped(found, lambda series: series.machine)
    if len(machines) < 2:
        return blocks.Items(())
    items = (
        blocks.Item((words.name(machine),), "", words.count(max(len(c.entries) for c in same), "profile"))
        for machine, same in machines.items()
    )
    return blocks.Items(tuple(items), "Machines, each with its own lines", label="machine")
