"""The devices of the workers' machines, the reasons why one cannot be used, and the messages between the
command and a worker: JSON, checked where it arrives, on either side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import Field

from advisor.devices.entries import EXPLAINED
from advisor.errors import NothingMeasured, UsageError, nearest
from advisor.extras import cupy_package
from advisor.profiles.base import Record, optional, table
from advisor.profiles.files import LARGEST
from advisor.profiles.fleets import Row
from advisor.profiles.schema import Kind, MemoryClass
from advisor.version import __version__
from advisor.workloads.parameters import parse_assignments

Name = Annotated[str, Field(max_length=300)]
Text = Annotated[str, Field(max_length=20_000)]


class Device(Record):
    """A GPU of a machine, or its CPU.

    Only one profile at a time runs at a `place`: a GPU, a whole board whose GPU shares its memory, a host.
    """

    name: Name
    kind: Kind
    host: Name
    cpu: Name
    identity: Name
    place: Name
    uuid: Name | None = optional("For CUDA_VISIBLE_DEVICES, which None leaves unchanged")
    memory_class: MemoryClass | None = None

    @property
    def model(self) -> str:
        """The GPU, its memory and the host's CPU: same model, same strategy. Without a GPU, also the host."""
        own = self.host if self.kind == "cpu" else ""
        return "|".join((self.kind, self.name, self.memory_class or "", self.cpu, own))

    @property
    def lock(self) -> str:
        """Name of its lock on the cluster: the same for all commands, whatever their options."""
        return sha256((self.identity if self.kind == "cuda" else self.place).encode()).hexdigest()

    def key(self, *, each: bool) -> str:
        """Identifies the device's results without revealing UUID or host."""
        return sha256((self.identity if each else self.model).encode()).hexdigest()[:16]


class Machine(Record):
    """A worker's machine. Its host and UUIDs stay with the run: no report has them."""

    host: Name
    advisor: Name
    cpu: Device
    gpus: Annotated[tuple[Device, ...], Field(max_length=256)] = ()
    cupy: Name | None = optional("Version; None where it is not installed")
    cupy_cuda: Annotated[int, Field(gt=0)] | None = optional("The CUDA release that CuPy is built for")
    driver_cuda: Annotated[int, Field(gt=0)] | None = optional("The newest CUDA of the driver: 13000")

    def devices(self, *, no_gpu: bool) -> tuple[Device, ...]:
        return self.gpus if self.gpus and not no_gpu else (self.cpu,)


class Task(Record):
    """One profile for a worker to make."""

    gpu: Name | None = optional("The UUID for CUDA_VISIBLE_DEVICES; None leaves it as it is")
    no_gpu: bool = False
    file: Name = Field(description="The workload's, among those sent")
    workload: Name | None = None
    options: dict[str, Any] = table("Options of `advisor.profile`")
    include_host: bool = False
    no_environment: bool = False
    command: Text = ""
    files: dict[str, str] = table("Relative path to its packed text")
    seconds: Annotated[float, Field(gt=0)] = Field(description="After which the worker ends it")


class Answer(Record):
    """How a task ended. `lost`: its process died or took too long; it is tried elsewhere."""

    status: Literal["profiled", "failed", "lost"]
    profile: Annotated[str, Field(max_length=LARGEST)] = ""
    reason: Text = ""
    next_step: Text = ""
    detail: Text = ""
    exit_code: Annotated[int, Field(ge=2, le=70)] = optional("Exit code of `advisor profile` for it", 4)


KEYS = ("memory_class", "name", "kind", "host", "cpu")
"""The keys that `--where` takes."""
_KINDS = ("cuda", "cpu")


@dataclass(frozen=True)
class Item:
    """One profile to make: its row until then, on that device or another one like it."""

    row: Row
    device: Device
    value: str
    """NAME=VALUE of the swept parameter, for the task; the row has what may be shown of it."""
    tried: tuple[str, ...] = ()
    """Workers that were lost with it."""
    reason: str = ""
    since: float = 0.0
    """When a worker with such a device was last there."""


def require_fit(machine: Machine, *, no_gpu: bool = False) -> None:
    """Raises `NothingMeasured` where the machine cannot make a comparable profile."""
    if machine.advisor != __version__:
        raise NothingMeasured(
            f"advisor {machine.advisor} is installed there, {__version__} here",
            next_step=f"Install the same version there: pip install gpu-memory-advisor=={__version__}",
        )
    if not machine.gpus or no_gpu:
        return
    release = (machine.driver_cuda or 0) // 1000
    install = f"pip install {cupy_package(machine.driver_cuda or 12000)}"
    if machine.cupy is None:
        raise NothingMeasured("CuPy is not installed there", next_step=f"Install it: {install}")
    if machine.cupy_cuda and release and machine.cupy_cuda > release:
        built_for = f"CuPy {machine.cupy} there is built for CUDA {machine.cupy_cuda}"
        step = f"Install the matching one: {install}, or update the driver."
        raise NothingMeasured(f"{built_for}, its driver supports {release}", next_step=step)


def differing(machines: Mapping[str, Machine]) -> Iterator[str]:
    """Notes on versions that differ between the machines and may affect the times."""
    with_gpu = [machine for machine in machines.values() if machine.gpus]
    drivers = (m.driver_cuda for m in with_gpu)
    releases = {"none" if d is None else f"for CUDA {d // 1000}.{d % 1000 // 10}" for d in drivers}
    for what, versions in (("CuPy", {m.cupy or "none" for m in with_gpu}), ("CUDA driver", releases)):
        if len(versions) > 1:
            yield f"The machines differ in {what}: {', '.join(sorted(versions))}."


def parse_where(texts: Sequence[str]) -> dict[str, str]:
    """`memory_class=tegra-coherent` as a key and its value. Raises `UsageError`."""
    where = parse_assignments(texts, "--where", "memory_class=tegra")
    for key, value in where.items():
        known = {"memory_class": tuple(EXPLAINED), "kind": _KINDS}.get(key, ())
        if key not in KEYS:
            step = f"The keys are {', '.join(KEYS)}."
            raise UsageError(f"--where {key!r} is not known{nearest(key, KEYS)}", next_step=step)
        if known and value not in known:
            raise UsageError(
                f"--where {key}={value}: there is no {key} {value!r}{nearest(value, known)}",
                next_step=f"Choose from {', '.join(known)}.",
            )
    return where


def fits(device: Device, where: Mapping[str, str]) -> bool:
    """Whether all of `--where` holds; names, hosts and CPUs need only contain the text."""
    values = {key: str(getattr(device, key) or "") for key in where}
    return all(
        values[key] == wanted if key in ("memory_class", "kind") else wanted.lower() in values[key].lower()
        for key, wanted in where.items()
    )
