"""Annotations are checked, not trusted.

A checked frame poisons what a stage says it overwrites and compares what it says it only reads, so a
forgotten output and a hidden write are found and named. Poison is random bytes: an element that still equals
them after a frame was not written (a single byte equals them by chance once in 32).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Literal

import numpy as np

from advisor.errors import WorkloadError
from advisor.measure.frames import FrameLoop
from advisor.measure.kept_results import some
from advisor.measure.steps import most_rows, valid_rows
from advisor.strategies.backend import Array, Backend, wait_for_all
from advisor.strategies.parts import NAME_THE_LENGTH, Region
from advisor.strategies.placement import Layout, Placed
from advisor.strategies.schedule import Place, Plan, gpu_of
from advisor.workloads.binding import BoundStage, BoundWorkload

LOOKS = 6
"""Checked frames that tell an element which no stage writes from one that equals poison by chance."""
_BY_CHANCE = 1e-8
"""Probability below which elements that equal poison count as unwritten."""
_BYTES = np.arange(0x30, 0x50, dtype=np.uint8)
_SEED = int.from_bytes(b"poison", "big")
_TILE = 65521
"""Bytes of noise that are repeated; a prime, so that no row of an image has them at the same place."""

Output = tuple[int, str, str]
"""Frame, stage and buffer."""
Poison = Callable[[Output, int], Array]
"""The bytes that an output of that size in bytes is filled with."""


class RegionViolation(WorkloadError):
    """A stage touched elements outside the region that it annotates. `line`: file and line, where known."""

    def __init__(
        self, stage: str, buffer: str, what: Literal["reads", "writes"], part: Region, line: str | None = None
    ) -> None:
        super().__init__(
            f"stage {stage!r} {what} elements of buffer {buffer!r} outside the region that it declares, "
            f"{part}{f' ({line})' if line else ''}",
            next_step=f"Widen the slice, or remove it to annotate all of {buffer!r}.",
        )
        self.access, self.line = (stage, buffer, what, part), line


@dataclass(frozen=True)
class Written:
    """Some elements of a buffer after a stage, and which of them still held what was there before."""

    contents: Array
    untouched: Array

    def differs(self, other: Written) -> bool:
        """Whether it wrote other values there: elements that neither of them wrote do not count."""
        if self.contents.size != other.contents.size:
            return True
        size = self.contents.itemsize
        ours, theirs = (w.contents.view(np.uint8).reshape(-1, size) for w in (self, other))
        return bool(((ours != theirs).any(axis=1) & ~(self.untouched & other.untouched)).any())


def noise(output: Output, size: int) -> Array:
    """Random bytes, others in each frame; as floating-point numbers of any size they are not extreme."""
    return np.resize(np.random.default_rng((_SEED, output[0])).choice(_BYTES, _TILE), size)


@dataclass
class Inspector:
    """Reads and writes the buffers of a run from the outside, between its steps."""

    bound: BoundWorkload
    plan: Plan
    sets: Sequence[Mapping[str, Placed]]
    """The placed buffers; where frames overlap there are two, which they use in turn."""
    layouts: Mapping[str, Layout]
    backend: Backend

    def __post_init__(self) -> None:
        self._most_rows = most_rows(self.bound)
        lengths, setup = self._most_rows, self.bound.setup
        self._length_place = {n: s.use.place for s in setup for n in s.use.writes() if n in lengths}
        """Where each length was written last, in the frames that are checked."""

    def check_annotations(
        self, loop: FrameLoop, look: Callable[[int], bool] = lambda _: False
    ) -> WorkloadError | None:
        """Runs checked frames from the first on, until it is clear that stages write all they say they
        overwrite, and for as long as `look`, which is given the index of each, asks for another.

        Raises `WorkloadError` naming the stage and the buffer where a stage changes a buffer that it says it
        only reads. Gives the error where one seems not to write: adding 0 to what was there looks so too.
        """
        outputs: dict[tuple[str, str], _Untouched] = {}
        for index in count():
            for key, mask in self.checked_frame(loop, index).items():
                outputs.setdefault(key, _Untouched(*key, self.layouts[key[1]])).see(mask)
            clear = index + 1 >= LOOKS or not any(output.always.any() for output in outputs.values())
            if not look(index) and clear and index > 0:
                break
        always = (output.unwritten(output.always, output.frames) for output in outputs.values())
        once = (output.unwritten(output.most, 1) for output in outputs.values())
        return next(filter(None, chain(always, once)), None)

    def checked_frame(
        self,
        loop: FrameLoop,
        index: int,
        poison: Poison = noise,
        outputs: dict[Output, Written] | None = None,
    ) -> dict[tuple[str, str], Array]:
        """Runs one frame with its outputs poisoned; the elements that stayed so, by stage and buffer.
        outputs: is given what each stage wrote. Raises `WorkloadError` when a stage changes a buffer it says
        it only reads."""
        stages = {f"{stage.side}:{stage.name}": stage for stage in self.bound.frame}
        untouched: dict[tuple[str, str], Array] = {}
        for action in loop.in_turn(loop.actions(index)):
            stage = stages.get(action.label)
            if stage is None:
                action.run(index)
                continue
            wait_for_all(self.backend)
            outs = [name for name, mode in stage.access.items() if mode == "out"]
            poisons = {n: poison((index, stage.name, n), self.layouts[n].nbytes) for n in outs}
            for name, pattern in poisons.items():
                self._fill(name, stage, pattern)
            place, written = stage.use.place, stage.use.writes()
            kept = (n for n, m in stage.access.items() if m == "in" or isinstance(stage.parts.get(n), Region))
            before = {name: self._read(name, place).copy() for name in kept}
            action.run(index)
            wait_for_all(self.backend)
            self._compare(stage, before)
            self._length_place |= {name: place for name in written if name in self._most_rows}
            for name in written:
                contents, key = self._read(name, place), (stage.name, name)
                valid = self._touched(stage, name, index)
                if name in poisons:  # in each iteration of a loop
                    looked_at = _equal(contents, poisons[name])[valid]
                    before_it = untouched.get(key, looked_at)
                    untouched[key] = looked_at[: len(before_it)] & before_it[: len(looked_at)]
                if outputs is not None:
                    contents = some(contents[valid]).copy()
                    looked_at = untouched.get(key, np.zeros(contents.size, bool))
                    outputs[(index, *key)] = Written(contents, some(looked_at))
        return untouched

    def _touched(self, stage: BoundStage, name: str, frame: int) -> tuple[slice, ...]:
        """The part of a buffer that the stage touches in a checked frame. Raises `WorkloadError`."""
        part = stage.parts.get(name)
        if not isinstance(part, str):
            return part.index if part else ()
        array = self._read(part, self._length_place[part])
        return (slice(0, valid_rows(part, array, self._most_rows[part], frame)),)

    def rows(self, index: int, *, alone: bool = True) -> dict[str, int]:
        """How much of the first dimension is valid after that frame, of each buffer that has a length. Raises
        `WorkloadError` where that cannot be."""
        newest = {name: self.newest(name, index, alone=alone) for name in self._most_rows}
        lengths = {n: valid_rows(n, newest[n], most, index) for n, most in self._most_rows.items()}
        buffers = self.bound.workload.buffers.items()
        return {name: lengths[buffer.valid] for name, buffer in buffers if buffer.valid is not None}

    def results(self, index: int = 0, *, alone: bool = True) -> dict[str, Array]:
        """The newest contents, after that frame, of the buffers that the host reads (else: that stages
        write), and of those that stages write and none reads. Views where the host has them. alone: nothing
        is under way. Else the next frame is, and buffers that it shares are left out."""
        uses = [(n, mode, s.side) for s in self.bound.frame for n, mode in s.access.items()]
        read = {n for n, mode, side in uses if mode != "out" and side == "host"}
        written = {n for n, mode, _ in uses if mode != "in" and not self.bound.workload.buffers[n].scratch}
        names = (read or written) | (written - {n for n, mode, _ in uses if mode != "out"})
        names |= {loop.until for loop in self.bound.loops}
        own = sorted(name for name in names if alone or self.sets[0][name] is not self.sets[-1][name])
        rows = self.rows(index, alone=alone)
        return {name: self.newest(name, index, alone=alone)[: rows.get(name)] for name in own}

    def newest(self, name: str, index: int = 0, *, alone: bool = True) -> Array:
        """The contents on the side that wrote it last; zeros for cells that no stage has written."""
        places = self.plan.current(index)
        if name not in self.plan.cells.of:
            return self._held(name, places[name], index, alone=alone)
        layout = self.layouts[name]
        contents = np.zeros(layout.shape, layout.dtype)
        for cell, region in self.plan.cells.of[name].items():
            if places[cell]:
                contents[region.index] = self._held(name, places[cell], index, alone=alone)[region.index]
        return contents

    def _held(self, name: str, places: frozenset[Place], index: int, *, alone: bool) -> Array:
        """The contents at a place, in the set of the frame that wrote it last."""
        place = "host" if "host" in places else min(places, default="device")
        if alone or place != "host":
            wait_for_all(self.backend)
        writers = [stage.stage.every for stage in self.bound.frame if name in stage.use.writes()]
        written = max((index - index % every for every in writers), default=index)
        return self._read(name, place, written)

    def lengths(self) -> dict[str, float]:
        """For each buffer, how many elements go into one of its own at most: those its kernels read over its
        size. The rounding error of a sum of n terms in any order grows as sqrt(n) (Higham, Accuracy and
        Stability of Numerical Algorithms, 4.2, statistical estimate)."""
        sizes = {name: math.prod(layout.shape) for name, layout in self.layouts.items()}
        shares = dict.fromkeys(sizes, 1.0)
        for stage in self.bound.frame:
            read = sum(sizes[name] for name, mode in stage.access.items() if mode != "out")
            for name, mode in stage.access.items():
                if mode != "in" and sizes[name]:
                    shares[name] = max(shares[name], read / sizes[name])
        return shares

    def run_check(self, index: int) -> None:
        """The user's check on the newest contents. Raises what it raises; `AssertionError` for False."""
        check = self.bound.check
        if check is None:
            return
        specials: dict[str, Any] = {"xp": np, "frame": index, "gpus": self.bound.workload.gpus}
        specials |= {"stream": self.backend.stream, "rng": np.random.default_rng(0)}
        buffers = {name: self.newest(name, index).copy() for name in check.access}
        outcome = check.stage.function(**buffers, **{name: specials[name] for name in check.specials})
        if isinstance(outcome, (bool, np.bool_)) and not outcome:
            raise AssertionError("check returned False")

    def _compare(self, stage: BoundStage, before: Mapping[str, Array]) -> None:
        for name, contents in before.items():
            array, part = self._read(name, stage.use.place), stage.parts.get(name)
            if array.tobytes() == contents.tobytes():
                continue
            if isinstance(part, Region):
                expected = contents.copy()
                expected[part.index] = array[part.index]
                if array.tobytes() != expected.tobytes():
                    raise RegionViolation(stage.name, name, "writes", part)
            if stage.access[name] == "in":
                message = f"stage {stage.name!r} writes buffer {name!r}, which it annotates In"
                raise WorkloadError(message, next_step=f"Annotate it {name}: InOut, or do not write to it.")

    def _read(self, name: str, place: Place, index: int = 0) -> Array:
        placed = self.sets[index % len(self.sets)][name]
        layout = self.layouts[name]
        if place == "host" or placed.is_one_memory:
            assert placed.host is not None
            return placed.host
        copy = np.empty(layout.shape, layout.dtype)
        gpu = self.backend.gpus[gpu_of(place)]
        gpu.copy_to_host(copy.ctypes.data, self._pointer(placed, place), layout.nbytes)
        gpu.synchronize()
        return copy

    def _fill(self, name: str, stage: BoundStage, pattern: Array) -> None:
        placed, layout, place = self.sets[0][name], self.layouts[name], stage.use.place
        shaped = pattern.view(layout.dtype).reshape(layout.shape)
        part = stage.parts.get(name)
        index = part.index if isinstance(part, Region) else ()
        if place == "host" or placed.is_one_memory:
            assert placed.host is not None
            placed.host[index] = shaped[index]
            return
        if index:
            contents = self._read(name, place)
            contents[index] = shaped[index]
            shaped = contents
        gpu = self.backend.gpus[gpu_of(place)]
        gpu.copy_to_device(self._pointer(placed, place), shaped.ctypes.data, layout.nbytes)
        gpu.synchronize()

    @staticmethod
    def _pointer(placed: Placed, place: Place) -> int:
        array = placed.on(gpu_of(place)).device
        return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def _equal(array: Array, pattern: Array) -> Array:
    """Which elements have the bytes of the pattern."""
    size = array.dtype.itemsize
    word = size if size in (1, 2, 4, 8) else 1  # compared word by word: eight times as fast as by bytes
    same = np.frombuffer(array.tobytes(), f"u{word}") == pattern.view(f"u{word}")
    result: Array = same.reshape(*array.shape, size // word).all(axis=-1)
    return result


@dataclass
class _Untouched:
    stage: str
    buffer: str
    layout: Layout
    frames: int = 0
    most: Array = field(default_factory=lambda: np.zeros(0, bool))
    """Mask of the frame with the most of them."""
    always: Array = field(default_factory=lambda: np.array(True))
    """Mask of those in all frames, over the rows that were valid in all."""

    def see(self, mask: Array) -> None:
        self.frames += 1
        if mask.sum() > self.most.sum():
            self.most = mask
        rows = min(len(mask), len(self.always)) if self.always.ndim else len(mask)
        self.always = self.always[:rows] & mask[:rows] if self.always.ndim else mask

    def unwritten(self, stayed: Array, frames: int) -> WorkloadError | None:
        """Says which stayed poisoned in each of so many frames; None where chance explains them."""
        elements, of = int(stayed.sum()), stayed.size
        if not elements:
            return None
        by_chance = math.log(of) - frames * self.layout.dtype.itemsize * math.log(len(_BYTES))
        if elements * by_chance - math.lgamma(elements + 1) >= math.log(_BY_CHANCE):  # Poisson's tail
            return None
        if elements == of:
            return WorkloadError(
                f"stage {self.stage!r} does not write buffer {self.buffer!r}, which it annotates Out",
                next_step=f"Write into the array it is given ({self.buffer}[...] = values, or "
                f"out={self.buffer}); `{self.buffer} = values` only rebinds the name.",
            )
        return WorkloadError(
            f"stage {self.stage!r} leaves {elements} of {of} elements of buffer "
            f"{self.buffer!r} unwritten, which it annotates Out",
            next_step="Out means every element is overwritten. To keep the rest, annotate "
            f"{self.buffer}: InOut. If the stage always fills the same part, annotate that, as in "
            f"{self.buffer}: Out[:16]. {NAME_THE_LENGTH}",
        )
