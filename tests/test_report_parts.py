"""Where the time of a frame goes: in the bars of the first screen, in the table and in words."""

from __future__ import annotations

import pytest
from builders import measured, predicted, prediction, profile
from every import every
from hypothesis import given
from hypothesis import strategies as st
from rendering import blocks

from advisor.profiles.schema import Profile
from advisor.report.answer import MOST, Answer, Answers, Part, parts_of, where_time_goes
from advisor.report.charts import decimal_step
from advisor.report.pages import page_of


def frame_of(run: Profile, strategy: str) -> list[tuple[str, str, str]]:
    return [(part.key, part.value, part.category) for part in parts_of(run)[strategy]]


def first_answer(run: Profile) -> Answer:
    return blocks(page_of(run), Answers)[0].items[0]


def test_the_parts_of_a_bar_touch_and_are_as_long_as_its_frame() -> None:
    answer = first_answer(profile())
    for bar in answer.bars:
        right = 0.0
        for _, left, width in answer.segments(bar):
            assert left == pytest.approx(right, abs=0.02)
            right = left + width
        assert right == pytest.approx(answer.share(bar.amount), abs=0.02)


def test_parts_of_a_measured_frame_and_the_rest() -> None:
    stages = {"produce": 0.004, "add": 0.002, "consume": 0.003}
    row = measured("pinned", 0.020, stage_seconds=stages, transfer_seconds=0.006, synchronize_seconds=0.001)
    assert frame_of(profile(results=(row,)), "pinned") == [
        ("produce", "4.00 ms", "host"),
        ("consume", "3.00 ms", "host-2"),
        ("copies", "6.00 ms", "transfer"),
        ("add", "2.00 ms", "kernel"),
        ("synchronize", "1.00 ms", "wait"),
        ("other", "4.00 ms", "rest"),
    ]
    row = measured("pinned", 0.020, stage_seconds={"add": 0.019}, transfer_seconds=0.006)
    run = profile(results=(row, measured("pageable", 0.030)))
    assert [part.key for part in parts_of(run)["pinned"]] == ["copies", "add"]
    answer = first_answer(run)
    bar = next(bar for bar in answer.bars if bar.name == "pinned")
    assert sum(width for *_, width in answer.segments(bar)) == pytest.approx(answer.share(0.020), abs=0.02)


def test_the_reason_says_where_the_time_goes_and_what_the_baseline_spends_more_on() -> None:
    fast = measured("zero-copy", 0.010, stage_seconds={"produce": 0.004, "add": 0.005}, transfer_seconds=0.0)
    slow = measured("pageable", 0.020, stage_seconds={"produce": 0.004, "add": 0.002}, transfer_seconds=0.013)
    parts = parts_of(profile(results=(slow, fast)))
    said = where_time_goes(parts["zero-copy"], "zero-copy", parts["pageable"], "pageable")
    assert said.startswith("A frame of `zero-copy`: add 5.00 ms, produce 4.00 ms and")
    assert said.endswith("; `pageable` spends 13.0 ms more on copies.")
    alone = where_time_goes(parts["pageable"], "pageable", parts["pageable"], "pageable")
    assert "more on" not in alone
    assert where_time_goes((), "pinned", (), "pageable") == ""


@every(("extent", "step"), [(0.041, 0.01), (0.05, 0.01), (0.051, 0.02), (7e-6, 2e-6)])
def test_decimal_steps(extent: float, step: float) -> None:
    assert decimal_step(extent) == pytest.approx(step)


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40))
def test_many_parts_are_joined_and_none_is_lost(amounts: list[float]) -> None:
    terms = {f"host:part {i}": amount for i, amount in enumerate(amounts)}
    made = prediction(results=(predicted("pinned", sum(amounts), terms=terms),))
    (parts,) = parts_of(made).values()
    assert len(parts) <= MOST
    assert sum(part.amount for part in parts) == pytest.approx(sum(amounts))
    assert all(isinstance(part, Part) and part.amount > 0 for part in parts)
