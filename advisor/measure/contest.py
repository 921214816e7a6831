"""From screening to the final and back: who takes part, how long a block is, windows for energy, the rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from advisor import units
from advisor.measure.final import LEAST, FinalLoop, FinalState, Look, Plan
from advisor.measure.jobs import FinalJob, FinalRound, Job, Settings
from advisor.measure.progress import Progress
from advisor.measure.results import CONFIDENCE, OUTSIDE, figures
from advisor.measure.sampling import IDLE_SECONDS, LONGEST_TICK, WINDOW_SECONDS, Clock
from advisor.measure.sessions import LEAST_FRAMES, RoundResults, Session, SessionLoop, frames_of_block
from advisor.measure.steps import named
from advisor.profiles.conclusions import Preferences, counts_latency
from advisor.profiles.figures import Block, FinalRecord, rounds
from advisor.profiles.schema import WRONG_RESULTS, Measured, Result
from advisor.strategies.registry import BASELINE
from advisor.verdicts.choice import Contestant, leanest, within
from advisor.verdicts.final import Pace
from advisor.verdicts.measured import SCREENED, decided
from advisor.verdicts.scores import Timing, timed, timings

SCREENED_OUT = 2.0
"""Times the best's time from which a strategy is not in the final: of equals one process each drops none."""
BASELINE_IN = 4.0
"""The baseline stays in up to this, since every gain is told against it; the best uniform strategy always."""
BLOCK_SECONDS = 0.025
"""Frames of a block: on an H200 blocks differ by 3 to 8 %, longer ones too: it is where their buffers lie."""
TAIL_FRAMES = 100
"""Frames of a block at least, where the 99th percentile counts: three blocks then hold one."""
LEAST_SECONDS = 4.0
"""With less time left no final is begun: the processes would hardly have started."""
COMPARED_SECONDS = 0.2
"""The quickest contestant's frames that are compared in each one's first block."""
AGAIN = " (again)"


NO_TIME = "no time left after the final; raise --max-seconds"


@dataclass
class Windows(RoundResults):
    absent: str = NO_TIME

    def why(self, name: str) -> str:
        if name in self.left:
            return f"it failed in its energy window: {self.left[name].message}"
        return self.unmeasurable or self.absent


def after_final(
    windows: Windows,
    names: Sequence[str],
    start: Callable[[], Session],
    clock: Clock,
    deadline: float,
    spare: float,
    warm_frames: int,
) -> None:
    """One process that takes a window of each contestant in turn, as many as end before the deadline.
    windows: is filled as they end, so that Ctrl-C leaves what there is. spare: seconds that a process takes
    to start, and a contestant's buffers to be placed. warm_frames: before each window."""
    each = WINDOW_SECONDS + 2 * LONGEST_TICK + spare
    if clock() + IDLE_SECONDS + LONGEST_TICK + each > deadline:
        return
    loop = SessionLoop(windows, clock)

    def requests() -> Iterator[FinalRound]:
        for place, name in enumerate(names):
            if clock() + each > deadline:
                return
            yield FinalRound(round=place, order=(name,), warm_frames=warm_frames)

    if not loop.run(start, requests()):
        windows.absent = "the energy process did not start"
    elif loop.broken_by:
        windows.absent = f"the energy process ended during {loop.broken_by}"


@dataclass
class Contest:
    settings: Settings
    base: Job
    rows: Mapping[str, Measured]
    directory: Path
    session: Callable[[FinalJob], Session]
    clock: Clock = time.monotonic
    block_seconds: float = BLOCK_SECONDS
    period: int = 1
    """Frames after which the pattern of stages that skip frames repeats: a block is whole periods."""
    gpus: int = 1
    state: FinalState = field(default_factory=FinalState)
    dropped: frozenset[str] = frozenset()
    windows: Windows = field(default_factory=Windows)
    deadline: float = 0.0
    unheld: str = "the final did not start"
    """Why there are no blocks, where there are none."""

    def __post_init__(self) -> None:
        by_latency = counts_latency(self._preferences.objective)
        rows = self.rows.items()
        times = {name: (by_latency and row.latency_seconds) or row.median_seconds for name, row in rows}
        best = min(times.values(), default=math.inf)
        uniform = [name for name, row in self.rows.items() if not row.placements]
        limits = {min(uniform, key=times.__getitem__, default=""): math.inf, BASELINE: BASELINE_IN}
        if self._preferences.objective == "footprint":  # time is compared among the smallest alone
            sizes = [Contestant(name, row.footprint.physical_bytes, 0) for name, row in self.rows.items()]
            lean = [one.name for one in leanest(within(sizes, self._preferences.memory_budget_bytes))]
            quickest = min((times[name] for name in lean), default=math.inf)
            limits |= dict.fromkeys(lean, SCREENED_OUT * quickest / best)
        self.over_best = {name: seconds / best for name, seconds in times.items()}
        over = self.over_best
        self.entered = [row for name, row in rows if over[name] <= limits.get(name, SCREENED_OUT)]
        self.quickest = min((row.median_seconds for row in self.entered), default=1.0)
        least = TAIL_FRAMES if self._preferences.objective == "latency-p99" else LEAST_FRAMES
        self.frames = frames_of_block(self.quickest, self.block_seconds, self.period, least)
        self.names = {row.strategy: row.strategy for row in self.entered}
        if self.entered:
            first = min(self.entered, key=lambda row: times[row.strategy]).strategy
            self.alias = f"{first}{AGAIN}"
            self.names[self.alias] = first

    @property
    def _preferences(self) -> Preferences:
        return self.settings.preferences

    @property
    def possible(self) -> bool:
        return len(self.entered) >= LEAST

    def run(self, deadline: float, progress: Progress, keep: Callable[[Block], None]) -> None:
        """Holds it until it is settled or the clock reaches the deadline; Ctrl-C keeps what there is."""
        self.deadline = deadline
        if deadline - self.clock() < LEAST_SECONDS:
            self.unheld = "no time was left for the final; raise --max-seconds"
            return
        options = self.settings.options
        plan = Plan(self.names, deadline, options.rounds, options.seed, self.quickest)

        def look(blocks: Sequence[Block]) -> Look:
            decision = decided(blocks, self.entered, self._preferences, self.record())
            self.dropped |= decision.dropped
            state = "looks best" if decision.verdict.kind == "open" else "leads"
            progress.begin(f"the final: {decision.verdict.chosen} {state}")
            return Look(decision.settled, self.dropped, decision.step)

        progress.begin("the final")
        FinalLoop(results=self.state, clock=self.clock, plan=plan, start=self._start, keep=keep).hold(look)
        if self.state.pace and self._preferences.objective != "energy":
            progress.begin("energy of a frame")
            self._take_windows(self.state.pace, deadline)
        progress.end()

    def _take_windows(self, pace: Pace, deadline: float) -> None:
        """All that did not leave, those measured to the end first, what may break the process last."""
        here = [row.strategy for row in self.entered if row.strategy not in self.state.left]
        names = sorted(here, key=lambda name: (name in self.state.alone, name in self.dropped))
        process = 1 + max(block.process for block in self.state.blocks)

        def start() -> Session:
            return self._start(process, {name: name for name in names}, WINDOW_SECONDS)

        warm = self.state.warm_frames or 0
        after_final(self.windows, names, start, self.clock, deadline, pace.process_seconds, warm)

    def _start(self, process: int, contestants: Mapping[str, str], energy_seconds: float = 0.0) -> Session:
        single = list(contestants) if len(contestants) == 1 else []
        job = FinalJob(
            base=self.base,
            process=process,
            contestants=dict(contestants),
            frames=self.frames,
            block_seconds=self.block_seconds,
            energy_seconds=WINDOW_SECONDS if self._preferences.objective == "energy" else energy_seconds,
            compare=1 + int(COMPARED_SECONDS / self.quickest) if single or not self.state.rounds else 0,
            limit_seconds=max(self.deadline - self.clock(), 0.0),
            directory=str(self.directory / "-".join(("final", str(process), *single))),
        )
        return self.session(job)

    def record(self) -> FinalRecord:
        return FinalRecord(
            contestants=self.names,
            alias=self.alias,
            processes=len({block.process for block in self.state.blocks}),
            rounds=self.state.rounds,
            looks=self.state.looks,
            share=self.state.share,
            settled=self.state.settled,
            frames=self.frames,
            warm_frames=self.state.warm_frames or 0,
            kept_setup=self.state.kept_setup,
            left={name: problem.message for name, problem in self.state.left.items()},
            alone=tuple(name for name in self.state.alone if name not in self.state.left),
            dropped=tuple(sorted(self.dropped - {self.alias})),
            process_seconds=self.state.pace.process_seconds if self.state.pace else 0.0,
            round_seconds=self.state.pace.round_seconds if self.state.pace else 0.0,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(
            f"{name} failed next to others ({problem.message}) and was measured in its own processes."
            for name, problem in self.state.alone.items()
            if name not in self.state.left
        )

    def results(self, rows: Sequence[Result]) -> tuple[Result, ...]:
        times = timings(self.state.blocks, self._preferences.objective, CONFIDENCE)
        return tuple(self._row(row, times) if isinstance(row, Measured) else row for row in rows)

    def _row(self, row: Measured, timings_of: Mapping[str, Timing]) -> Measured:
        blocks = [block for block in self.state.blocks if block.contestant == row.strategy]
        if row.strategy in self.state.left:
            problem = self.state.left[row.strategy]
            wrong = WRONG_RESULTS if problem.cause == "differs" else ""
            return _outside(row, f"left the final: {wrong}{problem.message}")
        if row.strategy not in self.names:
            times = units.digits(self.over_best[row.strategy], 3)
            return _outside(row, f"{SCREENED}: {times} times the best time in screening")
        if not blocks:
            return _outside(row, self.unheld) if self.possible else row
        steady = [block for block in blocks if block.energy is None]
        windows = [b for b in (*blocks, *self.windows.blocks) if b.energy and b.contestant == row.strategy]
        more = figures(steady, windows, self.windows.why(row.strategy))
        measured, objective = with_blocks(row.model_copy(update=more), blocks), self._preferences.objective
        return timed(measured, timings_of[row.strategy], objective, _hosts(blocks), self.gpus)


def with_blocks(row: Measured, blocks: Sequence[Block]) -> Measured:
    """The row with what was seen of its frames in the blocks, by process; `timed` adds what that comes to."""
    periods = rounds(blocks)
    names = _hosts(blocks)
    stages = {name: mean(b.host_seconds[name] for b in blocks if name in b.host_seconds) for name in names}
    iterations = tuple(
        each.model_copy(update={"mean": mean(counts)})
        if (counts := [block.iterations[named(each)] for block in blocks if named(each) in block.iterations])
        else each
        for each in row.iterations
    )
    return row.model_copy(
        update={
            "frame_seconds": tuple(seconds for period in periods for seconds in period),
            "frames_per_round": tuple(map(len, periods)),
            "samples": "blocks",
            "stage_seconds": {**row.stage_seconds, **stages},
            "iterations": iterations,
            "stopped": (),
        }
    )


def _hosts(blocks: Sequence[Block]) -> set[str]:
    return {name for block in blocks for name in block.host_seconds}


def _outside(row: Measured, reason: str) -> Measured:
    absent = dict.fromkeys(("p95", "p99", "energy"), OUTSIDE)
    return row.model_copy(update={"outside": reason, "absent": absent})
