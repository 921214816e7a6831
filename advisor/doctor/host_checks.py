"""The host: memory and its limits, NUMA, the board's power mode, the container."""

from __future__ import annotations

from collections.abc import Iterator

from advisor import units
from advisor.doctor.facts import Facts
from advisor.profiles.checkup import Finding
from advisor.profiles.system_state import Limit

_LITTLE_MEMORY = 2 << 30
"""The default workloads take up to about 1 GiB in a process; chosen, not measured."""
_LITTLE_LOCKED = 64 << 20


def host_findings(facts: Facts) -> Iterator[Finding]:
    """What strategies depend on besides the GPU."""
    yield _memory(facts)
    yield _locked(facts)
    yield _numa(facts)
    if facts.board is not None:
        yield _power_mode(facts)
    if facts.host.container or facts.host.wsl:
        yield _enclosed(facts)


def _memory(facts: Facts) -> Finding:
    free, limit = facts.host.memory_available_bytes, facts.host.memory_limit
    if free is None:
        return Finding(
            subject="memory", state="info", found="unknown", means="large workloads may fail for want of it"
        )
    capped = isinstance(limit, int) and limit < free
    least = limit if isinstance(limit, int) and capped else free
    found = f"{units.size(free)} free" + (f", {_size(limit)} for this container" if capped else "")
    if least < _LITTLE_MEMORY:
        return Finding(
            subject="memory",
            state="limited",
            found=found,
            means="strategies with several copies of the data may fail for want of memory",
            next_step="Make workloads smaller with --set, or raise the container's limit.",
        )
    return Finding(subject="memory", state="ok", found=found, means="enough for the example workloads")


def _locked(facts: Facts) -> Finding:
    limit = facts.host.locked_memory_limit
    if limit is None:
        return Finding(subject="locked memory", state="info", found="unknown", means="see ulimit -l")
    if limit == "unlimited" or limit >= _LITTLE_LOCKED:
        return Finding(
            subject="locked memory", state="ok", found=_size(limit), means="pages can be locked as needed"
        )
    return Finding(
        subject="locked memory",
        state="info",
        found=f"limited to {_size(limit)} (ulimit -l)",
        means="CUDA's driver locks pages by itself and is mostly not held to it; where `pinned` or "
        "`registered` fails for want of memory, this is the first thing to raise",
        next_step="ulimit -l unlimited, or in Docker --ulimit memlock=-1.",
    )


def _numa(facts: Facts) -> Finding:
    nodes = [node for node in facts.host.numa_nodes if node.cpus]
    if len(nodes) < 2:
        return Finding(
            subject="NUMA", state="ok", found="one node", means="pinned memory cannot lie on a wrong one"
        )
    if facts.gpu_node is None:
        return Finding(
            subject="NUMA",
            state="limited",
            found=f"{len(nodes)} nodes; the GPU's is unknown",
            means="pinned memory may lie far from the GPU",
            next_step="nvidia-smi topo -m shows it; give it with --numa NUMBER.",
        )
    return Finding(
        subject="NUMA",
        state="ok",
        found=f"{len(nodes)} nodes; the GPU hangs on node {facts.gpu_node}",
        means="pinned memory is taken from there; --numa remote shows what another node costs",
    )


def _power_mode(facts: Facts) -> Finding:
    board = facts.board
    assert board is not None
    if board.power_mode is None:
        return Finding(
            subject="power mode", state="info", found="unknown", means="figures hold for the mode that is set"
        )
    if board.power_mode == board.best_power_mode:
        means = "the strongest one; sudo jetson_clocks makes figures steadier"
        return Finding(subject="power mode", state="ok", found=board.power_mode, means=means)
    return Finding(
        subject="power mode",
        state="limited",
        found=f"{board.power_mode}; {board.best_power_mode} is stronger",
        means="figures hold for this mode alone",
        next_step="sudo nvpmodel -m NUMBER (the numbers are in /etc/nvpmodel.conf).",
    )


def _enclosed(facts: Facts) -> Finding:
    where = "Windows Subsystem for Linux" if facts.host.wsl else "a container"
    means = (
        "managed memory cannot be prefetched there"
        if facts.host.wsl
        else "other users of the GPU and some of the host's state may be out of sight"
    )
    return Finding(subject="surroundings", state="info", found=where, means=means)


def _size(limit: Limit | None) -> str:
    return limit if isinstance(limit, str) else units.size(limit or 0)
