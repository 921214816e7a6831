"""Results that the reference runs of BASE and HEAD kept, buffer by buffer, as verification does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from advisor.measure.kept_results import LEAST_FRAMES, KeptResults, absolute_errors, agreeing, some
from advisor.strategies.backend import Array
from advisor.verdicts.comparing.results import BufferDifference, Results


def compare_results(base: Path, head: Path) -> Results:
    """HEAD's results against BASE's in the frames that both kept, from the folders of the reference runs.

    Buffers are compared up to the first frame in which two runs of one version differ in them.
    """
    sides = {"BASE": KeptResults(base), "HEAD": KeptResults(head)}
    ended = {name: kept.repeated() for name, kept in sides.items()}
    for name, repeated in ended.items():
        if repeated is None:
            return Results(absent=f"the reference run of {name} failed")
    before, now = (repeated for repeated in ended.values() if repeated is not None)
    lengths = {name: max(before.lengths.get(name, 1.0), length) for name, length in now.lengths.items()}
    limits = {
        name: min(before.unlike.get(name, before.frames), now.unlike.get(name, now.frames))
        for name in {*before.lengths} & {*now.lengths}
    }
    compared: dict[str, None] = {}
    different: dict[str, BufferDifference] = {}
    for frame in range(min(before.frames, now.frames)):
        expected, results = (kept.load(frame) for kept in sides.values())
        for name in (n for n in results if n in expected and n not in different and frame < limits.get(n, 0)):
            compared[name] = None
            found = _difference(name, frame, results[name], expected[name], lengths[name] * (frame + 1))
            if found is not None:
                different[name] = found
    return Results(
        tuple(compared),
        tuple(different.values()),
        unrepeatable=tuple(sorted(before.unlike)),
        unsteady=tuple(sorted(now.unlike.keys() - before.unlike.keys())),
        absent="" if compared or before.unlike or now.unlike else "they have no buffer of results in common",
    )


def _difference(
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
