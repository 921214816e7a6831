"""Gathers and strides cross the link in whole sectors: what lies together and fills them crosses once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from every import every
from test_routines import device_trace

from advisor.measure import routines
from advisor.measure.routines import gathered_beyond, strided_beyond

ROWS, ALONE = 1 << 15, 18.72
ORDER = np.random.default_rng(1).permutation(ROWS)
EIGHTH, FAR = np.arange(ROWS) % 8 == 0, np.arange(ROWS) % 32 == 0


def crossings(array: Any, function: Callable[[Any], Any]) -> float:
    """Bytes that cross, over those that the stage gathers."""
    (traffic,) = device_trace(lambda a: function(a), a=array).traffic
    return 1 + sum(item.bytes for item in traffic.again) / traffic.bytes_read


@every("width", [8, 16, 32, 4096])
@every(
    "gather",
    [
        lambda a: a[ORDER[:512]],
        lambda a: a.take(ORDER[:512], axis=0),
        lambda a: np.take(a, ORDER[:512], axis=0),
        lambda a: a[EIGHTH],
        lambda a: a[list(ORDER[:512])],
        lambda a: a.compress(EIGHTH, axis=0),
        lambda a: a[::4] + 1,
    ],
)
def test_rows_of_whole_sectors_cross_once(gather: Callable[[Any], Any], width: int) -> None:
    """Rows of 32 B to 16 KiB."""
    assert crossings(np.zeros((ROWS, width), np.float32), gather) == pytest.approx(1)


@every(
    ("gather", "expected"),
    [
        (lambda a: a[ORDER], ALONE),
        (lambda a: a.take(ORDER), ALONE),
        (lambda a: np.take_along_axis(a, ORDER, axis=0), ALONE),
        (lambda a: a[np.arange(ROWS)], 1),
        (lambda a: a[EIGHTH], 8),
        (lambda a: np.extract(EIGHTH, a), 8),
        (lambda a: a[FAR], ALONE),
        (lambda a: a[::2] + 1, 2),
        (lambda a: a[::8] + 1, 8),
        (lambda a: a[::32] + 1, ALONE),
        (lambda a: a[:1024] + 1, 1),
    ],
)
def test_elements_come_with_their_sectors(gather: Callable[[Any], Any], expected: float) -> None:
    assert crossings(np.zeros(ROWS, np.float32), gather) == pytest.approx(expected, rel=0.02)


def test_narrow_rows_take_their_share_of_a_sector() -> None:
    for width, expected in ((1, ALONE), (2, ALONE / 2), (4, ALONE / 4), (8, 1)):
        rows = np.zeros((ROWS, width), np.float32)
        assert crossings(rows, lambda a: a[ORDER]) == pytest.approx(expected, rel=0.02)


def test_along_the_last_axis_each_element_is_apart() -> None:
    wide = np.zeros((64, 4096), np.float32)
    columns = np.random.default_rng(1).permutation(4096)
    assert crossings(wide, lambda a: a[:, columns[:512]]) > 8
    assert crossings(wide, lambda a: a.take(columns[:512], axis=1)) > 8
    assert crossings(wide, lambda a: a[:, ::2] + 1) == pytest.approx(2)


def test_a_table_that_an_l1_holds_is_not_fetched_again() -> None:
    assert gathered_beyond(np.zeros(4096, np.float32), (ORDER % 4096,)) == 0


def test_a_large_gather_is_judged_by_its_first_places(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.zeros(ROWS, np.float32)
    for key in ((ORDER,), (EIGHTH,)):
        whole = gathered_beyond(table, key)
        monkeypatch.setattr(routines, "_MOST", 4096)
        assert gathered_beyond(table, key) == pytest.approx(whole, rel=0.05)
        monkeypatch.undo()


def test_a_view_without_gaps_fetches_nothing_more() -> None:
    a = np.zeros((64, 64), np.float32)
    for view in (a, a.T, a[3:9], np.broadcast_to(a, (4, 64, 64)), a[:, :8], a[:0], a[0, 0]):
        assert strided_beyond(view) == 0


@every(
    "reduce",
    [
        lambda a: a.mean(axis=(1, 3), dtype=np.float32),
        lambda a: np.mean(a, axis=(1, 3), dtype=np.float32),
        lambda a: a.max(axis=(1, 3)),
        lambda a: np.maximum.reduce(a, axis=(-3, -1)),
    ],
)
def test_a_reduction_of_short_pieces_fetches_their_sectors(reduce: Callable[[Any], Any]) -> None:
    """Pieces of 20 bytes, each 1,920 from the last: a mean of them took 4.3 times a pass on an H200."""
    assert 4 < crossings(np.zeros((54, 20, 96, 20), np.uint8), reduce) < 6


@every("axis", [None, 0, 1, 2, 3, (0, 2), (2, 3), (0, 1, 2, 3)])
def test_a_reduction_that_reads_whole_lines_crosses_once(axis: Any) -> None:
    image = np.zeros((54, 20, 96, 128), np.float32)
    assert crossings(image, lambda a: a.sum(axis=axis)) == pytest.approx(1)
