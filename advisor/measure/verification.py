"""Are the results right? Annotations are checked, not trusted, and strategies must agree.

A verification frame poisons what a stage says it overwrites and compares what it says it only reads, so a
forgotten output and a hidden write are found and named. Results are compared with the reference run's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from advisor.errors import WorkloadError
from advisor.measure.frames import FrameLoop
from advisor.profiles.schema import Side
from advisor.strategies.backend import Array, Backend
from advisor.strategies.placements.base import Layout, Placed
from advisor.strategies.schedule import Plan
from advisor.workloads.binding import BoundStage, BoundWorkload

POISONS = (0xA5, 0x5A, 0x3C, 0xC3, 0x96, 0x69)
"""Patterns for one frame run again and again: only an element that nobody writes shows them all.

Two tell where a frame gives the same results each time; the others are for results that depend on chance,
which meet all six once in 2**48 bytes.
"""
TOLERANCE = {2: 1e-2, 4: 1e-4, 8: 1e-9}
"""Relative, by bytes of a floating-point number: parallel sums may differ in order, not in substance."""


class Inspector:
    """Reads and writes the buffers of a run from the outside, between its steps."""

    def __init__(
        self,
        bound: BoundWorkload,
        plan: Plan,
        placed: Mapping[str, Placed],
        layouts: Mapping[str, Layout],
        backend: Backend,
    ) -> None:
        self._bound = bound
        self._plan = plan
        self._placed = placed
        self._layouts = layouts
        self._backend = backend

    def check_annotations(self, loop: FrameLoop, index: int) -> None:
        """Runs checked frames of that index until it is clear that stages write all they say they overwrite.

        Raises `WorkloadError` naming the stage and the buffer where one does not, or where a stage changes
        a buffer that it says it only reads.
        """
        untouched = self.verification_frame(loop, POISONS[0], index)
        for poison in POISONS[1:]:
            again = self.verification_frame(loop, poison, index)
            untouched = {output: mask & again[output] for output, mask in untouched.items()}
            if not any(mask.any() for mask in untouched.values()):
                return
        require_written(untouched)

    def verification_frame(self, loop: FrameLoop, poison: int, index: int) -> dict[tuple[str, str], Array]:
        """Runs one checked frame; the elements that stayed poisoned, by stage and buffer.

        Raises `WorkloadError` when a stage changes a buffer it says it only reads.
        """
        stages = {f"{stage.side}:{stage.name}": stage for stage in self._bound.frame}
        untouched: dict[tuple[str, str], Array] = {}
        for action in loop.steady:
            stage = stages.get(action.label)
            if stage is None:
                loop.act(action, index)
                continue
            self._backend.synchronize()
            before = self._prepare(stage, poison)
            loop.act(action, index)
            self._backend.synchronize()
            self._compare(stage, before)
            for name in self._outputs(stage):
                untouched[stage.name, name] = self._still_poisoned(stage, name, poison)
        return untouched

    def results(self) -> dict[str, Array]:
        """The newest contents of the buffers that host stages read (else: that device stages write)."""
        frame = self._bound.frame
        names = {n for s in frame if s.side == "host" for n, mode in s.access.items() if mode != "out"}
        if not names:
            written = {n for s in frame for n, mode in s.access.items() if mode != "in"}
            names = {n for n in written if not self._bound.workload.buffers[n].scratch}
        return {name: self.newest(name) for name in sorted(names)}

    def lengths(self) -> dict[str, float]:
        """For each buffer, how many elements go into one of its own at most: those its kernels read over its
        size. The rounding error of a sum of n terms in any order grows as sqrt(n) (Higham, Accuracy and
        Stability of Numerical Algorithms, 4.2, statistical estimate)."""
        sizes = {name: math.prod(layout.shape) for name, layout in self._layouts.items()}
        found = dict.fromkeys(sizes, 1.0)
        for stage in self._bound.frame:
            read = sum(sizes[name] for name, mode in stage.access.items() if mode != "out")
            for name, mode in stage.access.items():
                if mode != "in" and sizes[name]:
                    found[name] = max(found[name], read / sizes[name])
        return found

    def newest(self, name: str) -> Array:
        """A copy of what the side that wrote the buffer last holds."""
        self._backend.synchronize()
        side: Side = "host" if "host" in self._plan.current[name] else "device"
        return self._read(name, side).copy()

    @property
    def has_check(self) -> bool:
        """Whether the user looks at the results."""
        return self._bound.check is not None

    def run_check(self, index: int) -> None:
        """The user's check on the newest contents. Raises what it raises; `AssertionError` for False."""
        check = self._bound.check
        if check is None:
            return
        arguments: dict[str, Any] = {name: self.newest(name) for name in check.access}
        specials = {"xp": np, "frame": index, "stream": self._backend.stream, "rng": np.random.default_rng(0)}
        arguments.update({name: specials[name] for name in check.specials})
        outcome = check.stage.function(**arguments)
        if isinstance(outcome, (bool, np.bool_)) and not outcome:
            raise AssertionError("check returned False")

    def _prepare(self, stage: BoundStage, poison: int) -> dict[str, bytes]:
        for name in self._outputs(stage):
            self._fill(name, stage.side, poison)
        return {n: self._read(n, stage.side).tobytes() for n, m in stage.access.items() if m == "in"}

    def _compare(self, stage: BoundStage, before: Mapping[str, bytes]) -> None:
        for name, contents in before.items():
            if self._read(name, stage.side).tobytes() != contents:
                raise WorkloadError(
                    f"stage {stage.name!r} writes buffer {name!r}, which it annotates In",
                    next_step=f"Annotate it {name}: InOut, or do not write to it.",
                )

    def _outputs(self, stage: BoundStage) -> list[str]:
        return [name for name, mode in stage.access.items() if mode == "out"]

    def _still_poisoned(self, stage: BoundStage, name: str, poison: int) -> Array:
        raw, size = self._read(name, stage.side).tobytes(), self._layouts[name].dtype.itemsize
        word = size if size in (1, 2, 4, 8) else 1  # compared word by word: eight times as fast as by bytes
        same = np.frombuffer(raw, f"u{word}") == int.from_bytes(bytes([poison]) * word, "little")
        result: Array = same if word == size else same.reshape(-1, size).all(axis=1)
        return result

    def _read(self, name: str, side: Side) -> Array:
        """The buffer as one side sees it; device memory comes as a copy."""
        placed, layout = self._placed[name], self._layouts[name]
        if self._on_host(placed, side):
            assert placed.host is not None
            return placed.host
        copy = np.empty(layout.shape, layout.dtype)
        self._backend.copy_to_host(copy.ctypes.data, self._pointer(placed.device), layout.nbytes)
        self._backend.synchronize()
        return copy

    def _fill(self, name: str, side: Side, byte: int) -> None:
        placed, layout = self._placed[name], self._layouts[name]
        pattern = np.full(layout.nbytes, byte, np.uint8)
        if self._on_host(placed, side):
            assert placed.host is not None
            placed.host[...] = pattern.view(layout.dtype).reshape(layout.shape)
            return
        self._backend.copy_to_device(self._pointer(placed.device), pattern.ctypes.data, layout.nbytes)
        self._backend.synchronize()

    @staticmethod
    def _on_host(placed: Placed, side: Side) -> bool:
        """The host sees it: its own side, or one memory for both."""
        return side == "host" or placed.is_one_memory

    @staticmethod
    def _pointer(array: Any) -> int:
        return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def require_written(outputs: Mapping[tuple[str, str], Array]) -> None:
    """Raises `WorkloadError` for an output with elements that stayed poisoned in every frame."""
    for (stage, buffer), untouched in outputs.items():
        missing = int(untouched.sum())
        if missing == untouched.size:
            raise WorkloadError(
                f"stage {stage!r} does not write buffer {buffer!r}, which it annotates Out",
                next_step=f"Write into the array it is given ({buffer}[...] = values, or out={buffer}); "
                f"`{buffer} = values` only rebinds the name.",
            )
        if missing:
            raise WorkloadError(
                f"stage {stage!r} leaves {missing} of {untouched.size} elements of buffer {buffer!r} "
                "unwritten, which it annotates Out",
                next_step="Out means every element is overwritten. To keep the rest, annotate "
                f"{buffer}: InOut.",
            )


def save_results(results: Mapping[str, Array], directory: Path) -> None:
    """Keeps the reference run's results as .npy files."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, array in results.items():
        np.save(directory / f"{name}.npy", array)


def differences(
    results: Mapping[str, Array], directory: Path, lengths: Mapping[str, float] | None = None
) -> Iterator[str]:
    """What differs from the kept results, one sentence per buffer.

    lengths: how many elements go into one of the buffer's at most, which rounding errors grow with.
    """
    for name, array in results.items():
        expected = np.load(directory / f"{name}.npy", mmap_mode="r")
        sentence = _difference(name, array, expected, (lengths or {}).get(name, 1.0))
        if sentence:
            yield sentence


def _difference(name: str, array: Array, expected: Array, length: float) -> str:
    if (array.shape, array.dtype) != (expected.shape, expected.dtype):
        return f"{name!r} is {array.dtype} {array.shape}, not {expected.dtype} {expected.shape}"
    if np.array_equal(array.reshape(-1).view(np.uint8), np.asarray(expected).reshape(-1).view(np.uint8)):
        return ""
    if array.dtype.kind in "fc":
        size = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
        tolerance = TOLERANCE.get(size, 1e-9)
        scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
        explained = max(tolerance * 1e-3, float(np.finfo(array.dtype).eps) * math.sqrt(length)) * scale
        close = np.isclose(array, expected, rtol=tolerance, atol=explained, equal_nan=True)
    else:
        close = np.atleast_1d(array == expected)
    wrong = int(close.size - np.count_nonzero(close))
    if not wrong:
        return ""
    where = np.unravel_index(int(np.argmin(close)), close.shape)
    there = f"at {[int(index) for index in where]} " if array.ndim else ""
    told = (
        f"{wrong} of {close.size} elements of {name!r} differ from the reference run; {there}it is "
        f"{array[where if array.ndim else ()]} instead of {expected[where if array.ndim else ()]}"
    )
    return told + (_worst(array, expected, explained) if array.dtype.kind in "fc" else "")


def _worst(array: Array, expected: Array, explained: float) -> str:
    """The largest error that can be told, against what rounding explains near zero."""
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.abs(array.astype(np.complex128) - expected.astype(np.complex128))
    finite = errors[np.isfinite(errors)]
    if not finite.size:
        return ""
    return f"; the largest error is {finite.max():.3g}, where rounding explains {explained:.3g} near zero"
