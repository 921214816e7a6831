"""The GPU's busy time against a count of every nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from advisor.nsys.aggregates import Busy

PIECES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(1, 15)), max_size=30)
FRAMES = st.lists(st.integers(0, 80), min_size=2, max_size=8, unique=True)


def arrays(rows: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [np.array(column, np.int64) for column in zip(*rows, strict=True)]


def collected(pieces: list[tuple[int, int, int]], block: int) -> Busy:
    busy = Busy()
    for first in range(0, len(pieces), block):
        processes, begins, lengths = arrays(pieces[first : first + block])
        busy.add(processes, begins, begins + lengths)
    return busy


@given(PIECES, FRAMES, st.integers(1, 40))
def test_the_share_is_that_of_every_nanosecond(
    pieces: list[tuple[int, int, int]], marks: list[int], block: int
) -> None:
    edges = sorted(marks)[: len(marks) // 2 * 2]
    begins, ends = np.array(edges[::2], np.int64), np.array(edges[1::2], np.int64)
    inside = [t for b, e in zip(begins, ends, strict=True) for t in range(b, e)]
    for process in (0, 1):
        worked = {t for p, b, n in pieces if process == p for t in range(b, b + n)}
        expected = sum(t in worked for t in inside) / len(inside)
        busy = collected(pieces, block)
        assert abs(busy.share(process, begins, ends) - expected) < 1e-12
        assert abs(busy.share(process, begins, ends) - expected) < 1e-12, "asked again"


def test_nothing_seen_and_no_time_at_all() -> None:
    busy = Busy()
    assert not busy.seen
    assert busy.share(0, np.array([1]), np.array([5])) == 0
    busy = collected([(0, 10, 5), (1, 2, 4)], 10)
    assert busy.share(0, np.array([7]), np.array([7])) == 0
