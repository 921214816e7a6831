"""The terms of a frame's time, each one formula with its source. Seconds, bytes, bytes per second."""

from __future__ import annotations

import math


def stream(count: float, rate: float) -> float:
    """Bytes over a path at its rate."""
    return count / rate


def copy(count: float, call: float, rate: float) -> float:
    """One copy: a fixed cost for the call and the bytes at the link's rate.

    CUDA C++ Best Practices Guide, "Data Transfer Between Host and Device": batch small transfers.
    """
    return call + count / rate


def staged_rate(link: float, host_copy: float) -> float:
    """Rate of a copy from pageable memory: a CPU copy into a pinned buffer, then the link, in turn.

    CUDA C++ Best Practices Guide, "Pinned Memory". Without overlap the times of both add up; with perfect
    overlap the slower one decides (see `overlapped_rate`).
    """
    return 1 / (1 / link + 1 / host_copy)


def overlapped_rate(link: float, host_copy: float) -> float:
    """The same with the CPU's copy of one piece hidden behind the link's transfer of another."""
    return min(link, host_copy)


def split_passes(read: float, size: float, *, cached: bool) -> tuple[float, float]:
    """Bytes read from memory and from the cache, of `read` bytes from a buffer of `size`.

    The first pass comes from memory, later ones from the cache where it keeps what was read. A cyclic
    sweep keeps everything that fits and nothing of what does not (LRU; Hennessy and Patterson, appendix B).
    """
    first = min(read, size)
    again = read - first
    return (first, again) if cached else (read, 0.0)


def kernel(launch: float, arithmetic: float, memory: float) -> float:
    """Launch, then the longer of arithmetic and memory (Williams et al., "Roofline", CACM 52(4) 2009)."""
    return launch + max(arithmetic, memory)


def link_both_ways(read: float, written: float, read_rate: float, write_rate: float) -> float:
    """Mapped host memory over PCIe: the two directions work at once; every pass crosses.

    CUDA C++ Best Practices Guide, "Zero Copy": data is not cached on the GPU.
    """
    return max(read / read_rate, written / write_rate)


def faults(count: float, granule: float, fault: float) -> float:
    """Managed memory that changes side on a discrete GPU: one served fault per granule, transfer included.

    64 KB and 10 to 50 µs: ObservUVM (full text); GTX 1080 streams at about 12 µs per 64 KB
    (parallelArchitect/pascal-um-benchmark).
    """
    return math.ceil(count / granule) * fault


def maintenance(count: float, cache: float, rate: float) -> float:
    """Write-back of what a cache may hold of managed memory: at most its size, at the rate of writing.

    CUDA for Tegra, "Unified Memory": coherence is kept by cache maintenance at launch and synchronise.
    """
    return min(count, cache) / rate


def host_pass(memory: float, measured: float | None) -> float:
    """A host stage between two bounds: its traffic at the target's rates, and its time on this CPU.

    Memory-bound stages cost the first, compute-bound ones at least the second; in between the middle of
    the two on a logarithmic scale.
    """
    return memory if measured is None else math.sqrt(memory * max(memory, measured)) if memory else measured
