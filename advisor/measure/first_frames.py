"""The frames that every process begins with, and what is compared after each of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from advisor.measure.frames import FrameLoop
from advisor.measure.iterations import counted, difference
from advisor.measure.kept_results import LEAST_FRAMES, MOST_FRAMES, SECONDS, KeptResults
from advisor.measure.sampling import Clock
from advisor.measure.verification import Inspector

Look = Callable[[int, bool], None]
"""Is given the index of the frame that ended, and whether nothing is under way."""


class ResultsDiffer(Exception):
    """A strategy's results are not the reference run's."""


@dataclass(frozen=True)
class FirstFrames:
    """What the first frames took. `count`: of frames, and so the index of the next one."""

    count: int
    setup_seconds: float
    first_seconds: float
    """Seconds of frame 0."""
    last_seconds: float


def first_frames(
    loop: FrameLoop,
    look: Look = lambda *_: None,
    *,
    most: int = MOST_FRAMES,
    seconds: float = SECONDS,
    clock: Clock = time.perf_counter,
) -> FirstFrames:
    """Set-up, then frames from 0 on with a look after each: as many as so many seconds hold, two at least.

    Nothing is under way after the last one.
    """
    begin = clock()
    loop.run_setup()
    ready = clock()
    loop.first_frame()
    began = clock()
    look(0, True)
    index = 0
    while True:
        index += 1
        last = index + 1 >= max(most, LEAST_FRAMES) or clock() >= began + seconds
        started = clock()
        (loop.frame_alone if last else loop.frame)(index)
        spent = clock() - started
        look(index, last or not loop.overlaps)
        if last:
            return FirstFrames(index + 1, ready - begin, began - ready, spent)


def comparing(inspector: Inspector, kept: KeptResults, loop: FrameLoop) -> Look:
    """Compares each frame's results, and how often its loops ran, with the reference run's. It raises
    `ResultsDiffer`."""
    repeated, lengths = kept.repeated(), inspector.lengths()

    def look(index: int, alone: bool) -> None:
        if repeated is None or index >= repeated.frames:
            return
        if other := difference(index, counted(loop.iterations), repeated.iterations):
            raise ResultsDiffer(other)
        results = inspector.results(index, alone=alone)
        alike = {name: r for name, r in results.items() if index < repeated.unlike.get(name, MOST_FRAMES)}
        if sentences := kept.differences(index, alike, lengths):
            raise ResultsDiffer("; ".join(sentences.values()))

    return look
