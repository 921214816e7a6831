"""The devices of the workers' machines, and the reasons why one cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from advisor.devices.memory_class import EXPLAINED
from advisor.errors import UsageError, nearest
from advisor.fleet.records import Gpu, Machine
from advisor.profiles.schema import Kind, MemoryClass
from advisor.version import __version__

KEYS = ("memory_class", "name", "kind", "host", "cpu")
"""The keys that `--where` takes."""
_KINDS = ("cuda", "cpu")


@dataclass(frozen=True)
class Device:
    """A GPU of a machine, or the machine's CPU where it has none.

    Only one profile at a time runs at a `place`: a GPU, a whole board whose GPU shares its memory, a host.
    """

    name: str
    kind: Kind
    host: str
    cpu: str
    identity: str
    place: str
    uuid: str | None = None
    memory_class: MemoryClass | None = None

    @property
    def model(self) -> str:
        """The GPU, its memory and the host's CPU: same model, same strategy. Without a GPU, also the host."""
        own = self.host if self.kind == "cpu" else ""
        return "|".join((self.kind, self.name, self.memory_class or "", self.cpu, own))

    def key(self, *, each: bool) -> str:
        """Identifies its results without revealing its UUID or host."""
        return sha256((self.identity if each else self.model).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Item:
    """One profile to make: of a device, or another one like it, at one value of the swept parameter."""

    device: Device
    value: str
    tried: tuple[str, ...] = ()
    """Workers that were lost with it."""
    reason: str = ""
    since: float = 0.0
    """When a worker with such a device was last there."""


@dataclass(frozen=True)
class Unfit:
    reason: str
    next_step: str


def devices(machine: Machine, seat: int = 1, *, no_gpu: bool = False) -> tuple[Device, ...]:
    """The machine's GPUs; its CPU where it has none, or none is wanted. `seat`: which worker of its host."""
    if machine.gpus and not no_gpu:
        return tuple(_gpu(machine, gpu, index) for index, gpu in enumerate(machine.gpus))
    identity = f"{machine.host}|{machine.cpu}|{seat}"
    return (Device(machine.cpu, "cpu", machine.host, machine.cpu, identity, f"host {machine.host}"),)


def _gpu(machine: Machine, gpu: Gpu, index: int) -> Device:
    identity = gpu.uuid if gpu.uuid and not gpu.integrated else f"{machine.host}|{gpu.name}|{index}"
    return Device(
        gpu.name,
        "cuda",
        machine.host,
        machine.cpu,
        identity,
        f"host {machine.host}" if gpu.integrated else identity,
        # A board has one GPU, and older drivers of boards take no UUID there.
        None if gpu.integrated else gpu.uuid or None,
        gpu.memory_class,
    )


def unfit(machine: Machine, *, no_gpu: bool = False) -> Unfit | None:
    """Why this machine cannot make a comparable profile; None if it can."""
    if machine.advisor != __version__:
        return Unfit(
            f"advisor {machine.advisor} is installed there, {__version__} here",
            f"Install the same version there: pip install gpu-memory-advisor=={__version__}",
        )
    if not machine.gpus or no_gpu:
        return None
    release = (machine.driver_cuda or 0) // 1000
    extra = "cuda13" if release >= 13 else "cuda12"
    if machine.cupy is None:
        return Unfit("CuPy is not installed there", f"Install it: pip install 'gpu-memory-advisor[{extra}]'")
    if machine.cupy_cuda and release and machine.cupy_cuda > release:
        return Unfit(
            f"CuPy {machine.cupy} there is built for CUDA {machine.cupy_cuda}, its driver supports {release}",
            f"Install the matching one: pip install 'gpu-memory-advisor[{extra}]', or update the driver.",
        )
    return None


NOT_INSTALLED = Unfit(
    "advisor is not installed there", f"Install it: pip install 'gpu-memory-advisor[fleet]=={__version__}'"
)


def differing(machines: Mapping[str, Machine]) -> Iterator[str]:
    """Notes on versions that differ between the machines and may affect the times."""
    for what, version in (("CuPy", lambda m: m.cupy), ("CUDA driver", lambda m: _release(m.driver_cuda))):
        versions = sorted({version(machine) or "none" for machine in machines.values() if machine.gpus})
        if len(versions) > 1:
            yield f"The machines differ in {what}: {', '.join(versions)}."


def _release(version: int | None) -> str | None:
    return None if version is None else f"for CUDA {version // 1000}.{version % 1000 // 10}"


def parse_where(texts: Sequence[str]) -> dict[str, str]:
    """`memory_class=tegra-coherent` as a key and its value. Raises `UsageError`."""
    where = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        known = {"memory_class": tuple(EXPLAINED), "kind": _KINDS}.get(key, ())
        next_step = f"The keys are {', '.join(KEYS)}."
        if not equals or not value:
            raise UsageError(f"--where {text!r} is not KEY=VALUE", next_step=next_step)
        if key not in KEYS:
            raise UsageError(f"--where {key!r} is not known{nearest(key, KEYS)}", next_step=next_step)
        if known and value not in known:
            raise UsageError(
                f"--where {key}={value}: there is no {key} {value!r}{nearest(value, known)}",
                next_step=f"Choose from {', '.join(known)}.",
            )
        where[key] = value
    return where


def fits(device: Device, where: Mapping[str, str]) -> bool:
    """Whether all of `--where` holds; names, hosts and CPUs need only contain the text."""
    for key, wanted in where.items():
        value = str(getattr(device, key) or "")
        exact = key in ("memory_class", "kind")
        if value != wanted if exact else wanted.lower() not in value.lower():
            return False
    return True
