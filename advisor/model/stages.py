"""Seconds of a frame's steps on the device: kernels, copies, prefetches, page faults.

A kernel takes what arithmetic, device memory, or the path to host memory takes, whichever is longest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.model import terms
from advisor.model.context import Context, Path, scaled
from advisor.model.machines import Machine
from advisor.model.terms import Values, constant
from advisor.profiles.schema import Side
from advisor.profiles.traces import Traffic
from advisor.strategies.placement import Placement
from advisor.strategies.schedule import Step

REREAD_WINDOW = 1 << 16
"""Bytes of mapped memory that every GPU's L1 holds, which calibration reads again and again."""
PAST_THE_WINDOW = (1.0, 2.0)
"""Reused bytes over that window between which L1 hits fall to none: no L1 keeps twice as much."""

BLOCKS = (256, 1024)
"""Threads of a block: what the CUDA C++ Best Practices Guide recommends, and the most, as for tiles of 32."""
SPLIT = 100e-6
"""Seconds at most that idle multiprocessors cost a kernel (a choice): the work of a longer one is split."""
_REREAD = "zero_copy_reread_bytes_per_second"


def kernel_seconds(at: Context, stage: str) -> Values:
    """Time of a stage's kernels with their launches, one for each traced call; without migrations and cache
    maintenance."""
    traffic = at.traffic(stage)
    factor = at.learned.kernel_factor.get(stage, 1.0)
    arithmetic = _arithmetic(at, stage, traffic) * factor
    memory = _memory(at, stage, traffic) * factor + _uncached(at, traffic)
    launch = at.machine.get("launch_seconds")
    launches = max(at.work(stage).calls or 1, 1)
    return np.asarray(terms.kernel(launch, arithmetic, memory, _link(at, traffic), launches))


def asking_seconds(at: Context, step: Step) -> Values:
    """The host's time before the GPU has the step: a launch or copy call, or a library's calls."""
    machine = at.machine
    if step.action != "device":
        kind = "prefetch" if at.own(step.name).managed else "pinned_copy"
        call = machine.get(f"{kind}_call_seconds")
        staged = step.action == "to-device" and at.own(step.name).staged
        return call + into_pool(at, at.moved(step)) if staged else call
    launches = machine.get("launch_seconds") * max(at.work(step.name).calls or 1, 1)
    issuing = at.work(step.name).issue_seconds
    if issuing is None:
        return launches
    return np.maximum(launches, issuing * machine.model("issue_share") * machine.model("host_slowdown"))


def roof_seconds(at: Context, stage: str) -> Values:
    """A device stage bound by arithmetic or by device memory, without its launch."""
    traffic = at.traffic(stage)
    return np.maximum(_arithmetic(at, stage, traffic), _memory(at, stage, traffic))


def bytes_of(at: Context, traffic: Traffic) -> tuple[Values, Values]:
    """Read and written; up to twice as much where they are assumed."""
    factor = at.machine.model("assumed_passes") if traffic.source == "assumed" else constant(1.0)
    return traffic.bytes_read * factor, traffic.bytes_written * factor


def _arithmetic(at: Context, stage: str, traffic: Sequence[Traffic]) -> Values:
    """At a share of the peak: a library's kernels, or one written by hand where passes are declared; between
    the two for a CPU twin, which does not tell."""
    machine, flops = at.machine, at.work(stage).flops
    rate = machine.find("flops_per_second")
    if rate is None or not flops:
        return constant(0.0)
    by_hand = any(t.source == "declared" for t in traffic)
    reached = machine.get("kernel_share" if by_hand else "library_share")
    if at.work(stage).twin:
        tuned = machine.drawn(0.0, 0.5, 1.0, f"tuned {stage}")
        reached = np.asarray(terms.between(machine.get("kernel_share"), reached, tuned))
    clocks = machine.find("clock_share")
    seconds = np.asarray(flops / (rate * reached * (1.0 if clocks is None else clocks)))
    return np.minimum(seconds / _busy_share(at, traffic), seconds + SPLIT) if by_hand else seconds


def _busy_share(at: Context, traffic: Sequence[Traffic]) -> float:
    """How many of the multiprocessors a kernel written by hand uses, with a thread for each element: the 64
    blocks of a product of 256 x 256 matrices run on half of an H200's 132 (measured by us)."""
    threads = max(at.size(t.buffer) / at.item_bytes(t.buffer) for t in traffic)
    passes = max(1.0, *(t.bytes_read / max(at.size(t.buffer), 1) for t in traffic))
    blocks = threads / min(max(threads / passes**2, BLOCKS[0]), BLOCKS[1])
    return min(1.0, max(blocks, 1.0) / (at.machine.multiprocessors or 1))


def _on(at: Context, traffic: Sequence[Traffic], path: Path) -> list[Traffic]:
    """Traffic that goes that way, each buffer by its share."""
    shares = ((t, at.shares(t, path)) for t in traffic)
    return [t if share == 1 else _part(t, share) for t, share in shares if share]


def _part(traffic: Traffic, share: float) -> Traffic:
    again = tuple(scaled(item, share, "bytes", "shared_bytes") for item in traffic.again)
    return scaled(traffic, share, "bytes_read", "bytes_written").model_copy(update={"again": again})


def _memory(at: Context, stage: str, traffic: Sequence[Traffic]) -> Values:
    """Memory that the GPU caches, and the stage's temporaries: memory first, then L2 or memory again."""
    machine, cached = at.machine, _on(at, traffic, "memory")
    l2_bytes = machine.exact("l2_bytes")
    lost = 1 - terms.cached_share(sum(map(at.touched, cached)), l2_bytes) if l2_bytes else constant(1.0)
    from_memory, from_cache = constant(at.work(stage).temporary_bytes), constant(0.0)
    for t in cached:
        read, written = bytes_of(at, t)
        share = _access_share(at, t.buffer)
        first, again = terms.split_passes(read, at.size(t.buffer))
        # A kernel with declared passes mostly reads again what is near; NumPy sweeps over all of it.
        near = l2_bytes and t.source == "declared"
        missed = again * lost * (machine.get("declared_miss_share") if near else 1.0)
        from_memory = from_memory + (first + missed + written) / share
        from_cache = from_cache + again - missed
    seconds = from_memory / machine.kernel_rate()
    l2 = machine.find("l2_bytes_per_second")
    return seconds if l2 is None or not from_cache.any() else seconds + from_cache / l2


def _access_share(at: Context, buffer: str) -> Values | float:
    """How fast kernels reach a buffer of the shared DRAM, over registered memory or the GPU's own."""
    kind = at.own(buffer).device_kind
    if not at.machine.shares_memory or kind not in ("pageable", "managed"):
        return 1.0
    return at.machine.get(f"{kind}_access_share")


def _link(at: Context, traffic: Sequence[Traffic]) -> Values:
    """Host memory used in place over a link: the first pass crosses, and of later ones what is not merged.
    Over a coherent link the L2 keeps it too, and the host's DRAM serves both directions."""
    machine, mapped = at.machine, _on(at, traffic, "link")
    if not mapped:
        return constant(0.0)
    coherent = machine.entry.memory_class == "coherent"
    cached = terms.cached_share(sum(map(at.touched, mapped)), machine.exact("l2_bytes"))
    lost = 1 - cached if coherent else 1.0
    # What crosses the link of that which a kernel with declared passes reads again: blocks that run at the
    # same time ask for the same lines of one of two operands, as in a product of matrices, which merges their
    # requests; of a single operand nothing is merged.
    declared = [t for t in mapped if t.source == "declared" and t.bytes_read > at.size(t.buffer)]
    crossing = machine.get("link_again_share" if len(declared) > 1 else "link_again_alone_share")
    read, written, from_cache = constant(0.0), constant(0.0), constant(0.0)
    for t in mapped:
        its_read, its_written = bytes_of(at, t)
        first, again = terms.split_passes(its_read, at.size(t.buffer))
        if machine.has(_REREAD):
            near = again * terms.cached_share(at.size(t.buffer), REREAD_WINDOW, PAST_THE_WINDOW)
            from_cache = from_cache + near / machine.get(_REREAD)
            again = again - near
        crossed = lost * again * (crossing if t.source == "declared" else 1.0)
        read = read + first + crossed + _by_routines(at, t)
        if coherent:
            from_cache = from_cache + (again - crossed) / machine.get("l2_bytes_per_second")
        written = written + its_written
    into, out = (machine.get(f"zero_copy_{what}_bytes_per_second") for what in ("read", "write"))
    seconds = terms.link_both_ways(read, written, into, out) + from_cache
    host = machine.find("host_memory_bytes_per_second")
    return np.asarray(seconds if host is None else np.maximum(seconds, (read + written) / host))


def _by_routines(at: Context, traffic: Traffic) -> Values:
    """Bytes that library routines read again beyond the traced passes: no L2 keeps them, and what blocks on
    several multiprocessors read, the L1 of each fetches once at least."""
    most = at.machine.multiprocessors or 1
    counted = sum(max(a.bytes, a.shared_bytes * (min(most, a.readers) - 1)) for a in traffic.again)
    if not counted:
        return constant(0.0)
    share = counted * at.machine.model("routine_again_share")
    return share * at.machine.model("assumed_again_share") if traffic.source == "assumed" else share


def _uncached(at: Context, traffic: Sequence[Traffic]) -> Values:
    """Mapped memory of a shared DRAM that the GPU does not cache: every pass from the DRAM."""
    machine, read, written = at.machine, constant(0.0), constant(0.0)
    for t in _on(at, traffic, "uncached"):
        its_read, its_written = bytes_of(at, t)
        share = _access_share(at, t.buffer)
        read = read + (its_read + _by_routines(at, t)) / share
        written = written + its_written / share
    return read / _uncached_rate(machine, "read") + written / _uncached_rate(machine, "write")


def _uncached_rate(machine: Machine, what: str) -> Values:
    """The rate measured on mapped memory, or the published share of an ordinary kernel's rate."""
    measured = f"zero_copy_{what}_bytes_per_second"
    if machine.has(measured):
        return machine.get(measured)
    return machine.kernel_rate() * machine.get("uncached_share")


def transfer(at: Context, step: Step, to: Side) -> Values:
    placement, size = at.own(step.name), at.moved(step)
    if placement.managed:
        return _prefetch(at, placement, size, to)
    if placement.staged and to == "device":
        return into_pool(at, size) + _pinned(at, placement, size, to)
    if not placement.locks:
        rate = at.machine.pageable_rate("to_device" if to == "device" else "to_host")
        return np.asarray(terms.copy(size, at.machine.get("pageable_copy_call_seconds"), rate))
    return _pinned(at, placement, size, to)


def blocks(at: Context, step: Step) -> bool:
    """Whether the step is a copy from or to pageable memory, for which the host waits."""
    if step.action not in ("to-device", "to-host"):
        return False
    placement = at.own(step.name)
    copied = placement.device_kind == "device" and not placement.locks
    return copied and not (placement.staged and step.action == "to-device")


def into_pool(at: Context, size: float) -> Values:
    """The CPU's copy into CuPy's pinned pool."""
    pinned, plain = "host_pinned_copy_bytes_per_second", "host_copy_bytes_per_second"
    uncached = at.machine.entry.memory_class == "tegra"
    return size / at.machine.get(pinned if at.machine.has(pinned) and not uncached else plain)


def _pinned(at: Context, placement: Placement, size: float, to: Side) -> Values:
    rate = link_rate(at, to)
    if placement.write_combined:
        rate = rate * at.machine.get("write_combined_share")
    return np.asarray(terms.copy(size, at.machine.get("pinned_copy_call_seconds"), rate))


def link_rate(at: Context, to: Side) -> Values:
    """Bytes per second of the link in that direction, from page-locked memory."""
    return at.machine.get(f"pinned_to_{to}_bytes_per_second")


def _prefetch(at: Context, placement: Placement, size: float, to: Side) -> Values:
    """A call, and the pages over the link; nothing moves on one DRAM, nor what is kept on both sides. On a
    card the driver also maps each page that comes back to the CPU, one by one and within the call."""
    machine = at.machine
    call = machine.get("prefetch_call_seconds")
    if machine.shares_memory or "read-mostly" in placement.hints:
        return call
    share, rate = machine.find("prefetch_share"), f"prefetch_to_{to}_bytes_per_second"
    moved = size / (machine.get(rate) if machine.has(rate) else link_rate(at, to))
    mapping = machine.find("map_page_seconds") if to == "host" and not machine.has(rate) else None
    if mapping is not None:
        moved = moved + cpu_pages(at, size) * mapping
    return call + moved / (1.0 if share is None else share)


def cpu_pages(at: Context, count: Values | float) -> Values:
    return np.asarray(count) / at.machine.exact("cpu_page_bytes")


def migration(at: Context, buffer: str, count: Values, to: Side) -> Values:
    """Pages of a buffer that the other side had last, moved because this side touches them."""
    machine, touched = at.machine, np.minimum(count, at.size(buffer))
    if at.moves_whole:
        return touched / machine.get(f"migration_to_{to}_bytes_per_second")
    by_rate = machine.find("fault_rate_bytes_per_second")
    first = machine.find("fault_batch_seconds") if to == "device" else None
    first = constant(0.0) if first is None else first
    measured = f"migration_to_{to}_bytes_per_second"
    if by_rate is not None and not machine.has(measured):
        return touched / by_rate + first
    page = machine.exact("migration_bytes" if to == "device" else "cpu_page_bytes")
    fault, link = machine.get("fault_seconds"), link_rate(at, to)
    if machine.has(measured):
        return terms.migration_at(touched, page, fault, link, machine.get(measured)) + first
    return terms.migration(touched, page, fault, link) + first
