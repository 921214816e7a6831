"""What a launch and a synchronise cost, from rows of empty kernels of growing length."""

from __future__ import annotations

from dataclasses import replace

from advisor.calibration.bench import Bench
from advisor.calibration.fitting import fit_repeats, positive
from advisor.calibration.kernels import Kernels

LAUNCH = "launch_seconds"
SYNCHRONIZE = "synchronize_seconds"
KEYS = (LAUNCH, SYNCHRONIZE)

_COUNTS = (1, 2, 4, 8, 16, 32)
_LIMITS_MOST = 200
"""Repeats are cheap here, and the host's interruptions many."""


def measure(bench: Bench) -> None:
    """One more launch is the slope over the number of launches, synchronising what is left for none."""
    bench.attempt(KEYS, lambda: _measure(bench))


def _measure(bench: Bench) -> None:
    kernels = Kernels(bench.backend)
    often = replace(bench, limits=replace(bench.limits, most=max(_LIMITS_MOST, bench.limits.least)))

    def launch(count: int) -> None:
        for _ in range(count):
            kernels.nothing()

    times = [often.host_times(lambda count=count: launch(count)) for count in _COUNTS]  # type: ignore[misc]
    wait, more = fit_repeats(_COUNTS, times)
    what = f"rows of {_COUNTS[0]} to {_COUNTS[-1]} empty kernels"
    bench.keep(LAUNCH, positive(more), what)
    bench.keep(SYNCHRONIZE, positive(wait), what)
