"""Published measurements as cases the model can be asked about: a workload on a device, several strategies.

tests/data/published/cases.csv has a row for each figure: its case, and from which rows of the tables beside
it, where its source stands, it was computed. docs/accuracy.md says how.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import builders

from advisor.devices.catalogue import System, load, under
from advisor.devices.entries import CatalogueEntry
from advisor.model.machines import Machine
from advisor.model.predict import predict
from advisor.model.simulate import Simulated, simulate
from advisor.model.terms import Values, constant
from advisor.profiles.schema import AccessMode, Predicted, Profile, Side
from advisor.profiles.traces import StageWork
from advisor.strategies.registry import STRATEGIES, by_name

DATA = Path(__file__).parent / "data"

TO_DEVICE = ("to-device",)
TO_HOST = ("to-host",)
ALL = ("",)

VERIFY_SECONDS = 1.25e-9
"""An element of UnifiedMemoryPerf's verifyMatrixData, which its Makefile builds without -O: measured with
gcc -O0 over 16 MB on an EPYC."""


@dataclass(frozen=True)
class Figure:
    """One published figure: seconds, or relative to the others of its case.

    `exact`: of the strategy itself, not of a variant of it.
    """

    label: str
    strategy: str
    published: float
    exact: bool = True
    interval: tuple[float, float] | None = None
    """Of the figure itself, where we measured it."""

    @property
    def ends(self) -> tuple[float, float]:
        """What the figure may be: itself, or the ends of its interval."""
        return self.interval or (self.published, self.published)


@dataclass(frozen=True)
class Case:
    """One workload on one device. `parts`: which parts of a frame were timed, by the begin of their names."""

    name: str
    device: str
    profile: Profile
    figures: tuple[Figure, ...]
    source: str
    parts: tuple[str, ...] = ALL
    relative: bool = False
    first_frames: bool = False
    """Of a run of few frames."""
    system: System = "linux"

    @cached_property
    def entry(self) -> CatalogueEntry:
        """The device as the catalogue has it, with the operating system."""
        return under(load(self.device), self.system)


def _profile_of(
    size: float,
    stages: Mapping[str, Side],
    buffers: Mapping[str, Mapping[str, AccessMode]],
    passes: Mapping[str, float] | None = None,
    work: Iterable[StageWork] = (),
) -> Profile:
    """Stages over buffers of one size, and what each does with them."""
    ran = builders.workload(stages, buffers, size=int(size), dtype="float32")
    trace = builders.traced(ran, passes, work)
    return builders.cpu_profile(workload=ran, traffic=trace, results=(), predictions=(), advice=())


def predicted(profile: Profile, device: str) -> dict[str, Predicted]:
    """The predicted strategies on a device of tests/data/devices or of the catalogue."""
    path = DATA / "devices" / f"{device}.toml"
    results = predict(profile, load(str(path) if path.exists() else device)).results
    return {r.strategy: r for r in results if isinstance(r, Predicted)}


def simulated(
    profile: Profile, machine: Machine, *names: str, first_frames: bool = False
) -> dict[str, Simulated]:
    """The strategies that the device can do, of these names or of all."""
    chosen = [by_name(name) for name in names] or STRATEGIES
    outcomes = simulate(profile.workload, profile.traffic, machine, chosen, first_frames=first_frames)
    return {name: each for name, each in outcomes.items() if isinstance(each, Simulated)}


def device_path(row: Predicted) -> float:
    """The likely frame without its host stages."""
    return sum(seconds for name, seconds in row.terms.items() if not name.startswith("host:"))


def table(name: str) -> list[dict[str, str]]:
    """A table of tests/data/published."""
    with (DATA / "published" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


# Workloads


def matrix_product(n: int) -> Profile:
    """UnifiedMemoryPerf: copies in two n x n float32 inputs, multiplies in tiles of 32, checks the result."""
    size, inputs = 4 * n * n, {"fill": "out", "product": "in"}
    return _profile_of(
        size,
        {"fill": "host", "product": "device", "verify": "host"},
        {"a": inputs, "b": inputs, "c": {"product": "out", "verify": "in"}},
        {"product": n / 32},
        (
            StageWork(stage="fill", temporary_bytes=2 * size),
            StageWork(stage="product", flops=2.0 * n**3),
            StageWork(stage="verify", temporary_bytes=size, seconds=VERIFY_SECONDS * n * n),
        ),
    )


def vector(size: float, *, in_place: bool = False) -> Profile:
    """c = a op b, or b = a op b; the inputs written by the host, everything read by it afterwards."""
    inputs = {"init": "out", "compute": "in"}
    read, result = {**inputs, "access": "in"}, {"compute": "out", "access": "in"}
    buffers = {"a": read, "b": read, "c": result}
    if in_place:
        buffers = {"a": inputs, "b": {"init": "out", "compute": "inout", "access": "in"}}
    return _profile_of(size, {"init": "host", "compute": "device", "access": "host"}, buffers)


def vector_streamed(size: float) -> Profile:
    """The same with a result that stays on the device."""
    inputs = {"init": "out", "compute": "in"}
    buffers = {"a": inputs, "b": inputs, "c": {"compute": "out"}}
    return _profile_of(size, {"init": "host", "compute": "device"}, buffers)


def touched(
    size: float, mode: AccessMode, passes: float | None = None, access: StageWork | None = None
) -> Profile:
    """The host writes a buffer, one kernel reads, writes or changes it in place, the host reads it."""
    buffers = {"a": {"init": "out", "kernel": mode, "access": "in"}}
    stages = {"init": "host", "kernel": "device", "access": "host"}
    declared = {"kernel": passes} if passes else {}
    return _profile_of(size, stages, buffers, declared, [access] if access else [])


def row_of_a_state(row: float, size: float) -> Profile:
    """The host writes one row of a state that a kernel reads as a whole."""
    buffers = {"state": {"write": "out", "read": "in"}}
    made = _profile_of(size, {"write": "host", "read": "device"}, buffers)
    written = made.traffic.traffic[0].model_copy(update={"bytes_read": 0.0, "bytes_written": row})
    traffic = made.traffic.model_copy(update={"traffic": (written, *made.traffic.traffic[1:])})
    return made.model_copy(update={"traffic": traffic})


def timed(simulated: Simulated, case: Case) -> Values:
    """What was timed of a frame; of a whole one what a verdict counts: begin to end where frames overlap."""
    if case.parts == ALL:
        return simulated.counted("time")
    chosen = (seconds for name, seconds in simulated.parts.items() if name.startswith(case.parts))
    return sum(chosen, constant(0.0))


# The cases

WORKLOADS: dict[str, Callable[[float], Profile]] = {
    "matrix_product": lambda n: matrix_product(int(n)),
    "vector": vector,
    "vector_in_place": lambda size: vector(size, in_place=True),
    "vector_streamed": vector_streamed,
}


def cases() -> tuple[Case, ...]:
    return tuple(
        _case(name, list(rows)) for name, rows in groupby(table("cases.csv"), key=lambda row: row["case"])
    )


def _case(name: str, rows: list[dict[str, str]]) -> Case:
    row = rows[0]
    size, seconds = float(row["size"]), row["access_seconds"]
    if row["workload"] != "touched":
        profile = WORKLOADS[row["workload"]](size)
    else:
        access = StageWork(stage="access", seconds=float(seconds)) if seconds else None
        passes = float(row["passes"]) if row["passes"] else None
        profile = touched(size, row["mode"], passes, access)  # type: ignore[arg-type]
    return Case(
        name,
        str(DATA / row["device"]) if row["device"].endswith(".toml") else row["device"],
        profile,
        tuple(
            Figure(
                f["published_as"] or f["strategy"], f["strategy"], float(f["value"]), exact=not f["variant"]
            )
            for f in rows
        ),
        row["source"],
        tuple(row["parts"].split()) or ALL,
        relative=bool(row["relative"]),
        first_frames=bool(row["first_frames"]),
        system=row["system"],  # type: ignore[arg-type]
    )
