"""A profile that was measured on a GPU: its kernels' and host stages' times, for other devices, and how far
the model is from it on its own device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from advisor.devices.catalogue import load, named, names
from advisor.devices.entries import Attribute, CatalogueEntry
from advisor.model.context import Context, Learned
from advisor.model.machines import Machine
from advisor.model.simulate import Simulated, simulate, with_declared
from advisor.model.stages import roof_seconds
from advisor.model.terms import Values
from advisor.profiles.schema import Device, Measured, Profile, Trace
from advisor.profiles.traces import StageWork
from advisor.strategies.registry import STRATEGIES, Strategy, shared

UNEXPLAINED_WHERE_MEASURED = 0.5
"""Exponent of the unexplained rest where stages were measured, beside this device or another. A quarter,
taken first for this device, held half of an H200's frames (docs/accuracy.md)."""
MEMORY_MARGIN = 0.1
"""How far a device's memory may be from an entry's: carve-outs take a few percent of a Jetson's."""


def modelled(profile: Profile) -> dict[str, Values]:
    """Seconds a frame of each measured strategy on the profile's own GPU, by the model and the traced traffic
    alone; empty where the catalogue has no entry for it or the traffic is unknown."""
    entry = entry_of(profile.device) if profile.device.kind == "cuda" else None
    if entry is None:
        return {}
    measured = profile.measured()
    chosen = [strategy for strategy in STRATEGIES if strategy.name in measured]
    outcomes = simulate(profile.workload, profile.traffic, Machine(entry), chosen)
    return {name: each.seconds for name, each in outcomes.items() if isinstance(each, Simulated)}


def learned(profile: Profile, target: Machine) -> Learned:
    """Figures that a measured profile has beyond the trace: of a CPU's, more frames of host stages."""
    measured = profile.measured()
    if profile.device.kind != "cuda":
        spread, rows = host_spread(profile), [row.stage_seconds for row in measured.values()]
        trace = timed_by(profile, rows, beside=True)
        return Learned(trace, host_spread=cpu_busy(profile) if spread is None else spread)
    if not measured or profile.workload.gpus > 1:
        return Learned(profile.traffic)
    # Only calibration writes down what CUDA reports of the memory, to the byte: the entry is of this very
    # kind of device where all attributes agree that both have.
    theirs = profile.device.attributes
    both = {key: a.value for key, a in target.entry.attributes.items() if key in theirs}
    own = "total_global_mem" in both and all(value == theirs[key] for key, value in both.items())
    entry = target.entry if own else entry_of(profile.device)
    trace, host_timed = _host_stages(profile, measured)
    factors = {} if entry is None else _kernel_factors(profile, trace, measured, Machine(entry))
    same = entry is not None and entry.origin == target.entry.origin
    name = profile.device.name
    sentences = [f"Host stages are based on their measured time on the host of {name}."] if host_timed else []
    if factors:
        sentences.append(
            f"Kernels are based on their measured time on {name}, scaled by the model's ratio of the two "
            "devices."
        )
    elif entry is None:
        sentences.append(f"The catalogue has no entry for {name}, so its kernel times could not be scaled.")
    unexplained = UNEXPLAINED_WHERE_MEASURED if factors or host_timed else 1.0
    return Learned(trace, factors, same, unexplained, tuple(sentences))


def _host_stages(profile: Profile, measured: Mapping[str, Measured]) -> tuple[Trace | None, bool]:
    """The median over strategies: one process's memory differs from the next one's by a tenth or two."""
    serial = [s for s in STRATEGIES if s.name in measured and not s.pipelined]
    memory_class, cached = profile.device.memory_class, []
    for strategy in serial:
        placements = strategy.placements(profile.workload)
        # Host stages run on memory that the CPU caches and cannot migrate: locked, or copied from.
        if all(
            placed.cpu_caches(memory_class)
            and (placed.locks or placed.movement(memory_class) == "copied")
            and not placed.own.write_combined
            for placed in (placements[buffer.name] for buffer in shared(profile.workload))
        ):
            cached.append(strategy)
    faulting = [s for s in serial if s.placement.managed and not s.placement.prefetched]
    rows = [measured[strategy.name].stage_seconds for strategy in cached or faulting]
    timed = bool(rows and profile.traffic and profile.workload.frame_stages("host"))
    return timed_by(profile, rows), timed


def timed_by(profile: Profile, rows: Sequence[Mapping[str, float]], *, beside: bool = False) -> Trace | None:
    """The trace with the median of these times of host stages; `beside` what the traced run took."""
    if not rows or profile.traffic is None:
        return profile.traffic
    work = {w.stage: w for w in profile.traffic.work}
    for stage, seconds in _host_times(profile, profile.traffic, rows, beside=beside).items():
        before = work.get(stage, StageWork(stage=stage))
        work[stage] = before.model_copy(update={"seconds": median(seconds)})
    return profile.traffic.model_copy(update={"work": tuple(work.values())})


def _host_times(
    profile: Profile, trace: Trace, rows: Sequence[Mapping[str, float]], *, beside: bool
) -> dict[str, list[float]]:
    before, times = {w.stage: w.seconds for w in trace.work}, {}
    for stage in profile.workload.frame_stages("host"):
        share = stage.every / trace.times(stage.loop)
        seconds = [row[stage.name] * share for row in rows if stage.name in row]
        traced = before.get(stage.name)
        if beside and traced is not None:
            seconds.append(traced)
        if seconds and (traced is not None or not beside):
            times[stage.name] = seconds
    return times


def host_spread(profile: Profile) -> float | None:
    """How far apart the processes of a run on this CPU timed all host stages of a frame: half of the range
    over the median; and by how much other programs, which slow all of them, may have moved that. None where
    fewer than three timed them."""
    if profile.device.kind != "cpu" or profile.traffic is None:
        return None
    rows = [row.stage_seconds for row in profile.measured().values()]
    times = _host_times(profile, profile.traffic, rows, beside=True).values()
    totals = [sum(each) for each in zip(*times, strict=False)]
    if len(totals) < 3:
        return None
    apart: float = (max(totals) - min(totals)) / 2 / max(median(totals), 1e-12)
    return (1 + apart) * (1 + cpu_busy(profile)) - 1


def cpu_busy(profile: Profile) -> float:
    """The share of this CPU that other programs used. A thread that shares its core with one other gets half
    of it, so stages take up to 1 + this share as long as on an idle machine."""
    return profile.environment.cpu_busy or 0.0


def _kernel_factors(
    profile: Profile, trace: Trace | None, measured: Mapping[str, Measured], source: Machine
) -> dict[str, Values]:
    """Measured time over the model's, by device stage: what the kernel does not reach of the roofline."""

    def extras(strategy: Strategy) -> tuple[bool, ...]:
        placement = strategy.placement
        return placement.write_combined, placement.staged, placement.registered, not placement.locks

    # On device memory: the strategy that does least beside its kernels.
    serial = (s for s in STRATEGIES if s.name in measured and not s.pipelined)
    strategy = min((s for s in serial if s.placement.device_kind == "device"), key=extras, default=None)
    known = with_declared(profile.workload, trace)
    if strategy is None or isinstance(known, str):
        return {}
    at = Context(profile.workload, known, strategy, source)
    factors = {}
    for stage in profile.workload.frame_stages("device"):
        seconds, roof = measured[strategy.name].stage_seconds.get(stage.name), roof_seconds(at, stage.name)
        if seconds and roof.all():
            # A kernel shorter than a launch was mostly that; a tenth of it is then its own.
            seconds *= stage.every / known.times(stage.loop)
            own = np.maximum(seconds - source.get("launch_seconds"), seconds / 10)
            factors[stage.name] = own / roof
    return factors


def entry_of(device: Device) -> CatalogueEntry | None:
    """The catalogue's entry for a measured device, by its name; None where that is not certain.

    Jetsons all report the name of their chip: then memory class and size must single one out.
    """
    kind, memory = (device.memory_class or "").removesuffix("-hmm"), device.attributes.get("total_global_mem")
    entry = named(device.name)
    alike = (
        [entry]
        if entry
        else [load(name) for name in names() if set(device.name.lower().split()) & set(name.split("-"))]
    )
    matches = [each for each in alike if each.memory_class.removesuffix("-hmm") == kind]
    if entry is None:
        size = memory if isinstance(memory, (int, float)) else 0
        shared = (each for each in matches if each.attributes["integrated"].value)
        matches = [e for e in shared if abs(size / e.figures.memory_bytes.value - 1) <= MEMORY_MARGIN]
    if len(matches) != 1 or matches[0].memory_class == device.memory_class:
        return matches[0] if len(matches) == 1 else None
    # Whether a card has HMM depends on the kernel and the driver: as on the machine that was measured.
    flag = Attribute(value=int(device.memory_class == "discrete-hmm"), source="the measured device")
    attributes = {**matches[0].attributes, "pageable_memory_access": flag}
    return matches[0].model_copy(update={"memory_class": device.memory_class, "attributes": attributes})


PATH = Path(__file__).parent / "accuracy.json"


@lru_cache(maxsize=1)
def by_class() -> dict[str, dict[str, Any]]:
    """The model against published cases of families left out of its fit, by memory class; others are absent.

    `choices`: cases with several strategies. `right_share`: of these, in which the recommended one is the
    published best or within 5 % of it; `regret_mean`: by how much it took longer than the best; the same of a
    rule (managed on one memory; on cards pinned, zero-copy for small sizes) begins with `rule_`.
    `ratio_error_median`: by how much the predicted ratio of two strategies misses the published one.
    `inside_share`: of the `figures`, in the predicted range. None where no case can give one.
    """
    rows: dict[str, dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))["by_class"]
    return rows
