"""The facts that the checks need, gathered once; a separate process, which runs `main`, tries the GPU."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from advisor.devices.gpus import GpuLinks, gpu_links, gpu_states
from advisor.devices.host import THIS_MACHINE, Machine, Tree, gpu_numa_node, host_state, installed
from advisor.devices.tegra import tegra_state
from advisor.errors import AdvisorError
from advisor.measure.processes import python_command
from advisor.nsys.program import Nsys, NsysFailed, find
from advisor.profiles.amounts import Bytes
from advisor.profiles.base import Record
from advisor.profiles.files import scratch
from advisor.profiles.schema import Device
from advisor.profiles.system_state import GpuState, HostState, TegraState

SECONDS = 90.0
"""A first import of CuPy and a first compilation take several seconds, on a Jetson tens."""


class Probe(Record):
    """The result of trying the GPU; `problem` says what did not work."""

    device: Device | None = None
    environment: dict[str, str | int | float] = Field(default_factory=dict)
    free_bytes: Bytes | None = None
    problem: str = ""
    next_step: str = ""


def probe(gpu: int, seconds: float = SECONDS, command: Callable[..., list[str]] = python_command) -> Probe:
    """Tries that GPU, in the process that `command` makes of a module and its arguments; never raises."""
    with scratch() as folder:
        answer = folder / "probe.json"
        program = command("advisor.doctor.facts", str(answer), str(gpu))
        try:
            done = subprocess.run(program, capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return Probe(problem=f"the GPU did not answer within {seconds:.0f} s")
        with suppress(OSError, ValueError):
            return Probe.model_validate_json(answer.read_text(encoding="utf-8"))
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
        return Probe(problem=f"the process that tried the GPU exited with code {done.returncode}: {last[0]}")


def main(arguments: list[str]) -> None:
    """In the process: writes the answer to the file that comes first, of the GPU that comes second."""
    answer, gpu = Path(arguments[0]), int(arguments[1])
    answer.write_text(_tried(gpu).model_dump_json(), encoding="utf-8")
    os._exit(0)  # whatever state CUDA is in


def _tried(gpu: int) -> Probe:
    from advisor.measure.backends import open_backend

    try:
        backend = open_backend("cuda", gpu)
        device, environment = backend.device(), backend.environment()
    except AdvisorError as problem:
        return Probe(problem=problem.message, next_step=problem.next_step)
    except Exception as problem:
        return Probe(problem=f"CuPy failed: {_first_line(problem)}")
    result = Probe(device=device, environment=environment, free_bytes=backend.free_memory())
    try:
        total = int((backend.xp.arange(4, dtype="i4") * 2).sum())
    except Exception as problem:
        return result.model_copy(update={"problem": f"a first kernel failed: {_first_line(problem)}"})
    wrong = "" if total == 12 else "a first kernel gave a wrong result"
    return result.model_copy(update={"problem": wrong})


def _first_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".strip().partition("\n")[0].rstrip(": ")


PACKAGES = ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy", "cuda-bindings", "nvidia-ml-py", "nvtx")


@dataclass(frozen=True)
class Facts:
    """None where a fact could not be read."""

    driver: int | None
    """The newest CUDA that the driver supports; 13000 is 13.0."""
    gpus: int
    packages: dict[str, str]
    probe: Probe | None
    """None where there is no GPU or no CuPy to try it with."""
    host: HostState
    board: TegraState | None
    readings: tuple[GpuState, ...]
    gpu_node: int | None
    nsys: Nsys | str
    """The program, or why there is none."""
    counters_for_root: bool | None
    """Whether the driver keeps the GPU's counters for root."""
    links: tuple[GpuLinks, ...] = ()
    """The GPUs as NVML lists them, and how they are joined."""


def gather(gpu: int = 0, nsys: Path | None = None, *, machine: Machine = THIS_MACHINE) -> Facts:
    """Looks at this machine; takes some seconds where there is a GPU to try."""
    from advisor.measure.backends import driver_version, gpu_count

    packages = installed(*PACKAGES)
    program: Nsys | str
    try:
        program = find(nsys)
    except NsysFailed as problem:
        program = str(problem)
    lines = (Tree(machine.root).text("proc/driver/nvidia/params") or "").splitlines()
    only_root = dict(line.partition(": ")[::2] for line in lines).get("RmProfilingAdminOnly")
    gpus = gpu_count()
    has_cupy = any(name.startswith("cupy") for name in packages)
    trial = probe(gpu) if gpus and has_cupy else None
    place = str(trial.environment.get("pci_bus_id", "")) if trial else ""
    return Facts(
        driver=driver_version(),
        gpus=gpus,
        packages=packages,
        probe=trial,
        host=host_state(root=machine.root),
        board=tegra_state(moment="before", root=machine.root),
        readings=gpu_states(moment="before", machine=machine),
        gpu_node=gpu_numa_node(place, root=machine.root) if place else None,
        nsys=program,
        counters_for_root=None if only_root is None else only_root.strip() != "0",
        links=gpu_links(machine),
    )
