"""Times work on a backend and keeps what came of it, with a reason for what did not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from advisor import units
from advisor.calibration.fitting import Spread, rates
from advisor.calibration.sizes import Sizes
from advisor.measure.calibration_jobs import GroupRun, Reading
from advisor.strategies.backend import Backend

Clock = Callable[[], float]
Work = Callable[[], object]


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
    clock: Clock = time.perf_counter
    readings: dict[str, Reading] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    curves: dict[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)

    def attempt(self, keys: Sequence[str], measure: Work) -> None:
        """Measures; where that fails, the figures that are still missing are absent for that reason."""
        try:
            measure()
        except Exception as error:  # what a driver or an allocation can raise is without end
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            self.leave_out([key for key in keys if key not in self.readings], reason)

    def leave_out(self, keys: Sequence[str], reason: str) -> None:
        """These figures will not be there."""
        self.absent.update(dict.fromkeys(keys, reason))

    def host_times(self, work: Work, prepare: Work | None = None) -> list[float]:
        """By the host's clock, from before the work to after a synchronise."""

        return self.repeat(lambda: self.host_seconds(work, prepare))

    def device_times(self, work: Work, prepare: Work | None = None) -> list[float]:
        """By the device's own clock, between two marks around the work: the launch is not in it."""

        return self.repeat(lambda: self.device_seconds(work, prepare))

    def host_seconds(self, work: Work, prepare: Work | None = None) -> float:
        """The same once, with nothing under way when the work begins."""
        self._prepare(prepare)
        before = self.clock()
        work()
        self.backend.synchronize()
        return self.clock() - before

    def device_seconds(self, work: Work, prepare: Work | None = None) -> float:
        """The same once, by the device's clock."""
        self._prepare(prepare)
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
        end, kept = self.clock() + self.limits.seconds, [timed()]
        while len(kept) < self.limits.most and (len(kept) < self.limits.least or self.clock() < end):
            kept.append(timed())
        return kept

    def keep_rate(self, key: str, amount: float, seconds: Sequence[float], what: str = "") -> None:
        """Keeps amount per second; `what` is the amount in bytes unless something else is told."""
        self.keep(key, rates(amount, seconds), what or units.size(amount))

    def keep(self, key: str, found: Spread, what: str) -> None:
        """Keeps a figure."""
        self.readings[key] = Reading(
            value=found.value, low=found.low, high=found.high, repeats=found.repeats, what=what
        )

    def keep_curve(self, name: str, sizes: Sequence[int], times: Sequence[Sequence[float]]) -> None:
        """Keeps the medians by size, of those that could be told from nothing."""
        medians = [float(np.median(repeats)) for repeats in times]
        self.curves[name] = tuple((s, m) for s, m in zip(sizes, medians, strict=True) if m > 0)

    def result(self) -> GroupRun:
        """Everything so far."""
        return GroupRun(
            device=self.backend.device(),
            gpu=self.backend.environment(),
            readings=self.readings,
            absent=self.absent,
            curves=self.curves,
        )

    def _prepare(self, prepare: Work | None) -> None:
        if prepare is not None:
            prepare()
        self.backend.synchronize()
