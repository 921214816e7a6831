"""`advisor doctor`: what this machine can and cannot do, what that means, and how to get the rest.

The facts are gathered once, a separate process (`main`) tries the GPU; all checks are functions of the facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

from advisor import units
from advisor.devices import host
from advisor.devices.entries import explained
from advisor.devices.gpus import GpuLinks, gpu_links, gpu_states
from advisor.errors import AdvisorError
from advisor.extras import cupy_package, dotted, driver_version
from advisor.measure.backends import gpu_count, open_backend
from advisor.measure.jobs import CalibrationJob, Probe
from advisor.measure.launcher import Ended, ProcessLauncher
from advisor.measure.worker import run_job
from advisor.nsys.capturing import GET, Nsys, NsysFailed, faults_observable, find
from advisor.profiles.conclusions import Checkup, Finding
from advisor.profiles.files import parse_toml, scratch
from advisor.profiles.schema import Device
from advisor.profiles.system_state import GpuState, HostState, TegraState

SECONDS = 90.0
"""A first import of CuPy and a first compilation take several seconds, on a Jetson tens."""


def probe(gpu: int, launch: Callable[[CalibrationJob], Ended] | None = None) -> Probe:
    """Tries that GPU in a separate process; never raises."""
    with scratch() as folder:
        job = CalibrationJob(group="", backend="cuda", gpu=gpu, directory=str(folder / "probe"))
        ended = (launch or ProcessLauncher(SECONDS, worker="advisor.doctor"))(job)
    if isinstance(ended.outcome, Probe):
        return ended.outcome
    return Probe(problem=f"the process that tried the GPU {ended.reason}")


def main(arguments: list[str]) -> None:
    """The process that tries the GPU. Run as `main([JOB.json, PARENT_PID])`."""
    run_job(arguments, CalibrationJob, _try)


def _try(job: CalibrationJob) -> Probe:
    result, failed = Probe(), "CuPy failed"
    try:
        backend = open_backend("cuda", job.gpu)
        device, environment = backend.device(), backend.environment()
        result = Probe(device=device, environment=environment, free_bytes=backend.free_memory())
        failed = "a first kernel failed"
        right = int((backend.xp.arange(4, dtype="i4") * 2).sum()) == 12
        problem, next_step = "" if right else "a first kernel gave a wrong result", ""
    except AdvisorError as error:
        problem, next_step = error.message, error.next_step
    except Exception as error:
        first_line = f"{type(error).__name__}: {error}".strip().partition("\n")[0].rstrip(": ")
        problem, next_step = f"{failed}: {first_line}", ""
    return result.model_copy(update={"problem": problem, "next_step": next_step})


PACKAGES = ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy", "cuda-bindings", "nvidia-ml-py", "nvtx")


@dataclass(frozen=True)
class Facts:
    """What `gather` found on this machine; None where a fact could not be read."""

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
    links: tuple[GpuLinks, ...] = ()


def gather(gpu: int = 0, nsys: Path | None = None, *, machine: host.Machine = host.THIS_MACHINE) -> Facts:
    """Looks at this machine; takes some seconds where there is a GPU to try."""
    packages = host.installed(*PACKAGES)
    program: Nsys | str
    try:
        program = find(nsys)
    except NsysFailed as problem:
        program = str(problem)
    lines = (host.Tree(machine.root).text("proc/driver/nvidia/params") or "").splitlines()
    only_root = dict(line.partition(": ")[::2] for line in lines).get("RmProfilingAdminOnly")
    gpus = gpu_count()
    trial = probe(gpu) if gpus and any(name.startswith("cupy") for name in packages) else None
    place = str(trial.environment.get("pci_bus_id", "")) if trial else ""
    return Facts(
        driver=driver_version(),
        gpus=gpus,
        packages=packages,
        probe=trial,
        host=host.host_state(root=machine.root),
        board=host.tegra_state(moment="before", root=machine.root),
        readings=gpu_states(moment="before", machine=machine),
        gpu_node=host.gpu_numa_node(place, root=machine.root) if place else None,
        nsys=program,
        counters_for_root=None if only_root is None else only_root.strip() != "0",
        links=gpu_links(machine),
    )


LAST_OLD_NSYS = (2023, 4)
LAST_OLD_NVTX = (0, 2, 11)
"""Tried: nsys 2022.4 and 2023.4 record the ranges of nvtx 0.2.11, and none of 0.2.12 or 0.2.16."""
_LITTLE_MEMORY = 2 << 30
"""The default workloads take up to about 1 GiB in a process; chosen, not measured."""
_LITTLE_LOCKED = 64 << 20


def _finding(subject: str, case: str, name: str = "", **values: object) -> Finding:
    """The finding of doctor.toml, with its values; `name` is a subject that names things of this machine."""
    texts = {key: text.format(**values) for key, text in _texts()[subject][case].items()}
    return Finding.model_validate({"subject": name or subject, **texts})


def _first_case(**cases: object) -> str:
    """The name of the first case that holds."""
    return next(case for case, holds in cases.items() if holds)


@cache
def _texts() -> dict[str, dict[str, dict[str, str]]]:
    return parse_toml((Path(__file__).parent / "doctor.toml").read_text(encoding="utf-8"))


def examine(facts: Facts) -> Checkup:
    """All findings. Ready where the GPU can be measured on, or where there is none: predicting needs none."""
    findings = (*_gpu(facts), *_tools(facts), *_host(facts))
    ready = not facts.gpus or (facts.probe is not None and not facts.probe.problem)
    verdict = "There is a GPU, but it cannot be measured yet: see what is missing below."
    if not facts.gpus:
        verdict = "There is no GPU. `advisor profile` runs workloads on the CPU and predicts GPU times."
    elif ready:
        verdict = "`advisor profile` can measure on this machine."
    return Checkup(ready=ready, verdict=verdict, findings=findings)


def _gpu(facts: Facts) -> Iterator[Finding]:
    case = _first_case(none=facts.driver is None, no_gpu=not facts.gpus, several=facts.gpus > 1, one=True)
    yield _finding("driver", case, cuda=dotted(facts.driver or 0), gpus=facts.gpus)
    yield _cupy(facts)
    if facts.probe is None:
        return
    problem, step, free = facts.probe.problem, facts.probe.next_step, facts.probe.free_bytes
    left = "" if free is None else f", {units.size(free)} of its memory free"
    name = facts.probe.device.name if facts.probe.device else "the GPU"
    case = _first_case(ran=not problem, advised=step, failed=True)
    yield _finding("first kernel", case, problem=problem, step=step, gpu=name, free=left)
    if facts.probe.device is not None:
        yield from _device(facts.probe.device, facts)


def _device(device: Device, facts: Facts) -> Iterator[Finding]:
    kind, has, bindings = device.memory_class, device.attributes.get, facts.packages.get("cuda-bindings")
    known = explained(kind, device.attributes) if kind else "unknown to this version of advisor"
    yield _finding("memory class", "any", kind=kind, explained=known)
    concurrent = has("concurrent_managed_access")
    managed = _first_case(not_concurrent=not concurrent, no_bindings=not bindings, concurrent=True)
    yield _finding("managed memory", managed, bindings=bindings)
    yield from _links(facts.links)
    access = has("pageable_memory_access")
    by_tables = access and has("pageable_memory_access_uses_host_page_tables")
    plain = _first_case(tables=by_tables, hmm=access, integrated=has("integrated"), discrete=True)
    yield _finding("plain memory (HMM, ATS)", plain)


def _links(gpus: Sequence[GpuLinks]) -> Iterator[Finding]:
    """For each two GPUs: whether they reach each other, over what, and whether they share the host's link."""
    for (first, one), (second, other) in combinations(enumerate(gpus), 2):
        over = "NVLink" if one.nvlinks and other.nvlinks else "PCIe"
        together = one.root_port is not None and one.root_port == other.root_port
        port = f", both below PCIe root port {one.root_port}" * together
        reach = other.address in one.reaches and one.address in other.reaches
        name = f"GPU {first} and {second}"
        yield _finding("GPUs", "reach" if reach else "apart", name, over=over, port=port)


def _cupy(facts: Facts) -> Finding:
    wheels = {name: version for name, version in facts.packages.items() if name.startswith("cupy")}
    if not wheels:
        return _finding("CuPy", "absent" if facts.gpus else "unneeded", package=cupy_package(facts.driver))
    versions = ", ".join(f"{name} {version}" for name, version in wheels.items())
    needed = re.search(r"cuda(\d+)x", next(iter(wheels)))
    too_new = needed and facts.driver is not None and facts.driver < int(needed[1]) * 1000
    case = _first_case(several=len(wheels) > 1, too_new=too_new, compatible=facts.gpus, unused=True)
    cuda, major = dotted(facts.driver or 0), (facts.driver or 0) // 1000
    return _finding("CuPy", case, versions=versions, names=" ".join(wheels), cuda=cuda, major=major)


def _tools(facts: Facts) -> Iterator[Finding]:
    yield _nsys(facts)
    if isinstance(facts.nsys, Nsys) and facts.probe and facts.probe.device:
        yield _finding("page faults", "recorded" if faults_observable(facts.probe.device) else "unseen")
    if facts.gpus:
        yield _nvml(facts)
        access = {True: "root only", False: "available to every user", None: "unknown (no driver parameters)"}
        yield _finding("GPU counters", "any", access=access[facts.counters_for_root])


def _nsys(facts: Facts) -> Finding:
    if isinstance(facts.nsys, str):
        return _finding("nsys", "absent", problem=facts.nsys, get=GET)
    nvtx = facts.packages.get("nvtx", "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", nvtx)[:3])
    old = facts.nsys.version[:2] <= LAST_OLD_NSYS and numbers > LAST_OLD_NVTX
    tool = f"{facts.nsys.name} at {facts.nsys.path}, nvtx {nvtx}"
    return _finding("nsys", "old" if old else "works", tool=tool)


def _nvml(facts: Facts) -> Finding:
    if not facts.readings:
        return _finding("NVML", "unavailable" if "nvidia-ml-py" in facts.packages else "absent")
    reading = facts.readings[0]
    whole = None not in (reading.sm_hertz, reading.throttle_reasons, reading.temperature_celsius)
    absent = "; ".join(sorted(set(reading.absent.values()))[:2]) or "partly available"
    return _finding("NVML", "works" if whole else "partly", driver=reading.driver, absent=absent)


def _host(facts: Facts) -> Iterator[Finding]:
    state, board = facts.host, facts.board
    yield _memory(state)
    limit = state.locked_memory_limit
    amount = units.size(limit) if isinstance(limit, int) else limit
    little = isinstance(limit, int) and limit < _LITTLE_LOCKED
    yield _finding("locked memory", _first_case(little=little, enough=limit, unknown=True), amount=amount)
    nodes, node = sum(bool(node.cpus) for node in state.numa_nodes), facts.gpu_node
    case = _first_case(one=nodes < 2, unknown=node is None, known=True)
    yield _finding("NUMA", case, nodes=nodes, node=node)
    if board is not None:
        mode, best = board.power_mode, board.best_power_mode
        case = _first_case(unknown=mode is None, best=mode == best, lower=True)
        yield _finding("power mode", case, mode=mode, best=best)
    if state.wsl or state.container:
        yield _finding("runs in", "wsl" if state.wsl else "container")


def _memory(state: HostState) -> Finding:
    free, limit = state.memory_available_bytes, state.memory_limit
    if free is None:
        return _finding("memory", "unknown")
    least = min(limit, free) if isinstance(limit, int) else free
    capped = f", {units.size(least)} for this container" if least < free else ""
    amount = f"{units.size(free)} free{capped}"
    return _finding("memory", "enough" if least >= _LITTLE_MEMORY else "little", amount=amount)
