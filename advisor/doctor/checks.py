"""All checks, pure functions of the facts: the GPU's are in gpu_checks.py, those of tools and host here."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor import units
from advisor.doctor.facts import Facts
from advisor.doctor.gpu_checks import gpu_findings
from advisor.nsys.program import GET, Nsys, faults_observable
from advisor.profiles.checkup import Checkup, Finding, info, limited, missing, ok
from advisor.profiles.system_state import Limit, TegraState

LAST_OLD_NSYS = (2023, 4)
LAST_OLD_NVTX = (0, 2, 11)
"""Tried: nsys 2022.4 and 2023.4 record the ranges of nvtx 0.2.11, and none of 0.2.12 or 0.2.16."""
_LITTLE_MEMORY = 2 << 30
"""The default workloads take up to about 1 GiB in a process; chosen, not measured."""
_LITTLE_LOCKED = 64 << 20


def examine(facts: Facts) -> Checkup:
    """Ready where a GPU that is there can be measured on; without one, since predicting needs none."""
    findings = (*gpu_findings(facts), *_tool_findings(facts), *_host_findings(facts))
    ready = not facts.gpus or (facts.probe is not None and not facts.probe.problem)
    verdict = "There is a GPU, but nothing can be measured on it yet: see what is missing."
    if not facts.gpus:
        verdict = (
            "`advisor profile` runs workloads on the CPU here and predicts; there is no GPU to measure on."
        )
    elif ready:
        verdict = "`advisor profile` can measure on this machine."
    return Checkup(ready=ready, verdict=verdict, findings=findings)


def _tool_findings(facts: Facts) -> Iterator[Finding]:
    yield _nsys(facts)
    if isinstance(facts.nsys, Nsys) and facts.probe and facts.probe.device:
        if faults_observable(facts.probe.device):
            yield ok("page faults", "nsys can watch them here", "they are in its trace")
        else:
            yield limited(
                "page faults",
                "nsys cannot watch them on this device",
                "a trace has no page faults and no migrations of managed memory",
            )
    if facts.gpus:
        yield _nvml(facts)
        for_root = {
            True: "for root alone",
            False: "open to every user",
            None: "unknown (no driver parameters)",
        }
        yield info(
            "GPU counters",
            for_root[facts.counters_for_root],
            "neither measuring nor --trace nsys needs them; Nsight Compute does",
        )


def understands(nsys: tuple[int, ...], nvtx: tuple[int, ...]) -> bool:
    """Whether that nsys records that nvtx's ranges, as far as is known."""
    return nsys[:2] > LAST_OLD_NSYS or nvtx <= LAST_OLD_NVTX


def _nsys(facts: Facts) -> Finding:
    if isinstance(facts.nsys, str):
        return missing(
            "nsys",
            facts.nsys,
            "no --trace nsys: no copies, migrations and page faults as the driver saw them. Everything "
            "else works",
            GET,
        )
    nvtx = facts.packages.get("nvtx", "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", nvtx)[:3])
    found = f"{facts.nsys.name} at {facts.nsys.path}, nvtx {nvtx}"
    if not understands(facts.nsys.version, numbers):
        return limited(
            "nsys",
            found,
            "nsys of that age records no ranges of nvtx from 0.2.12 on, so that --trace nsys sees none",
            "pip install 'nvtx<0.2.12', or use a newer nsys.",
        )
    return ok("nsys", found, "--trace nsys can be used")


def _nvml(facts: Facts) -> Finding:
    if facts.readings:
        reading = facts.readings[0]
        if None not in (reading.sm_hertz, reading.throttle_reasons, reading.temperature_celsius):
            means = "clocks, throttling and other users of the GPU are recorded"
            return ok("NVML", f"driver {reading.driver}", means)
        absent = "; ".join(sorted(set(reading.absent.values()))[:2])
        means = "some of clocks, heat and throttling stay unknown"
        return limited("NVML", absent or "it reports only a part", means)
    installed = "nvidia-ml-py" in facts.packages
    return limited(
        "NVML",
        "it cannot be reached" if installed else "nvidia-ml-py is not installed",
        "clocks, throttling and other users of the GPU stay unknown; nothing else suffers",
        "" if installed else "pip install nvidia-ml-py",
    )


def _host_findings(facts: Facts) -> Iterator[Finding]:
    yield _memory(facts)
    yield _locked(facts)
    yield _numa(facts)
    if facts.board is not None:
        yield _power_mode(facts.board)
    if facts.host.wsl:
        means = "managed memory cannot be prefetched there"
        yield info("surroundings", "Windows Subsystem for Linux", means)
    elif facts.host.container:
        means = "other users of the GPU and some of the host's state may not be visible"
        yield info("surroundings", "a container", means)


def _memory(facts: Facts) -> Finding:
    free, limit = facts.host.memory_available_bytes, facts.host.memory_limit
    if free is None:
        return info("memory", "unknown", "large workloads may run out of it")
    capped = isinstance(limit, int) and limit < free
    least = limit if isinstance(limit, int) and capped else free
    found = f"{units.size(free)} free" + (f", {_size(limit)} for this container" if capped else "")
    if least < _LITTLE_MEMORY:
        return limited(
            "memory",
            found,
            "strategies with several copies of the data may run out of memory",
            "Make workloads smaller with --set, or raise the container's limit.",
        )
    return ok("memory", found, "enough for the example workloads")


def _locked(facts: Facts) -> Finding:
    limit = facts.host.locked_memory_limit
    if limit is None:
        return info("locked memory", "unknown", "see ulimit -l")
    if limit == "unlimited" or limit >= _LITTLE_LOCKED:
        return ok("locked memory", _size(limit), "pages can be locked as needed")
    return info(
        "locked memory",
        f"limited to {_size(limit)} (ulimit -l)",
        "CUDA's driver locks pages by itself and is mostly not limited by it; where `pinned` or "
        "`registered` runs out of memory, raise this limit first",
        "ulimit -l unlimited, or in Docker --ulimit memlock=-1.",
    )


def _numa(facts: Facts) -> Finding:
    nodes = [node for node in facts.host.numa_nodes if node.cpus]
    if len(nodes) < 2:
        return ok("NUMA", "one node", "pinned memory cannot be on a wrong one")
    if facts.gpu_node is None:
        return limited(
            "NUMA",
            f"{len(nodes)} nodes; the GPU's is unknown",
            "pinned memory may lie far from the GPU",
            "nvidia-smi topo -m shows it; give it with --numa NUMBER.",
        )
    return ok(
        "NUMA",
        f"{len(nodes)} nodes; the GPU is attached to node {facts.gpu_node}",
        "pinned memory is taken from there; --numa remote shows what another node costs",
    )


def _power_mode(board: TegraState) -> Finding:
    if board.power_mode is None:
        return info("power mode", "unknown", "figures hold for the mode that is set")
    if board.power_mode == board.best_power_mode:
        means = "the strongest one; sudo jetson_clocks makes figures steadier"
        return ok("power mode", board.power_mode, means)
    return limited(
        "power mode",
        f"{board.power_mode}; {board.best_power_mode} is stronger",
        "figures hold for this mode alone",
        "sudo nvpmodel -m NUMBER (the numbers are in /etc/nvpmodel.conf).",
    )


def _size(limit: Limit | None) -> str:
    return limit if isinstance(limit, str) else units.size(limit or 0)
