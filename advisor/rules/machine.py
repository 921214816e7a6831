"""Rules on the machine: NUMA nodes and the PCIe link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.profiles.figures import Method
from advisor.profiles.system_state import GpuState, HostState
from advisor.rules.base import Case, Finding, Limits, Row, advice, not_applicable, passed


def numa_remote(case: Case, limits: Limits) -> Finding:
    """Host memory on another NUMA node than the GPU's."""
    host = case.machine.host if case.machine else None
    row = case.chosen or case.fastest()
    if case.method is None or host is None or row is None:
        return not_applicable("The host of this device was not read.")
    with_memory = [node for node in host.numa_nodes if node.cpus and node.memory_bytes != 0]
    if len(with_memory) < 2:
        return not_applicable("The host has one NUMA node: all memory is local.")
    if host.gpu_numa_node is None:
        why = host.absent.get("gpu_numa_node")
        unknown = "The NUMA node the GPU is attached to is not known"
        return not_applicable(f"{unknown}: {why}." if why else f"{unknown}.")
    share = row.part(row.path_seconds)
    nodes = sum(bool(node.cpus) for node in host.numa_nodes)
    evidence = (
        Evidence(label="NUMA nodes with CPUs", value=nodes, unit="count"),
        Evidence(label="the GPU's NUMA node", value=host.gpu_numa_node, unit="count"),
        row.figure(f"{row.strategy}: copies and kernels", row.path_seconds),
    )
    if share < limits["share"]:
        little = f"Copies and kernels are only {units.percent(share)} of a frame of {row.strategy}"
        return passed(f"{little}: the NUMA node of host memory makes little difference.", *evidence)
    return advice(_detail(host, case.method, row, share, nodes), *evidence, inferred=True)


def _detail(host: HostState, method: Method, row: Row, share: float, nodes: int) -> str:
    node = host.gpu_numa_node
    measured = "with host memory on that node, where the system allowed it"
    if method.numa not in ("local", str(node)):
        where = "a node remote from it" if method.numa == "remote" else f"node {method.numa}"
        measured = f"with host memory on {where}, as requested"
    return (
        f"The host has {nodes} NUMA nodes with CPUs, and the GPU is attached to node {node}. These "
        f"figures were taken {measured}. An unbound program gets memory on whichever node it starts, and "
        f"{units.percent(share)} of a frame of {row.strategy} is copies and kernels. Start it with "
        f"numactl --cpunodebind={node} --membind={node}. To see the effect, compare runs with --numa "
        "local and --numa remote."
    )


_AWAKE = (0, 1, 2)
"""CUDA runs in performance states P0 and P2; a GPU that saves power may have lowered its link."""


@dataclass(frozen=True)
class _Link:
    """Generation and lanes under load, and the best that NVML reports for this GPU and system."""

    generation: int
    width: int
    best_generation: int
    best_width: int

    @property
    def factor(self) -> float:
        """How much longer a copy can take: each generation doubles the rate of a lane, near enough."""
        generations = max(self.best_generation - self.generation, 0)
        return 2.0**generations * max(self.best_width / self.width, 1.0)


def link_below_best(case: Case, limits: Limits) -> Finding:
    """The PCIe link runs narrower or slower than the GPU and this system can."""
    if case.machine is None:
        return not_applicable("The link of a predicted device cannot be read.")
    link = _link(case.machine.gpu_readings)
    if link is None:
        why = case.machine.absent.get("gpu_readings")
        unknown = "NVML did not report the link's width and generation under load"
        return not_applicable(f"{unknown}: {why.rstrip('.')}." if why else f"{unknown}.")
    figures = {
        "PCIe generation under load": link.generation,
        "PCIe generation at best": link.best_generation,
        "PCIe lanes": link.width,
        "PCIe lanes at best": link.best_width,
    }
    evidence = [Evidence(label=label, value=value, unit="count") for label, value in figures.items()]
    runs = f"generation {link.generation} ×{link.width}"
    if link.factor <= 1:
        best = "the best that NVML reports for this GPU and system"
        unseen = "NVML does not report whether another slot has more lanes"
        return passed(f"The link runs at {runs}, {best}; {unseen}.", *evidence)
    runs += f"; this GPU and system can do generation {link.best_generation} ×{link.best_width}"
    # The recommended strategy where it copies, else page-locked copies, which are bound by the link. Not one
    # whose copies run beside other work: what they spare is not their time.
    rows = [row for row in (case.chosen, *case.copying()) if row is not None and not row.overlaps]
    row = next((row for row in rows if row.transfer_seconds), None)
    share = row.part(row.transfer_seconds) if row else 0.0
    if row is None or share < limits["share"]:
        little = f"copies are only {units.percent(share)} of a frame."
        return passed(f"The link runs at {runs}, but {little}", *evidence)
    return advice(
        f"Under load the link ran at {runs}: copies, and kernels that use host memory in place, take up "
        f"to {units.ratio(link.factor)} as long as at full rate. Copies are {units.percent(share)} of a "
        f"frame of {row.strategy}; the gain assumes that their time falls by that factor. Check the slot "
        "and its lanes, the risers and the PCIe settings in the firmware.",
        *(*evidence, row.copies(), *row.rate()),
        saved=row.transfer_seconds * (1 - 1 / link.factor),
        inferred=True,
    )


def _link(readings: Sequence[GpuState]) -> _Link | None:
    """From readings of a GPU at work; an idle one lowers its generation. The best seen counts."""
    awake = [r for r in readings if r.moment == "under-load" or r.performance_state in _AWAKE]
    generation = max((r.link_generation or 0 for r in awake), default=0)
    width = max((r.link_width or 0 for r in readings), default=0)
    best_generation = max((r.link_generation_max or 0 for r in readings), default=0)
    best_width = max((r.link_width_max or 0 for r in readings), default=0)
    known = generation and width and best_generation and best_width
    return _Link(generation, width, best_generation, best_width) if known else None
