"""The page of several workloads, run one after the other: what each should use, a link to its report."""

from __future__ import annotations

from collections.abc import Iterator

from advisor import units
from advisor.profiles.sweeps import Point, WorkloadResults
from advisor.report import blocks, words
from advisor.report.combining import advised, document
from advisor.report.machine import environment
from advisor.report.mixes import described
from advisor.report.page import Page, Section, circumstances, filled, lead
from advisor.report.recommendations import CONFIRM, sweep_failures, with_gain
from advisor.report.records import records_of
from advisor.strategies.registry import BASELINE
from advisor.verdicts.tracks import Stop, Track, tracks
from advisor.version import __version__

_APPLY = "Open a workload's report in the table for the code to change."


def workloads_page(results: WorkloadResults) -> Page:
    first = results.profiles[0] if results.profiles else None
    gpu_tracks = [track for track in tracks(results) if track.basis != "cpu"]
    predicted = all(track.basis == "predicted" for track in gpu_tracks)
    created = words.created(first.created) if first else ""
    notes = tuple(words.line(note, 500) for note in results.notes)
    failures = blocks.Failures(sweep_failures(results))
    page = Page(
        kind="workloads",
        brand="several workloads",
        name=words.count(len(results.points), "workload"),
        where=f"on {words.name(first.device.name)}" if first and not predicted else "",
        basis="nothing" if not results.has_figures else "predicted" if predicted else "measured",
        meta=(created,) * bool(created),
        sections=(
            lead(blocks.Verdicts((_verdict(results, gpu_tracks),)), blocks.Banners("note", notes)),
            Section(
                "workloads",
                "Recommended",
                filled(_table(results, gpu_tracks), failures),
                "Workloads",
                brief=True,
            ),
            circumstances(
                method=(blocks.Fact("Command", words.line(results.command, 500)),),
                machine=environment(first) if first else (),
                facts=(blocks.Fact("command", words.code(results.command, 500) if results.command else ""),),
                notes=notes,
                origin=f"advisor {__version__}, {created}".rstrip(", "),
            ),
        ),
        created=created,
        records=records_of(*results.profiles),
        document=document(results, gpu_tracks),
    )
    return described(page, *results.profiles)


def _verdict(results: WorkloadResults, gpu_tracks: list[Track]) -> blocks.Verdict:
    """The number of workloads with a recommendation, and the state of the others."""
    has_advice = [
        any(track.stops[i].optima.chosen for track in gpu_tracks) for i in range(len(results.points))
    ]
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
    return blocks.Verdict(
        "nothing" if not any(has_advice) else "measured" if measured else "predicted",
        "clear" if all(has_advice) else "inconclusive" if any(has_advice) else "none",
        "",
        headline,
        next_step=(_APPLY if measured else CONFIRM) * any(has_advice),
    )


def _table(results: WorkloadResults, gpu_tracks: list[Track]) -> blocks.Table:
    columns = (
        blocks.Column(words.name(t.device.name), figures=False, notes="interval", basis=t.basis)
        for t in gpu_tracks
    )
    return blocks.Table(
        "sweep best",
        "workload",
        tuple(columns),
        tuple(_rows(results, gpu_tracks)),
        caption="The recommended strategy of each workload, and its gain over the baseline.",
        title="Recommended, with the gain over the baseline:",
        identifier="workloads",
        left_out="device",
        whole=True,
    )


def _rows(results: WorkloadResults, gpu_tracks: list[Track]) -> Iterator[blocks.Row]:
    for i, point in enumerate(results.points):
        cells = tuple(_cell(point, track.stops[i], track) for track in gpu_tracks)
        missing = "" if point.profile else f"{point.status}: {words.line(point.reason, 200)}"
        yield blocks.Row(
            words.value(point.value), cells * bool(point.profile), href=point.href, missing=missing
        )


def _cell(point: Point, stop: Stop, track: Track) -> blocks.TableCell:
    advice = advised(point.profile, track.device.name, track.basis)
    if advice and point.profile and track.basis == "measured":
        advice = with_gain(advice, point.profile)
    if not stop.optima.chosen or advice is None:
        return blocks.TableCell("undecided" if stop.optima.rivals else blocks.NOTHING)
    if advice.strategy == BASELINE:
        return blocks.TableCell(f"{'likely ' * stop.optima.likely}keep {BASELINE}")
    gain = f", {units.ratio(advice.speedup)}" if advice.speedup else ""
    name = f"{'likely ' * stop.optima.likely}{words.name(stop.optima.chosen)}"
    return blocks.TableCell(name + gain, words.gain_between(*advice.interval) if advice.interval else "")
