"""Sets of intervals against a count of every nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from advisor.nsys.ranges import Intervals, between, inside, length, union

PIECES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 15)), max_size=30)
MARKS = st.lists(st.integers(0, 80), min_size=2, max_size=8, unique=True)


def intervals(rows: list[tuple[int, int]]) -> Intervals:
    begins, ends = np.array(rows, np.int64).reshape(-1, 2).T
    return begins, ends


def moments(given: Intervals) -> set[int]:
    return {t for begin, end in zip(*given, strict=True) for t in range(begin, end)}


@given(PIECES, PIECES, MARKS)
def test_unions_and_what_lies_in_and_between_them(
    pieces: list[tuple[int, int]], more: list[tuple[int, int]], marks: list[int]
) -> None:
    edges = sorted(marks)[: len(marks) // 2 * 2]
    window = intervals(list(zip(edges[::2], edges[1::2], strict=True)))
    both = [intervals([(begin, begin + lasted) for begin, lasted in each]) for each in (pieces, more)]
    worked = moments(both[0]) | moments(both[1])
    busy = union(both)
    assert both == []
    assert moments(busy) == worked
    assert length(busy) == len(worked) / 1e9
    assert inside(window, busy).sum() == len(moments(window) & worked)
    assert moments(between(busy, window)) == moments(window) - worked
