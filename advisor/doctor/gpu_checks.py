"""The driver, CuPy, and the GPU with what its memory allows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from advisor import units
from advisor.devices.links import GpuLinks
from advisor.devices.memory_class import explained
from advisor.doctor.facts import Facts
from advisor.doctor.probe import Probe
from advisor.profiles.checkup import Finding, info, limited, missing, ok
from advisor.profiles.schema import Device

_TOOLKIT = (
    "CuPy compiles kernels with the CUDA Toolkit: on a PC or server pip install 'cupy-cuda13x[ctk]' (or "
    "cupy-cuda12x[ctk]); on a Jetson the toolkit comes with JetPack."
)
_HMM = (
    "On a discrete GPU it needs HMM: Turing or newer, the driver's open kernel modules (535 or newer) and "
    "Linux 6.1.24, 6.2.11 or 6.3 at least."
)
"""NVIDIA's technical blog, "Simplifying GPU Application Development with Heterogeneous Memory Management"."""


def gpu_findings(facts: Facts) -> Iterator[Finding]:
    """From the driver down to the single capability."""
    yield _driver(facts)
    yield _cupy(facts)
    if facts.probe is None:
        return
    yield _first_kernel(facts.probe)
    device = facts.probe.device
    if device is not None:
        kind = device.memory_class
        unknown = "unknown to this version of advisor"
        yield info("memory class", str(kind), explained(kind, device.attributes) if kind else unknown)
        yield _managed(device, facts)
        yield from _links(facts.links)
        yield _system(device)


def _links(gpus: Sequence[GpuLinks]) -> Iterator[Finding]:
    """For each two GPUs: whether they reach each other, over what, and whether they share the host's link."""
    for (first, one), (second, other) in combinations(enumerate(gpus), 2):
        over = "NVLink" if one.nvlinks and other.nvlinks else "PCIe"
        reached = other.address in one.reaches and one.address in other.reaches
        told = f"{over}, peer access" if reached else "no peer access"
        together = one.root_port is not None and one.root_port == other.root_port
        means = (
            f"both are below PCIe root port {one.root_port} and share its link to the host"
            if together
            else ""
        )
        name = f"GPU {first} and {second}"
        if reached:
            yield ok(name, told, means or "`peer` copies from one to the other without the host")
        else:
            step = "Check ACS and IOMMU in the firmware settings; in a virtual machine, ask its operator."
            yield limited(name, told, means or "copies between them are staged in host memory", step)


def _driver(facts: Facts) -> Finding:
    if facts.driver is None:
        return missing(
            "driver",
            "no NVIDIA driver (libcuda.so.1 cannot be loaded)",
            "no GPU measurements; `advisor profile` runs the workload on the CPU and predicts other devices",
            "If there is a GPU, install its driver; start containers with --gpus all.",
        )
    supports = f"the driver supports CUDA up to {_version(facts.driver)}"
    if not facts.gpus:
        return missing(
            "driver",
            f"{supports} but finds no GPU",
            "the strategies are predicted, not measured",
            "Check nvidia-smi, and whether CUDA_VISIBLE_DEVICES hides the GPU.",
        )
    if facts.gpus == 1:
        return ok("driver", f"{supports}, 1 GPU", "the strategies can be measured here")
    return ok("driver", f"{supports}, {facts.gpus} GPUs", "--gpu chooses the one to measure")


def _cupy(facts: Facts) -> Finding:
    wheels = {name: version for name, version in facts.packages.items() if name.startswith("cupy")}
    if not wheels:
        means = "nothing can be measured: `advisor profile` predicts" if facts.gpus else "not needed"
        extra = "cuda12" if facts.driver is not None and facts.driver < 13000 else "cuda13"
        step = f"pip install 'gpu-memory-advisor[{extra}]'" if facts.gpus else ""
        return (missing if facts.gpus else info)("CuPy", "not installed", means, step)
    found = ", ".join(f"{name} {version}" for name, version in wheels.items())
    if len(wheels) > 1:
        return limited(
            "CuPy",
            found,
            "several CuPy packages overwrite each other's files",
            f"pip uninstall {' '.join(wheels)}, then install the one for your CUDA.",
        )
    name = next(iter(wheels))
    needed = re.search(r"cuda(\d+)x", name)
    if needed and facts.driver is not None and facts.driver < int(needed[1]) * 1000:
        major = facts.driver // 1000
        return missing(
            "CuPy",
            f"{found}, but the driver supports CUDA up to {_version(facts.driver)}",
            "CuPy cannot run a kernel",
            f"pip uninstall {name}, then pip install cupy-cuda{major}x; or update the driver.",
        )
    means = "compatible with the driver" if facts.gpus else "unused: there is no GPU"
    return ok("CuPy", found, means)


def _first_kernel(told: Probe) -> Finding:
    if told.problem:
        means = "nothing can be measured until a kernel runs"
        return missing("first kernel", told.problem, means, told.next_step or _TOOLKIT)
    free = f", {units.size(told.free_bytes)} of its memory free" if told.free_bytes is not None else ""
    name = told.device.name if told.device else "the GPU"
    return ok("first kernel", f"compiled and ran on {name}{free}", "strategies can be measured")


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


def _system(device: Device) -> Finding:
    if device.attributes.get("pageable_memory_access"):
        tables = device.attributes.get("pageable_memory_access_uses_host_page_tables")
        found = "kernels can access malloc memory " + (
            "through the host's page tables" if tables else "by HMM"
        )
        return ok("plain memory (HMM, ATS)", found, "the strategy `system` is measured")
    return limited(
        "plain memory (HMM, ATS)",
        "kernels cannot access malloc memory",
        "the strategy `system` is skipped",
        "" if device.attributes.get("integrated") else _HMM,
    )


def _version(cuda: int) -> str:
    return f"{cuda // 1000}.{cuda % 1000 // 10}"
