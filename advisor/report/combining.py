"""The rows of a page of several profiles, for its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.profiles.combined import Combined, CombinedRow, Time
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import Point, SweepResults, WorkloadResults
from advisor.verdicts.tracks import Basis, Stop, Track


def document(results: SweepResults, tracks: Sequence[Track]) -> str:
    """sweep.json or workloads.json: each value or workload on each device of its page."""
    workloads = isinstance(results, WorkloadResults)
    swept = () if workloads else results.grid or (results.parameter,)
    gpu_tracks = [track for track in tracks if track.basis != "cpu"]
    rows = [
        row for i, point in enumerate(results.points) for row in _rows(point, i, results, swept, gpu_tracks)
    ]
    return Combined(
        kind="workloads" if workloads else "sweep",
        command=results.command,
        swept=swept,
        notes=results.notes,
        rows=tuple(rows),
    ).to_json()


def _rows(
    point: Point, index: int, results: SweepResults, swept: Sequence[str], tracks: Sequence[Track]
) -> Iterator[CombinedRow]:
    """A row for each device that has a result there; one without a device where none has."""
    at = dict(zip(swept, point.cell or (point.value,), strict=True)) if swept else {}
    bare = CombinedRow(
        workload=results.workload if swept else str(point.value),
        parameters={**(point.profile.workload.parameters if point.profile else {}), **at},
        status=point.status,
        reason=point.reason,
        report=point.href,
    )
    there = [track for track in tracks if track.stops[index].results]
    for track in there:
        yield on_device(bare, track.device.name, track.basis, track.stops[index], point.profile)
    if not there:
        yield bare


def on_device(
    bare: CombinedRow, device: str, basis: Basis, stop: Stop, profile: Profile | None
) -> CombinedRow:
    """The row with the verdict and the times that its page shows for that device."""
    figures = {name: seconds for name in stop.results if (seconds := stop.seconds(name))}
    return bare.model_copy(
        update={
            "device": device,
            "kind": basis,
            "recommendation": advised(profile, device, basis),
            "times": {
                name: Time(seconds=middle, interval_seconds=(low, high))
                for name, (middle, low, high) in figures.items()
            },
        }
    )


def advised(profile: Profile | None, device: str, basis: Basis) -> Recommendation | None:
    """The recommendation of a profile for the device that it measured, or for one that it predicts."""
    if profile is None or basis == "measured":
        return profile.recommendation if profile else None
    return next((p.recommendation for p in profile.predictions if p.device.name == device), None)
