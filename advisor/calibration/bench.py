"""Times work on a backend and keeps the figures, with the reason for each that is missing; buffer sizes; from
times to rates and latencies with their ranges.

The line time = latency + size / rate is fitted to the medians of the repeats: its slope is the median of the
slopes of all pairs of sizes (Theil, 1950; Sen, JASA 63, 1968), which up to 29 % of wrong times move little.
Its intercept is the median of what the slope leaves, each size weighted by 1/time: the noise of a time
grows with it, so that only short ones can tell a latency.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from advisor import units
from advisor.devices.host import ROOT, Tree, host_state
from advisor.measure.jobs import GroupRun, Reading
from advisor.profiles.schema import Device
from advisor.strategies.backend import Backend

METHOD = "Theil-Sen fit of time = latency + size / rate to medians"
_ENDS = (10.0, 90.0)
"""Percentiles of the repeats that make a range: a single disturbed repeat of many does not widen it."""


@dataclass(frozen=True)
class Spread:
    """A value with its range over so many repeats: low <= value <= high."""

    value: float
    low: float
    high: float
    repeats: int


def spread(values: Sequence[float]) -> Spread:
    """Median, 10th and 90th percentile. Raises `ValueError` without values."""
    if not len(values):
        raise ValueError("nothing was measured")
    low, high = (float(end) for end in np.percentile(values, _ENDS))
    return _ordered(float(np.median(values)), low, high, len(values))


def fit(sizes: Sequence[float], times: Sequence[float]) -> tuple[float, float]:
    """Latency and slope of the robust line through (size, seconds). Raises `ValueError` for one size."""
    pairs = combinations(zip(sizes, times, strict=True), 2)
    slopes = [(tb - ta) / (b - a) for (a, ta), (b, tb) in pairs if a != b]
    if not slopes:
        raise ValueError("a fit needs at least two sizes")
    slope = float(np.median(slopes))
    offsets = np.asarray(times) - slope * np.asarray(sizes)
    order = np.argsort(offsets)
    upto = np.cumsum(1 / np.maximum(times, 1e-12)[order])
    return float(offsets[order][np.searchsorted(upto, upto[-1] / 2)]), slope


def fit_repeats(sizes: Sequence[float], repeats: Sequence[Sequence[float]]) -> tuple[Spread, Spread]:
    """Latency and slope (seconds per unit of size) with their ranges; `repeats` has the times of each size.

    The values are those of the line through the medians, the ranges span the lines of the single repeats.
    """
    count = min(len(times) for times in repeats)
    middle = fit(sizes, [float(np.median(times)) for times in repeats])
    lines = [fit(sizes, [times[i] for times in repeats]) for i in range(count)]
    latencies, slopes = map(spread, zip(*lines, strict=True))
    return (
        _ordered(middle[0], latencies.low, latencies.high, count),
        _ordered(middle[1], slopes.low, slopes.high, count),
    )


def rates(amount: float, seconds: Sequence[float]) -> Spread:
    """`amount` per second; a disturbed difference may be negative. Raises `ValueError` where most are."""
    if len(seconds) and np.median(seconds) <= 0:
        raise ValueError("the times are below the clock's resolution")
    return inverse(spread([s / amount for s in seconds]))


def inverse(slope: Spread) -> Spread:
    """The rate of a slope. Raises `ValueError` where time does not grow with size."""
    if slope.value <= 0:
        raise ValueError("the time does not increase with the size")
    low = 1 / slope.high
    high = 1 / slope.low if slope.low > 0 else 1 / slope.value
    return _ordered(1 / slope.value, low, high, slope.repeats)


def positive(latency: Spread) -> Spread:
    """A latency that differs from zero, its low end positive too. Raises `ValueError` where it cannot."""
    if latency.value <= 0:
        raise ValueError("not distinguishable from zero")
    low = latency.low if latency.low > 0 else latency.value / 2
    return _ordered(latency.value, low, latency.high, latency.repeats)


def _ordered(value: float, low: float, high: float, repeats: int) -> Spread:
    return Spread(value, min(value, low), max(value, high), repeats)


Work = Callable[[], object]

_MIB = 1 << 20
_SHARE = 16
"""A buffer takes at most this part of the free memory, and no measurement holds more than three."""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Sizes:
    """Bytes, powers of two. At one time at most 1 GiB of host, 1 GiB of device, 512 MiB of managed memory."""

    host: int
    transfer: int
    device: int
    managed: int
    l2: int
    """0 where the device does not report its L2 cache."""
    host_cache: int | None


@dataclass(frozen=True)
class Limits:
    """How long one figure may be measured: `least` repeats in any case, then until `seconds` or `most`."""

    seconds: float = 0.5
    least: int = 5
    most: int = 25


@dataclass
class Bench:
    """One process's measurements. Times are seconds, per repeat, after one repeat that is not kept."""

    backend: Backend
    sizes: Sizes
    limits: Limits = Limits()
    clock: Callable[[], float] = time.perf_counter
    readings: dict[str, Reading] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def attempt(self, keys: Sequence[str]) -> Iterator[None]:
        """Where the block fails, the figures that are still missing are absent for that reason."""
        try:
            yield
        except Exception as error:  # what a driver or an allocation can raise is without end
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            self.leave_out([key for key in keys if key not in self.readings], reason)

    def leave_out(self, keys: Sequence[str], reason: str) -> None:
        self.absent.update(dict.fromkeys(keys, reason))

    def host_times(self, work: Work, prepare: Work | None = None) -> list[float]:
        """Host clock, from before the work to after a synchronize."""
        return self.repeat(lambda: self.host_seconds(work, prepare))

    def device_times(self, work: Work) -> list[float]:
        """Device clock, between two marks around the work: without the launch."""
        return self.repeat(lambda: self.device_seconds(work))

    def host_seconds(self, work: Work, prepare: Work | None = None) -> float:
        """One repeat, with nothing under way when the work begins."""
        if prepare is not None:
            prepare()
        self.backend.synchronize()
        before = self.clock()
        work()
        self.backend.synchronize()
        return self.clock() - before

    def device_seconds(self, work: Work) -> float:
        self.backend.synchronize()
        start = self.backend.timestamp()
        work()
        end = self.backend.timestamp()
        self.backend.synchronize()
        return self.backend.seconds_between(start, end)

    def floats(self, pointer: int, nbytes: int) -> Any:
        """An array of `xp` over memory that the device reaches."""
        return self.backend.device_array(pointer, nbytes, (nbytes // 4,), np.dtype(np.float32))

    def repeat(self, timed: Callable[[], float]) -> list[float]:
        """Repeats within the limits; the first, which may fault pages in or compile, is not kept."""
        timed()
        end, times = self.clock() + self.limits.seconds, [timed()]
        while len(times) < self.limits.most and (len(times) < self.limits.least or self.clock() < end):
            times.append(timed())
        return times

    def keep_rate(self, key: str, amount: float, seconds: Sequence[float], what: str = "") -> None:
        """Keeps amount per second; `what` describes the amount, bytes by default."""
        self.keep(key, rates(amount, seconds), what or units.size(amount))

    def keep(self, key: str, spread: Spread, what: str) -> None:
        self.readings[key] = Reading(**asdict(spread), what=what)

    def result(self) -> GroupRun:
        return GroupRun(
            device=self.backend.device(),
            gpu=self.backend.environment(),
            readings=self.readings,
            absent=self.absent,
        )


def measure_sizes(device: Device, device_free: int | None, *, root: Path = ROOT) -> Sizes:
    available = int(psutil.virtual_memory().available)
    limit = host_state(root=root).memory_limit
    host_free = min(available, limit) if isinstance(limit, int) else available
    return choose(host_free, device_free, device, largest_cache(root=root))


def choose(host_free: int, device_free: int | None, device: Device, host_cache: int | None) -> Sizes:
    """Eight times the cache where memory allows: then at most an eighth of what is read can lie in it."""
    shared = device_free is None or bool(device.attributes.get("integrated", 0))
    device_free = host_free if device_free is None else min(device_free, host_free) if shared else device_free
    l2 = int(device.attributes.get("l2_cache_size", 0))
    host = _within(8 * (host_cache or 0), 64 * _MIB, 512 * _MIB, host_free // _SHARE)
    on_device = _within(8 * l2, 64 * _MIB, 512 * _MIB, device_free // _SHARE)
    both = min(host_free, device_free) // _SHARE
    either = _within(256 * _MIB, _MIB, 256 * _MIB, both)
    managed = _within(max(either, host), _MIB, 512 * _MIB, both)  # or the CPU's cache would hold it
    return Sizes(host=host, transfer=either, device=on_device, managed=managed, l2=l2, host_cache=host_cache)


def largest_cache(*, root: Path = ROOT) -> int | None:
    """Bytes of the largest cache of the first CPU; None where Linux does not report it."""
    tree = Tree(root)
    texts = (tree.text(path) or "" for path in tree.glob("sys/devices/system/cpu/cpu0/cache/index*/size"))
    matches = (re.fullmatch(r"(\d+)([KMG])", text, re.ASCII) for text in texts)
    return max((int(match[1]) * _UNITS[match[2]] for match in matches if match), default=None) or None


def _within(wanted: int, least: int, most: int, allowed: int) -> int:
    """A power of two from `least` to `most` that covers what is wanted; less where less is allowed."""
    wanted = min(max(wanted, least), most)
    covering = 1 << (wanted - 1).bit_length()
    return min(covering, most, 1 << max(allowed, 1 << 16).bit_length() - 1)
