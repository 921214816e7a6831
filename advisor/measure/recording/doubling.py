"""What the copies of a loop cost its frames, measured: in a few frames each copy is made twice.

The calls' own times leave out what copies cost other lines: caches, new memory, overlap that is lost. A
second copy costs that once more. Its own time is not counted, because what it copies is in the caches by
then: the first one's is, without the kernels that it waits for.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil

from advisor import stats
from advisor.measure.recording.loops import Clock, Loop, Site
from advisor.profiles.crossings import SecondCopies

WARM_UP = 32
"""Frames with copies before second ones are made: the first ones are slower."""
DOUBLED, PLAIN = 3, (7, 11)
"""Frames in a row with second copies, and the fewest and the most between: at random, because programs do
something every second, fourth or eighth frame. The first of a stretch is left out."""
FEWEST, MOST = 8, 64
"""Stretches of frames with second copies that a figure needs, and after which none follow."""
SHARE = 0.1
"""Of the run's time so far that second copies may take."""
ROOM = 8
"""Times the size of a copy that memory needs to have free for a second one."""
_LEAST = 1e-9
WIDEST = 0.3
"""Width of the interval, as a share of the frame, beyond which the calls are summed."""


class Stretches:
    """Times of a loop's frames, in stretches without and with second copies in turns."""

    def __init__(self, doubling: Doubling, seed: int) -> None:
        self._doubling, self._random, self._left = doubling, random.Random(seed), 1
        self._seconds: list[list[float]] = [[]]
        """Of frames, without second copies; where there are some, with the first ones once more."""
        self.is_doubled = False
        self.frames = 0
        """How many had second copies."""
        self.sites: set[Site] = set()
        """The lines whose copies were made twice."""

    def ended(self, seconds: float) -> bool:
        """After each frame, without its second copies. Whether there were some."""
        was_doubled = self.is_doubled
        self.frames += was_doubled
        self._seconds[-1].append(seconds + self._doubling.take_first())
        self._left -= 1
        if not self._left:
            self._next()
        return was_doubled

    def is_full(self) -> bool:
        return len(self._seconds) > 2 * MOST

    def stop(self) -> None:
        """Its frames end here, for now."""
        if self.is_doubled:
            self.is_doubled = False
            self._seconds.append([])

    def _next(self) -> None:
        doubling = self._doubling
        if self.is_full():
            doubling.end()
        elif self.is_doubled or doubling.is_affordable():
            self.is_doubled = not self.is_doubled
            doubling.turn(self.is_doubled)
            self._seconds.append([])
        else:
            del self._seconds[-1][PLAIN[1] : -PLAIN[1]]
        self._left = DOUBLED if self.is_doubled else self._random.randint(*PLAIN)

    def measured(self, frame_seconds: float) -> SecondCopies | None:
        """What copies cost a frame of so many seconds; None where that is not known well enough."""
        counted = [frames[1:] for frames in self._seconds]
        triples = zip(counted[:-2:2], counted[1:-1:2], counted[2::2], strict=True)
        each = [
            (np.median(doubled), np.median([*before[-PLAIN[1] :], *after[: PLAIN[1]]]))
            for before, doubled, after in triples
            if len(doubled) == DOUBLED - 1 and (before or after)
        ]
        ratios = [float(doubled / plain) for doubled, plain in each if plain > 0]
        if len(ratios) < FEWEST:
            return None
        values = stats.median([ratios]), *stats.median_interval([ratios])
        seconds, low, high = (max((ratio - 1) * frame_seconds, _LEAST) for ratio in values)
        if high - low > WIDEST * frame_seconds:
            return None
        return SecondCopies(frames=self.frames, seconds=seconds, interval_seconds=(low, high))


class Doubling:
    """Chooses loops whose copies are made twice: the outermost that repeats some, one at a time."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self._began = clock, clock()
        self.is_on = False
        self.only: Loop | None = None
        """The loop that was named."""
        self.is_possible = False
        """On a GPU, unless the driver counts the bytes."""
        self.loops: dict[Loop, Stretches] = {}
        self.seconds = 0.0
        """Of all second copies."""
        self._first = 0.0
        self._loop: Loop | None = None
        self._fits: dict[Site, bool] = {}
        self._held: dict[Site, Any] = {}
        """The last second copy of each line: programs keep theirs as long."""

    def is_affordable(self) -> bool:
        return self.seconds <= SHARE * (self.clock() - self._began)

    def take_first(self) -> float:
        """Seconds of the first copies of the frame that ends."""
        first, self._first = self._first, 0.0
        return first

    def consider(self, site: Site) -> None:
        """A loop around this line, where something crosses, may be the next."""
        loop = next((each for each in site.loops if each.crossed >= WARM_UP and each.open), None)
        if loop in (None, self._loop) or not self.is_possible or self.only not in (None, loop):
            return
        self.end()
        stretches = self.loops.setdefault(loop, Stretches(self, loop.first))
        if not stretches.is_full():
            self._loop, loop.stretches = loop, stretches

    def turn(self, on: bool) -> None:
        self.is_on = on
        self._held.clear()

    def end(self) -> None:
        """The loop has its second copies, or they are not possible."""
        if self._loop is not None:
            self.loops[self._loop].stop()
            self._loop.stretches = None
        self._loop = None
        self.turn(False)

    def is_around(self, site: Site) -> bool:
        """Whether the line is in the loop."""
        return self._loop in site.loops

    def has_room(self, site: Site, free: Callable[[], int]) -> bool:
        """Whether memory has room for second copies of this line; `free`: bytes that the GPU has."""
        if site not in self._fits:
            most = max((record.event.bytes for record in site.records.values()), default=0)
            self._fits[site] = ROOM * most <= min(free(), psutil.virtual_memory().available)
        return self._fits[site]

    def repeat(self, site: Site, begin: float, end: float, call: Callable[[], Any]) -> None:
        """Makes a second copy; begin, end: of the first one."""
        try:
            second = call()
        except Exception:  # such as memory that is short: the script goes on as it would
            self.is_possible = False
            self.end()
            return
        seconds = self.clock() - end
        self._held[site] = second  # what it replaces is freed, which costs the program's own lines as much
        self.seconds += seconds
        self._first += end - begin
        for loop in site.loops:
            loop.again += seconds
            if loop.stretches is not None:
                loop.stretches.sites.add(site)
