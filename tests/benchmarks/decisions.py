"""Finals with a known truth: how often a verdict is wrong, and how long it takes.

`python -m tests.benchmarks.decisions` prints a table. The noise is what was measured on an H200: a process
shifts all contestants alike by 6 to 12 %, blocks differ by 2 to 6 %, and a contestant has 0 to 2 % luck of
its own in each process. Where host stages take part of the frame, process and block shift that part alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from advisor.profiles.conclusions import Preferences
from advisor.verdicts.choice import Contestant
from advisor.verdicts.estimate import Block
from advisor.verdicts.final import SPENDING, Alias, Decision, Pace, Step, decide, first_step

DIFFERENCES = (0.0, 0.01, 0.03, 0.05, 0.08)
MIB = 1 << 20
BLOCK_SECONDS = 0.08
PROCESS_SECONDS = 2.5
SECONDS = 40.0
"""What is left of a minute after the screening of six strategies."""


@dataclass(frozen=True)
class Noise:
    """Standard deviations as shares. `host` is the part of the best frame that process and block shift."""

    process: float = 0.08
    block: float = 0.04
    luck: float = 0.01
    host: float = 1.0
    even: bool = True
    """All contestants have the same luck; else each draws its own from 0 to twice that."""


@dataclass(frozen=True)
class Run:
    """One final, and the truth: how much slower than the best each contestant is."""

    regret: dict[str, float]
    decision: Decision
    seconds: float
    processes: int

    @property
    def decided(self) -> bool:
        """A claim was made."""
        return self.decision.verdict.verdict in ("fastest", "near", "keep")

    @property
    def false(self) -> bool:
        """The chosen one is farther from the best than the verdict says."""
        told = self.decision.verdict
        assert told.strategy
        assert told.bound is not None
        return self.decided and self.regret[told.strategy] > told.bound + 1e-12

    @property
    def within(self) -> bool:
        """The choice, claimed or not, is within the indifference of the best."""
        assert self.decision.verdict.strategy
        return self.regret[self.decision.verdict.strategy] <= 0.05 + 1e-12


@dataclass
class Machine:
    """Gives blocks of contestants whose times are known; a second is a second of a simulated clock."""

    times: dict[str, float]
    noise: Noise
    generator: np.random.Generator
    same: dict[str, str] = field(default_factory=dict)
    """Names under which another contestant runs: its luck is the other's."""
    clock: float = 0.0
    processes: int = 0

    def __post_init__(self) -> None:
        count = len(self.times)
        scale = np.ones(count) if self.noise.even else self.generator.uniform(0, 2, count)
        self.luck = dict(zip(self.times, scale * self.noise.luck, strict=True))

    def process(self, names: Sequence[str], rounds: int, pace: Pace, until: float) -> Iterator[Block]:
        """The blocks of one more process, up to the last whole one before `until`."""
        draw, number = self.generator.normal, self.processes
        self.processes += 1
        self.clock += pace.process_seconds
        level = draw(0, self.noise.process)
        luck = {name: draw(0, sd) for name, sd in self.luck.items()}
        host = self.noise.host * min(self.times.values())
        for index in range(rounds):
            for name in self.generator.permutation(names):
                self.clock += BLOCK_SECONDS
                if self.clock > until:
                    return
                shift = np.exp(level + draw(0, self.noise.block))
                seconds = host * shift + (self.times[name] - host)
                own = np.exp(luck[self.same.get(name, name)])
                yield Block(number, index, str(name), float(seconds * own))


def contestants(generator: np.random.Generator, count: int) -> tuple[list[Contestant], dict[str, float]]:
    """With memory and change of code drawn too, so that tie-breakers decide; one of them is the fastest."""
    names = ["pageable", *(f"strategy-{i}" for i in range(1, count))]
    slower = generator.choice(DIFFERENCES, count)
    slower[generator.integers(count)] = 0.0
    rows = [
        Contestant(
            name, int(generator.choice([64, 128, 192])) * MIB, 0 if i == 0 else int(generator.integers(1, 5))
        )
        for i, name in enumerate(names)
    ]
    return rows, {name: 0.02 * (1 + d) for name, d in zip(names, slower, strict=True)}


def run(seed: int, count: int, noise: Noise, seconds: float = SECONDS) -> Run:
    """One final of `count` contestants and an alias, looked at as planned, until settled or time is up."""
    generator = np.random.default_rng(seed)
    rows, times = contestants(generator, count)
    alias = Alias("again", rows[-1].name)
    machine = Machine(times | {alias.name: times[alias.of]}, noise, generator, {alias.name: alias.of})
    pace = Pace(PROCESS_SECONDS, BLOCK_SECONDS * (count + 1))
    step: Step | None = first_step(seconds, pace)
    blocks: list[Block] = []
    spent = 0.0
    for share in SPENDING:
        assert step
        for _ in range(step.processes):
            names = [name for name in machine.times if name not in {r.name for r in rows if r.dropped}]
            if machine.clock < seconds:
                blocks += machine.process(names, step.rounds, pace, seconds)
        last = share == SPENDING[-1] or machine.clock >= seconds
        share_now = 1 - spent if last else share
        decision = decide(blocks, rows, Preferences(), share_now, alias=alias, pace=pace)
        spent += share
        rows = [
            Contestant(r.name, r.physical_bytes, r.code_change, dropped=r.name in decision.dropped)
            for r in rows
        ]
        if decision.settled or last:
            break
        step = decision.step
    best = min(times.values())
    regret = {name: value / best - 1 for name, value in times.items()}
    return Run(regret, decision, min(machine.clock, seconds), machine.processes)


@dataclass(frozen=True)
class Summary:
    """Shares of all runs, but `false` of the decided ones; medians of seconds and means of processes."""

    decided: float
    false: float
    within: float
    seconds: float
    processes: float
    bound: float
    untrusted: float


def summary(runs: Sequence[Run]) -> Summary:
    decided = [one for one in runs if one.decided]
    return Summary(
        decided=len(decided) / len(runs),
        false=sum(one.false for one in decided) / max(1, len(decided)),
        within=float(np.mean([one.within for one in runs])),
        seconds=float(np.median([one.seconds for one in runs])),
        processes=float(np.mean([one.processes for one in runs])),
        bound=float(np.median([one.decision.verdict.bound or 0 for one in decided])) if decided else 0.0,
        untrusted=float(np.mean([one.decision.verdict.verdict == "untrusted" for one in runs])),
    )


def main(runs: int) -> None:
    print(f"{runs} runs a line, {SECONDS:g} s each at most")
    print(
        "contestants  process  block  luck       host  decided   false  within 5 %  seconds  processes    U"
    )
    for count in (2, 4, 6):
        for noise in kinds():
            found = summary([run(seed, count, noise) for seed in range(runs)])
            luck = f"{noise.luck:.1%}" if noise.even else f"0-{2 * noise.luck:.1%}"
            print(
                f"{count:>11}  {noise.process:>7.0%}  {noise.block:>5.0%}  {luck:<8}  {noise.host:>5.0%}"
                f"  {found.decided:>7.1%}  {found.false:>6.2%}  {found.within:>10.1%}  {found.seconds:>7.1f}"
                f"  {found.processes:>9.1f}  {found.bound:.1%}",
                flush=True,
            )


def kinds() -> Iterator[Noise]:
    """The noise of a quiet machine to that of a restless one."""
    for block in (0.02, 0.04, 0.06):
        yield from (Noise(block=block, luck=luck) for luck in (0.0, 0.01, 0.02))
    yield Noise(process=0.12, block=0.06, luck=0.01, even=False)
    yield Noise(process=0.12, block=0.06, luck=0.01, host=0.5)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
