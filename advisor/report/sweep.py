"""The page over a sweep as data: every word and number ready, so that the templates only loop and print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from advisor import units
from advisor.devices.memory_class import EXPLAINED
from advisor.profiles.schema import Failed, Measured, Predicted, Profile
from advisor.profiles.sweeps import Point, Series
from advisor.report import words
from advisor.report.failures import FIGURES
from advisor.report.lines import Curve, LineChart, Sample, Style, line_chart, styles
from advisor.report.page import Fact, Failure, Item, Verdict
from advisor.report.sweep_failures import sweep_failures
from advisor.report.sweep_verdicts import at, sweep_verdict, value_text
from advisor.report.tables import together
from advisor.report.tracks import Basis, Stop, Track, tracks
from advisor.report.view import CPU_LABEL, Report, view
from advisor.version import __version__

_METHOD = ("Order", "Time", "Figures", "Set-up")
_WORKLOAD = ("File", "SHA-256", "Frame")


@dataclass(frozen=True)
class SweepCell:
    """A time with its interval or range. Rivals are what time does not tell from the best."""

    value: str
    note: str = ""
    mark: Literal["chosen", "rival", ""] = ""

    @property
    def sign(self) -> str:
        """The mark as a character."""
        return {"chosen": "→ ", "rival": "≈ "}.get(self.mark, "")


@dataclass(frozen=True)
class SweepRow:
    """One value; without cells the reason why it has no figures."""

    value: str
    href: str
    cells: tuple[SweepCell, ...]
    missing: str = ""


@dataclass(frozen=True)
class SweepDevice:
    """One device over all values: its lines, its table, and what has no figures."""

    device: str
    memory: str
    basis: Basis
    caption: str
    chart: LineChart | None
    strategies: tuple[str, ...]
    rows: tuple[SweepRow, ...]
    gaps: tuple[Item, ...]


@dataclass(frozen=True)
class SweepReport:
    """All of the page over a sweep. `predicted` says that no figure in it was measured on a GPU."""

    title: str
    workload: str
    summary: str
    parameter: str
    span: str
    fixed: str
    device: str
    predicted: bool
    created: str
    tool: str
    failures: tuple[Failure, ...]
    verdicts: tuple[Verdict, ...]
    next_step: str
    devices: tuple[SweepDevice, ...]
    missing: tuple[Item, ...]
    method: tuple[Fact, ...]
    workload_facts: tuple[Fact, ...]
    environment: tuple[Fact, ...]
    notes: tuple[str, ...]
    command: str


def sweep_view(series: Series) -> SweepReport:
    """Everything a series says, in words."""
    first = view(series.profiles[0]) if series.profiles else None
    parameter, found = words.name(series.parameter, 40), tracks(series)
    looks = styles(list(dict.fromkeys(name for track in found for name in track.strategies)))
    told = tuple(sweep_verdict(track, parameter) for track in found if track.basis != "cpu")
    workload, span = words.name(series.workload), _span(series, parameter)
    return SweepReport(
        title=f"{workload} over {span}",
        workload=workload,
        summary=first.summary if first else "",
        parameter=parameter,
        span=span,
        fixed=_fixed(series),
        device=first.device if first else "",
        predicted=first.predicted if first else False,
        created=first.created if first else "",
        tool=first.tool if first else f"advisor {__version__}",
        failures=sweep_failures(series, parameter),
        verdicts=told or (_nothing(parameter),),
        next_step=_next_step(told, first),
        devices=tuple(_device(t, series, parameter, looks, i) for i, t in enumerate(found, 1)),
        missing=tuple(_missing(series.points, parameter)),
        method=_method(series, first),
        workload_facts=tuple(e for e in first.workload_facts if e.label in _WORKLOAD) if first else (),
        environment=first.environment if first else (),
        notes=tuple(_notes(series, parameter)),
        command=words.line(series.command, 500),
    )


def _span(series: Series, parameter: str) -> str:
    values = [value_text(point.value) for point in series.points]
    if not series.ordered or len(values) < 3:
        return f"{parameter} = {words.listing(values)}"
    return f"{parameter} = {values[0]} to {values[-1]}"


def _fixed(series: Series) -> str:
    """The parameters that stay, of the first profile."""
    held = series.profiles[0].workload.parameters if series.profiles else {}
    others = [f"{words.name(k)} = {words.name(str(v))}" for k, v in held.items() if k != series.parameter]
    return ", ".join(others[:20])


def _nothing(parameter: str) -> Verdict:
    return Verdict(
        "nothing",
        "none",
        "",
        f"Nothing could be measured or predicted at any value of {parameter}",
        next_step="Mend what the rows name, then sweep again.",
    )


def _next_step(told: Sequence[Verdict], first: Report | None) -> str:
    """What predicted devices share; a change that was found has a next step of its own."""
    if first is None or not first.predicted or all(verdict.basis == "nothing" for verdict in told):
        return ""
    return "A prediction is a bet: run the same command on the device to be sure."


def _device(track: Track, series: Series, parameter: str, looks: dict[str, Style], index: int) -> SweepDevice:
    device = words.name(track.device.name)
    shown = track.with_figures
    return SweepDevice(
        device=device,
        memory=EXPLAINED[track.device.memory_class] if track.device.memory_class else "",
        basis=track.basis,
        caption=_caption(track, device),
        chart=_chart(track, parameter, looks, index) if shown else None,
        strategies=tuple(words.name(name) for name in shown),
        rows=tuple(_row(point, stop, shown) for point, stop in zip(series.points, track.stops, strict=True)),
        gaps=together(_gaps(track, parameter)),
    )


def _caption(track: Track, device: str) -> str:
    if track.basis == "predicted":
        return "Predicted time per frame: the likely value, beneath it the range."
    where = CPU_LABEL if track.basis == "cpu" else f"measured on {device}"
    return f"Time per frame, {where}; beneath it the interval of the median."


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
    )


def _sample(stop: Stop, strategy: str) -> Sample | None:
    figures = stop.seconds(strategy)
    return Sample(*figures, chosen=stop.standing.chosen == strategy) if figures else None


def _row(point: Point, stop: Stop, strategies: Sequence[str]) -> SweepRow:
    value = value_text(point.value)
    if point.profile is None:
        return SweepRow(value, "", (), f"{point.status}: {words.line(point.reason, 200)}")
    if not any(stop.seconds(strategy) for strategy in strategies):
        return SweepRow(value, point.href, (), "no figures")
    return SweepRow(value, point.href, tuple(cell(stop, strategy) for strategy in strategies))


def cell(stop: Stop, strategy: str) -> SweepCell:
    """The time of a strategy at one value or on one device, marked where it is the best there."""
    figures = stop.seconds(strategy)
    if figures is None:
        return SweepCell(_status(stop, strategy))
    middle, low, high = figures
    mark: Literal["chosen", "rival", ""] = "rival" if strategy in stop.standing.rivals else ""
    if strategy == stop.standing.chosen:
        mark = "chosen"
    return SweepCell(units.seconds(middle), words.seconds_between(low, high), mark)


def _status(stop: Stop, strategy: str) -> str:
    """failed, skipped or not predicted; a dash where the strategy was not asked for."""
    row = stop.results.get(strategy)
    if row is None:
        return "–"
    predicted = any(isinstance(result, Predicted) for result in stop.results.values())
    return "not predicted" if predicted and row.status == "skipped" else row.status


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
        values = words.listing([value_text(point.value) for point in where], limit=12)
        yield Item((f"{parameter} = {values}",), "not run", words.line(reason))


def _method(series: Series, first: Report | None) -> tuple[Fact, ...]:
    told = [entry for entry in first.method if entry.label in _METHOD] if first else []
    return (
        Fact("Command", words.line(series.command, 500)),
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


def _notes(series: Series, parameter: str) -> Iterator[str]:
    """Notes of the series, then those of all values; what differs in its figures only is told once."""
    yield from (words.line(note, 500) for note in series.notes)
    alike: dict[str, list[tuple[Point, str]]] = {}
    for point in series.points:
        for note in _said(point.profile):
            alike.setdefault(FIGURES.sub("0", note), []).append((point, note))
    for told in alike.values():
        where, note = value_text(told[0][0].value), words.line(told[0][1], 500).rstrip(".")
        others = [point for point, _ in told[1:]]
        if len({text for _, text in told}) > 1:
            more = words.count(len(others), "other value")
            yield f"{note} (at {parameter} = {where}; much the same at {more})."
        elif len(told) == len(series.profiles):
            yield f"{note}."
        else:
            values = words.listing([where, *(value_text(point.value) for point in others)])
            yield f"{note} (at {parameter} = {values})."


def _said(profile: Profile | None) -> tuple[str, ...]:
    return (*profile.notes, *profile.environment.warnings) if profile else ()
