"""Finals of strategies and of versions: who takes part, how long a block is, windows for energy, the rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean

from advisor import units
from advisor.measure import final
from advisor.measure.jobs import FinalJob, Job, Settings
from advisor.measure.progress import Progress
from advisor.measure.results import CONFIDENCE, OUTSIDE, figures
from advisor.measure.sampling import IDLE_SECONDS, LONGEST_TICK, WINDOW_SECONDS, Clock
from advisor.measure.steps import named
from advisor.profiles.conclusions import Objective, counts_latency
from advisor.profiles.figures import Block, FinalRecord, rounds
from advisor.profiles.schema import WRONG_RESULTS, Measured, Result
from advisor.strategies.registry import BASELINE
from advisor.verdicts.choice import Contestant, leanest, within
from advisor.verdicts.final import FEWEST_PROCESSES, Pace
from advisor.verdicts.measured import SCREENED, decided
from advisor.verdicts.scores import Timing, scores, timed, timings
from advisor.verdicts.versions import BASE, HEAD, Entry, Judged, Question, frame_parts, judged
from advisor.verdicts.versions import named as version_name

SCREENED_OUT = 2.0
"""Strategies beyond this many times the best time are left out of the final. Equals never differ by that."""
BASELINE_IN = 4.0
"""The baseline stays up to this, since gains are ratios to it; the best uniform strategy always stays."""
BLOCK_SECONDS = 0.025
"""Length of a block. On an H200 blocks differ by 3 to 8 %, longer ones too: by where their buffers lie."""
TAIL_FRAMES = 100
"""Fewest frames of a block where the 99th percentile counts: three blocks then have one."""
LEAST_SECONDS = 4.0
"""With less time left no final begins: its processes would hardly have started."""
COMPARED_SECONDS = 0.2
"""Frames compared in each contestant's first block: as many as the quickest one runs in this time."""
VERSION_BLOCK_SECONDS = 0.03
"""Length of a block of versions. On an H200 blocks of 50 and of 100 ms differed alike, by what else the host
did for tenths of a second: short blocks that follow one another closely show most."""
VERSION_MOST_WARM = 0.02
"""Seconds of frames before a block: versions, which share the place of their buffers, are as cold as one
another."""
LEAST_FINAL = LEAST_SECONDS / 4
"""Least seconds left to begin a final of versions, which has fewer contestants than one of strategies."""
MOST_WAITING = 5
"""On the CPU device, the largest ratio of a frame's time to its CPU time that counts as waiting for a core;
the rest may be waits of the frame's own."""
NO_TIME = "no time left after the final; run again with a larger --max-seconds"


@dataclass
class Contest:
    """The final of strategies: who enters it, its rounds of blocks, and the rows with its figures."""

    settings: Settings
    base: Job
    rows: Mapping[str, Measured]
    directory: Path
    session: Callable[[FinalJob], final.Session]
    clock: Clock = time.monotonic
    period: int = 1
    """Frames after which the pattern of stages that skip frames repeats: a block is whole periods."""
    gpus: int = 1
    no_window: str = NO_TIME
    """Why there is no window for energy, where nothing else says so."""
    no_final: str = "the final did not start"
    """Why there are no blocks, where nothing else says so."""

    def __post_init__(self) -> None:
        options, self.objective = self.settings.options, self.settings.preferences.objective
        by_latency = counts_latency(self.objective)
        rows = self.rows.items()
        times = {name: (by_latency and row.latency_seconds) or row.median_seconds for name, row in rows}
        best = min(times.values(), default=math.inf)
        uniform = [name for name, row in rows if not row.placements]
        limits = {min(uniform, key=times.__getitem__, default=""): math.inf, BASELINE: BASELINE_IN}
        if self.objective == "footprint":  # time is compared among the smallest alone
            sizes = [Contestant(name, row.footprint.physical_bytes, 0) for name, row in rows]
            budget = self.settings.preferences.memory_budget_bytes
            lean = [one.name for one in leanest(within(sizes, budget))]
            quickest = min((times[name] for name in lean), default=math.inf)
            limits |= dict.fromkeys(lean, SCREENED_OUT * quickest / best)
        self.over_best = {name: seconds / best for name, seconds in times.items()}
        self.entered = [row for name, row in rows if self.over_best[name] <= limits.get(name, SCREENED_OUT)]
        self.quickest = min((row.median_seconds for row in self.entered), default=1.0)
        least = TAIL_FRAMES if self.objective == "latency-p99" else final.LEAST_FRAMES
        self.frames = final.frames_of_block(self.quickest, BLOCK_SECONDS, self.period, least)
        self.names = {row.strategy: row.strategy for row in self.entered}
        if self.entered:
            first = min(self.entered, key=lambda row: times[row.strategy]).strategy
            self.alias = f"{first} (again)"
            self.names[self.alias] = first
        self.loop = final.FinalLoop(
            start=self._start,
            clock=self.clock,
            seed=options.seed,
            contestants=self.names,
            frame_seconds=self.quickest,
            least_processes=options.rounds,
        )
        windows = partial(self._start, energy_seconds=WINDOW_SECONDS)
        self.windows = final.SessionLoop(start=windows, clock=self.clock, seed=options.seed)

    @property
    def possible(self) -> bool:
        return len(self.entered) >= final.LEAST

    def run(self, deadline: float, progress: Progress, keep: Callable[[Block], None]) -> None:
        """Runs the final until it is settled or the deadline is reached; Ctrl-C keeps the blocks so far."""
        if deadline - self.clock() < LEAST_SECONDS:
            self.no_final = "no time was left for the final; run again with a larger --max-seconds"
            return

        def look(blocks: Sequence[Block]) -> final.Look:
            decision = decided(blocks, self.entered, self.settings.preferences, self.record())
            state = "looks best" if decision.verdict.verdict == "open" else "leads"
            progress.begin(f"the final: {decision.verdict.strategy} {state}")
            return final.Look(decision.settled, self.loop.dropped | decision.dropped, decision.step)

        progress.begin("the final")
        self.loop.keep = keep
        self.loop.run(deadline, look)
        if self.loop.pace and self.objective != "energy":
            progress.begin("energy of a frame")
            self.take_windows(self.loop.pace)
        progress.end()

    def take_windows(self, pace: Pace) -> None:
        """Runs one process that takes an energy window of each contestant that did not leave, until the
        deadline: those measured to the end first, those that may break the process last."""
        loop, deadline = self.windows, self.loop.deadline
        remaining = [row.strategy for row in self.entered if row.strategy not in self.loop.left]
        names = sorted(remaining, key=lambda name: (name in self.loop.alone, name in self.loop.dropped))
        window_seconds = WINDOW_SECONDS + 2 * LONGEST_TICK + pace.process_seconds
        in_time = self.clock() + IDLE_SECONDS + LONGEST_TICK + window_seconds <= deadline
        if not (in_time and names and self.loop.blocks):
            return
        loop.processes = 1 + max(block.process for block in self.loop.blocks)
        with closing(loop):
            going = loop.open(names)
            if not going:
                self.no_window = "the energy process did not start"
            for name in names:
                if not going or self.clock() + window_seconds > deadline:
                    break
                going = loop.ask([name], self.loop.warm_frames or 0)
        if loop.broken_by:
            self.no_window = f"the energy process ended during {loop.broken_by}"

    def _start(self, process: int, names: Sequence[str], energy_seconds: float = 0.0) -> final.Session:
        single = list(names) if len(names) == 1 else []
        job = FinalJob(
            base=self.base,
            process=process,
            contestants={name: self.names[name] for name in names},
            frames=self.frames,
            block_seconds=BLOCK_SECONDS,
            energy_seconds=WINDOW_SECONDS if self.objective == "energy" else energy_seconds,
            compare=1 + int(COMPARED_SECONDS / self.quickest) if single or not self.loop.rounds else 0,
            limit_seconds=max(self.loop.deadline - self.clock(), 0.0),
            directory=str(self.directory / "-".join(("final", str(process), *single))),
        )
        return self.session(job)

    def record(self) -> FinalRecord:
        loop, pace = self.loop, self.loop.pace or Pace(0.0, 0.0)
        return FinalRecord(
            contestants=self.names,
            alias=self.alias,
            processes=len({block.process for block in loop.blocks}),
            rounds=loop.rounds,
            looks=loop.looks,
            share=loop.share,
            settled=loop.settled,
            frames=self.frames,
            warm_frames=loop.warm_frames or 0,
            kept_setup=loop.kept_setup,
            left={name: problem.message for name, problem in loop.left.items()},
            alone=tuple(loop.measured_alone),
            dropped=tuple(sorted(loop.dropped - {self.alias})),
            process_seconds=pace.process_seconds,
            round_seconds=pace.round_seconds,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(
            f"{name} failed next to others ({problem.message}) and was measured in its own processes."
            for name, problem in self.loop.measured_alone.items()
        )

    def results(self, rows: Sequence[Result]) -> tuple[Result, ...]:
        times = timings(self.loop.blocks, self.objective, CONFIDENCE)
        return tuple(self._row(row, times) if isinstance(row, Measured) else row for row in rows)

    def _row(self, row: Measured, timings_of: Mapping[str, Timing]) -> Measured:
        name = row.strategy
        blocks = [block for block in self.loop.blocks if block.contestant == name]
        outside, no_window = "", self.windows.unmeasurable or self.no_window
        if problem := self.loop.left.get(name):
            outside = f"left the final: {WRONG_RESULTS * (problem.cause == 'differs')}{problem.message}"
        elif name not in self.names:
            outside = f"{SCREENED}: {units.digits(self.over_best[name], 3)} times the best time in screening"
        elif not blocks:
            outside = self.no_final * self.possible
        if outside:
            absent = dict.fromkeys(("p95", "p99", "energy"), OUTSIDE)
            return row.model_copy(update={"outside": outside, "absent": absent})
        if not blocks:
            return row
        if problem := self.windows.left.get(name):
            no_window = f"it failed in its energy window: {problem.message}"
        steady = [block for block in blocks if block.energy is None]
        windows = [b for b in (*blocks, *self.windows.blocks) if b.energy and b.contestant == name]
        measured = row.model_copy(update=figures(steady, windows, no_window))
        return with_blocks(measured, blocks, timings_of[name], self.objective, self.gpus)


def with_blocks(
    row: Measured,
    blocks: Sequence[Block],
    timing: Timing,
    objective: Objective,
    gpus: int = 1,
    stages: Mapping[str, float] | None = None,
) -> Measured:
    """The row with the times and loop iterations of its frames in the blocks. stages: seconds of stages that
    the blocks did not time."""
    periods = rounds(blocks)
    names = {name for block in blocks for name in block.host_seconds}
    hosts = {name: mean(b.host_seconds[name] for b in blocks if name in b.host_seconds) for name in names}
    iterations = []
    for loop in row.iterations:
        counts = [block.iterations[named(loop)] for block in blocks if named(loop) in block.iterations]
        iterations.append(loop.model_copy(update={"mean": mean(counts)}) if counts else loop)
    update = {
        "frame_seconds": tuple(seconds for period in periods for seconds in period),
        "frames_per_round": tuple(map(len, periods)),
        "samples": "blocks",
        "stage_seconds": {**row.stage_seconds, **hosts, **(stages or {})},
        "iterations": tuple(iterations),
    }
    return timed(row.model_copy(update=update), timing, objective, names, gpus)


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
    session: Callable[[FinalJob], final.Session]
    period: int = 1
    objective: Objective = "time"
    clock: Clock = time.monotonic
    why_apart: str = ""
    attempts: int = 0
    began: float = 0.0
    screened: bool = False
    """No round of both was measured; the blocks are the medians of screening."""

    def __post_init__(self) -> None:
        waiting = MOST_WAITING if self.jobs[HEAD].backend == "cpu" else 1
        self.quickest = min(
            max(self._screened_seconds(version, name), self.rows[version][name].median_seconds / waiting)
            for version in (BASE, HEAD)
            for name in self.entry.strategies
        )
        self.frames = final.frames_of_block(self.quickest, VERSION_BLOCK_SECONDS, self.period)
        self._enter()

    def _enter(self, why_apart: str = "") -> None:
        """Starts over; in separate processes where there is a reason for that."""
        if why_apart:
            self.why_apart, self.entry = why_apart, Entry(self.entry.strategies, apart=True)
        self.loop = final.FinalLoop(
            start=self._start,
            clock=self.clock,
            seed=self.jobs[HEAD].seed,
            contestants=self.entry.names,
            frame_seconds=self.quickest,
            least_processes=FEWEST_PROCESSES,
            same_work=False,
            most_warm=VERSION_MOST_WARM,
            all_or_none=not self.entry.apart,
        )

    def run(self, deadline: float, progress: Progress) -> None:
        """Runs the final; if a version fails beside the other, again from the start in separate processes."""
        self.began = self.clock()
        try:
            self._run_loop(deadline, progress)
        except final.ContestantFailed:
            name, problem = next(iter(self.loop.left.items()))
            self._enter(f"{name} failed next to the other version ({problem.message})")
            self._run_loop(deadline, progress)
        if not self.loop.left and not self.judged().ratios:
            self._compare_screening()

    def _compare_screening(self) -> None:
        """Without a round of both, compares one screened process of each: the answer stays open."""
        self.screened = True
        self._enter("--max-seconds ended before a round of both, so one process of each is compared")
        for place, version in enumerate((BASE, HEAD)):
            for name in self.entry.strategies:
                seconds, contestant = self._screened_seconds(version, name), version_name(version, name)
                self.loop.blocks.append(
                    Block(
                        process=0, round=0, place=place, contestant=contestant, frames=1,
                        seconds=seconds, frame_seconds=(),
                    )
                )  # fmt: skip

    def _run_loop(self, deadline: float, progress: Progress) -> None:
        if deadline - self.clock() < LEAST_FINAL:
            return
        self.attempts += 1

        def look(_: Sequence[Block]) -> final.Look:
            verdict = self.judged()
            if shown := ", ".join(f"{s} {ratio.value:.3f}" for s, ratio in verdict.ratios.items()):
                progress.begin(f"HEAD / BASE: {shown}")
            resting: frozenset[str] = frozenset()
            if not verdict.settled and verdict.processes >= FEWEST_PROCESSES:
                resting = frozenset(n for n, s in self.entry.names.items() if s not in verdict.next)
            return final.Look(verdict.complete, resting, verdict.step)

        progress.begin("HEAD against BASE")
        self.loop.run(deadline, look)
        progress.end()

    def _screened_seconds(self, version: str, strategy: str) -> float:
        """Time of a frame without waiting for a core: at a load of 15, one of two processes of the same
        code waited in its few frames and took 12 times as long.
        """
        row = self.rows[version][strategy]
        return min(row.median_seconds, row.cpu_seconds or math.inf)

    def judged(self) -> Judged:
        blocks, state = scores(self.loop.blocks, self.objective), self.loop
        return judged(blocks, self.entry, self.question, state.share, withdrawn=state.left, pace=state.pace)

    def row(self, version: str, strategy: str, judged: Judged) -> Measured:
        """The screened row with the times of the final: those whose ratio was judged, where one was. On the
        CPU device, stages by the clock of the steps, without the time that they wait for a core."""
        row, name = self.rows[version][strategy], version_name(version, strategy)
        blocks = [block for block in self.loop.blocks if block.contestant == name]
        if self.screened or not blocks:
            return row
        timing = timings(self.loop.blocks, self.objective, CONFIDENCE)[name]
        if both := judged.seconds.get(strategy):
            timing = replace(timing, seconds=both[(BASE, HEAD).index(version)])
        stages = {}
        if self.jobs[HEAD].backend == "cpu":
            parts = [frame_parts(each) for each in self.loop.steps if each.contestant == name]
            labels = [label for label in (parts[0] if parts else ()) if ":" in label]
            stages = {at.partition(":")[2]: mean(each.get(at, 0.0) for each in parts) for at in labels}
        return with_blocks(row, blocks, timing, self.objective, stages=stages)

    def _start(self, process: int, names: Sequence[str]) -> final.Session:
        if not self.entry.apart:
            return self.session(self._job(process, names, "both"))
        sides = {version: [n for n in names if n.startswith(version)] for version in (BASE, HEAD)}
        return final.Alternating({v: self.session(self._job(process, n, v)) for v, n in sides.items() if n})

    def _job(self, process: int, names: Sequence[str], side: str) -> FinalJob:
        return FinalJob(
            base=self.jobs[HEAD],
            process=process,
            contestants={name: self.entry.names[name] for name in names},
            frames=self.frames,
            block_seconds=VERSION_BLOCK_SECONDS,
            compare=1 if not self.loop.rounds else 0,
            limit_seconds=max(self.loop.deadline - self.clock(), 0.0),
            directory=str(self.directory / f"final-{self.attempts}-{process}-{side}"),
            jobs={name: self.jobs[BASE if name.startswith(BASE) else HEAD] for name in names},
        )
