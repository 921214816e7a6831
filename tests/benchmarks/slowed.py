"""A contestant that is slowed by 5 % on purpose, in a real final: it must be found slower.

It is `pinned` under a second name, whose every frame is followed by a wait of a twentieth of it. The
processes are this one's own children, which run the program's blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from advisor.measure.backends import open_backend
from advisor.measure.final_worker import Final, Kept
from advisor.measure.jobs import FinalJob, FinalRound, Job
from advisor.profiles.figures import Block
from advisor.strategies.backend import BackendName
from advisor.verdicts import estimate
from advisor.verdicts.choice import Aim, Contestant
from advisor.verdicts.final import decide
from advisor.workloads.loading import prepare
from tests.benchmarks.timing import ROOT, show

SLOWED = "pinned, slowed"
BY = 0.05
PROCESSES, ROUNDS, RUNS = 2, 12, 20
NAMES = {"pinned": "pinned", "zero-copy": "zero-copy", SLOWED: "pinned"}


def run(backend: BackendName = "cuda") -> None:
    """Finals of three contestants; in how many the slowed one is surely slower than its twin."""
    found, ratios = 0, []
    for number in range(RUNS):
        blocks = [
            block for process in range(PROCESSES) for block in _process(number * PROCESSES + process, backend)
        ]
        scored = [
            estimate.Block(b.process, b.round, b.contestant, b.place, b.period_seconds, b.frames)
            for b in blocks
        ]
        both = [Contestant(name, 0, 0) for name in ("pinned", SLOWED)]
        slower = decide(scored, both, Aim("pinned")).verdict.over_best[SLOWED]
        ratios.append(slower.value)
        found += slower.low > 1
    show(
        f"pinned slowed by {BY:.0%} in {RUNS} finals: found slower",
        f"{found} of {RUNS}, by {sum(ratios) / RUNS - 1:.1%}",
        ">= 18 of 20",
        met=found >= 0.9 * RUNS,
    )


def _process(number: int, backend: BackendName) -> list[Block]:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(blocks_of, (number, backend))


def blocks_of(number: int, backend: BackendName) -> list[Block]:
    """What one process measures."""
    file = ROOT / "workloads" / "reread.py"
    base = Job(
        task="measure", file=str(file), workload=None, assignments={"passes": "8"},
        backend=backend, gpu=0, strategy="pinned", seconds=0.2, seed=number, directory="", reference="",
    )  # fmt: skip
    job = FinalJob(
        base=base,
        process=number,
        contestants=NAMES,
        frames=25,
        block_seconds=0.025,
        compare=False,
        directory="",
    )
    final = Slowing(
        job, open_backend(backend), prepare(Path(base.file), None, base.assignments), time.perf_counter
    )
    orders = (tuple(final.random.sample(list(NAMES), len(NAMES))) for _ in range(ROUNDS))
    requests = (FinalRound(round=i, order=order, warm_frames=15) for i, order in enumerate(orders))
    return [final.block(request, place).block for request in requests for place in range(len(NAMES))]


@dataclass
class Slowing(Final):
    """As a process of the final, with the one contestant's frames slowed."""

    @contextmanager
    def _ready(self, name: str, number: int) -> Iterator[Kept]:
        with super()._ready(name, number) as kept:
            if name == SLOWED:
                loop = kept.workload.loop
                loop.frame = _slowed(loop.frame)  # type: ignore[method-assign]
            yield kept


def _slowed(frame: Callable[[int], None]) -> Callable[[int], None]:
    def run(index: int) -> None:
        begin = time.perf_counter()
        frame(index)
        until = time.perf_counter()
        until += BY * (until - begin)
        while time.perf_counter() < until:
            pass

    return run
