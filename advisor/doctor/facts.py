"""The facts that the checks need, gathered once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from advisor.devices.gpus import gpu_states
from advisor.devices.host import THIS_MACHINE, Machine, Tree, gpu_numa_node, host_state, installed
from advisor.devices.links import GpuLinks, gpu_links
from advisor.devices.tegra import tegra_state
from advisor.doctor.probe import Probe, probe
from advisor.nsys.program import Nsys, NsysFailed, find
from advisor.profiles.system_state import GpuState, HostState, TegraState

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


def gather(
    gpu: int = 0,
    nsys: Path | None = None,
    *,
    machine: Machine = THIS_MACHINE,
    tried: Callable[[int], Probe] = probe,
) -> Facts:
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
    trial = tried(gpu) if gpus and has_cupy else None
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
