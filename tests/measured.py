"""Our own measurements as cases the model can be asked about: extracts of profiles in tests/data/measured.

`python -m tests.measured DEVICE PROFILE...` writes an extract for each profile that `advisor profile` wrote
on a machine of which tests/data/devices has the calibrated entry DEVICE. Beside the medians only what a
prediction without the GPU would know goes in: the workload and its CPU run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import builders
from published_cases import DATA, Case, Figure

from advisor.model.simulate import with_declared
from advisor.profiles.base import Record
from advisor.profiles.reading import load
from advisor.profiles.schema import Profile, Trace, WorkloadRecord

MEASURED = DATA / "measured"


class Row(Record):
    """A strategy's median time per frame, the interval of that median, and the latency if frames overlap.

    In seconds.
    """

    median: float
    low: float
    high: float
    latency_seconds: float | None = None

    def figure(self, strategy: str) -> Figure:
        """As the verdict counts it by default: begin to end, with the interval scaled (scores.py)."""
        seconds = self.latency_seconds or self.median
        longer = seconds / self.median
        return Figure(strategy, strategy, seconds, interval=(self.low * longer, self.high * longer))


class Extract(Record):
    """What is kept of a profile."""

    name: str
    device: str
    measured: str
    workload: WorkloadRecord
    traffic: Trace
    rows: dict[str, Row]


def extract(profile: Profile, device: str) -> Extract:
    """The extract of a profile; `device` is the stem of its machine's calibrated entry."""
    workload = profile.workload
    known = with_declared(workload, profile.traffic)
    assert not isinstance(known, str), known
    parameters = ", ".join(f"{key} = {value}" for key, value in workload.parameters.items())
    return Extract(
        name=f"{workload.name}, {parameters}",
        device=device,
        measured=f"{profile.device.name}, {profile.created[:10]}, advisor {profile.tool.version}, "
        f"{profile.method.rounds} rounds",
        workload=workload,
        traffic=known,
        rows={
            name: Row(
                median=row.median_seconds,
                low=row.interval_seconds[0],
                high=row.interval_seconds[1],
                latency_seconds=row.latency_seconds,
            )
            for name, row in profile.measured().items()
        },
    )


def extracts() -> tuple[Extract, ...]:
    paths = sorted(MEASURED.glob("*.json"))
    return tuple(Extract.model_validate_json(path.read_text(encoding="utf-8")) for path in paths)


def cases(device: str | None = None) -> Iterator[Case]:
    """The same as cases, on the calibrated entry or on another device: the data sheet's, say."""
    for found in extracts():
        figures = tuple(row.figure(name) for name, row in found.rows.items())
        profile = builders.cpu_profile(
            results=(), workload=found.workload, traffic=found.traffic, predictions=(), advice=()
        )
        entry = device or str(DATA / "devices" / f"{found.device}.toml")
        yield Case(found.name, entry, profile, figures, found.measured)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device")
    parser.add_argument("profiles", nargs="+", type=Path)
    arguments = parser.parse_args()
    MEASURED.mkdir(exist_ok=True)
    for path in arguments.profiles:
        found = extract(load(path), arguments.device)
        stem = "-".join((found.workload.name, *(str(v) for v in found.workload.parameters.values())))
        target = MEASURED / f"{arguments.device}-{stem}.json"
        target.write_text(found.model_dump_json(indent=1, exclude_defaults=True) + "\n", encoding="utf-8")
        print(target)


if __name__ == "__main__":
    main()
