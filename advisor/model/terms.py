"""The terms of a frame's time, each one formula with its source, and the draws of all that is uncertain.

Seconds, bytes, bytes per second. Every argument may be an array of draws, of shape (1 + DRAWS,): the likely
value first, then `DRAWS` values from its range; the formulas work element by element. All strategies and
devices see the same draws, so that a ratio is computed draw by draw and what two strategies share cancels
out of it.
"""

from __future__ import annotations

import math
import zlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

DRAWS = 200
SEED = 20_210_401
LOW, HIGH = 5.0, 95.0
"""Percentiles that a range runs between."""


@lru_cache(maxsize=256)
def quantiles(name: str) -> Values:
    """`DRAWS` numbers in (0, 1), one in each of as many equal parts, in an order of the name's own.

    Latin hypercube sampling (McKay, Beckman, Conover, Technometrics 21(2) 1979): a few hundred draws hold
    the percentiles steady.
    """
    generator = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    numbers: Values = (generator.permutation(DRAWS) + generator.random(DRAWS)) / DRAWS
    numbers.flags.writeable = False
    return numbers


def constant(value: float) -> Values:
    """One value in every draw."""
    return np.full(1 + DRAWS, value)


def triangular(low: float, likely: float, high: float, name: str) -> Values:
    """`likely`, then draws of which it is the median: the density of either half falls in a line towards its
    end of the range. A likely value near one end is then not at the end of what follows from the draws."""
    draws = constant(likely)
    if high > low:
        u = quantiles(name)
        rising = low + np.sqrt(2 * u) * (likely - low)
        falling = high - np.sqrt(2 * (1 - u)) * (high - likely)
        draws[1:] = np.where(u < 0.5, rising, falling)
    return draws


def log_triangular(low: float, likely: float, high: float, name: str) -> Values:
    """`triangular` on a logarithmic scale, which suits rates and times whose ranges span factors."""
    draws = np.exp(triangular(np.log(low), np.log(likely), np.log(high), name))
    draws[0] = likely
    return draws


def span(values: Values) -> tuple[float, float, float]:
    """5th percentile of all draws, likely value, 95th percentile.

    The likely value is that of the likely figures, which is nearer to published ones than the median
    draw (docs/model.md); the median only where the draws leave it out of their range.
    """
    low, median, high = (float(x) for x in np.percentile(values[1:], (LOW, 50.0, HIGH)))
    likely = float(values[0])
    return low, likely if low <= likely <= high else median, high


Number = float | Values

BLOCK = 2 << 20
"""The driver manages memory in blocks of 2 MB (Allen and Ge, "In-Depth Analyses of Unified Virtual Memory
System for GPU Accelerated Computing", SC 2021)."""


def copy(count: Number, call: Number, rate: Number) -> Number:
    """One copy: a fixed cost for the call and the bytes at the link's rate.

    CUDA C++ Best Practices Guide, "Data Transfer Between Host and Device": batch small transfers.
    """
    return call + count / rate


def staged_rate(link: Number, host_copy: Number, hidden: Number = 0.0) -> Number:
    """Rate of a copy from pageable memory: a CPU copy into a pinned buffer, then the link.

    CUDA C++ Best Practices Guide, "Pinned Memory". `hidden` is how far the CPU's copy of one piece goes on
    beside the link's transfer of another: at 0 the times of both add up, at 1 the slower one decides.
    """
    slower, faster = np.minimum(link, host_copy), np.maximum(link, host_copy)
    power = 1 / (1 - np.minimum(hidden, 0.99))
    return np.asarray(slower / (1 + (slower / faster) ** power) ** (1 / power))


def between(one: Number, other: Number, share: Number) -> Number:
    """From one value to another on a logarithmic scale; `share` 0 is the first, 1 the second."""
    return np.asarray(one) ** (1 - share) * np.asarray(other) ** share


KEPT = (0.7, 1.5)
"""A cache begins to lose what is swept over a little below its size and keeps none of it a little above:
associativity, what else it holds, and replacement that is not quite the oldest first."""


def cached_share(count: Number, cache: Number, ends: tuple[float, float] = KEPT) -> Values:
    """The share of `count` bytes that a cache holds until they are read again: 1, then fading, then 0.

    It fades between `ends`, shares of the cache's size, on a logarithmic scale.
    """
    low, high = np.log(ends)
    with np.errstate(divide="ignore"):
        fill = np.log(np.asarray(count, dtype=float)) - np.log(np.asarray(cache, dtype=float))
    return np.asarray(np.clip((high - fill) / (high - low), 0.0, 1.0))


def split_passes(read: Number, size: float) -> tuple[Number, Number]:
    """Bytes of the first pass over a buffer of `size`, and those of all later ones.

    The first pass comes from memory, later ones from a cache where it keeps what was read. A cyclic sweep
    keeps everything that fits and nothing of what does not (LRU; Hennessy and Patterson, appendix B).
    """
    first = np.minimum(read, size)
    return first, read - first


def kernel(launch: Number, arithmetic: Number, memory: Number, link: Number, launches: int = 1) -> Number:
    """Launch, then the longest of arithmetic, memory and link (Williams et al., "Roofline", CACM 2009).

    Of several kernels the later launches go on while the earlier ones run (CUDA C++ Programming Guide,
    "Asynchronous Concurrent Execution"), so that the longer of launching and running decides.
    """
    running = np.maximum(np.maximum(arithmetic, memory), link)
    return launch + np.maximum(running, (launches - 1) * launch)


def link_both_ways(read: Number, written: Number, read_rate: Number, write_rate: Number) -> Number:
    """Mapped host memory over a link: the two directions work at once.

    CUDA C++ Best Practices Guide, "Zero Copy".
    """
    return np.maximum(read / read_rate, written / write_rate)


def fault_count(count: Number, page: float) -> Number:
    """Faults that bring `count` bytes over when touched in order, with the driver's tree prefetcher.

    A fault brings its page; where more than half of an aligned region of twice the size is then there, it
    brings all of that region, and so on up to a block of 2 MB. So a block takes 1 + log2(block / page)
    faults (Ganguly et al., ISCA 2019: tree-based neighbourhood prefetcher; ObservUVM: threshold 51 %), of a
    part of a block as many on average as its size says: at least one in all.
    """
    blocks, rest = np.divmod(np.asarray(count, dtype=float), BLOCK)
    pages = rest / page
    rest_of_a_block = np.minimum(pages, 1) + np.log2(np.maximum(pages, 1))
    faults = blocks * (1 + math.log2(BLOCK / page)) + rest_of_a_block
    return np.asarray(np.maximum(faults, np.minimum(count, 1)))


def migration(count: Number, page: float, fault: Number, link: Number) -> Number:
    """Managed memory that changes side by faults: their service, and the bytes over the link, in turn.

    10 to 50 µs a fault: ObservUVM.
    """
    return fault_count(count, page) * fault + count / link


def migration_at(count: Number, page: float, fault: Number, link: Number, rate: Number) -> Number:
    """The same where the rate of migration in order was measured, which whole blocks then take.

    Of a part of a block the formula above tells how much it takes of a whole one.
    """
    return migration(count, page, fault, link) * (BLOCK / rate) / migration(BLOCK, page, fault, link)


def maintenance(count: Number, cache: Number, rate: Number) -> Number:
    """Write-back of what a cache may hold of managed memory: at most its size, at the rate of writing.

    CUDA for Tegra, "Unified Memory": coherence is kept by cache maintenance at launch and synchronise.
    """
    return np.minimum(count, cache) / rate


def host_pass(memory: Number, measured: Number, share: Number) -> Number:
    """A host stage between two bounds: its traffic at the target's rates, and its time on this CPU.

    Memory-bound stages cost the first, compute-bound ones the second, and none less than the first. `share`
    says where between the two on a logarithmic scale; a stage with no traffic costs the second.
    """
    if np.all(np.asarray(memory) == 0):
        return measured
    return between(memory, np.maximum(memory, measured), share)


def overlapped(host: Number, upload: Number, kernels: Number, download: Number, chain: Number) -> Number:
    """Time per frame of overlapping frames: the slowest resource, or half of a frame's whole chain.

    The CPU, either direction of the link and the kernels each serve one frame at a time; with two sets of
    buffers a frame can only begin when the last but one has ended.
    """
    busiest = np.maximum(np.maximum(host, kernels), np.maximum(upload, download))
    return np.maximum(busiest, chain / 2)
