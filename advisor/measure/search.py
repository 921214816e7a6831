"""The search for a mix that is better than the best uniform strategy, between screening and the final.

One buffer at a time is placed otherwise: the changes that the model ranks first run in one process beside the
best mix so far and the best uniform strategy, in rounds of short blocks, until one is clearly better or none
can be. That one is changed next. What was found only enters the final: its blocks, of processes that the
search has not seen, decide. So the search may be greedy, and claims nothing but how far each mix is from the
best uniform strategy at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from advisor.measure.final import Session, SessionLoop, frames_of_block
from advisor.measure.jobs import FinalJob, Job
from advisor.measure.results import CONFIDENCE
from advisor.measure.sampling import Clock
from advisor.profiles.figures import Search, SearchMode, Tried
from advisor.profiles.schema import Device, WorkloadRecord
from advisor.stats import student_upper
from advisor.strategies import mixes
from advisor.strategies.registry import to_place
from advisor.verdicts.estimate import paired
from advisor.verdicts.scores import scores

BLOCK_SECONDS = 0.025
LEAST_SECONDS = 2.5
"""With less time nothing is tried: a process and three rounds would hardly fit."""
CANDIDATES = 8
"""Changes that are tried at once, the first in the model's order."""
FIRST_LOOK, MOST_ROUNDS = 3, 12
"""Rounds of a process: from the first look on those that are clearly slower are left out."""
FEWEST_ROUNDS, MOST_TURNS = 2, 4
"""Rounds of a group of mixes in each process, and processes of each group, where all mixes are tried."""
MOST_PROCESSES, CLOSE = 4, 0.02
"""Further processes that say how much a mix may gain at most, and what is close enough."""
SURE = 0.05
"""The chance of each step to go on with a mix that is no better; the final finds out."""
FINALISTS = 2
NEARLY = 0.99
"""Share of the best uniform strategy's speed: what is slower does not enter the final."""
_START = 1.0
"""Seconds that a process is taken to need until one was seen."""

Likely = Callable[[Sequence[mixes.Placed]], Sequence[float]]


def no_search(workload: WorkloadRecord, mode: SearchMode) -> str:
    """Why there is nothing to search for; empty where there is."""
    if len(to_place(workload)) < 2:
        return "fewer than two buffers are used by both CPU and GPU"
    if mode == "auto" and mixes.used_alike(workload):
        return "all shared buffers are of the same size and used alike"
    return ""


@dataclass
class MixSearch:
    """One search. `base`: a measuring job; `screened`: seconds by uniform strategy; `likely`: predicts the
    times of mixes, None where the model cannot."""

    workload: WorkloadRecord
    device: Device
    base: Job
    mode: SearchMode
    screened: dict[str, float]
    likely: Likely | None
    session: Callable[[FinalJob], Session]
    clock: Clock
    directory: Path
    period: int = 1
    names: dict[str, mixes.Placed] = field(default_factory=dict)

    def run(self, seconds: float) -> tuple[Search, list[dict[str, str]]]:
        begin = self.clock()
        self.deadline = begin + seconds
        self.loop = SessionLoop(start=self._start, clock=self.clock, seed=self.base.seed)
        self.choices = mixes.choices(self.workload, self.device)
        names = {name for some in self.choices.values() for name in some}
        starts = sorted((n for n in self.screened if n in names), key=self.screened.__getitem__)
        placements = self.choices.values()
        same = set[str]().union(*placements).intersection(*placements)
        record = Search(mode=self.mode, mixes=math.prod(map(len, placements)) - len(same))
        if seconds < LEAST_SECONDS or not starts:
            left = f"{max(seconds, 0):.1f} s of its share of the time were left, it needs {LEAST_SECONDS:g} s"
            return record.model_copy(update={"reason": left if starts else "nothing to start from"}), []
        self.best_uniform = self._named(mixes.alike(self.workload, starts[0]))
        quickest = self.screened[starts[0]]
        self.frames = frames_of_block(quickest, BLOCK_SECONDS, self.period)
        self.warm = math.ceil(0.01 / quickest)
        ended = self._try_all() if self.mode == "exhaustive" else self._descend(starts[:2])
        self._bound_closely()
        tried = self._tried()
        over, spent = starts[0], self.clock() - begin
        update = {"tried": tried, "over": over, "seconds": spent, "reason": ended}
        near = [one.placements for one in tried if one.gain > NEARLY]
        return record.model_copy(update=update), near[:FINALISTS]

    def _named(self, placed: mixes.Placed) -> str:
        name = mixes.label(placed)
        self.names.setdefault(name, dict(placed))
        return name

    def _try_all(self) -> str:
        """All mixes in small groups, likely ones first, each beside the best uniform strategy; once all had
        their turn, again, until the time is up. Why it ended early."""
        names = self._ordered(list(mixes.every_mix(self.choices)))
        groups = [names[at : at + CANDIDATES] for at in range(0, len(names), CANDIDATES)]
        for turn in range(MOST_TURNS):
            for group in groups:
                left = [name for name in group if name not in self.loop.left]
                if self.clock() + self._starting > self.deadline:
                    return "time ran out" if turn == 0 else ""
                self._rounds([self.best_uniform, *left], self.best_uniform, FEWEST_ROUNDS, prune=False)
        return ""

    def _descend(self, starts: Sequence[str]) -> str:
        """One buffer at a time; why it ended early."""
        now, tried = self.best_uniform, {self.best_uniform}
        second = [self._named(mixes.alike(self.workload, name)) for name in starts[1:]]
        while True:
            starting = [self.names[name] for name in (now, *second)]
            near = [each for placed in starting for each in (*mixes.changes(placed, self.choices), placed)]
            known = {*tried, *self.loop.left}
            candidates = [name for name in self._ordered(near) if name not in known][:CANDIDATES]
            if not candidates:
                return ""
            if self.clock() + 2 * self._starting > self.deadline:
                return "time ran out"
            self._rounds(list(dict.fromkeys([self.best_uniform, now, *candidates])), now, MOST_ROUNDS)
            tried |= set(candidates)
            gains = {name: self._gain(name, now) for name in candidates}
            better = {name: mean for name, (mean, _, low) in gains.items() if low > 0}
            if not better:
                return "time ran out" if self.clock() > self.deadline else ""
            now, second = max(better, key=better.__getitem__), []

    def _bound_closely(self) -> None:
        """Further processes of the mixes that may be better yet: in one alone, luck hides what they gain."""
        for _ in range(MOST_PROCESSES):
            open_ones = [one for one in self._tried() if one.most > 1 + CLOSE][:CANDIDATES]
            if not open_ones or self.clock() + 2 * self._starting > self.deadline:
                return
            names = [self.best_uniform, *(mixes.label(one.placements) for one in open_ones)]
            self._rounds(names, self.best_uniform, 2 * FIRST_LOOK, prune=False)

    def _ordered(self, placed: Sequence[mixes.Placed]) -> list[str]:
        expected = self.likely(placed) if self.likely else [0.0] * len(placed)
        order = sorted(range(len(placed)), key=expected.__getitem__)
        return list(dict.fromkeys(self._named(placed[i]) for i in order))

    def _rounds(self, names: list[str], now: str, most: int, *, prune: bool = True) -> None:
        """Blocks of these in one process, in random order, while one may be better and time is left."""
        loop, left = self.loop, names
        with closing(loop):
            going = loop.open(names)
            while going and loop.round < most and len(left) > 1 and self.clock() <= self.deadline:
                going = loop.ask(loop.in_random_order(left), self.warm)
                left = [name for name in left if name not in self.loop.left]
                if prune and loop.round >= FIRST_LOOK:
                    left = self._promising(left, now)

    @property
    def _starting(self) -> float:
        """Seconds that a process is taken to need."""
        return self.loop.starting / self.loop.processes if self.loop.processes else _START

    def _start(self, process: int, names: Sequence[str]) -> Session:
        records = {name: mixes.mix(mixes.PREFIX, self.names[name]).record() for name in names}
        return self.session(
            FinalJob(
                base=self.base.model_copy(update={"mixes": records}),
                process=process,
                contestants={name: name for name in names},
                frames=self.frames,
                block_seconds=BLOCK_SECONDS,
                capped=True,
                limit_seconds=max(self.deadline - self.clock(), 0.0),
                directory=str(self.directory / f"search-{process}"),
            )
        )

    def _promising(self, names: Sequence[str], now: str) -> list[str]:
        """Mixes that are not clearly slower than the best so far; none where all others are."""
        references = (now, self.best_uniform)
        worth = [name for name in names if name in references or self._gain(name, now)[1] > 0]
        return worth if set(worth) - set(references) else []

    def _gain(self, name: str, over: str) -> tuple[float, float, float]:
        """How much faster it is in the last process, as a logarithm: mean, upper and lower end."""
        here = [block for block in self.loop.blocks if block.process == self.loop.processes - 1]
        times = {(block.round, block.contestant): block.period_seconds for block in here}
        pairs = [(at, (at[0], over)) for at in times if at[1] == name and (at[0], over) in times]
        gaps = np.array([math.log(times[other] / times[own]) for own, other in pairs])
        if len(gaps) < 2:
            return 0.0, math.inf, -math.inf
        half = student_upper(SURE, len(gaps) - 1) * float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
        middle = float(gaps.mean())
        return middle, middle + half, middle - half

    def _tried(self) -> tuple[Tried, ...]:
        """Each mix against the best uniform strategy, with an end that holds for all at once."""
        blocks, failed = self.loop.blocks, self.loop.left
        rounds = {name: sum(block.contestant == name for block in blocks) for name in self.names}
        ran = [name for name, count in rounds.items() if count and name not in failed]
        mixed = [name for name in ran if len(set(self.names[name].values())) > 1]
        if not mixed or not rounds[self.best_uniform]:
            return ()
        pairs = paired(scores(blocks, "time"), [self.best_uniform, *mixed])
        half = pairs.half_widths(CONFIDENCE, len(mixed))[0]
        gains = pairs.difference[0]
        tried = [
            Tried(
                placements=dict(self.names[name]),
                gain=math.exp(gains[at]),
                most=math.exp(min(gains[at] + half[at], 10.0)),
                rounds=rounds[name],
            )
            for at, name in enumerate(mixed, start=1)
        ]
        return tuple(sorted(tried, key=lambda one: -one.gain))
