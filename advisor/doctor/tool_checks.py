"""nsys and nvtx and their fit, NVML, and who may read the GPU's counters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.doctor.facts import Facts
from advisor.nsys.program import GET, Nsys, faults_observable
from advisor.profiles.checkup import Finding

LAST_OLD_NSYS = (2023, 4)
LAST_OLD_NVTX = (0, 2, 11)
"""Tried: nsys 2022.4 and 2023.4 record the ranges of nvtx 0.2.11, and none of 0.2.12 or 0.2.16."""


def tool_findings(facts: Facts) -> Iterator[Finding]:
    """Tools beside the main job."""
    yield _nsys(facts)
    if isinstance(facts.nsys, Nsys) and facts.probe and facts.probe.device:
        yield _faults(facts)
    if facts.gpus:
        yield _nvml(facts)
        yield _counters(facts)


def understands(nsys: tuple[int, ...], nvtx: tuple[int, ...]) -> bool:
    """Whether that nsys records that nvtx's ranges, as far as is known."""
    return nsys[:2] > LAST_OLD_NSYS or nvtx <= LAST_OLD_NVTX


def _nsys(facts: Facts) -> Finding:
    if isinstance(facts.nsys, str):
        return Finding(
            subject="nsys",
            state="missing",
            found=facts.nsys,
            means="no --trace nsys: no copies, migrations and page faults as the driver saw them. Everything "
            "else works",
            next_step=GET,
        )
    nvtx = facts.packages.get("nvtx", "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", nvtx)[:3])
    found = f"{facts.nsys.name} at {facts.nsys.path}, nvtx {nvtx}"
    if not understands(facts.nsys.version, numbers):
        return Finding(
            subject="nsys",
            state="limited",
            found=found,
            means="nsys of that age records no ranges of nvtx from 0.2.12 on, so that --trace nsys sees none",
            next_step="pip install 'nvtx<0.2.12', or use a newer nsys.",
        )
    return Finding(subject="nsys", state="ok", found=found, means="--trace nsys can be used")


def _faults(facts: Facts) -> Finding:
    assert facts.probe is not None
    assert facts.probe.device is not None
    if faults_observable(facts.probe.device):
        return Finding(
            subject="page faults", state="ok", found="nsys can watch them here", means="they are in its trace"
        )
    return Finding(
        subject="page faults",
        state="limited",
        found="nsys cannot watch them on this device",
        means="a trace has no page faults and no migrations of managed memory",
    )


def _nvml(facts: Facts) -> Finding:
    if facts.readings:
        reading = facts.readings[0]
        known = sum(
            figure is not None
            for figure in (reading.sm_hertz, reading.throttle_reasons, reading.temperature_celsius)
        )
        if known == 3:
            means = "clocks, throttling and other users of the GPU are recorded"
            return Finding(subject="NVML", state="ok", found=f"driver {reading.driver}", means=means)
        absent = "; ".join(sorted(set(reading.absent.values()))[:2])
        means = "some of clocks, heat and throttling stay unknown"
        return Finding(subject="NVML", state="limited", found=absent or "it tells only a part", means=means)
    installed = "nvidia-ml-py" in facts.packages
    return Finding(
        subject="NVML",
        state="limited",
        found="it cannot be reached" if installed else "nvidia-ml-py is not installed",
        means="clocks, throttling and other users of the GPU stay unknown; nothing else suffers",
        next_step="" if installed else "pip install nvidia-ml-py",
    )


def _counters(facts: Facts) -> Finding:
    only_root = {True: "for root alone", False: "open to every user", None: "unknown (no driver parameters)"}
    return Finding(
        subject="GPU counters",
        state="info",
        found=only_root[facts.counters_for_root],
        means="neither measuring nor --trace nsys needs them; Nsight Compute does",
    )
