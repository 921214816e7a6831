"""The pages of several devices, of several workloads, and of a fleet: what to use where, and its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from advisor import stats, units
from advisor.profiles.conclusions import UNDECIDED
from advisor.profiles.fleets import FleetRecord
from advisor.profiles.fleets import Row as FleetRow
from advisor.profiles.schema import Device, Predicted, Profile
from advisor.profiles.sweeps import Point, ProfileSet, link
from advisor.report import blocks, words
from advisor.report.answer import Answer, Answers
from advisor.report.answering import measured_answer, predicted_answer
from advisor.report.blocks import NOTHING, Column, Row, Table, TableCell, Verdict, columns, row
from advisor.report.machine import pairs
from advisor.report.page import MARKED, Page, Section, around, circumstances, filled, lead, legend
from advisor.report.recommendations import (
    CONFIRM,
    UNSURE,
    failures,
    nothing,
    on_device,
    sweep_failures,
    uncapitalised,
    with_gain,
)
from advisor.report.records import Record
from advisor.report.tables import gaps, memory_sentence
from advisor.strategies.registry import BASELINE
from advisor.verdicts.tracks import (
    OneForAll,
    Stop,
    Track,
    least_cost,
    measured_stop,
    one_for_all,
    predicted_stop,
    tracks,
)

_GpuBasis = Literal["measured", "predicted"]
_TIMES = (
    "Time per frame with the interval of the median below; for predicted devices, the likely time and its "
    "range."
)
_CONFIRM = "Run `advisor profile` on the device to confirm."
_APPLY = "Open a {}'s report in the table for the code to change."


@dataclass(frozen=True)
class Place:
    """One device: measured there, or predicted for it in the profile of another machine."""

    device: Device
    basis: _GpuBasis
    profile: Profile
    stop: Stop
    answer: Answer
    href: str = ""

    @property
    def name(self) -> str:
        return words.name(self.device.name)

    @property
    def origin(self) -> str:
        here = f"from the profile of {words.name(self.profile.device.name)}, " * (self.basis == "predicted")
        return f"{here}{words.created(self.profile.created)}"

    @property
    def choice(self) -> str:
        """The device's recommendation, likely where its own verdict says so."""
        if chosen := self.stop.optima.chosen:
            return f"{'likely' if self.answer.likely else 'use'} {words.code(chosen)}"
        return "undecided" if self.stop.known else "no recommendation"


def devices_page(compared: ProfileSet) -> Page:
    workload, places = compared.profiles[0].workload, tuple(_places(compared))
    parameters = pairs(workload.parameters)
    beside, each = "Side by side", "Device by device"
    by_basis = words.grouped(places, lambda place: place.basis).items()
    none = nothing("", "No device has figures: nothing was measured or predicted")
    verdicts = tuple(_places_verdict(same, basis) for basis, same in by_basis) or (none,)
    answers = Answers(tuple(place.answer for place in places), verdicts, linked=False)
    failed = tuple(f for p in compared.profiles for f in on_device(failures(p), p.device.name))
    drawn = any(place.answer.bars for place in places)
    notes = blocks.Banners("note", tuple(_notes(compared, places)))
    facts = [blocks.Fact(place.name, f"{place.basis} {place.origin}") for place in places]
    facts += [blocks.Fact("parameters", parameters)] * bool(parameters)
    origins = filled(blocks.Facts(tuple(facts), forms="txt"), notes)
    cards = []
    for place in places:
        about = blocks.Prose(f"{memory_sentence(place.device)} Profiled {place.origin}.".strip())
        missing = blocks.Items(gaps(place.stop.results.values()), f"Not {place.basis}")
        inside = filled(about, missing)
        cards.append(blocks.Group("prediction", inside, place.name, place.basis, place.href))
    sections = (
        lead(*around(blocks.Failures(failed), answers, drawn=drawn), replace(notes, forms="html")),
        Section("times", beside, _times(places), nav=beside, closed=True, forms="html txt"),
        Section("devices", each, tuple(cards), nav=each, closed=True, forms="html"),
        Section("each", each, origins, folded=True, forms="md txt"),
    )
    return Page(
        "devices",
        "several devices",
        words.name(compared.workload),
        sections,
        basis=blocks.basis_of([place.basis for place in places]),
        where=f"on {words.count(len(places), 'device')}",
        summary=words.line(workload.summary, 300),
        meta=(f"`{parameters}`",) * bool(parameters),
    )


def _places(compared: ProfileSet) -> Iterator[Place]:
    """The measured devices, then each device that one of the profiles predicts for and none measured."""
    device_names = set()
    for point in compared.points:
        if (profile := point.profile) and profile.device.kind == "cuda":
            device_names.add(profile.device.name)
            stop, answer = measured_stop(point.value, profile), measured_answer(profile)
            yield Place(profile.device, "measured", profile, stop, answer, point.href)
    for profile in compared.profiles:
        for prediction in profile.predictions:
            if (name := prediction.device.name) not in device_names:
                device_names.add(name)
                stop, answer = predicted_stop(name, profile, name), predicted_answer(profile, prediction)
                yield Place(prediction.device, "predicted", profile, stop, answer)


def _places_verdict(places: Sequence[Place], basis: _GpuBasis) -> Verdict:
    who, names = words.count(len(places), f"{basis} device"), [place.name for place in places]
    known = [place.stop.optima for place in places if place.stop.known]
    if not known:
        return nothing(who, f"Nothing is recommended on {words.listing(names)}")
    unsure = any(optima.likely or not optima.best for optima in known)
    one, profiles = None, [place.profile for place in places]
    if all(profile.preferences.by_time for profile in profiles):
        one = one_for_all([p.stop for p in places], max(profile.method.confidence for profile in profiles))
    remark = words.one_for_all(one.strategy, one.cost, names[one.device]) if one else ""
    step, choices = _CONFIRM * (basis == "predicted"), [(place.choice, place.name) for place in places]
    return replace(_choices(basis, choices, len(places), remark, step, unsure=unsure), device=who)


def _choices(
    basis: _GpuBasis, choices: Sequence[tuple[str, str]], count: int, remark: str, step: str, *, unsure: bool
) -> Verdict:
    """The verdict on `count` devices: each choice with the devices that it is for."""
    alike = len({choice for choice, _ in choices}) == 1
    headline = words.stated(words.on_devices(choices, count), basis == "predicted")
    tone: blocks.Tone = "inconclusive" if unsure else "clear" if alike else "tie"
    return Verdict(basis, tone, "", headline, next_step=step, remark=remark)


def _times(places: Sequence[Place]) -> tuple[blocks.Block, ...]:
    named = dict.fromkeys(strategy for place in places for strategy in place.stop.results)
    strategies = [s for s in named if any(place.stop.seconds(s) for place in places)]
    if not strategies:
        return (blocks.Prose("No strategy has figures on any device.", forms="html"),)
    heads = tuple(Column(place.name, basis=place.basis) for place in places)
    rows = tuple(row(words.name(s), *(cell(place.stop, s) for place in places)) for s in strategies)
    caption, title = f"{_TIMES} {MARKED}", "Time per frame:"
    table = Table("sweep devices", "strategy", heads, rows, caption, title, brief_notes=False)
    return table, blocks.Prose(legend(table), forms="md txt")


def cell(stop: Stop, strategy: str) -> TableCell:
    """The time of a strategy at one value or on one device, marked where it is the best there.

    Else failed, skipped or not predicted; a dash where the strategy was not asked for.
    """
    figures, result = stop.seconds(strategy), stop.results.get(strategy)
    if result is None:
        return TableCell(NOTHING)
    if figures is None:
        predicted = any(isinstance(each, Predicted) for each in stop.results.values())
        return TableCell("not predicted" if predicted and result.status == "skipped" else result.status)
    middle, low, high = figures
    mark = "rival" if strategy in stop.optima.rivals else ""
    if strategy == stop.optima.chosen:
        mark = "chosen"
    return TableCell(units.seconds(middle), words.seconds_between(low, high) * (low < high), mark=mark)


def _notes(compared: ProfileSet, places: Sequence[Place]) -> Iterator[str]:
    shown = {id(place.profile) for place in places}
    for profile in compared.profiles:
        name = words.name(profile.device.name)
        for note in (*profile.notes, *profile.environment.warnings):
            yield f"{name}: {words.line(note, 500)}"
        if id(profile) not in shown:
            all_shown = "all devices in its profile are already shown from another profile"
            yield f"{name}: {all_shown if profile.predictions else 'its profile names no GPU'}."
    versions = {profile.tool.version for profile in compared.profiles}
    if len(versions) > 1:
        yield f"The profiles were made by different versions of advisor: {words.listing(sorted(versions))}."


def workloads_page(results: ProfileSet) -> Page:
    """How many workloads have a recommendation, the state of the others, and what to use for each."""
    first = results.profiles[0] if results.profiles else None
    gpu_tracks = [track for track in tracks(results.points) if track.basis != "cpu"]
    created = words.created(first.created) if first else ""
    ended: list[str] = []
    for i, point in enumerate(results.points):
        state = "without recommendation" if point.profile else point.status
        ended.append("" if any(track.stops[i].optima.chosen for track in gpu_tracks) else state)
    states = [words.count(ended.count(""), "recommendation")] * ("" in ended)
    states += [f"{ended.count(state)} {state}" for state in dict.fromkeys(filter(None, ended))]
    verdict = nothing("", f"{words.count(len(ended), 'workload')}: {', '.join(states)}")
    basis = blocks.basis_of([track.basis for track in gpu_tracks]) if first else "measured"
    if "" in ended:
        step = _APPLY.format("workload") if basis == "measured" else CONFIRM
        tone: blocks.Tone = "inconclusive" if any(ended) else "clear"
        verdict = replace(verdict, basis=basis, tone=tone, next_step=step)
    table = best_table(results, gpu_tracks, "workload") if gpu_tracks else None
    inside = filled(table, blocks.Failures(sweep_failures(results)))
    sections = (
        lead(blocks.Verdicts((verdict,))),
        Section("workloads", "Recommended", inside, "Workloads", brief=True),
        circumstances(first, command=results.command),
    )
    return Page(
        "workloads",
        "several workloads",
        words.count(len(results.points), "workload"),
        sections,
        basis=basis,
        where=f"on {words.name(first.device.name)}" if first and basis == "measured" else "",
        created=created,
        meta=(created,) * bool(created),
    )


def best_table(results: ProfileSet, devices: Sequence[Track], names: str) -> Table:
    """The recommended strategy at each value, or of each workload, on each device, and its gain."""
    heads = tuple(
        Column(words.name(t.device.name), figures=False, notes="interval", basis=t.basis) for t in devices
    )
    by_value = words.grouped(results.points, lambda point: repr(point.value))
    columns_of_cells = [_advised(track) for track in devices]
    cells = ([column.get(value, NOTHING) for column in columns_of_cells] for value in by_value)
    alone = len(by_value) == len(results.points)  # else a value has a report for each device
    points = [replace(same[0], href=same[0].href if alone else "") for same in by_value.values()]
    caption = "The recommended strategy, and its gain over the baseline."
    title = "Recommended, with the gain over the baseline:"
    rows = tuple(point_rows(points, cells))
    table = Table("sweep best", names, heads, rows, caption, title, left_out="device", whole=True)
    return replace(table, codes=results.kind == "workloads")


def _advised(track: Track) -> dict[str, TableCell]:
    """What to use at each value that has a profile, by the representation of the value."""
    cells = {}
    for point, stop in zip(track.points, track.stops, strict=True):
        if not point.profile:
            continue
        cell = TableCell("undecided" if stop.optima.rivals else NOTHING)
        by_name = {prediction.device.name: prediction for prediction in point.profile.predictions}
        source = point.profile if track.basis == "measured" else by_name.get(track.device.name)
        advice = source and source.recommendation
        if stop.optima.chosen and advice:
            likely, name = "likely " * stop.optima.likely, words.name(stop.optima.chosen)
            advice = with_gain(advice, point.profile) if track.basis == "measured" else advice
            gain = f", {units.ratio(advice.speedup)}" if advice.speedup else ""
            between = words.gain_between(*advice.interval) if advice.interval else ""
            cell = TableCell(f"{likely}{name}{gain}", between)
            if advice.strategy == BASELINE:
                cell = TableCell(f"{likely}keep {BASELINE}")
        cells[repr(point.value)] = cell
    return cells


def point_rows(points: Sequence[Point], cells: Iterable[Sequence[str | TableCell]]) -> Iterator[Row]:
    """Rows of values, or workloads: linked to their reports. The page's failures say why one failed."""
    for point, values in zip(points, cells, strict=True):
        if point.profile:
            yield row(words.value(point.value), *values, href=point.href)
        else:
            why = f": {words.line(point.reason, 200)}" * (point.status == "not run")
            yield Row(words.value(point.value), (), missing=f"{point.status}{why}")


_VERDICTS = {"near": "none clearly faster", "open": "undecided", "untrusted": "not trusted"}
_WORKER = "Start a worker on a machine with a GPU to confirm."
_LONGER = "Run again with a larger --max-seconds: a verdict is undecided."
_COSTS = " Last column: the time of the one strategy for all, as a multiple of the device's best time."


def fleet_page(record: FleetRecord) -> Page:
    """Made of rows, not of profiles, so that a thousand devices take a second."""
    done = [row for row in record.rows if row.status == "profiled"]
    missing = [row for row in record.rows if row.status != "profiled"]
    names = dict.fromkeys(row.device for row in record.rows if row.status != "unfit")
    predicted = bool(done) and all(row.basis == "predicted" for row in done)
    by_value = words.grouped(done, lambda row: row.value)
    none = nothing("", "No device was profiled", "", "Fix what is named below and run again.", UNSURE)
    verdicts = tuple(
        replace(_fleet_verdict(rows), device=words.name(v) if v else "") for v, rows in by_value.items()
    )
    notes = blocks.Banners("note", tuple(words.line(note, 500) for note in record.notes))
    table, gone = filled(_fleet_table(record, done) if done else None), "Without a result"
    items = []
    alike = words.grouped(missing, lambda row: (row.status, row.reason, row.next_step))
    for (status, reason, step), same in alike.items():
        devices = tuple(words.name(f"{row.device} {row.value}".strip()) for row in same)
        text = words.line(f"{reason}. {step}" if step else reason, 500)
        items.append(blocks.Item(devices, "cannot take part" if status == "unfit" else status, text))
    without_result = filled(blocks.Items(tuple(items), label=f"{gone}:", most=20))
    sections = (
        lead(blocks.Verdicts(verdicts or (none,), named=bool(record.parameter)), notes),
        Section("devices", "Device by device", table, nav="Devices", brief=True),
        Section("missing", gone, without_result, nav=gone, brief=True),
    )
    return Page(
        "fleet",
        "fleet",
        words.name(record.workload),
        sections,
        where=f"on {words.count(len(names), 'device')}",
        basis="nothing" if not done else "predicted" if predicted else "measured",
        created=words.created(record.created),
        records=tuple(map(_record, record.rows)),
    )


def _record(row: FleetRow) -> Record:
    """The measured choice, or that nothing was measured; predictions are in the files of each device."""
    figures = row.model_dump(include={"device", "memory_class", "value", "status", "strategy", "verdict"})
    return {**figures, "kind": row.basis, "task_seconds": row.seconds, "reason": row.reason or None}


def _fleet_verdict(rows: Sequence[FleetRow]) -> Verdict:
    """The measured choices; without a GPU those predicted in the first profile."""
    chosen = [row for row in rows if row.strategy]
    if chosen:
        undecided = sum(row.verdict in UNDECIDED for row in chosen)
        one, measured = least(rows), [row for row in rows if row.costs]
        costs = words.one_for_all(one.strategy, one.cost, measured[one.device].device) if one else ""
        sure = f"Settled on {len(chosen) - undecided} of {words.count(len(rows), 'device')}."
        step = _LONGER if undecided else _APPLY.format("device")
        choices = []
        for row in chosen:
            name = words.code(str(row.strategy))
            phrase = f"{name} leads" if row.verdict in UNDECIDED else f"use {name}"
            choices.append((phrase, words.name(row.device)))
        so_far = f"So far: {uncapitalised(costs)}" if costs and undecided else costs
        remark = ". ".join(filter(None, (so_far, sure)))
        return _choices("measured", choices, len(rows), remark, step, unsure=undecided > 0)
    if any(row.basis == "measured" for row in rows):
        step = "Open the reports in the table: they say why."
        return Verdict("measured", "none", "", "No strategy is recommended", next_step=step)
    guesses = [
        (f"{'likely' if one.verdict == 'open' else 'use'} {words.code(one.strategy)}", words.name(one.device))
        for one in rows[0].predicted
    ]
    if not guesses:
        return nothing("", "No strategy could be predicted", "", _WORKER, UNSURE)
    remark = "Confidence: none. Nothing was measured on a GPU."
    return _choices("predicted", guesses, 0, remark, _WORKER, unsure=True)


def least(rows: Sequence[FleetRow]) -> OneForAll | None:
    """The one strategy for all measured devices that costs the least where it is the worst choice.

    Without intervals, which take long for a thousand devices; their own reports have them.
    """
    return least_cost(
        [{s: stats.Ratio(cost, cost, cost) for s, cost in r.costs.items()} for r in rows if r.costs]
    )


def _fleet_table(record: FleetRecord, done: Sequence[FleetRow]) -> Table:
    """A row for each device and value: the strategy, and what the one for all costs there."""
    best = {value: least(rows) for value, rows in words.grouped(done, lambda row: row.value).items()}
    costs = [row.costs.get(one.strategy) if (one := best[row.value]) else None for row in done]
    costed, rows = any(costs), []
    swept = [words.name(record.parameter)] if record.parameter else []
    heads = columns(*swept, "strategy", "verdict", figures=False)
    heads += (Column("one strategy for all", brief="one for all"),) * costed
    for each, cost in zip(done, costs, strict=True):
        value = [words.name(each.value.partition("=")[2])] * len(swept)
        basis = each.basis if each.predicted else NOTHING
        href = link(f"{each.folder}/report.html") if each.folder else ""
        guesses = words.on_devices(
            (words.name(one.strategy), words.name(one.device)) for one in each.predicted
        )
        strategy = (
            TableCell(words.name(each.strategy), mark="chosen") if each.strategy else guesses or each.basis
        )
        verdict = _VERDICTS.get(each.verdict, each.verdict) if each.verdict else basis
        slower = "slower" * bool(cost and cost > 1 + stats.EQUIVALENCE)
        for_all = TableCell(units.ratio(cost) if cost else NOTHING, sort=cost, mark=slower)
        cells = (*value, strategy, verdict, *[for_all] * costed)
        rows.append(row(words.name(each.device), *cells, href=href, rank=-(cost or 0.0)))
    caption = f"The recommended strategy of each device.{_COSTS * costed}"
    table = Table("fleet", "device", heads, tuple(rows), caption, "Devices:", codes=False)
    return replace(table, sortable=True)
