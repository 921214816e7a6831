"""Trials of changes: blocks of frames in turns, and what they tell."""

from __future__ import annotations

import math
import random
import re
import sys
import types
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every import every

from advisor.measure.trying import results
from advisor.measure.trying.alternation import AS_IS, Alternation, TrialTimes, judged, trial_times
from advisor.measure.trying.changes import NonBlocking, PinnedLoader
from advisor.profiles.trials import Trial, TrialBlock, TrialOutcome
from advisor.strategies.edits import Change


class Loop:
    """A loop of frames whose time depends on the contestant in force; its GPU work ends when waited for."""

    def __init__(self, seconds: dict[str, float], jitter: float = 0.0, frames: float = math.inf) -> None:
        self.seconds, self.jitter = seconds, jitter
        self.now, self.force, self.pending = 0.0, AS_IS, 0.0
        self.random = random.Random(1)
        self.turns = Alternation(
            list(seconds),
            process=0,
            switch=self._switch,
            synchronize=self._synchronize,
            clock=lambda: self.now,
            frames=frames,
        )

    def _switch(self, contestant: str) -> None:
        self.force = contestant

    def _synchronize(self) -> None:
        self.now, self.pending = self.now + self.pending, 0.0

    def run(self, frames: int) -> list[TrialBlock]:
        for _ in range(frames):
            self.turns.frame()
            whole = self.seconds[self.force] * (1 + self.jitter * self.random.uniform(-1, 1))
            self.now += whole / 4
            self.pending += whole * 3 / 4
        self.turns.end()
        return self.turns.whole_rounds


def test_each_round_has_each_contestant_once_and_no_work_of_another() -> None:
    loop = Loop({AS_IS: 0.004, "lock": 0.002, "reuse": 0.003})
    blocks = loop.run(300)
    rounds = [[b for b in blocks if b.round == number] for number in range(1 + blocks[-1].round)]
    assert len(rounds) > 10
    for each in rounds:
        assert Counter(block.contestant for block in each) == Counter([*loop.seconds])
        assert sorted(block.place for block in each) == [0, 1, 2]
    assert len({tuple(block.contestant for block in each) for each in rounds}) > 1
    times = {(block.contestant, round(block.seconds / block.frames, 9)) for block in blocks}
    assert (times, loop.force) == ({*loop.seconds.items()}, AS_IS)


@every(("frame", "frames", "block"), [(2e-4, 300, 10), (2e-4, 100, 5), (2e-4, 9000, 50), (0.02, 300, 2)])
def test_blocks_are_shorter_where_the_loop_has_few_frames(frame: float, frames: int, block: int) -> None:
    """Eight rounds, but no block of less than 1 ms."""
    blocks = Loop(dict.fromkeys((AS_IS, "lock", "reuse"), frame), frames=frames).run(frames)
    assert {each.frames for each in blocks[:-1]} == {block}
    assert len({each.round for each in blocks}) >= min(7, frames // (3 * (block + 2)) - 1)


def test_a_loop_that_is_entered_again_goes_on() -> None:
    """Epochs of a few batches: what a block has before the loop is left is not timed."""
    loop = Loop({AS_IS: 0.004, "lock": 0.002})
    blocks: list[TrialBlock] = []
    for _ in range(60):
        blocks = loop.run(11)
        loop.now += 10
    assert len({block.round for block in blocks}) > 20
    assert {block.frames for block in blocks} == {2}, "none that the loop cut short after a frame"
    times = {(block.contestant, round(block.seconds / block.frames, 9)) for block in blocks}
    assert times == {*loop.seconds.items()}


@every(("frames", "blocks"), [(10, 0), (11, 2)])
def test_the_last_block_counts_if_it_is_long_enough_where_the_loop_is_left(frames: int, blocks: int) -> None:
    assert len(Loop({AS_IS: 0.004, "lock": 0.002}).run(frames)) == blocks


def test_what_is_proven_faster_is_told_with_its_interval() -> None:
    blocks: list[TrialBlock] = []
    for process in (0, 1):
        loop = Loop({AS_IS: 0.005, "lock": 0.004, "same": 0.005}, 0.01)
        blocks += [block.model_copy(update={"process": process}) for block in loop.run(3000)]
    times = trial_times(blocks)
    lock, same = (judged(LOCK.model_copy(update={"name": n}), times, None, "") for n in ("lock", "same"))
    assert lock.outcome == "faster"
    assert lock.speedup == pytest.approx(1.25, rel=0.01)
    low, high = lock.interval or (0, 0)
    assert 1.15 < low < 1.25 < high < 1.35
    assert same.outcome in ("open", "not-faster")


LOCK = Trial(name="lock", kind="lock", title="t", outcome="open")
DROPPED: tuple[TrialOutcome, str] = "not-faster", "dropped early: no faster in its first process"
DIFFERS: tuple[TrialOutcome, str] = "differs", "out differs"


@every(
    ("seconds", "left", "outcome"),
    [
        ({AS_IS: 1e-3, "lock": 1e-3}, DROPPED, DROPPED),
        ({AS_IS: 1e-3, "lock": 5e-4}, DIFFERS, DIFFERS),
        ({}, DIFFERS, DIFFERS),
        ({}, DROPPED, ("open", "too few frames")),
    ],
)
def test_a_change_that_left_has_its_reason_and_is_undecided_if_it_was_not_timed(
    seconds: dict[str, float], left: tuple[TrialOutcome, str], outcome: tuple[str, str]
) -> None:
    trial = judged(LOCK, TrialTimes(seconds, {}), left, "too few frames")
    assert (trial.outcome, trial.reason) == outcome


def test_identical_code_is_seldom_called_faster() -> None:
    """At most one of 40 simulated trials of no change at all."""
    false = 0
    for seed in range(40):
        loop = Loop({AS_IS: 0.005, "lock": 0.005}, jitter=0.2)
        loop.random.seed(seed)
        measured = trial_times(loop.run(600))
        false += any(ratio.low > 1 for ratio in measured.speedups.values())
    assert false <= 1


def proved(gain: float, seed: int) -> bool:
    """Whether a change of the whole process is called faster, where processes differ by 10 %: in up to five,
    as `Session` times it."""
    draw, blocks = random.Random(seed), list[TrialBlock]()
    for process in range(5):
        for name, seconds, frames in ((AS_IS, 1.0, 3), ("pin", 1 / (1 + gain), 5)):
            drawn = frames * seconds * draw.lognormvariate(0, 0.1)
            blocks += [
                TrialBlock(
                    process=process, round=number, place=0, contestant=name, frames=frames,
                    seconds=drawn * draw.lognormvariate(0, 0.03),
                )
                for number in range(8)
            ]  # fmt: skip
        ratio = trial_times(blocks, ("pin",)).speedups["pin"]
        if process and not (ratio.low <= 1 and ratio.value >= 1.05):
            break
    return ratio.low > 1


def test_what_processes_draw_is_not_taken_for_a_gain() -> None:
    """With it pooled, 12 of 100 trials of no change at all were called faster; large gains are still seen."""
    assert sum(proved(0.0, seed) for seed in range(100)) <= 5
    assert sum(proved(0.5, seed) for seed in range(20)) >= 15


class PinnedTensor:
    """A page-locked tensor of PyTorch's, as far as `NonBlocking` looks at one."""

    def __init__(self, tensor: Any) -> None:
        self.tensor, self.device = tensor, types.SimpleNamespace(type="cpu")

    def is_pinned(self) -> bool:
        return True

    def untyped_storage(self) -> Any:
        return self.tensor.untyped_storage()

    def to(self, *_: object, non_blocking: bool = False) -> bool:
        return non_blocking

    def cuda(self) -> None: ...


def moved(tensors: Iterable[Any], write: bool = False) -> tuple[list[bool], str]:
    """Whether each copy was asynchronous, and why the change was refused. write: into each once copied."""
    kind = type("Tensor", (PinnedTensor,), {})
    script = Change(name="n", kind="non-blocking", file=__file__, line=0)
    change = NonBlocking(script, {__file__}.__contains__, checks=write)
    change.install(types.SimpleNamespace(Tensor=kind))
    change.switch(True)
    asked = []
    for tensor in tensors:
        change.change = replace(script, line=sys._getframe().f_lineno + 1)
        asked.append(kind(tensor).to("cuda"))
        if write:
            tensor.fill_(1)
        del tensor
    change.switch(False)
    return asked, change.refused


def test_memory_that_the_script_keeps_is_never_copied_asynchronously() -> None:
    """Memory that is freed and given again is new; views in turn of a buffer that is kept are not."""
    torch = pytest.importorskip("torch")
    assert moved(torch.zeros(1000) for _ in range(3)) == ([True] * 3, "")
    buffer = torch.zeros(3, 1000)
    for kept in ([buffer] * 3, (buffer[i] for i in range(3))):
        asked, refused = moved(kept)
        assert (asked, "may write it before it is copied" in refused) == ([True, False, False], True)
    for count in (1, 3):
        buffers = [torch.zeros(1000) for _ in range(count)]
        assert moved(buffers) == ([True] * count, "")
        assert "writes page-locked memory that it has copied" in moved(buffers, write=True)[1]


def test_a_loader_made_at_the_line_gives_page_locked_batches() -> None:
    torch = pytest.importorskip("torch")
    loader, before = torch.utils.data.DataLoader, torch.utils.data.DataLoader.__init__
    change = Change(name="n", kind="pin-memory", file=__file__, line=0, origin_file=__file__)
    pinned = PinnedLoader(change, {__file__}.__contains__, checks=False)
    try:
        pinned.install(types.SimpleNamespace(Tensor=type("Tensor", (PinnedTensor,), {})))
        pinned.switch(True)
        pinned.change = replace(change, origin=sys._getframe().f_lineno + 1)
        loaders = [loader([1, 2])]
        loaders.append(loader([1, 2]))
    finally:
        loader.__init__ = before
    assert [each.pin_memory for each in loaders] == [True, False]


@pytest.mark.parametrize("at", [0, 4096, 40_000, -1])
def test_a_large_array_is_compared_by_sums_that_each_byte_changes(at: int) -> None:
    array = np.random.default_rng(1).random(40_960 + 3)
    digest, other = results._bytes(array), array.copy()
    other.view(np.uint8)[8 * at] ^= 1
    assert len(digest) < array.nbytes / 5
    assert results._bytes(array[::1]) == digest != results._bytes(other)
    assert results._bytes(array[::-1]) != digest
    assert results._bytes(np.roll(array, 4096)) != digest


def test_tensors_are_compared_by_their_bytes() -> None:
    """Also those that NumPy does not know, that need gradients, that are conjugated, or sparse."""
    torch = pytest.importorskip("torch")
    brain = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    for tensor in (brain, torch.full((2,), 1 + 2j).conj(), torch.ones(2).bool()):
        assert results._bytes(tensor) == results._bytes(tensor.clone())
        assert results._bytes(tensor) != results._bytes(torch.zeros_like(tensor))
    assert results._bytes(torch.ones(0)) == b""
    assert b"sparse" in results._bytes(torch.eye(2).to_sparse())
    assert results._bytes(np.arange(2, dtype="u1")) == b"\0\1"


DURATIONS = (
    *("0.00s", "3.1 GB/s", "took 3 ms", "NumPy Time:  0.0053", "Time: 1.23", "Total time (GPU): 12"),
    *("fps: 31", "Seconds per iteration: 0.125", "matmul took 1.234", "Elapsed since the start: 3.21"),
    *("matrix throughput 45.6", "filter time 0.05", "Frames per second: 31.2"),
    "Total time: 1.23, per frame 5 times: 0.25",
)
RESULTS = (
    *("sum 7", "time step 3, energy 1.5", "collision time = 0.153", "pulse duration 1.25", "step 300"),
    *("second run: 5", f"{40 * 'seconds '}x 7", "time 0.5, mean 0.25"),
)


def test_durations_that_a_script_prints_are_not_compared() -> None:
    """Also where two unchanged runs print the same: of three digits some do by chance."""

    def printed(*lines: str) -> results.Results:
        return results.Results(printed=lines)

    lines = (*RESULTS, *DURATIONS)
    equality = results.Equality(printed(*lines), printed(*lines))
    assert (equality.compared, equality.unlike, equality.unproved) == (("8 printed lines",), (), "")
    changed = [re.sub(r"\d\b", "9", line) for line in lines]
    for at, line in enumerate(lines):
        difference = f"it prints another line {at + 1}" if line in RESULTS else ""
        assert equality.difference(printed(*lines[:at], changed[at], *lines[at + 1 :])) == difference, line
    assert results.Equality(printed(*DURATIONS), printed(*DURATIONS)).unproved
    equality = results.Equality(printed("sum 7", "filter time 1.23"), printed("sum 7", "filter time 1.24"))
    assert (equality.compared, equality.unlike) == (("1 printed line",), ())


def test_a_file_that_the_script_does_not_write_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("1")
    watched = {name: results.WatchedFile(tmp_path / name) for name in ("old", "new")}
    (tmp_path / "new").write_text("1")
    digests = {name: file.digest() for name, file in watched.items()}
    assert (digests["old"], bool(digests["new"])) == ("", True)
    first = results.Results(files=digests, printed=("9",))
    equality = results.Equality(first, first)
    assert equality.unproved == "the script does not write old (--check)"
    assert (equality.compared, equality.unlike) == (("1 printed line", "the file new"), ())
