"""`compare --run` with a known truth: the real schedule and the real verdict, on a clock that costs move.

The launcher charges what starting and checking takes, the final's processes draw the noise that was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from builders import cuda_device, final_block
from fakes import FakeClock
from running import FakeLauncher, asked, sample

from advisor.measure.contest import VersionFinal
from advisor.measure.jobs import BlockDone, FinalJob, FinalRound, Job, Left, Message, Problem
from advisor.measure.launcher import Ended
from advisor.measure.progress import Silent
from advisor.measure.version_measurement import VersionMeasurement, Versions
from advisor.profiles.schema import Device, Measured
from advisor.strategies.registry import BASELINE, STRATEGIES, choose
from advisor.verdicts.versions import BASE, HEAD, Question
from tests.benchmarks.decisions import Noise

IN_ONE_PLACE = 0.33
"""Of a block's noise, what one place of its buffers leaves: on an H200 0.16 to 0.8, this the median of 44."""
DISTURBANCE = 0.3
"""Mean of what other programs add to the logarithm of a disturbed block: on an H200's host and on two crowded
cores one block in ten takes 20 to 100 % longer."""
FRAME = {BASELINE: 0.020, "pinned": 0.012}
OTHERS = 0.014
CHANGED = Question(strategies=(BASELINE,))
"""What the command asks if no strategy is named."""


@dataclass(frozen=True)
class Costs:
    """Seconds: until workers can be forked, of one that uses the device, of one that traces on the CPU, of a
    process of the final, and of a block with placing, warming up and the steps after it."""

    server: float
    worker: float
    tracing: float
    process: float
    block: float
    device: Device


CARD = Costs(3.0, 1.5, 1.0, 0.25, 0.15, cuda_device())
"""As profiles of an H200 show them."""
SLOW_CARD = Costs(4.0, 4.0, 1.5, 0.4, 0.15, cuda_device())
CPU = Costs(0.7, 0.7, 0.7, 0.3, 0.09, Device(name="CPU", kind="cpu"))


@dataclass(frozen=True)
class Truth:
    """What is so: HEAD is slower by `share`; what is `disturbed` of all blocks takes longer by chance."""

    share: float
    noise: Noise
    costs: Costs
    in_one_place: float = IN_ONE_PLACE
    disturbed: float = 0.0
    interrupted_at: float = math.inf
    """When Ctrl-C comes."""
    breaks: frozenset[str] = frozenset()
    """Contestants that fail beside the other version; where it is `always`, by themselves too."""
    always: bool = False
    fails: tuple[str, ...] = ()
    """Versions, or strategies of them, that fail when they are screened."""
    hangs: str = ""
    """A version whose check takes all the time."""


@dataclass
class SimulatedSession:
    """A process of the final: what it draws shifts all of its contestants alike, but for each one's luck.

    A part of a block's noise is that of the place of its buffers, which versions share in a round. Half again
    of the rest is what was left of the block before, as clocks and other programs make it.
    """

    job: FinalJob
    clock: FakeClock
    generator: np.random.Generator
    truth: Truth
    drift: float = 0.0
    closed: bool = False

    def __post_init__(self) -> None:
        self.clock.advance(self.truth.costs.process)
        self.level = self.generator.normal(0, self.truth.noise.process)
        names = dict.fromkeys(name.removesuffix(" (again)") for name in self.job.contestants)
        self.luck = {name: self.generator.normal(0, self.truth.noise.luck) for name in names}

    def ready(self) -> bool:
        return True

    def round(self, request: FinalRound) -> Iterator[Message]:
        truth, noise = self.truth, self.truth.noise.block
        own = noise * truth.in_one_place
        between = (noise**2 - own**2) ** 0.5
        place_of = {
            s: self.generator.normal(0, between) for s in dict.fromkeys(self.job.contestants.values())
        }
        files = {job.file for job in self.job.jobs.values()}
        for place, name in enumerate(request.order):
            if self.clock() > truth.interrupted_at:
                raise KeyboardInterrupt
            assert not self.closed
            self.clock.advance(truth.costs.block)
            if name in truth.breaks and (truth.always or len(files) > 1):
                problem = Problem(cause="raised", message="ops were registered twice")
                yield Left(contestant=name, problem=problem)
                continue
            self.drift = self.drift / 2 + self.generator.normal(0, own / 2)
            strategy = self.job.contestants[name]
            off = self.level + self.drift + self.luck[name.removesuffix(" (again)")] + place_of[strategy]
            if self.generator.random() < truth.disturbed:
                off += self.generator.exponential(DISTURBANCE)
            frame = FRAME.get(strategy, OTHERS) * (1 + truth.share * name.startswith(HEAD))
            seconds = frame * float(np.exp(off + self.generator.normal(0, own)))
            made = final_block(self.job.process, request.round, name, seconds, place=place)
            yield BlockDone(block=made, warming_seconds=(), steps={"host:a": made.seconds})

    def close(self) -> None:
        self.closed = True


@dataclass
class ChargingLauncher(FakeLauncher):
    """Answers at once, and moves the clock by what the process would take."""

    clock: FakeClock
    generator: np.random.Generator
    truth: Truth
    compiled: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.sessions: list[SimulatedSession] = []
        super().__init__(self.screened, device=self.truth.costs.device, compiled=self.compiled)

    def screened(self, job: Job) -> Ended:
        if {job.file[:4], f"{job.file[:4]} {job.strategy}"} & {*self.truth.fails}:
            return Ended(Problem(cause="raised", message="oh"), "finished")
        return Ended(sample(FRAME.get(job.strategy, OTHERS)), "finished")

    def session(self, job: FinalJob) -> SimulatedSession:
        self.sessions.append(SimulatedSession(job, self.clock, self.generator, self.truth))
        return self.sessions[-1]

    def __call__(self, job: Job) -> Ended:
        costs = self.truth.costs
        self.clock.advance(costs.worker if job.task in ("reference", "measure") else costs.tracing)
        if job.task == "reference" and job.file[:4] == self.truth.hangs:
            self.clock.advance(99.0)
            return Ended(None, "late", "did not finish within 99 s at w.py:3")
        return super().__call__(job)


def simulated(
    folder: Path,
    seed: int,
    share: float,
    noise: Noise,
    seconds: float = 45.0,
    costs: Costs = CARD,
    question: Question = CHANGED,
    *,
    apart: bool = False,
    recommendations: bool = False,
    **so: Any,
) -> tuple[VersionFinal, ChargingLauncher]:
    """The final of `compare --run --max-seconds` of a HEAD slower by that share, and what ran its processes;
    `so`: more of the truth."""
    clock, on_gpu = FakeClock(), costs.device.kind == "cuda"
    generator, compiled = np.random.default_rng(seed), ("ops",) if apart else ()
    truth = Truth(share, noise, costs, **so)
    launcher = ChargingLauncher(clock, generator, truth, compiled)
    made = asked("BASE.py", backend="cuda" if on_gpu else "cpu", max_seconds=seconds, seed=seed)
    strategies = STRATEGIES if on_gpu else choose((BASELINE,))
    made = replace(made, strategies=strategies, began=clock())
    clock.advance(costs.server)
    versions = Versions(made, replace(made, file=Path("HEAD.py")), (), question, "", recommendations)
    measurement = VersionMeasurement(versions, launcher, Silent(), folder / f"{seed}", clock=clock)
    for version in (HEAD, BASE):
        with measurement.version(version) as each:
            each.describe()
            each.prepare()
            each.screen(sorted(each.available, key=lambda name: (name != BASELINE, name not in FRAME)))
        if version == HEAD:
            rows = [row for row in measurement.runs[HEAD].rows if isinstance(row, Measured)] if on_gpu else []
            measurement.choose(min(rows, key=lambda row: row.median_seconds).strategy if rows else None)
    final = measurement.final()
    with suppress(KeyboardInterrupt):
        final.run(measurement.deadline, Silent())
    launcher.notes = measurement.uncompared(final)
    assert all(session.closed for session in launcher.sessions)
    return final, launcher
