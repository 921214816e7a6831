"""The final between two versions of the code: who takes part, in which processes, and when it is answered."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.measure.contest import LEAST_SECONDS, with_blocks
from advisor.measure.final import ContestantFailed, FinalState, Look, Plan, run_final
from advisor.measure.final_messages import FinalJob
from advisor.measure.jobs import Job
from advisor.measure.progress import Progress
from advisor.measure.sampling import Clock
from advisor.measure.sessions import Alternating, Session, frames_of_block
from advisor.profiles.blocks import Block
from advisor.profiles.conclusions import Objective
from advisor.profiles.schema import Measured
from advisor.verdicts.planning import FEWEST_PROCESSES
from advisor.verdicts.scores import scores
from advisor.verdicts.timing import timed, timings
from advisor.verdicts.versions import BASE, CONFIDENCE, HEAD, Entry, Judged, Question, Steps, judged, named

BLOCK_SECONDS = 0.05
"""Frames of a block: since versions share the place of their buffers, what is left is the noise of frames."""

LEAST_FINAL = LEAST_SECONDS / 2
"""With less time left none is begun; it has fewer contestants than one of strategies."""


@dataclass
class VersionFinal:
    """HEAD and BASE under each strategy, in rounds of blocks, until the question is answered.

    jobs: each version's measuring job. rows: what screening measured, by version and strategy. why_apart: why
    the versions cannot share a process; empty where they can.
    """

    entry: Entry
    question: Question
    jobs: Mapping[str, Job]
    rows: Mapping[str, Mapping[str, Measured]]
    directory: Path
    session: Callable[[FinalJob], Session]
    period: int = 1
    objective: Objective = "time"
    clock: Clock = time.monotonic
    why_apart: str = ""
    held: FinalState = field(default_factory=FinalState)
    attempts: int = 0
    began: float = 0.0
    """When it was held, on the clock."""
    deadline: float = math.inf

    def __post_init__(self) -> None:
        times = [self.rows[v][s].median_seconds for v in (BASE, HEAD) for s in self.entry.strategies]
        self.quickest = min(times)
        self.frames = frames_of_block(self.quickest, BLOCK_SECONDS, self.period)

    def run(self, deadline: float, progress: Progress) -> None:
        """Holds it. Where a version breaks next to the other, it begins again with processes for each."""
        self.began = self.clock()
        try:
            self._hold(deadline, progress)
        except ContestantFailed:
            name, problem = next(iter(self.held.left.items()))
            self.why_apart = f"{name} failed next to the other version ({problem.message})"
            self.entry = Entry(self.entry.strategies, apart=True)
            self.held = FinalState()
            self._hold(deadline, progress)

    def judged(self) -> Judged:
        """What the blocks so far say."""
        return judged(
            scores(self.held.blocks, self.objective),
            self.entry,
            self.question,
            self.held.share,
            left=self.held.left,
            pace=self.held.pace,
        )

    def steps(self) -> list[Steps]:
        """What the steps of frames took."""
        return [
            Steps(
                b.process,
                b.round,
                b.contestant,
                b.place,
                b.period_seconds,
                b.host_seconds,
                overlap=b.latency_seconds is not None,
            )
            for b in self.held.steps
        ]

    def row(self, version: str, strategy: str, judged: Judged) -> Measured:
        """The screened row with the times of the final: those whose ratio was judged, where one was."""
        row, name = self.rows[version][strategy], named(version, strategy)
        blocks = [block for block in self.held.blocks if block.contestant == name]
        if not blocks:
            return row
        found = timings(self.held.blocks, self.objective, CONFIDENCE)[name]
        if both := judged.seconds.get(strategy):
            found = replace(found, seconds=both[(BASE, HEAD).index(version)])
        hosts = {stage for block in blocks for stage in block.host_seconds}
        return timed(with_blocks(row, blocks), found, self.objective, hosts, 1)

    def _hold(self, deadline: float, progress: Progress) -> None:
        if deadline - self.clock() < LEAST_FINAL:
            return
        self.attempts += 1
        self.deadline = deadline
        plan = Plan(
            self.entry.names,
            deadline,
            FEWEST_PROCESSES,
            self.jobs[HEAD].seed,
            self.quickest,
            same_work=False,
            all_or_none=not self.entry.apart,
        )

        def look(_: Sequence[Block]) -> Look:
            found = self.judged()
            shown = ", ".join(f"{s} {ratio.value:.3f}" for s, ratio in found.ratios.items())
            progress.begin(f"HEAD / BASE: {shown}")
            return Look(found.complete, self._resting(found, deadline - self.clock()), found.step)

        progress.begin("HEAD against BASE")
        run_final(plan, self.held, self._start, self.clock, look, lambda _: None)
        progress.end()

    def _resting(self, found: Judged, seconds: float) -> frozenset[str]:
        """Contestants of strategies whose question is answered, or waits until that of those before it is."""
        if found.settled or found.processes < FEWEST_PROCESSES:
            return frozenset()
        measured = set(found.open) - set(found.beyond(seconds, self.held.pace))
        return frozenset(name for name, strategy in self.entry.names.items() if strategy not in measured)

    def _start(self, process: int, contestants: Mapping[str, str]) -> Session:
        if not self.entry.apart:
            return self.session(self._job(process, contestants, "both"))
        sides = {v: {n: s for n, s in contestants.items() if n.startswith(v)} for v in (BASE, HEAD)}
        each = {v: self.session(self._job(process, held, v)) for v, held in sides.items() if held}
        return Alternating({name: each[v] for v, held in sides.items() for name in held})

    def _job(self, process: int, contestants: Mapping[str, str], side: str) -> FinalJob:
        return FinalJob(
            base=self.jobs[HEAD],
            process=process,
            contestants=dict(contestants),
            frames=self.frames,
            block_seconds=BLOCK_SECONDS,
            compare=1 if not self.held.rounds else 0,
            limit_seconds=max(self.deadline - self.clock(), 0.0),
            directory=str(self.directory / f"final-{self.attempts}-{process}-{side}"),
            jobs={name: self.jobs[BASE if name.startswith(BASE) else HEAD] for name in contestants},
        )
