"""What the model draws of two strategies' ratio reaches the rules."""

from __future__ import annotations

import pytest
from test_model_strategies import vector_add

from advisor.devices.catalogue import load
from advisor.model.predict import predict
from advisor.rules.advise import advise, cases
from advisor.rules.base import Row

pytestmark = pytest.mark.usefixtures("constants_as_read")


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    profile = vector_add()
    made = predict(profile, load("rtx-4090"))
    (case,) = cases(advise(profile.model_copy(update={"predictions": (made,)})))
    return dict(case.rows)


def of_two_ranges(row: Row, other: Row) -> tuple[float, float]:
    return row.interval[0] / other.interval[1], row.interval[1] / other.interval[0]


@pytest.mark.parametrize(("one", "other"), [("pinned", "pageable"), ("pageable", "pinned")])
def test_rules_divide_draw_by_draw(rows: dict[str, Row], one: str, other: str) -> None:
    found = rows[one].over(rows[other])
    low, high = of_two_ranges(rows[one], rows[other])
    assert found.value == rows[one].seconds / rows[other].seconds
    assert low < found.low <= found.value <= found.high < high
    back = rows[other].over(rows[one])
    assert (back.low, back.high) == pytest.approx((1 / found.high, 1 / found.low))


def test_of_pairs_that_were_not_drawn_the_two_ranges_are_divided(rows: dict[str, Row]) -> None:
    found = rows["managed"].over(rows["staged"])
    assert (found.low, found.high) == of_two_ranges(rows["managed"], rows["staged"])


@pytest.mark.parametrize("turned", [False, True])
def test_overlapping_frames_are_not_divided_by_what_counts_them_begin_to_end(
    rows: dict[str, Row], turned: bool
) -> None:
    overlapped, plain = rows["pinned-pipelined"], rows["pageable"]
    assert "pageable" in overlapped.drawn_over
    row, other = (plain, overlapped) if turned else (overlapped, plain)
    found = row.over(other)
    assert (found.low, found.high) == of_two_ranges(row, other)
    assert found.low < found.value < found.high
