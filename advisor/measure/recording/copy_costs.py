"""Measures what copies cost a loop's frames, other lines included, by frames whose copies are subtracted.

The calls' own times leave out what copies cost other lines: one from or to pageable memory displaces what the
program's own code has in the CPU's caches, on an H200 at the price of the download itself. So in some frames
the host memory of each copy is page-locked for that copy alone, and the time of allocating, locking and
copying is subtracted. Page-locking slows other lines too, on H200s by 7 to 50 µs for each MiB: these frames
are compared with others, whose copies are made as usual and then page-locked for nothing. The program gets
the same values, in memory that is allocated and freed as in any other frame: else the heap shrinks meanwhile.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from advisor import stats
from advisor.measure.recording.host_memory import host_bytes
from advisor.measure.recording.loops import Clock, Loop, Site
from advisor.profiles.crossings import CopyCost

WARM_UP = 32
"""Frames with copies before the first that are chosen: early ones are slower."""
CHOSEN, BETWEEN = 3, (5, 9)
"""Chosen frames in a row, and the fewest and the most between: at random, because programs do something every
second, fourth or eighth frame. The first of a stretch is left out. By turns, chosen frames are without copies
and with them."""
FEWEST, MOST = 8, 48
"""Pairs of stretches of chosen frames that a figure needs, and after which none follow."""
SHARE = 0.1
"""Largest share of the run's time so far that copies and page-locking in chosen frames may take."""
PENDING = 30e-6
"""Seconds: if an upload would have to wait longer than this for earlier work, which the program does not wait
for, its frame is not compared."""
WIDEST = 0.3
"""Widest interval of a usable figure, as a share of the frame."""
_LEAST = 1e-9
_LOCKED_ALREADY = 712
"""CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"""


class PageLock:
    """Page-locks host memory through the driver, so that libraries see no error of a refused lock."""

    def __init__(self) -> None:
        self._driver: Any = None

    def lock(self, address: int, size: int) -> int:
        """The driver's status: 0 where it is locked from now on."""
        try:
            self._driver = self._driver or ctypes.CDLL("libcuda.so.1")
        except OSError:
            return -1
        return int(self._driver.cuMemHostRegister_v2(ctypes.c_void_p(address), ctypes.c_size_t(size), 0))

    def unlock(self, address: int) -> None:
        self._driver.cuMemHostUnregister(ctypes.c_void_p(address))


class Stretches:
    """Times of a loop's frames: stretches of unchanged frames alternate with stretches of chosen ones."""

    def __init__(self, costs: CopyCosts, seed: int) -> None:
        self._costs, self._random, self._left = costs, random.Random(seed), 1
        self._seconds: list[list[float]] = [[]]
        self.is_chosen = False
        self.is_comparable = True
        self.frames = 0
        """Number of frames without copies."""
        self.sites: set[Site] = set()
        """Lines whose copies were subtracted."""

    def ended(self, seconds: float) -> bool:
        """Notes the time of a frame, without subtracted copies. True if no other figure includes it: it was
        chosen, or it is the first after chosen ones."""
        is_other = self.is_chosen or (len(self._seconds) > 1 and not self._seconds[-1])
        self.frames += self.is_chosen and not self.keeps_copies
        if self.is_comparable:
            self._seconds[-1].append(seconds)
        self.is_comparable = True
        self._left -= 1
        if not self._left:
            self._next()
        return is_other

    @property
    def keeps_copies(self) -> bool:
        """Whether the chosen frames of this turn are those with copies."""
        return len(self._seconds) % 4 == 0

    def is_full(self) -> bool:
        return len(self._seconds) > 4 * MOST

    def stop(self) -> None:
        """Ends a stretch of chosen frames before its time."""
        if self.is_chosen:
            self.is_chosen = False
            self._seconds.append([])

    def _next(self) -> None:
        costs = self._costs
        if self.is_full():
            costs.end()
        elif self.is_chosen or costs.is_affordable():
            self.is_chosen = costs.is_on = not self.is_chosen
            self._seconds.append([])
        else:
            del self._seconds[-1][BETWEEN[1] : -BETWEEN[1]]
        self._left = CHOSEN if self.is_chosen else self._random.randint(*BETWEEN)

    def measured(self, frame_seconds: float) -> CopyCost | None:
        """The cost of copies in a mean frame of that length; None if it is not known well enough."""
        parts = [frames[1:] for frames in self._seconds]
        usual = np.concatenate(parts[::2])
        pairs = [
            (float(np.mean(without)), float(np.mean(kept)))
            for without, kept in zip(parts[1::4], parts[3::4], strict=False)
            if len(without) == len(kept) == CHOSEN - 1
        ]
        ratios = [without / kept for without, kept in pairs if without > 0 and kept > 0]
        if len(ratios) < FEWEST or not len(usual):
            return None
        low, high = stats.median_interval([ratios])
        if high - low > WIDEST:
            return None
        kept_seconds = frame_seconds * float(np.mean([kept for _, kept in pairs]) / np.mean(usual))
        ends = stats.median([ratios]), high, low
        seconds, least, most = (max((1 - ratio) * kept_seconds, _LEAST) for ratio in ends)
        return CopyCost(frames=self.frames, seconds=seconds, interval_seconds=(least, most))


class CopyCosts:
    """Takes one loop at a time, the outermost that repeats copies; subtracts its chosen frames' copies."""

    def __init__(self, clock: Clock, pages: Any = None) -> None:
        self.clock, self._began = clock, clock()
        self._pages = pages or PageLock()
        self.is_on = False
        self.is_possible = False
        """On a GPU, unless the driver counts the bytes."""
        self.only: Loop | None = None
        """The loop that `--frame` names."""
        self.loops: dict[Loop, Stretches] = {}
        self.seconds = 0.0
        """Subtracted in the whole run."""
        self._loop: Loop | None = None

    def is_affordable(self) -> bool:
        return self.seconds <= SHARE * (self.clock() - self._began)

    def consider(self, site: Site) -> None:
        """Takes the next loop if this line, where something crosses, is in one that qualifies."""
        loop = next((each for each in site.loops if each.crossed >= WARM_UP and each.open), None)
        if loop in (None, self._loop) or not self.is_possible or self.only not in (None, loop):
            return
        self.end()
        stretches = self.loops.setdefault(loop, Stretches(self, loop.first))
        if not stretches.is_full():
            self._loop, loop.stretches = loop, stretches

    def end(self) -> None:
        """Leaves the loop: it has enough frames, or another one runs."""
        if self._loop is not None:
            self.loops[self._loop].stop()
            self._loop.stretches = None
        self._loop, self.is_on = None, False

    def is_around(self, site: Site) -> bool:
        return self._loop in site.loops

    @property
    def keeps_copies(self) -> bool:
        """Whether copies of the current frame are made as usual, and their memory page-locked for nothing."""
        return self._loop is not None and self.loops[self._loop].keeps_copies

    def lock_for_nothing(self, site: Site, host: Any) -> None:
        """Page-locks a copy's host memory once the copy is made, where the line's copies are subtracted."""
        data = host_bytes(host) if self._loop and site in self.loops[self._loop].sites else None
        if data is not None and not self._pages.lock(data.ctypes.data, data.nbytes):
            self._pages.unlock(data.ctypes.data)

    def copy_locked(
        self, site: Site, host: tuple[int, int], copy: Callable[[], Any], wait: Callable[[], Any]
    ) -> Any:
        """The copy's result, with its host memory, given by address and size, page-locked meanwhile."""
        address, size = host
        status = self._pages.lock(address, size)
        try:
            result = copy()
            wait()
        finally:
            if not status:
                self._pages.unlock(address)
        if status in (0, _LOCKED_ALREADY) and self._loop is not None:
            self.loops[self._loop].sites.add(site)
        return result

    def spoil(self) -> None:
        """Excludes the current frame from the comparison."""
        if self._loop is not None:
            self.loops[self._loop].is_comparable = False
