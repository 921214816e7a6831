"""Where the charts' bars and whiskers lie."""

from __future__ import annotations

import pytest
from builders import cpu_profile, measured, predicted, prediction, profile
from every import every
from hypothesis import given
from hypothesis import strategies as st

from advisor.report.axes import decimal_step
from advisor.report.charts import LEGEND_LIMIT, Part, Stack, chart, frame_chart, prediction_chart


def share(text: str) -> float:
    return float(text.rstrip("%"))


def test_bars_are_to_scale_and_parts_touch() -> None:
    made = frame_chart(profile())
    slow, fast = made.bars
    assert share(slow.segments[0].width) == pytest.approx(2 * share(fast.segments[0].width), abs=0.02)
    for bar in made.bars:
        left = 0.0
        for segment in bar.segments:
            assert share(segment.x) == pytest.approx(left, abs=0.02)
            left += share(segment.width)
        assert left == pytest.approx(100 * bar.whisker[2] if bar.whisker else 0, abs=0.05)


def test_parts_of_a_measured_frame_and_the_rest() -> None:
    row = measured(
        "pinned",
        0.020,
        stage_seconds={"produce": 0.004, "add": 0.002, "consume": 0.003},
        transfer_seconds=0.006,
        synchronize_seconds=0.001,
    )
    segments = frame_chart(profile(results=(row,))).bars[0].segments
    assert [(s.label, s.value, s.category) for s in segments] == [
        ("produce", "4.00 ms", "host"),
        ("consume", "3.00 ms", "host-2"),
        ("copies", "6.00 ms", "transfer"),
        ("add", "2.00 ms", "kernel"),
        ("synchronize", "1.00 ms", "wait"),
        ("other", "4.00 ms", "rest"),
    ]


def test_parts_longer_than_the_median_leave_no_negative_rest() -> None:
    row = measured("pinned", 0.020, stage_seconds={"add": 0.019}, transfer_seconds=0.006)
    bar = frame_chart(profile(results=(row,))).bars[0]
    assert [s.label for s in bar.segments] == ["copies", "add"]
    assert share(bar.segments[-1].x) + share(bar.segments[-1].width) <= 100


def test_whisker_spans_the_interval() -> None:
    row = measured("pinned", 0.020, interval_seconds=(0.010, 0.040))
    low, high, middle = frame_chart(profile(results=(row,))).bars[0].whisker
    assert (middle / low, high / low) == (pytest.approx(2, abs=0.01), pytest.approx(4, abs=0.01))
    assert 0.95 < high < 1


def test_predicted_parts_keep_their_names_and_are_marked() -> None:
    made = prediction_chart(cpu_profile().predictions[0], 1)
    assert made.predicted
    assert not frame_chart(profile()).predicted
    assert [k.label for k in made.legend] == [
        "produce",
        "consume",
        "to-device",
        "to-host",
        "add",
        "synchronize",
    ]
    first = made.bars[0]
    assert (first.label, first.value, first.note) == ("zero-copy", "45.0 ms", "31.5 to 58.5 ms")
    assert (first.segments[0].label, first.segments[0].value) == ("produce", "13.5 ms")
    assert [b.mark for b in made.bars] == ["→ ", ""], "the fastest first"


def test_unknown_terms_are_shown_under_their_own_name() -> None:
    faults = predicted("managed", 0.02, terms={"page faults": 0.02})
    made = prediction_chart(prediction(results=(faults,)), 1)
    assert [(k.label, k.category) for k in made.legend] == [("page faults", "rest")]


@every(("extent", "step"), [(0.041, 0.01), (0.05, 0.01), (0.051, 0.02), (7e-6, 2e-6)])
def test_decimal_steps(extent: float, step: float) -> None:
    assert decimal_step(extent) == pytest.approx(step)


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40), st.booleans())
def test_any_bar_fits_its_chart(amounts: list[float], predicted: bool) -> None:
    parts = tuple(Part(f"part {i}", "host", amount) for i, amount in enumerate(amounts))
    made = chart("c", "title", [Stack("a", "v", "n", parts)], predicted=predicted)
    assert len(made.legend) <= LEGEND_LIMIT
    assert sum(share(s.width) for s in made.bars[0].segments) == pytest.approx(100 / 1.02, abs=0.5)
    assert 2 <= len(made.ticks) <= 6
    assert all(0 <= share(t.at) <= 100 for t in made.ticks)


def test_nothing_to_draw_is_an_empty_chart() -> None:
    assert chart("c", "title", [Stack("a", "v", "n", ())]).bars[0].segments == ()
