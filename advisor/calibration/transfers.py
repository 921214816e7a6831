"""Copies between host and device by size, and the rate and the cost of a call that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from advisor import units
from advisor.calibration.bench import Bench, Spread, fit_repeats, inverse, positive
from advisor.strategies.backend import host_array
from advisor.strategies.placements.arena import Arena

Kind = Literal["pinned", "pageable"]
Direction = Literal["to_device", "to_host"]
DIRECTIONS: tuple[Direction, ...] = ("to_device", "to_host")
Copy = Callable[[int], None]
"""Copies so many bytes."""

_SMALLEST = 4096
_STEP = 4
_SECONDS_PER_SIZE = 0.15
_SMALL, _MANY, _FEW = 1 << 20, 8, 2
"""Copies in a row up to that size, and beyond it: the cost of a copy is the slope over their number."""


@dataclass(frozen=True)
class _Fitted:
    latency: Spread
    what: str
    alone: float
    """Seconds of the smallest copy that is waited for, beyond a wait for nothing."""


def keys(kind: Kind) -> tuple[str, ...]:
    rates = (f"{kind}_{direction}_bytes_per_second" for direction in DIRECTIONS)
    return (*rates, f"{kind}_copy_call_seconds")


def measure(bench: Bench) -> None:
    _measure_kind(bench, "pinned", lambda arena, size: arena.pinned(size))
    _measure_kind(bench, "pageable", lambda arena, size: arena.pageable(size))


def sizes(largest: int) -> list[int]:
    """4 KiB, 16 KiB and so on to the largest, which is among them."""
    steps = [_SMALLEST]
    while steps[-1] * _STEP <= largest:
        steps.append(steps[-1] * _STEP)
    return steps if steps[-1] == largest or largest < _SMALLEST else [*steps, largest]


def _measure_kind(bench: Bench, kind: Kind, take: Callable[[Arena, int], int]) -> None:
    size = bench.sizes.transfer
    with bench.attempt(keys(kind)):
        with Arena(bench.backend) as arena:
            host, device = take(arena, size), arena.device(size)
            host_array(host, size, (size,), np.dtype(np.uint8)).fill(1)
            copies: tuple[tuple[Direction, Copy], ...] = (
                ("to_device", lambda n: bench.backend.copy_to_device(device, host, n)),
                ("to_host", lambda n: bench.backend.copy_to_host(host, device, n)),
            )
            fitted = [_fit(bench, f"{kind}_{direction}", copy) for direction, copy in copies]
        _keep_call(bench, f"{kind}_copy_call_seconds", fitted)


def _fit(bench: Bench, name: str, copy: Copy) -> _Fitted:
    tried = sizes(bench.sizes.transfer)
    quick = replace(bench, limits=replace(bench.limits, seconds=min(_SECONDS_PER_SIZE, bench.limits.seconds)))
    times = [_one_more(quick, size, copy) for size in tried]
    bench.keep_curve(name, tried, times)
    latency, slope = fit_repeats(tried, times)
    rate, seconds = inverse(slope), float(np.median(times[-1])) - latency.value
    if seconds > 0:
        # The range holds the largest size too: beyond the CPU's caches a copy of pageable memory is slower.
        largest = tried[-1] / seconds
        rate = replace(rate, low=min(rate.low, largest), high=max(rate.high, largest))
    what = f"{units.size(tried[0])} to {units.size(tried[-1])}"
    bench.keep(f"{name}_bytes_per_second", rate, what)
    # Copies in a row hide a part of each behind the next one, which a copy that nothing follows cannot.
    alone = quick.repeat(lambda: _row(quick, tried[0], copy, 1) - _row(quick, tried[0], copy, 0))
    return _Fitted(latency, what, float(np.median(alone)))


def _one_more(bench: Bench, size: int, copy: Copy) -> list[float]:
    """The cost of one more copy in a row: many and a synchronize, less one and a synchronize."""
    more = _MANY if size <= _SMALL else _FEW
    return bench.repeat(lambda: (_row(bench, size, copy, 1 + more) - _row(bench, size, copy, 1)) / more)


def _row(bench: Bench, size: int, copy: Copy, count: int) -> float:
    """Seconds of so many copies in a row and the wait for them."""

    def work() -> None:
        for _ in range(count):
            copy(size)

    return bench.host_seconds(work)


def _keep_call(bench: Bench, key: str, fitted: Sequence[_Fitted]) -> None:
    """One figure for both directions; its range goes from the lower of a row to the higher of one alone."""
    both = [positive(each.latency) for each in fitted]
    joined = Spread(
        value=sum(each.value for each in both) / len(both),
        low=min(each.low for each in both),
        high=max([each.high for each in both] + [each.alone for each in fitted]),
        repeats=min(each.repeats for each in both),
    )
    bench.keep(key, joined, f"both directions, {fitted[0].what}")
