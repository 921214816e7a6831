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
    verdict = "There is a GPU, but it cannot be measured yet: see what is missing below."
    if not facts.gpus:
        verdict = "There is no GPU. `advisor profile` runs workloads on the CPU and predicts GPU times."
    elif ready:
        verdict = "`advisor profile` can measure on this machine."
    return Checkup(ready=ready, verdict=verdict, findings=findings)


def _tool_findings(facts: Facts) -> Iterator[Finding]:
    yield _nsys(facts)
    if isinstance(facts.nsys, Nsys) and facts.probe and facts.probe.device:
        if faults_observable(facts.probe.device):
            yield ok("page faults", "nsys can record them", "--trace nsys includes them")
        else:
            yield limited(
                "page faults",
                "nsys cannot record them on this device",
                "a trace has no page faults and no migrations of managed memory",
            )
    if facts.gpus:
        yield _nvml(facts)
        for_root = {
            True: "root only",
            False: "available to every user",
            None: "unknown (no driver parameters)",
        }
        yield info(
            "GPU counters",
            for_root[facts.counters_for_root],
            "only Nsight Compute needs them; measuring and --trace nsys do not",
        )


def understands(nsys: tuple[int, ...], nvtx: tuple[int, ...]) -> bool:
    """Whether that nsys records that nvtx's ranges, as far as is known."""
    return nsys[:2] > LAST_OLD_NSYS or nvtx <= LAST_OLD_NVTX


def _nsys(facts: Facts) -> Finding:
    if isinstance(facts.nsys, str):
        return missing(
            "nsys",
            facts.nsys,
            "--trace nsys is unavailable (copies, migrations and page faults as seen by the driver); "
            "everything else works",
            GET,
        )
    nvtx = facts.packages.get("nvtx", "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", nvtx)[:3])
    found = f"{facts.nsys.name} at {facts.nsys.path}, nvtx {nvtx}"
    if not understands(facts.nsys.version, numbers):
        return limited(
            "nsys",
            found,
            "this nsys does not record ranges of nvtx 0.2.12 and later, so --trace nsys sees no frames",
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
        means = "clocks, temperature and throttling are partly unknown"
        return limited("NVML", absent or "partly available", means)
    installed = "nvidia-ml-py" in facts.packages
    return limited(
        "NVML",
        "not available" if installed else "nvidia-ml-py is not installed",
        "clocks, throttling and other users of the GPU stay unknown; everything else works",
        "" if installed else "pip install nvidia-ml-py",
    )


def _host_findings(facts: Facts) -> Iterator[Finding]:
    yield _memory(facts)
    yield _locked(facts)
    yield _numa(facts)
    if facts.board is not None:
        yield _power_mode(facts.board)
    if facts.host.wsl:
        means = "managed memory cannot be prefetched"
        yield info("surroundings", "Windows Subsystem for Linux", means)
    elif facts.host.container:
        means = "other users of the GPU and some of the host's state may not be visible"
        yield info("surroundings", "a container", means)


def _memory(facts: Facts) -> Finding:
    free, limit = facts.host.memory_available_bytes, facts.host.memory_limit
    if free is None:
        return info("memory", "unknown", "large workloads may run out of memory")
    capped = isinstance(limit, int) and limit < free
    least = limit if isinstance(limit, int) and capped else free
    found = f"{units.size(free)} free" + (f", {_size(limit)} for this container" if capped else "")
    if least < _LITTLE_MEMORY:
        return limited(
            "memory",
            found,
            "strategies that hold data twice may run out of memory",
            "Reduce the workload with --set, or raise the container's memory limit.",
        )
    return ok("memory", found, "enough for the example workloads")


def _locked(facts: Facts) -> Finding:
    limit = facts.host.locked_memory_limit
    if limit is None:
        return info("locked memory", "unknown", "see ulimit -l")
    if limit == "unlimited" or limit >= _LITTLE_LOCKED:
        return ok("locked memory", _size(limit), "unlimited")
    return info(
        "locked memory",
        f"limited to {_size(limit)} (ulimit -l)",
        "the CUDA driver usually bypasses this limit; if `pinned` or `registered` runs out of memory, "
        "raise it first",
        "Run `ulimit -l unlimited`, or start Docker with --ulimit memlock=-1.",
    )


def _numa(facts: Facts) -> Finding:
    nodes = [node for node in facts.host.numa_nodes if node.cpus]
    if len(nodes) < 2:
        return ok("NUMA", "one node", "pinned memory is always local")
    if facts.gpu_node is None:
        return limited(
            "NUMA",
            f"{len(nodes)} nodes; the GPU's is unknown",
            "pinned memory may be on a remote node",
            "Find it with nvidia-smi topo -m and pass it with --numa NUMBER.",
        )
    return ok(
        "NUMA",
        f"{len(nodes)} nodes; the GPU is attached to node {facts.gpu_node}",
        "pinned memory is allocated there; --numa remote shows the cost of another node",
    )


def _power_mode(board: TegraState) -> Finding:
    if board.power_mode is None:
        return info("power mode", "unknown", "results apply to the current mode")
    if board.power_mode == board.best_power_mode:
        means = "the highest mode; sudo jetson_clocks reduces noise"
        return ok("power mode", board.power_mode, means)
    return limited(
        "power mode",
        f"{board.power_mode}; {board.best_power_mode} allows higher clocks",
        "results apply to this mode only",
        "sudo nvpmodel -m NUMBER (modes are listed in /etc/nvpmodel.conf).",
    )


def _size(limit: Limit | None) -> str:
    return limit if isinstance(limit, str) else units.size(limit or 0)
