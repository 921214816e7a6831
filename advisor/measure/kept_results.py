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
        stored = {name: array if whole else some(array) for name, array in results.items()}
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
        frame may have as many times the terms. Where fewer elements were kept, those are compared."""
        sentences: dict[str, str] = {}
        for name, array in results.items():
            expected = np.load(self._directory / str(frame) / f"{name}.npy", mmap_mode="r")
            compared = some(array) if expected.size < array.size else array
            whole, length = compared is array and array.ndim > 0, lengths.get(name, 1.0) * (frame + 1)
            if sentence := _difference(name, compared, expected, length, frame, whole=whole):
                sentences[name] = sentence
        return sentences


def nans(array: Array) -> tuple[int, int]:
    """How many elements are NaN, of how many that were looked at: of a large array, some."""
    examined = array if array.nbytes <= _WHOLE_BYTES else some(array)
    return (int(np.count_nonzero(np.isnan(examined))) if array.dtype.kind in "fc" else 0), examined.size


def some(array: Array) -> Array:
    """Elements of it in one row, evenly spread; all where there are few."""
    return np.ascontiguousarray(array.reshape(-1)[:: max(1, math.ceil(array.size / _SOME))])


def _difference(name: str, array: Array, expected: Array, length: float, frame: int, *, whole: bool) -> str:
    """What differs, and where first; no place is given if only some elements were kept."""
    if (array.shape, array.dtype) != (expected.shape, expected.dtype):
        return f"{name!r} is {array.dtype} {array.shape}, not {expected.dtype} {expected.shape}"
    if np.array_equal(array.reshape(-1).view(np.uint8), np.asarray(expected).reshape(-1).view(np.uint8)):
        return ""
    close, explained = agreeing(array, expected, length)
    wrong = int(close.size - np.count_nonzero(close))
    if not wrong:
        return ""
    first = np.unravel_index(int(np.argmin(close)), close.shape) if array.ndim else ()
    at = f"at {[int(index) for index in first]} " if whole else ""
    errors = absolute_errors(array, expected) if array.dtype.kind in "fc" else np.zeros(0)
    finite = errors[np.isfinite(errors)]
    worst = ""
    if finite.size:
        worst = f"; the largest error is {finite.max():.3g}, "
        worst += f"rounding explains at most {explained:.3g} near zero"
    return (
        f"{wrong} of {close.size} elements of {name!r} differ from the reference run in frame {frame}; "
        f"{at}it is {array[first]} instead of {expected[first]}{worst}"
    )


def agreeing(array: Array, expected: Array, length: float = 1.0) -> tuple[npt.NDArray[np.bool_], float]:
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


def absolute_errors(array: Array, expected: Array) -> npt.NDArray[np.float64]:
    """Differences of numbers of any kind, as doubles; not finite where one of the two is not."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.abs(array.astype(np.complex128) - expected.astype(np.complex128)))


def compare_results(base: Path, head: Path) -> Results:
    """HEAD's results against BASE's in the frames that both kept, from the folders of the reference runs.
    Buffers are compared up to the first frame in which two runs of one version differ in them."""
    sides = {"BASE": KeptResults(base), "HEAD": KeptResults(head)}
    ended = {name: kept.repeated() for name, kept in sides.items()}
    for name, repeated in ended.items():
        if repeated is None:
            return Results(absent=f"the reference run of {name} failed")
    before, now = (repeated for repeated in ended.values() if repeated is not None)
    lengths = {name: max(before.lengths.get(name, 1.0), length) for name, length in now.lengths.items()}
    names = {*before.lengths} & {*now.lengths}
    limits = {n: min(before.unlike.get(n, before.frames), now.unlike.get(n, now.frames)) for n in names}
    compared: dict[str, None] = {}
    different: dict[str, BufferDifference] = {}
    for frame in range(min(before.frames, now.frames)):
        expected, results = (kept.load(frame) for kept in sides.values())
        for name in (n for n in results if n in expected and n not in different and frame < limits.get(n, 0)):
            compared[name] = None
            length = lengths[name] * (frame + 1)
            difference = _buffer_difference(name, frame, results[name], expected[name], length)
            if difference is not None:
                different[name] = difference
    return Results(
        tuple(compared),
        tuple(different.values()),
        unrepeatable=tuple(sorted(before.unlike)),
        unsteady=tuple(sorted(now.unlike.keys() - before.unlike.keys())),
        gone=tuple(sorted(sides["BASE"].load(0).keys() - sides["HEAD"].load(0).keys())),
        absent="" if compared or before.unlike or now.unlike else "they have no buffer of results in common",
    )


def _buffer_difference(
    name: str, frame: int, array: Array, expected: Array, length: float
) -> BufferDifference | None:
    """Some elements are compared where one side kept no more."""
    if array.size != expected.size and frame >= LEAST_FRAMES:
        least = min(array.size, expected.size)
        array, expected = (each if each.size == least else some(each) for each in (array, expected))
    if array.size != expected.size:
        return BufferDifference(name, frame, shapes=(expected.shape, array.shape))
    if array.shape != expected.shape:
        array, expected = array.reshape(-1), expected.reshape(-1)
    numbers = {array.dtype.kind, expected.dtype.kind} <= set("fciub")
    if array.dtype != expected.dtype and not numbers:
        return BufferDifference(name, frame, array.size, array.size)
    if array.dtype == expected.dtype and np.array_equal(array, expected):  # without `isclose`'s copies
        return None
    close, _ = agreeing(array, expected, length)
    wrong = int(close.size - np.count_nonzero(close))
    if not wrong:
        return None
    largest, place = _largest(array, expected, close) if numbers else (None, ())
    whole = place and (frame < LEAST_FRAMES or array.ndim > 1)
    return BufferDifference(name, frame, wrong, close.size, largest, place if whole else None)


def _largest(array: Array, expected: Array, close: Array) -> tuple[float | None, tuple[int, ...]]:
    """The largest finite error and its place; else the place of the first element that differs."""
    wrong = ~close.reshape(array.shape)
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), array.shape)) if array.ndim else ()
    errors = absolute_errors(array, expected)
    errors = np.where(np.isfinite(errors) & wrong, errors, -1.0)
    if not (errors >= 0).any():
        return None, first
    at = np.unravel_index(int(np.argmax(errors)), array.shape) if array.ndim else ()
    return float(errors.max()), tuple(int(i) for i in at)
