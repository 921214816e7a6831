"""Joint draws: the likely value first, the distribution's ends and middle, the same for every device."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.devices.catalogue import load
from advisor.model.machines import Machine
from advisor.model.terms import DRAWS, constant, log_triangular, quantiles, span, triangular

pytestmark = pytest.mark.usefixtures("constants_as_read")


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


def test_devices_share_the_draws_of_a_figure() -> None:
    one, other = (Machine(load(name)).get("fault_seconds") for name in ("t4", "v100"))
    assert (one == other).all()


def test_a_share_of_a_figure_follows_its_draws() -> None:
    machine = Machine(load("rtx-2060"))
    link, reads = (machine.get(f"{kind}_bytes_per_second") for kind in ("pinned_to_device", "zero_copy_read"))
    share = reads / link
    assert share[0] == pytest.approx(0.79)
    assert 0.62 <= share.min() < share.max() <= 1.0
