"""The pages of several devices and of several workloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from advisor.profiles.schema import Device, Profile
from advisor.profiles.sweeps import DeviceComparison, WorkloadResults
from advisor.report import blocks, words
from advisor.report.answer import Answer, Answers
from advisor.report.answering import measured_answer, predicted_answer
from advisor.report.machine import pairs
from advisor.report.mixes import described
from advisor.report.page import MARKED, Page, Section, around, circumstances, filled, lead, legend
from advisor.report.recommendations import CONFIRM, failures, nothing, sweep_failures
from advisor.report.records import records_of, records_of_points
from advisor.report.sweep_verdicts import best_table, cell
from advisor.report.tables import gaps, memory_sentence
from advisor.strategies.mixes import numbered_alike
from advisor.verdicts.tracks import Stop, Track, measured_stop, one_for_all, predicted_stop, tracks

_TIMES = (
    "Time per frame with the interval of the median below; for predicted devices, the likely time and its "
    "range."
)
_GpuBasis = Literal["measured", "predicted"]


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


def devices_page(compared: DeviceComparison) -> Page:
    numbered = numbered_alike([member.profile for member in compared.members])
    members = tuple(replace(m, profile=p) for m, p in zip(compared.members, numbered, strict=True))
    compared = DeviceComparison(members)
    places = tuple(_places(compared))
    workload = numbered[0].workload
    parameters = pairs(workload.parameters)
    page = Page(
        "devices",
        "several devices",
        words.name(compared.workload),
        _devices_sections(compared, places, parameters),
        basis="predicted" if all(place.basis == "predicted" for place in places) else "measured",
        where=f"on {words.count(len(places), 'device')}",
        summary=words.line(workload.summary, 300),
        meta=(f"`{parameters}`",) * bool(parameters),
        records=records_of(*numbered),
    )
    return described(page, *numbered)


def _devices_sections(
    compared: DeviceComparison, places: Sequence[Place], parameters: str
) -> tuple[Section, ...]:
    notes = tuple(_notes(compared, places))
    by_basis = words.grouped(places, lambda place: place.basis).items()
    verdicts = tuple(_verdict(same, basis) for basis, same in by_basis)
    none = nothing("", "No device has figures: nothing was measured or predicted")
    answers = Answers(tuple(place.answer for place in places), verdicts or (none,), linked=False)
    origins = tuple(blocks.Fact(place.name, f"{place.basis} {place.origin}") for place in places)
    settings = (blocks.Fact("parameters", parameters),) * bool(parameters)
    facts = filled(blocks.Facts(origins + settings, forms="txt"), blocks.Banners("note", notes))
    has_bars = any(place.answer.bars for place in places)
    beside, each = "Side by side", "Device by device"
    return (
        lead(
            *around(blocks.Failures(tuple(_failed(compared))), answers, drawn=has_bars),
            blocks.Banners("note", notes, forms="html"),
        ),
        Section("times", beside, _times(places), nav=beside, closed=True, forms="html txt"),
        Section("devices", each, tuple(map(_card, places)), nav=each, closed=True, forms="html"),
        Section("each", each, facts, folded=True, forms="md txt"),
    )


def _failed(compared: DeviceComparison) -> Iterator[blocks.Failure]:
    for member in compared.members:
        for failure in failures(member.profile):
            yield replace(failure, headline=f"{failure.headline} (on {words.name(member.device)})")


def _places(compared: DeviceComparison) -> Iterator[Place]:
    """The measured devices, then each device that one of the profiles predicts for and none measured."""
    device_names = set()
    for member in compared.members:
        profile = member.profile
        if profile.device.kind == "cuda":
            device_names.add(member.device)
            stop, answer = measured_stop(member.device, profile), measured_answer(profile)
            yield Place(profile.device, "measured", profile, stop, answer, member.href)
    for member in compared.members:
        for prediction in member.profile.predictions:
            if prediction.device.name not in device_names:
                device_names.add(prediction.device.name)
                stop = predicted_stop(prediction.device.name, member.profile, prediction.device.name)
                answer = predicted_answer(member.profile, prediction)
                yield Place(prediction.device, "predicted", member.profile, stop, answer, member.href)


def _times(places: Sequence[Place]) -> tuple[blocks.Block, ...]:
    named = dict.fromkeys(strategy for place in places for strategy in place.stop.results)
    strategies = [s for s in named if any(place.stop.seconds(s) for place in places)]
    if not strategies:
        return (blocks.Prose("No strategy has figures on any device.", forms="html"),)
    caption = f"{_TIMES} {MARKED}"
    heads = tuple(blocks.Column(place.name, basis=place.basis) for place in places)
    rows = (blocks.Row(words.name(s), tuple(cell(place.stop, s) for place in places)) for s in strategies)
    table = blocks.Table("sweep devices", "strategy", heads, tuple(rows), caption, "Time per frame:")
    table = replace(table, brief_notes=False)
    return table, blocks.Prose(legend(table), forms="md txt")


def _card(place: Place) -> blocks.Group:
    parts = filled(
        blocks.Prose(f"{memory_sentence(place.device)} Profiled {place.origin}.".strip()),
        blocks.Items(gaps(place.stop.results.values()), f"Not {place.basis}"),
    )
    href = place.href if place.basis == "measured" else ""
    return blocks.Group("prediction", parts, place.name, place.basis, href)


def _verdict(places: Sequence[Place], basis: _GpuBasis) -> blocks.Verdict:
    """Each strategy with its devices, and what one for all of them costs where it is the worst choice."""
    who, names = words.count(len(places), f"{basis} device"), [place.name for place in places]
    known = [place.stop.optima for place in places if place.stop.known]
    if not known:
        return nothing(who, f"Nothing is recommended on {words.listing(names)}")
    choices = list(map(_choice, places))
    sentence = words.on_devices(zip(choices, names, strict=True), len(places))
    unsure = any(optima.likely or not optima.best for optima in known)
    tone: blocks.Tone = "inconclusive" if unsure else "clear" if len(set(choices)) == 1 else "tie"
    one = one_for_all([p.stop for p in places], max(p.profile.method.confidence for p in places))
    remark = words.one_for_all(one.strategy, one.cost, names[one.device]) if one else ""
    predicted = basis == "predicted"
    headline = f"Predicted: {sentence}" if predicted else sentence[:1].upper() + sentence[1:]
    step = "Run `advisor profile` on the device to confirm." * predicted
    return blocks.Verdict(basis, tone, who, headline, next_step=step, remark=remark)


def _choice(place: Place) -> str:
    """The device's recommendation, likely where its own verdict says so."""
    if chosen := place.stop.optima.chosen:
        return f"{'likely' if place.answer.likely else 'use'} {words.code(chosen)}"
    return "undecided" if place.stop.known else "no recommendation"


def _notes(compared: DeviceComparison, places: Sequence[Place]) -> Iterator[str]:
    profiles = {id(place.profile) for place in places}
    for member in compared.members:
        name = words.name(member.device)
        for note in (*member.profile.notes, *member.profile.environment.warnings):
            yield f"{name}: {words.line(note, 500)}"
        if id(member.profile) not in profiles:
            yield f"{name}: all devices in its profile are already shown from another profile."
    versions = {m.profile.tool.version for m in compared.members}
    if len(versions) > 1:
        yield f"The profiles were made by different versions of advisor: {words.listing(sorted(versions))}."


_APPLY = "Open a workload's report in the table for the code to change."


def workloads_page(results: WorkloadResults) -> Page:
    first = results.profiles[0] if results.profiles else None
    gpu_tracks = [track for track in tracks(results) if track.basis != "cpu"]
    predicted = all(track.basis == "predicted" for track in gpu_tracks)
    created = words.created(first.created) if first else ""
    notes = tuple(words.line(note, 500) for note in results.notes)
    inside = filled(best_table(results, gpu_tracks, "workload"), blocks.Failures(sweep_failures(results)))
    sections = (
        lead(blocks.Verdicts((_workloads_verdict(results, gpu_tracks),)), blocks.Banners("note", notes)),
        Section("workloads", "Recommended", inside, "Workloads", brief=True),
        circumstances(first, command=results.command, notes=notes),
    )
    basis: blocks.Basis = "nothing" if not results.has_figures else "predicted" if predicted else "measured"
    page = Page(
        "workloads",
        "several workloads",
        words.count(len(results.points), "workload"),
        sections,
        basis=basis,
        where=f"on {words.name(first.device.name)}" if first and not predicted else "",
        created=created,
        meta=(created,) * bool(created),
        records=records_of_points(results),
    )
    return described(page, *results.profiles)


def _workloads_verdict(results: WorkloadResults, gpu_tracks: list[Track]) -> blocks.Verdict:
    """The number of workloads with a recommendation, and the state of the others."""
    places = range(len(results.points))
    has_advice = [any(track.stops[i].optima.chosen for track in gpu_tracks) for i in places]
    ended = [
        "recommendation" if chosen else "without recommendation" if point.profile else point.status
        for chosen, point in zip(has_advice, results.points, strict=True)
    ]
    counts = words.grouped(sorted(ended, key=lambda state: state != "recommendation"), str)
    many = {
        state: words.count(len(same), state) if state == "recommendation" else f"{len(same)} {state}"
        for state, same in counts.items()
    }
    headline = f"{words.count(len(ended), 'workload')}: {', '.join(many.values())}"
    measured = bool(gpu_tracks) and gpu_tracks[0].basis == "measured"
    if not any(has_advice):
        return nothing("", headline)
    basis: _GpuBasis = "measured" if measured else "predicted"
    tone: blocks.Tone = "clear" if all(has_advice) else "inconclusive"
    return blocks.Verdict(basis, tone, "", headline, next_step=_APPLY if measured else CONFIRM)
