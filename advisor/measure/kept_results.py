"""The reference run's results, frame by frame, and what differs from them.

Every strategy runs the same frames from the same start (a fresh load, set-up, frame 0) and each frame is
compared with the reference run's of that index, so that a workload's state may be whatever it is by then.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import Field

from advisor.measure.fork_server import end_if_forked
from advisor.profiles.base import Record, table
from advisor.strategies.backend import Array
from advisor.verdicts.comparing.results import BufferDifference, Results

LEAST_FRAMES, MOST_FRAMES = 2, 16
"""Frames that are compared: as many as `SECONDS` hold."""
SECONDS = 1.0
_WHOLE_BYTES = 64 << 20
"""Size of all frames' results that are kept whole; beyond it, from frame `LEAST_FRAMES` on, some elements."""
_SOME = 1 << 16
"""Elements that are kept of a buffer then, evenly spread."""
TOLERANCE = {2: 1e-2, 4: 1e-4, 8: 1e-9}
"""Relative, by bytes of a floating-point number: parallel sums may differ in order, not in substance."""


class Repeated(Record):
    """What the reference run says of its results. `unlike`: for each buffer whose contents were others in a
    second run from the same start, the first frame in which they were. `iterations`: of each loop, in each
    of these frames; none of a loop whose count was another in the second run."""

    frames: int
    unlike: dict[str, int]
    iterations: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    nan: dict[str, int] = table("The first frame in which a buffer has NaN")
    lengths: dict[str, float] = table("`Inspector.lengths`")


class KeptResults:
    def __init__(self, directory: Path) -> None:
        self._directory, self._ending, self._bytes = directory, directory / "repeated.json", 0
        self._worker = os.getpid()

    def keep(self, frame: int, results: Mapping[str, Array]) -> None:
        end_if_forked(self._worker)
        self._bytes += sum(array.nbytes for array in results.values())
        whole = frame < LEAST_FRAMES or self._bytes <= _WHOLE_BYTES
        stored = {n: array if whole or array.size <= _SOME else some(array) for n, array in results.items()}
        directory = self._directory / str(frame)
        directory.mkdir(parents=True, exist_ok=True)
        for name, array in stored.items():
            np.save(directory / f"{name}.npy", array)

    def close(self, repeated: Repeated) -> None:
        self._ending.write_text(repeated.model_dump_json(), encoding="utf-8")

    def repeated(self) -> Repeated | None:
        """What the reference run left; None where it did not come to its end."""
        text = self._ending.read_text(encoding="utf-8") if self._ending.exists() else ""
        return Repeated.model_validate_json(text) if text else None

    def load(self, frame: int) -> dict[str, Array]:
        files = sorted((self._directory / str(frame)).glob("*.npy"))
        return {file.stem: np.load(file, mmap_mode="r") for file in files}

    def differences(
        self, frame: int, results: Mapping[str, Array], lengths: Mapping[str, float]
    ) -> dict[str, str]:
        """The buffers that differ from that frame's, with a sentence for each. lengths: how many elements go
        into one of the buffer's at most, which rounding errors grow with; one that is carried from frame to
        frame may have as many times the terms."""
        sentences: dict[str, str] = {}
        for name, array in results.items():
            expected = np.load(self._directory / str(frame) / f"{name}.npy", mmap_mode="r")
            length = lengths.get(name, 1.0) * (frame + 1)
            if difference := _buffer_difference(name, frame, array, expected, length):
                sentences[name] = difference.sentence
                if not difference.shapes:
                    sentences[name] += ": {} instead of {} in the reference run".format(*difference.values)
                if most := difference.explained:
                    sentences[name] += f"; rounding explains at most {most:.3g} near zero"
        return sentences


def nans(array: Array) -> tuple[int, int]:
    """Counts of NaN elements and of elements examined, a sample if the array is large."""
    examined = array if array.nbytes <= _WHOLE_BYTES else some(array)
    return (int(np.count_nonzero(np.isnan(examined))) if array.dtype.kind in "fc" else 0), examined.size


def some(array: Array) -> Array:
    """Elements of it in one row, evenly spread; all where there are few."""
    return np.ascontiguousarray(array.reshape(-1)[:: max(1, math.ceil(array.size / _SOME))])


def _agreeing(array: Array, expected: Array, length: float = 1.0) -> tuple[npt.NDArray[np.bool_], float]:
    """Which elements agree, and what rounding explains near zero; of two precisions the lower one counts.
    length: how many elements go into one, which rounding errors grow with."""
    kinds = {array.dtype.kind, expected.dtype.kind}
    if not kinds & set("fc") or not kinds <= set("fciub"):
        return np.atleast_1d(array == expected), 0.0
    floating = [each.dtype for each in (array, expected) if each.dtype.kind in "fc"]
    parts = {dtype.itemsize // (2 if dtype.kind == "c" else 1): dtype for dtype in floating}
    size = min(parts)
    tolerance = TOLERANCE.get(size, 1e-9)
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    explained = max(tolerance * 1e-3, float(np.finfo(parts[size]).eps) * math.sqrt(length)) * scale
    close = np.isclose(array, expected, rtol=tolerance, atol=explained, equal_nan=True)
    return np.atleast_1d(close), explained


def compare_results(base: Path, head: Path) -> Results:
    """HEAD's results against BASE's in the frames that both kept, from the folders of the reference runs.
    Buffers are compared up to the first frame in which two runs of one version differ in them."""
    old, new = KeptResults(base), KeptResults(head)
    before, now = old.repeated(), new.repeated()
    if before is None or now is None:
        return Results(absent=f"the reference run of {'HEAD' if before else 'BASE'} failed")
    lengths = {n: max(before.lengths[n], now.lengths[n]) for n in before.lengths.keys() & now.lengths}
    limits = {n: min(before.unlike.get(n, before.frames), now.unlike.get(n, now.frames)) for n in lengths}
    compared: dict[str, None] = {}
    different: dict[str, BufferDifference] = {}
    for frame in range(min(before.frames, now.frames)):
        expected, results = old.load(frame), new.load(frame)
        for name in (n for n in results if n in expected and n not in different and frame < limits.get(n, 0)):
            compared[name] = None
            length = lengths[name] * (frame + 1)
            if difference := _buffer_difference(name, frame, results[name], expected[name], length):
                different[name] = difference
    return Results(
        tuple(compared),
        tuple(different.values()),
        unrepeatable=tuple(sorted(before.unlike)),
        unsteady=tuple(sorted(now.unlike.keys() - before.unlike.keys())),
        gone=tuple(sorted(old.load(0).keys() - new.load(0).keys())),
        absent="" if compared or before.unlike or now.unlike else "they have no buffer of results in common",
    )


def _buffer_difference(
    name: str, frame: int, array: Array, expected: Array, length: float
) -> BufferDifference | None:
    """Some elements are compared where one side kept no more."""
    if array.size != expected.size and frame >= LEAST_FRAMES:
        array, expected = some(array), some(expected)
    if array.size != expected.size:
        return BufferDifference(name, frame, shapes=(expected.shape, array.shape))
    expected = expected.reshape(array.shape)
    if array.dtype == expected.dtype:
        found, same = (each.reshape(-1).view(np.uint8) for each in (array, expected))
        if np.array_equal(found, same):  # without `isclose`'s copies
            return None
    close, explained = _agreeing(array, expected, length)
    wrong = ~close.reshape(array.shape)
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    place, largest = _worst(array, expected, wrong)
    is_whole = array.ndim > 1 or frame < LEAST_FRAMES or not _SOME // 2 < array.size <= _SOME
    return BufferDifference(
        name,
        frame,
        count,
        array.size,
        largest,
        place if place and is_whole else None,
        values=(str(array[place]), str(expected[place])),
        explained=explained,
    )


def _worst(array: Array, expected: Array, wrong: Array) -> tuple[tuple[int, ...], float | None]:
    """The place of the largest finite error and that error; else the first element that differs."""
    errors = np.full(array.shape, -1.0)
    if {array.dtype.kind, expected.dtype.kind} <= set("fciub"):
        with np.errstate(invalid="ignore", over="ignore"):
            absolute = np.abs(array.astype(np.complex128) - expected.astype(np.complex128))
        errors = np.where(np.isfinite(absolute), absolute, -1.0)
    at = int(np.argmax(np.where(wrong, errors, -2.0)))
    place = tuple(int(index) for index in np.unravel_index(at, array.shape)) if array.ndim else ()
    return place, float(errors[place]) if errors[place] >= 0 else None
