"""Where the charts' bars, whiskers and bins lie."""

from __future__ import annotations

import re

import pytest
from builders import MIB, cpu_profile, footprint, measured, predicted, prediction, profile, recommendation
from hypothesis import given
from hypothesis import strategies as st

from advisor import units
from advisor.report.axes import binary_step, decimal_step
from advisor.report.charts import (
    LEGEND_LIMIT,
    Part,
    Stack,
    chart,
    footprint_chart,
    frame_chart,
    prediction_chart,
)
from advisor.report.distribution import BINS, HEIGHT, SpreadRow, spread


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
    assert [b.emphasised for b in made.bars] == [True, False], "the fastest first"


def test_unknown_terms_are_shown_under_their_own_name() -> None:
    faults = predicted("managed", 0.02, terms={"page faults": 0.02})
    made = prediction_chart(prediction(results=(faults,)), 1)
    assert [(k.label, k.category) for k in made.legend] == [("page faults", "rest")]


def test_footprint_is_split_by_kind_on_an_axis_of_powers_of_two() -> None:
    row = measured("pinned", 0.02, footprint=footprint(pinned=100 * MIB, device=200 * MIB))
    made = footprint_chart(profile(results=(row,), recommendation=recommendation()))
    assert [(s.label, s.value) for s in made.bars[0].segments] == [
        ("pinned", "100 MiB"),
        ("device", "200 MiB"),
    ]
    assert made.bars[0].value == "300 MiB physical"
    assert [t.label for t in made.ticks] == ["0", "128 MiB", "256 MiB"]


@pytest.mark.parametrize(("extent", "step"), [(0.041, 0.01), (0.05, 0.01), (0.051, 0.02), (7e-6, 2e-6)])
def test_decimal_steps(extent: float, step: float) -> None:
    assert decimal_step(extent) == pytest.approx(step)


def test_binary_steps() -> None:
    assert binary_step(384.0) == 128


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=40), st.booleans())
def test_any_bar_fits_its_chart(amounts: list[float], predicted: bool) -> None:
    parts = tuple(Part(f"part {i}", "host", amount) for i, amount in enumerate(amounts))
    made = chart("c", "title", [Stack("a", "v", "n", parts)], write=units.seconds, predicted=predicted)
    assert len(made.legend) <= LEGEND_LIMIT
    assert sum(share(s.width) for s in made.bars[0].segments) == pytest.approx(100 / 1.02, abs=0.5)
    assert 2 <= len(made.ticks) <= 6
    assert all(0 <= share(t.at) <= 100 for t in made.ticks)


def test_nothing_to_draw_is_an_empty_chart() -> None:
    assert chart("c", "title", [Stack("a", "v", "n", ())]).bars[0].segments == ()


def bins(made: SpreadRow) -> list[float]:
    """The height of each bin of an outline."""
    heights, here = [], 0.0
    for up, right in re.findall(r"v(-?[\d.]+)h(\d+)", made.outline):
        here -= float(up)
        heights += [round(here, 1)] * int(right)
    assert re.fullmatch(rf"M0 \d+(v-?[\d.]+h\d+)+v{here:g}z", made.outline), "it must end on its base line"
    assert len(heights) == BINS
    return heights


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=300))
def test_every_frame_is_in_a_bin_or_counted_beyond(times: list[float]) -> None:
    row = measured("a", 1.0, frame_seconds=tuple(times), frames_per_round=(len(times),))
    (made,) = spread((row,)).rows
    heights = bins(made)
    assert len(heights) == BINS
    assert (min(heights) >= 0, max(heights)) == (True, HEIGHT)
    assert 0 <= float(made.median_at) <= BINS
    assert len(made.rounds_at) == 1


def test_one_interrupted_frame_does_not_squeeze_the_others() -> None:
    times = tuple(0.010 + i * 1e-5 for i in range(40))
    (made,) = spread((measured("a", 0.01, frame_seconds=(*times, 1.0), frames_per_round=(20, 21)),)).rows
    assert made.note.endswith("1 slower frame not drawn, up to 1.00 s")
    assert sum(map(bool, bins(made))) > 20
    assert len(made.rounds_at) == 2
    assert made.note.startswith("41 frames")


def test_equal_frames_fill_one_bin() -> None:
    (made,) = spread((measured("a", 0.01, spread=0),)).rows
    assert sum(map(bool, bins(made))) == 1
    assert made.median_at == "60.00"


def test_all_strategies_share_one_axis() -> None:
    made = spread((measured("fast", 0.010, spread=0.1), measured("slow", 0.020, spread=0.1)))
    fast, slow = made.rows
    assert float(slow.median_at) - float(fast.median_at) == pytest.approx(
        BINS * 0.010 / (0.022 - 0.009), abs=0.03
    )
    assert [t.label for t in made.ticks] == ["10 ms", "15 ms", "20 ms"]
    assert (fast.median, fast.note) == ("10.0 ms", "90 frames, 9.00 to 11.0 ms")
    assert "slow: median 20.0 ms, 90 frames, 18.0 to 22.0 ms." in made.description
    assert (made.axis, spread((measured("a", 1e-5), measured("b", 1.0))).axis) == ("linear", "logarithmic")


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=5))
def test_ticks_of_the_shared_axis_lie_on_it_and_differ(medians: list[float]) -> None:
    made = spread(tuple(measured(f"s{i}", m, spread=0.001) for i, m in enumerate(medians)))
    texts = [tick.label for tick in made.ticks if tick.label]
    assert len(set(texts)) == len(texts)
    assert all(-1e-9 <= tick.share <= 1 + 1e-9 for tick in made.ticks)
