"""The page over a sweep: the sentences, and for each device its lines and its table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from advisor.devices.memory_class import EXPLAINED
from advisor.profiles.schema import Failed, Measured, Predicted, Profile
from advisor.profiles.sweeps import Point, SweepResults
from advisor.report import words
from advisor.report.blocks import (
    Banners,
    Block,
    Column,
    Fact,
    Facts,
    Failures,
    Fold,
    Item,
    Items,
    Prose,
    Row,
    Table,
    Verdict,
    Verdicts,
)
from advisor.report.failures import FIGURES, sweep_failures
from advisor.report.lines import Curve, LineChart, Sample, Style, line_chart, styles
from advisor.report.machine import environment
from advisor.report.methods import CPU_LABEL, method, workload
from advisor.report.page import MARKED, NO_GPU, Page, Section, circumstances, filled, lead, legend
from advisor.report.recommendations import nothing
from advisor.report.sweep_verdicts import at, sweep_verdict
from advisor.report.tables import merged
from advisor.report.tracks import Stop, Track, cell, tracks
from advisor.version import __version__

_ON_CHART = {
    "predicted": "Bands are the ranges; a ring marks what is recommended.",
    "measured": "Upright lines are the intervals; a ring marks what is recommended.",
    "cpu": "Upright lines are the intervals.",
}
_METHOD = ("Order", "Time", "Figures", "Set-up")
_WORKLOAD = ("File", "SHA-256", "Frame")
_LINKS = (
    "The report of each value, which the table links to, has its stages, its memory, its advice and all raw "
    "samples."
)
_ON_CPU = "The workload ran here with NumPy for CuPy. These times say nothing about a GPU's."


def sweep_page(sweep: SweepResults) -> Page:
    """Everything a sweep says: where the best strategy changes, and the times of all at each value."""
    first = sweep.profiles[0] if sweep.profiles else None
    parameter, found = words.name(sweep.parameter, 40), tracks(sweep)
    looks = styles(list(dict.fromkeys(name for track in found for name in track.strategies)))
    workload, span, fixed = words.name(sweep.workload), _span(sweep, parameter), _fixed(sweep)
    predicted = first is not None and first.device.kind == "cpu"
    on_device = f" on {words.name(first.device.name)}" if first and not predicted else ""
    made = words.created(first.created) if first else ""
    tool = f"advisor {words.name(first.tool.version)}" if first else f"advisor {__version__}"
    return Page(
        kind="sweep",
        brand="memory strategy sweep",
        title=f"{workload} over {span}",
        name=workload,
        where=f"over {span}{on_device}",
        basis="predicted" if predicted else "measured",
        summary=words.line(first.workload.summary, 300) if first else "",
        meta=tuple(filter(None, (f"`{fixed}`" if fixed else "", made))),
        sections=(
            _lead(sweep, found, parameter, predicted),
            *(_device(track, sweep, parameter, looks, i) for i, track in enumerate(found, 1)),
            _circumstances(sweep, first, parameter, fixed, ", ".join(filter(None, (tool, made)))),
        ),
        tool=tool,
        created=made,
    )


def _lead(sweep: SweepResults, found: Sequence[Track], parameter: str, predicted: bool) -> Section:
    told = tuple(sweep_verdict(track, parameter) for track in found if track.basis != "cpu")
    bet = predicted and any(verdict.basis != "nothing" for verdict in told)
    return lead(
        Banners("predicted", (NO_GPU,) * predicted, "predicted", forms="html"),
        Failures(sweep_failures(sweep, parameter)),
        Verdicts(told or (_nothing(parameter),), named=len(told) > 1 or predicted),
        Prose(_BET * bet, label="Next", kind="next together"),
        Banners("note", tuple(_notes(sweep, parameter)), forms="html"),
        Items(tuple(_missing(sweep.points, parameter)), "Values that were not run"),
    )


def _circumstances(
    sweep: SweepResults, first: Profile | None, parameter: str, fixed: str, made: str
) -> Section:
    ran = tuple(f for f in workload(first) if f.label in _WORKLOAD) if first else ()
    machine = environment(first) if first else ()
    return circumstances(
        Fold("How the figures were taken", (Facts(_method(sweep, first)),), open=True),
        Fold("The workload", filled(Facts(ran))),
        Fold("The machine and its software", filled(Facts(machine))),
        Prose(_LINKS, forms="html"),
        facts=(
            *(ran[:1] + machine)[:8],
            Fact("other parameters", fixed),
            Fact("command", words.code(sweep.command, 500) if sweep.command else ""),
        ),
        notes=tuple(_notes(sweep, parameter)),
        made=made,
    )


def _span(sweep: SweepResults, parameter: str) -> str:
    values = [words.value(point.value) for point in sweep.points]
    if not sweep.ordered or len(values) < 3:
        return f"{parameter} = {words.listing(values)}"
    return f"{parameter} = {values[0]} to {values[-1]}"


def _fixed(sweep: SweepResults) -> str:
    """The parameters that stay, of the first profile."""
    held = sweep.profiles[0].workload.parameters if sweep.profiles else {}
    others = [f"{words.name(k)} = {words.name(str(v))}" for k, v in held.items() if k != sweep.parameter]
    return ", ".join(others[:20])


_BET = "Predicted, not measured. Run the same command on the device to confirm."


def _nothing(parameter: str) -> Verdict:
    what = f"Nothing could be measured or predicted at any value of {parameter}"
    return nothing("", what, next_step="Fix the errors in the rows and run again.")


def _device(
    track: Track, sweep: SweepResults, parameter: str, looks: dict[str, Style], number: int
) -> Section:
    """One device over all values: its lines, its table, and what has no figures."""
    cpu, device, gaps = track.basis == "cpu", words.name(track.device.name), merged(_gaps(track, parameter))
    memory = EXPLAINED[track.device.memory_class] if track.device.memory_class else ""
    figures: tuple[Block, ...] = (Prose("No strategy has figures here.", forms="html"),)
    if track.with_figures:
        table = _table(track, sweep, parameter, number)
        figures = _chart(track, parameter, looks, number), table, Prose(legend(table), forms="md txt")
    return Section(
        f"device-{number}",
        "Measured on this CPU, not on a GPU" if cpu else device,
        filled(
            Prose(_ON_CPU if cpu else memory, forms="html"),
            *figures,
            Items(gaps, "Strategies without figures", forms="html"),
            Items(_further(gaps, track), forms="md txt"),
        ),
        nav="On this CPU" if cpu else device,
        badge="" if cpu else track.basis,
        forms="html" if cpu else "html md txt",
    )


def _table(track: Track, sweep: SweepResults, parameter: str, number: int) -> Table:
    shown, device = track.with_figures, words.name(track.device.name)
    word = "Predicted time" if track.basis == "predicted" else "Time"
    return Table(
        "sweep",
        parameter,
        tuple(Column(words.name(name)) for name in shown),
        tuple(_row(point, stop, shown) for point, stop in zip(sweep.points, track.stops, strict=True)),
        caption=_caption(track, device),
        title=f"{word} per frame on {device}:",
        identifier=f"device-{number}",
        codes=False,
        code_heads=True,
        predicted=track.basis == "predicted",
        brief_notes=False,
        left_out="strategy",
    )


def _further(gaps: Sequence[Item], track: Track) -> tuple[Item, ...]:
    """Gaps that are no failures, which are told first of all; with the device where it was predicted."""
    where = f" on {words.name(track.device.name)}" if track.basis == "predicted" else ""
    return tuple(replace(gap, status=f"{gap.status}{where}") for gap in gaps if gap.status != "failed")


def _caption(track: Track, device: str) -> str:
    if track.basis == "predicted":
        return f"Predicted time per frame: the likely value, beneath it the range. {MARKED}"
    where = f"{CPU_LABEL}; beneath it the interval of the median."
    if track.basis == "cpu":
        return f"Time per frame, {where}"
    return f"Time per frame, measured on {device}; beneath it the interval of the median. {MARKED}"


def _chart(track: Track, parameter: str, looks: dict[str, Style], index: int) -> LineChart:
    word = {"predicted": "Predicted time", "measured": "Time", "cpu": "Time"}[track.basis]
    where = "this CPU, not on a GPU" if track.basis == "cpu" else words.name(track.device.name)
    stops = [stop for stop in track.stops if stop.results]  # a value without a profile has no place here
    curves = [
        Curve(name, looks[name], tuple(_sample(stop, name) for stop in stops)) for name in track.with_figures
    ]
    return line_chart(
        f"lines-{index}",
        f"{word} of one frame over {parameter} on {where}",
        parameter,
        [stop.value for stop in stops],
        curves,
        predicted=track.basis == "predicted",
        note=_ON_CHART[track.basis],
    )


def _sample(stop: Stop, strategy: str) -> Sample | None:
    figures = stop.seconds(strategy)
    return Sample(*figures, chosen=stop.standing.chosen == strategy) if figures else None


def _row(point: Point, stop: Stop, strategies: Sequence[str]) -> Row:
    value = words.value(point.value)
    if point.profile is None:
        return Row(value, (), missing=f"{point.status}: {words.line(point.reason, 200)}")
    if not any(stop.seconds(strategy) for strategy in strategies):
        return Row(value, (), href=point.href, missing="no figures")
    return Row(value, tuple(cell(stop, strategy) for strategy in strategies), href=point.href)


def _gaps(track: Track, parameter: str) -> Iterator[Item]:
    """Each strategy without figures, once for each reason, with the values it holds for."""
    alike: dict[tuple[str, str, str], list[Stop]] = {}
    for strategy in track.strategies:
        for stop in track.stops:
            row = stop.results.get(strategy)
            if row is not None and not isinstance(row, (Measured, Predicted)):
                alike.setdefault((strategy, row.status, row.reason), []).append(stop)
    profiled = sum(bool(stop.results) for stop in track.stops)
    for (strategy, status, reason), where in alike.items():
        shown = "not predicted" if track.basis == "predicted" else status
        place = "" if len(where) == profiled else f" (at {at(parameter, where)})"
        row = where[0].results[strategy]
        detail = words.block(row.detail) if isinstance(row, Failed) else ""
        yield Item((words.name(strategy),), shown, words.line(reason, 500) + place, detail)


def _missing(points: Sequence[Point], parameter: str) -> Iterator[Item]:
    """Values that were not run, those with the same reason together; failed ones are told before."""
    alike: dict[str, list[Point]] = {}
    for point in points:
        if point.status == "not run":
            alike.setdefault(point.reason, []).append(point)
    for reason, where in alike.items():
        values = words.listing([words.value(point.value) for point in where], limit=12)
        yield Item((f"{parameter} = {values}",), "not run", words.line(reason))


def _method(sweep: SweepResults, first: Profile | None) -> tuple[Fact, ...]:
    told = [fact for fact in method(first) if fact.label in _METHOD] if first else []
    return (
        Fact("Command", words.line(sweep.command, 500)),
        Fact(
            "Values", "each is a whole run of its own, one after the other; between them nothing was tested"
        ),
        *told,
        Fact(
            "Best strategy",
            "a change is said only between values that speak for different strategies; a tie, and a value at "
            "which the best cannot be told apart, makes none",
        ),
    )


def _notes(sweep: SweepResults, parameter: str) -> Iterator[str]:
    """Notes of the sweep, then those of all values; what differs in its figures only is told once."""
    yield from (words.line(note, 500) for note in sweep.notes)
    alike: dict[str, list[tuple[Point, str]]] = {}
    for point in sweep.points:
        for note in _said(point.profile):
            alike.setdefault(FIGURES.sub("0", note), []).append((point, note))
    for told in alike.values():
        where, note = words.value(told[0][0].value), words.line(told[0][1], 500).rstrip(".")
        others = [point for point, _ in told[1:]]
        if len({text for _, text in told}) > 1:
            more = words.count(len(others), "other value")
            yield f"{note} (at {parameter} = {where}; much the same at {more})."
        elif len(told) == len(sweep.profiles):
            yield f"{note}."
        else:
            values = words.listing([where, *(words.value(point.value) for point in others)])
            yield f"{note} (at {parameter} = {values})."


def _said(profile: Profile | None) -> tuple[str, ...]:
    return (*profile.notes, *profile.environment.warnings) if profile else ()
