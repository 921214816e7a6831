"""Joint draws, their ranges, the ratios that rules take from them, and the defaults that are drawn."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from test_model import vector_add

from advisor.devices.catalogue import load
from advisor.model.machines import Defaults, Machine, default, defaults
from advisor.model.predict import predict
from advisor.model.terms import DRAWS, constant, log_triangular, quantiles, span, triangular
from advisor.profiles.schema import MemoryClass
from advisor.rules.advise import advise, cases
from advisor.rules.base import Row

pytestmark = pytest.mark.usefixtures("constants_as_read")

# Joint draws: the likely value first, the distribution's ends and middle, the same for every device


def test_every_name_has_its_own_draws_and_keeps_them() -> None:
    assert (quantiles("a") == quantiles("a")).all()
    assert abs(np.corrcoef(quantiles("a"), quantiles("b"))[0, 1]) < 0.3
    assert (np.sort(quantiles("a") * DRAWS).astype(int) == np.arange(DRAWS)).all()


@given(st.floats(1e-6, 1e3), st.floats(1.0, 5.0), st.floats(1.0, 5.0))
def test_draws_keep_between_the_ends_with_the_likely_value_first(mode: float, down: float, up: float) -> None:
    low, high = mode / down, mode * up
    values = log_triangular(low, mode, high, "x")
    assert values[0] == mode
    assert values.shape == (1 + DRAWS,)
    assert low * (1 - 1e-9) <= values.min()
    assert values.max() <= high * (1 + 1e-9)


@given(st.floats(0.01, 0.99))
def test_the_likely_value_is_the_median_of_draws_however_skewed_their_range(at: float) -> None:
    values = triangular(0.0, at, 1.0, "x")[1:]
    assert np.median(values) == pytest.approx(at, abs=0.02)
    # Half of the mass on either side, each a triangle: P(X <= x) = x^2 / 2 at^2 below.
    assert np.percentile(values, 5) == pytest.approx(at * np.sqrt(0.1), abs=0.02)
    assert np.percentile(values, 95) == pytest.approx(1 - (1 - at) * np.sqrt(0.1), abs=0.02)


def test_a_range_is_never_stretched_to_hold_a_likely_value() -> None:
    draws = np.arange(200.0)
    ends = (pytest.approx(9.95), pytest.approx(189.05))
    assert span(np.concatenate([[42.0], draws])) == (ends[0], 42.0, ends[1])
    assert span(np.concatenate([[2.0], draws])) == (ends[0], 99.5, ends[1])
    assert span(constant(3.0)) == (3.0, 3.0, 3.0)


def test_what_draws_share() -> None:
    one, other = (Machine(load(name)).get("fault_seconds") for name in ("t4", "v100"))
    assert (one == other).all()
    machine = Machine(load("rtx-2060"))
    link, reads = (machine.get(f"{kind}_bytes_per_second") for kind in ("pinned_to_device", "zero_copy_read"))
    share = reads / link
    assert share[0] == pytest.approx(0.79)
    assert 0.62 <= share.min() < share.max() <= 1.0


# What the model draws of two strategies' ratio reaches the rules


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


@pytest.mark.parametrize("turned", [False, True])
def test_overlapping_frames_are_not_divided_by_what_counts_them_begin_to_end(
    rows: dict[str, Row], turned: bool
) -> None:
    overlapped, plain = rows["pinned-pipelined"], rows["pageable"]
    assert "pageable" in overlapped.result.over
    row, other = (plain, overlapped) if turned else (overlapped, plain)
    found = row.over(other)
    assert (found.low, found.high) == of_two_ranges(row, other)
    assert found.low < found.value < found.high


# What the draws are of: defaults.toml, where the device has no figure of its own


def test_a_default_of_an_unknown_figure_is_refused() -> None:
    layer = defaults().layers[0]
    figures = {**layer.figures, "lunch_seconds": layer.figures["launch_seconds"]}
    with pytest.raises(ValidationError, match="lunch_seconds"):
        Defaults(names={}, layers=(layer.model_copy(update={"figures": figures}),))


def test_layers_and_shares() -> None:
    entries = ("h200", "gb10", "agx-orin", "nano")
    times = [default("prefetch_call_seconds", load(name)) for name in entries]
    read = [found and (found.prior or found.value) for found in times]
    assert read == [32e-6, 2.0, 2.0, 60e-6]
    assert [found and found.of for found in times] == [None, "launch_seconds", "launch_seconds", None]
    shares = [default("kernel_share", load(name)) for name in ("rtx-4090", "a100")]
    assert [share and (share.prior or share.value) for share in shares] == [0.13, 0.2]
    assert default("fault_batch_seconds", load("gb10")) is None
    machine = Machine(load("t4"))
    machine.get("l2_bytes_per_second")
    figure = machine.assumed["l2_bytes_per_second"]
    assert (figure.low, figure.value, figure.high) == pytest.approx((640e9, 864e9, 1152e9))
    assert figure.source.startswith("2.7 times the memory's peak")
    classes = {name for layer in defaults().layers[1:] for name in layer.memory_classes}
    assert classes == set(get_args(MemoryClass))
    assert defaults().layers[0].memory_classes == get_args(MemoryClass)
