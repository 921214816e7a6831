"""Seconds of host stages and the host's copies on the target's CPU, from their bytes and their time here."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from advisor.model import terms
from advisor.model.context import Context
from advisor.model.stages import bytes_of
from advisor.model.terms import Values, constant, log_triangular
from advisor.profiles.traces import HostRates
from advisor.strategies.placement import Placement
from advisor.strategies.schedule import Step

MEMORY_OF_CPUS = 2.0
"""How far another CPU's memory may explain a measured time: one core of an i3-N305 and of an RTX 4090's host
reach 9.9 and 28.6 GB/s, either 1.7 times from their middle."""
WITHIN_90_PERCENT = 1.46
"""Half the base of a triangular distribution over half the range of 90 % of it: 1 / (1 - sqrt(0.1))."""


def host_seconds(at: Context, stage: str) -> Values:
    machine, work = at.machine, at.work(stage)
    memory = constant(0.0)
    for t in at.traffic(stage):
        read, written = bytes_of(at, t)
        placement = at.placements[t.buffer]
        memory = memory + read / _read_rate(at, t.buffer) + written / _rate(at, placement, "write")
    # Temporaries are written and read in turn.
    for what in ("read", "write"):
        memory = memory + work.temporary_bytes / 2 / machine.get(f"host_{what}_bytes_per_second")
    if work.seconds is None:
        return memory
    return _with_measured(at, stage, memory, work.seconds) + _past_the_cache(at, stage)


def _with_measured(at: Context, stage: str, memory: Values, measured: float) -> Values:
    if at.learned.same_device:
        memory = _less_what_is_cached(at, stage, memory, measured)
        # It was measured on pageable memory; a kind of which more is known may be slower.
        other = any(_kind(at, at.placements[t.buffer]) != "host" for t in at.traffic(stage))
        return np.maximum(memory, measured) if other else constant(measured)
    slower = at.machine.model("host_slowdown") * _noise(at)
    here = measured * slower
    if at.trace.host_rates is not None:
        beside = np.maximum(measured - _memory_here(at, stage, at.trace.host_rates), 0.0)
        return _less_what_is_cached(at, stage, memory, here) + beside * slower
    memory = _less_what_is_cached(at, stage, memory, here)
    # At least, a stage takes half its measured time, or its bytes' time if that is more.
    likely = memory[0]
    least = likely > 0 and measured > MEMORY_OF_CPUS * likely
    least_share = 1 - math.log(MEMORY_OF_CPUS) / (math.log(measured) - math.log(likely)) if least else 0.0
    # Most stages are nearly compute-bound, none is more: the median where the density rises up to that end.
    likely_share = least_share + (1 - least_share) * math.sqrt(0.5)
    share = at.machine.drawn(least_share, likely_share, 1.0, f"compute-bound {stage}")
    return terms.host_pass(memory, here, share)  # type: ignore[return-value]


def _memory_here(at: Context, stage: str, rates: HostRates) -> Values:
    """Seconds of a stage's bytes, in its time on the CPU that timed it: from half, where arithmetic goes on
    meanwhile, to somewhat more, where it uses memory less well than one pass does."""
    read = sum((bytes_of(at, t)[0] for t in at.traffic(stage)), constant(0.0))
    written = sum((bytes_of(at, t)[1] for t in at.traffic(stage)), constant(0.0))
    half = at.work(stage).temporary_bytes / 2
    seconds = (read + half) / rates.read_bytes_per_second + (written + half) / rates.write_bytes_per_second
    return seconds * at.machine.drawn(0.5, 1.0, 1.2, f"memory-bound {stage}")


def _noise(at: Context) -> Values:
    """The host times of another run over this one's: the 5th to the 95th percentile are as far apart as
    the run's own processes were."""
    widest = 1 + at.learned.host_spread * WITHIN_90_PERCENT
    return log_triangular(1 / widest, 1.0, widest, "host noise")


def _less_what_is_cached(at: Context, stage: str, memory: Values, measured: terms.Number) -> Values:
    """The time of a stage's bytes: no more than its measured time for what the CPU's largest cache holds of
    all that host stages of a frame touch. An H200's host fills 4 MiB at 29 GB/s and 256 MiB at 9."""
    plain, cache = at.machine.get("host_read_bytes_per_second"), at.machine.find("host_cache_bytes")
    around = any(
        not p.cpu_caches(at.memory_class)
        # Write-combined memory may not be what it says: some hypervisors map it cached, as its reads tell.
        or (p.write_combined and (_kind(at, p) == "host" or _rate(at, p, "read")[0] < plain[0] / 2))
        for p in (at.placements[t.buffer] for t in at.traffic(stage))
    )
    if cache is None or around:
        return memory
    return memory - terms.cached_share(at.host_bytes, cache) * np.maximum(memory - measured, 0.0)


def _past_the_cache(at: Context, stage: str) -> Values:
    """Reads of copies to pageable memory: the driver's CPU copy writes past the CPU's cache, so that a
    stage waits for memory beside its own work."""
    kernels, seconds = {each.name for each in at.workload.frame_stages("device")}, constant(0.0)
    for t in at.traffic(stage):
        access, placement = at.buffers[t.buffer].access, at.placements[t.buffer]
        written = any(mode != "in" for name, mode in access.items() if name in kernels)
        if written and (placement.host_kind, placement.device_kind) == ("pageable", "device"):
            seconds = seconds + np.minimum(t.bytes_read, at.size(t.buffer)) / _rate(at, placement, "read")
    return seconds * at.machine.model("past_the_cache_share")


def foreign_copy(at: Context, step: Step, *, out: bool) -> Values:
    """The host's copy between foreign memory and the program's own: as slow as the slower of the two."""
    own, rate = at.own(step.name), at.machine.get("host_copy_bytes_per_second")
    cached = own.cpu_caches(at.memory_class)
    if not out:
        rate = _rate(at, own, "copy") if cached else rate
    elif not cached:
        rate = _rate(at, own, "read")
    elif _kind(at, own) != "host":
        rate = np.minimum(rate, _rate(at, own, "read"))
    return at.moved(step) / rate


def _rate(at: Context, placement: Placement, what: Literal["read", "write", "copy"]) -> Values:
    """One CPU thread over memory of that kind; copies come from pageable memory. To the CPU managed memory is
    pageable: more than its rate was a buffer that a cache held."""
    rate = at.machine.get(f"{_kind(at, placement, what)}_{what}_bytes_per_second")
    if placement.host_kind != "managed":
        return rate
    return np.minimum(rate, at.machine.get(f"host_{what}_bytes_per_second"))


def _read_rate(at: Context, buffer: str) -> Values:
    """One CPU thread's reads. Where nothing caches them each access takes as long however wide it is: between
    the widest, as calibration's, which is likely, and one for each element."""
    placement, machine = at.placements[buffer], at.machine
    rate, alone = _rate(at, placement, "read"), "host_uncached_access_seconds"
    if placement.cpu_caches(at.memory_class) or not machine.has(alone):
        return rate
    narrow = np.minimum(rate, at.item_bytes(buffer) / machine.get(alone))
    return np.asarray(terms.between(rate, narrow, machine.drawn(0.0, 0.0, 1.0, "width of reads")))


def _kind(at: Context, placement: Placement, what: str = "read") -> str:
    """The begin of the names of its rates: a kind's own, where the entry has them, or pageable memory's."""
    if not placement.cpu_caches(at.memory_class):
        return "host_uncached"
    if placement.registered:
        return "host"
    own = "host_write_combined" if placement.write_combined else f"host_{placement.host_kind}"
    return own if at.machine.has(f"{own}_{what}_bytes_per_second") else "host"
