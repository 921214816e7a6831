"""Frames of a running loop in blocks of one contestant after the other, and the ratios of their times.

A round has a block of each contestant, in a new random order. The first frames after a switch are not timed:
they still have the other's buffers and caches, and get their own. Before and after a block the GPU is waited
for, so that no work of one contestant is counted for the next.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from advisor import stats
from advisor.profiles.trials import Trial, TrialBlock, TrialOutcome
from advisor.verdicts.estimate import SUPPOSED_NOISE, Block, paired, times
from advisor.verdicts.final import known, ratio

LEAST_FRAMES = 2
BLOCK_SECONDS, LEAST_SECONDS = 0.01, 0.001
"""The length of a block: 1,000 times the 10 µs or so that its two waits for the GPU take; 100 times where the
loop has few frames."""
SETTLING = 2
"""Frames after a switch that are not timed. A download needs two arrays in turn, the script's or reused ones:
on an H200 their first use made a line look 4.1 times as fast, and alone it was 2.1 times."""
ROUNDS = 8
"""Rounds that a loop's frames are shared out to, where longer blocks would leave fewer."""
MOST_FRAMES = 1000
WARM_UP = 3
"""First frames of a loop, which are not timed."""


def fits(frames: float, contestants: int) -> bool:
    """Whether a loop has the frames for two rounds."""
    return frames > WARM_UP + 2 * contestants * (SETTLING + LEAST_FRAMES + 1)


@dataclass
class Alternation:
    """Called at the head of each frame; switches contestants and collects their blocks."""

    contestants: Sequence[str]
    process: int
    switch: Callable[[str], None]
    """Puts a contestant into force, the one before being lifted."""
    synchronize: Callable[[], None]
    clock: Callable[[], float]
    tell_end: Callable[[], float] = lambda: math.inf
    """Called at the first frame, gives the time on the clock after which no further one begins."""
    frames: float = math.inf
    blocks: list[TrialBlock] = field(default_factory=list)
    _end: float | None = None

    def __post_init__(self) -> None:
        self._schedule = self._rounds()
        next(self._schedule)

    def frame(self) -> None:
        """A frame begins, and the one before has ended. Raises `SystemExit` where the time is over."""
        if self._end is None:
            self._end = self.tell_end()
        if self.clock() > self._end:
            raise SystemExit(0)
        self._schedule.send(False)

    def end(self) -> None:
        """The loop is left, perhaps to be entered again."""
        self._schedule.send(True)
        self.switch(self.contestants[0])

    def _rounds(self) -> Generator[None, bool]:
        """Goes on where a frame begins or, with True, where the loop is left."""
        frames = yield from self._warm_up()
        order = random.Random(self.process)
        for number in count():
            names = order.sample(self.contestants, len(self.contestants))
            for place, name in enumerate(names):
                block = {"process": self.process, "round": number, "place": place, "contestant": name}
                while not (yield from self._block(block, frames)):
                    pass

    def _warm_up(self) -> Generator[None, bool, int]:
        """The first frames time nothing; the last of them tells how many frames a block takes."""
        for _ in range(WARM_UP - 1):
            if (yield):
                break
        is_left = True
        while is_left:
            yield from self._entered()
            self.synchronize()
            begin = self.clock()
            is_left = yield
        self.synchronize()
        seconds = max(self.clock() - begin, 1e-9)
        most = self.frames / (ROUNDS * len(self.contestants)) - SETTLING
        frames = round(min(BLOCK_SECONDS / seconds, max(most, LEAST_SECONDS / seconds)))
        return min(max(LEAST_FRAMES, frames), MOST_FRAMES)

    def _entered(self) -> Generator[None, bool]:
        """Waits until a frame begins."""
        while (yield):
            pass

    def _block(self, block: Mapping[str, Any], most: int) -> Generator[None, bool, bool]:
        """Times frames of a contestant, and returns whether they were enough. Where the loop is left early,
        they are if they lasted long enough; else the block starts over where the loop is entered again."""
        self.switch(block["contestant"])
        for _ in range(SETTLING):
            if (yield):
                yield from self._entered()
                return False
        self.synchronize()
        begin, frames, is_left = self.clock(), 0, False
        while frames < most and not is_left:
            is_left = yield
            frames += 1
        self.synchronize()
        seconds = self.clock() - begin
        is_enough = not is_left or (frames >= LEAST_FRAMES and seconds >= LEAST_SECONDS)
        if is_enough:
            self.blocks.append(TrialBlock(**block, frames=frames, seconds=max(seconds, 1e-9)))
        if is_left:  # perhaps for the last time
            yield from self._entered()
        return is_enough

    @property
    def whole_rounds(self) -> list[TrialBlock]:
        """Blocks of rounds in which each contestant has one."""
        counts = Counter(block.round for block in self.blocks)
        return [block for block in self.blocks if counts[block.round] == len(self.contestants)]


AS_IS = "as-is"
"""The contestant that is the unchanged script."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class TrialTimes:
    """Seconds of a frame by contestant, and each change's speed-up over the script as it is."""

    seconds: Mapping[str, float]
    speedups: Mapping[str, stats.Ratio]


def trial_times(blocks: Iterable[TrialBlock], alone: Collection[str] = ()) -> TrialTimes:
    """All intervals hold at once (Bonferroni). alone: contestants that had separate processes, so that
    what a process draws is in their intervals.

    A contestant without a block in a round of the script as it is has no speed-up.
    """
    timed = [Block(b.process, b.round, b.contestant, b.seconds / b.frames) for b in blocks]
    names = list(dict.fromkeys([AS_IS, *(block.contestant for block in timed)]))
    seconds = times(timed)
    if AS_IS not in seconds or len(names) < 2:
        return TrialTimes(seconds, {})
    pairs = paired(timed, names, alone=alone, supposed_noise=SUPPOSED_NOISE)
    certainty = 1 - (1 - CONFIDENCE) / (len(names) - 1)
    speedups = {name: ratio(pairs.among([AS_IS, name]), certainty) for name in names[1:]}
    return TrialTimes(seconds, {name: one for name, one in speedups.items() if known(one)})


def judged(trial: Trial, measured: TrialTimes, left: tuple[TrialOutcome, str] | None, untimed: str) -> Trial:
    """The trial with its figures and outcome. left: how it left the trials, and why. untimed: why one that
    did not has no figures."""
    if left and left[0] == "refused":
        return trial.model_copy(update={"outcome": left[0], "reason": left[1]})
    speedup, seconds = measured.speedups.get(trial.name), measured.seconds.get(trial.name)
    figures: dict[str, object] = {"frame_seconds": seconds}
    if speedup is not None:
        figures |= {"speedup": speedup.value, "interval": (speedup.low, speedup.high)}
        sure = speedup.low > 1
        settled = sure or speedup.high < 1 + _LEAST_GAIN
        figures |= {"outcome": "faster" if sure else "not-faster" if settled else "open"}
    if left and not (left[0] == "not-faster" and seconds is None):
        figures |= {"outcome": left[0], "reason": left[1]}
    elif speedup is None:
        figures |= {"outcome": "open", "reason": untimed}
    return trial.model_copy(update=figures)


_LEAST_GAIN = 0.01
"""A gain whose interval ends below this is none: 1 % is the least that our clock's blocks tell apart
(decisions/0010)."""
