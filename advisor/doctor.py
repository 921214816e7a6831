"""`advisor doctor`: what this machine can and cannot do, what that means, and how to get the rest.

The facts are gathered once, a separate process (`main`) tries the GPU; all checks are functions of the facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from advisor import units
from advisor.devices import host
from advisor.devices.entries import explained
from advisor.devices.gpus import GpuLinks, gpu_links, gpu_states
from advisor.errors import AdvisorError
from advisor.extras import dotted, driver_version
from advisor.measure.backends import gpu_count, open_backend
from advisor.measure.jobs import CalibrationJob, Probe
from advisor.measure.launcher import Ended, ProcessLauncher
from advisor.measure.worker import run_job
from advisor.nsys.capturing import GET, Nsys, NsysFailed, faults_observable, find
from advisor.profiles.conclusions import Checkup, Finding, info, limited, missing, ok
from advisor.profiles.files import scratch
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
    """In that process; arguments JOB.json and PARENT_PID."""
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
_TOOLKIT = (
    "CuPy compiles kernels with the CUDA Toolkit: on a PC or server pip install 'cupy-cuda13x[ctk]' (or "
    "cupy-cuda12x[ctk]); on a Jetson the toolkit comes with JetPack."
)
_HMM = (
    "On a discrete GPU it needs HMM: Turing or newer, the driver's open kernel modules (535 or newer) and "
    "Linux 6.1.24, 6.2.11 or 6.3 at least."
)
"""NVIDIA's technical blog, "Simplifying GPU Application Development with Heterogeneous Memory Management"."""


def examine(facts: Facts) -> Checkup:
    """Ready where a GPU that is there can be measured on; without one, since predicting needs none."""
    findings = (*_gpu(facts), *_tools(facts), *_host(facts))
    ready = not facts.gpus or (facts.probe is not None and not facts.probe.problem)
    verdict = "There is a GPU, but it cannot be measured yet: see what is missing below."
    if not facts.gpus:
        verdict = "There is no GPU. `advisor profile` runs workloads on the CPU and predicts GPU times."
    elif ready:
        verdict = "`advisor profile` can measure on this machine."
    return Checkup(ready=ready, verdict=verdict, findings=findings)


def _gpu(facts: Facts) -> Iterator[Finding]:
    yield _driver(facts)
    yield _cupy(facts)
    if facts.probe is None:
        return
    device, free = facts.probe.device, facts.probe.free_bytes
    if facts.probe.problem:
        means, step = "nothing can be measured until a kernel runs", facts.probe.next_step or _TOOLKIT
        yield missing("first kernel", facts.probe.problem, means, step)
    else:
        left = "" if free is None else f", {units.size(free)} of its memory free"
        text = f"compiled and ran on {device.name if device else 'the GPU'}{left}"
        yield ok("first kernel", text, "strategies can be measured")
    if device is None:
        return
    kind = device.memory_class
    unknown = "unknown to this version of advisor"
    yield info("memory class", str(kind), explained(kind, device.attributes) if kind else unknown)
    yield _managed(device, facts)
    yield from _links(facts.links)
    plain = "plain memory (HMM, ATS)"
    if device.attributes.get("pageable_memory_access"):
        tables = device.attributes.get("pageable_memory_access_uses_host_page_tables")
        way = "through the host's page tables" if tables else "by HMM"
        access = f"kernels can access malloc memory {way}"
        yield ok(plain, access, "the strategy `system` is measured")
    else:
        step = "" if device.attributes.get("integrated") else _HMM
        yield limited(plain, "kernels cannot access malloc memory", "the strategy `system` is skipped", step)


def _links(gpus: Sequence[GpuLinks]) -> Iterator[Finding]:
    """For each two GPUs: whether they reach each other, over what, and whether they share the host's link."""
    for (first, one), (second, other) in combinations(enumerate(gpus), 2):
        name, over = f"GPU {first} and {second}", "NVLink" if one.nvlinks and other.nvlinks else "PCIe"
        together = one.root_port is not None and one.root_port == other.root_port
        port = f", both below PCIe root port {one.root_port}" * together
        if other.address in one.reaches and one.address in other.reaches:
            means = "`peer` copies from one to the other without the host"
            yield ok(name, f"{over}, peer access{port}", means)
        else:
            means = "copies between them are staged in host memory"
            step = "Check ACS and IOMMU in the firmware settings; in a virtual machine, ask its operator."
            yield limited(name, f"no peer access{port}", means, step)


def _driver(facts: Facts) -> Finding:
    if facts.driver is None:
        return missing(
            "driver",
            "no NVIDIA driver (libcuda.so.1 cannot be loaded)",
            "no GPU measurements; `advisor profile` runs the workload on the CPU and predicts other devices",
            "If there is a GPU, install its driver; start containers with --gpus all.",
        )
    supports = f"the driver supports CUDA up to {dotted(facts.driver)}"
    if not facts.gpus:
        return missing(
            "driver",
            f"{supports} but finds no GPU",
            "the strategies are predicted, not measured",
            "Check nvidia-smi, and whether CUDA_VISIBLE_DEVICES hides the GPU.",
        )
    means = "--gpu chooses the one to measure" if facts.gpus > 1 else "the strategies can be measured here"
    return ok("driver", f"{supports}, {facts.gpus} GPU{'s' * (facts.gpus > 1)}", means)


def _cupy(facts: Facts) -> Finding:
    wheels = {name: version for name, version in facts.packages.items() if name.startswith("cupy")}
    if not wheels:
        means = "nothing can be measured: `advisor profile` predicts" if facts.gpus else "not needed"
        cuda = 13 if facts.driver is None else min(facts.driver // 1000, 13)
        package = f"'gpu-memory-advisor[cuda{cuda}]'" if cuda > 11 else "cupy-cuda11x"
        step = f"pip install {package}" if facts.gpus else ""
        return (missing if facts.gpus else info)("CuPy", "not installed", means, step)
    versions = ", ".join(f"{name} {version}" for name, version in wheels.items())
    if len(wheels) > 1:
        return limited(
            "CuPy",
            versions,
            "several CuPy packages overwrite each other's files",
            f"pip uninstall {' '.join(wheels)}, then install the one for your CUDA.",
        )
    (name,) = wheels
    needed = re.search(r"cuda(\d+)x", name)
    if needed and facts.driver is not None and facts.driver < int(needed[1]) * 1000:
        older = f"{versions}, but the driver supports CUDA up to {dotted(facts.driver)}"
        install = f"pip install cupy-cuda{facts.driver // 1000}x"
        step = f"pip uninstall {name}, then {install}; or update the driver."
        return missing("CuPy", older, "CuPy cannot run a kernel", step)
    return ok("CuPy", versions, "compatible with the driver" if facts.gpus else "unused: there is no GPU")


def _managed(device: Device, facts: Facts) -> Finding:
    if not device.attributes.get("concurrent_managed_access"):
        return limited(
            "managed memory",
            "no concurrent managed access",
            "no prefetch and no hints; the managed strategies attach memory to the stream instead",
            "It depends on the platform: Linux (not WSL) with a discrete GPU of the Pascal generation or "
            "newer, Thor, GB10, GH200 or GB200.",
        )
    if "cuda-bindings" not in facts.packages:
        return limited(
            "managed memory",
            "concurrent managed access, but cuda-bindings is not installed",
            "managed-prefetch and managed-advised cannot run",
            "pip install cuda-bindings for the major version of your CUDA.",
        )
    return ok(
        "managed memory",
        f"concurrent managed access, cuda-bindings {facts.packages['cuda-bindings']}",
        "prefetch and hints are measured",
    )


def _tools(facts: Facts) -> Iterator[Finding]:
    yield _nsys(facts)
    if isinstance(facts.nsys, Nsys) and facts.probe and facts.probe.device:
        if faults_observable(facts.probe.device):
            yield ok("page faults", "nsys can record them", "--trace nsys includes them")
        else:
            means = "a trace has no page faults and no migrations of managed memory"
            yield limited("page faults", "nsys cannot record them on this device", means)
    if facts.gpus:
        yield _nvml(facts)
        access = {True: "root only", False: "available to every user", None: "unknown (no driver parameters)"}
        means = "only Nsight Compute needs them; measuring and --trace nsys do not"
        yield info("GPU counters", access[facts.counters_for_root], means)


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
    tool = f"{facts.nsys.name} at {facts.nsys.path}, nvtx {nvtx}"
    if facts.nsys.version[:2] <= LAST_OLD_NSYS and numbers > LAST_OLD_NVTX:
        return limited(
            "nsys",
            tool,
            "this nsys does not record ranges of nvtx 0.2.12 and later, so --trace nsys sees no frames",
            "pip install 'nvtx<0.2.12', or use a newer nsys.",
        )
    return ok("nsys", tool, "--trace nsys can be used")


def _nvml(facts: Facts) -> Finding:
    lost = "clocks, throttling and other users of the GPU stay unknown; everything else works"
    if not facts.readings:
        if "nvidia-ml-py" in facts.packages:
            return limited("NVML", "not available", lost)
        return limited("NVML", "nvidia-ml-py is not installed", lost, "pip install nvidia-ml-py")
    reading = facts.readings[0]
    if None in (reading.sm_hertz, reading.throttle_reasons, reading.temperature_celsius):
        absent = "; ".join(sorted(set(reading.absent.values()))[:2])
        return limited("NVML", absent or "partly available", "some of its readings are unknown")
    return ok("NVML", f"driver {reading.driver}", "clocks, throttling and other users are recorded")


def _host(facts: Facts) -> Iterator[Finding]:
    yield _memory(facts)
    yield _locked(facts)
    yield _numa(facts)
    board = facts.board
    if board is not None and board.power_mode is None:
        yield info("power mode", "unknown", "results apply to the current mode")
    elif board is not None and board.power_mode == board.best_power_mode:
        yield ok("power mode", str(board.power_mode), "the highest mode; sudo jetson_clocks reduces noise")
    elif board is not None:
        higher = f"{board.power_mode}; {board.best_power_mode} allows higher clocks"
        step = "sudo nvpmodel -m NUMBER (modes are listed in /etc/nvpmodel.conf)."
        yield limited("power mode", higher, "results apply to this mode only", step)
    if facts.host.wsl:
        yield info("runs in", "Windows Subsystem for Linux", "managed memory cannot be prefetched")
    elif facts.host.container:
        means = "other users of the GPU and some of the host's state may not be visible"
        yield info("runs in", "a container", means)


def _memory(facts: Facts) -> Finding:
    free, limit = facts.host.memory_available_bytes, facts.host.memory_limit
    if free is None:
        return info("memory", "unknown", "large workloads may run out of memory")
    least = min(limit, free) if isinstance(limit, int) else free
    capped = f", {units.size(least)} for this container" if least < free else ""
    amount = f"{units.size(free)} free{capped}"
    if least >= _LITTLE_MEMORY:
        return ok("memory", amount, "enough for the example workloads")
    step = "Reduce the workload with --set, or raise the container's memory limit."
    return limited("memory", amount, "strategies that hold data twice may run out of memory", step)


def _locked(facts: Facts) -> Finding:
    limit = facts.host.locked_memory_limit
    if not isinstance(limit, int) or limit >= _LITTLE_LOCKED:
        amount = units.size(limit) if isinstance(limit, int) else limit or "unknown"
        return (ok if limit else info)("locked memory", amount, "see ulimit -l")
    return info(
        "locked memory",
        f"limited to {units.size(limit)} (ulimit -l)",
        "the CUDA driver usually bypasses this limit; if `pinned` or `registered` runs out of memory, "
        "raise it first",
        "Run `ulimit -l unlimited`, or start Docker with --ulimit memlock=-1.",
    )


def _numa(facts: Facts) -> Finding:
    nodes = [node for node in facts.host.numa_nodes if node.cpus]
    if len(nodes) < 2:
        return ok("NUMA", "one node", "pinned memory is always local")
    if facts.gpu_node is None:
        unknown, step = (
            "the GPU's is unknown",
            "Find it with nvidia-smi topo -m and pass it with --numa NUMBER.",
        )
        means = "pinned memory may be on a remote node"
        return limited("NUMA", f"{len(nodes)} nodes; {unknown}", means, step)
    known = f"{len(nodes)} nodes; the GPU is attached to node {facts.gpu_node}"
    return ok("NUMA", known, "pinned memory is allocated there; --numa remote shows the cost of another node")
