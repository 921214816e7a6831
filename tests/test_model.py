"""The model: each term by hand, then what must hold of whole predictions whatever the figures are."""

from __future__ import annotations

import re
from pathlib import Path

import builders
import pytest
from builders import altered
from every import every
from field import Concluded
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from advisor.devices.catalogue import DEFAULT_TARGETS, load, of_device
from advisor.errors import UsageError
from advisor.model import terms
from advisor.model.predict import predict
from advisor.profiles.schema import Predicted, Profile
from advisor.strategies.registry import STRATEGIES, by_name

pytestmark = pytest.mark.usefixtures("constants_as_read")

N = 1 << 24


def vector_add(n: int = N, passes: float = 1.0) -> Profile:
    """On a machine without a GPU."""
    return builders.cpu_profile(
        results=(), workload=builders.vector_add_workload(n), traffic=builders.vector_add_trace(n, passes)
    )


# Terms


def test_terms_of_copies() -> None:
    assert terms.copy(10e9, 1e-6, 5e9) == 2.000001
    assert terms.staged_rate(12e9, 12e9) == 6e9
    assert terms.staged_rate(12e9, 9e9, 1.0) == pytest.approx(9e9, rel=0.01)
    assert 6e9 < terms.staged_rate(12e9, 12e9, 0.5) < 12e9
    assert terms.split_passes(800, 100) == (100, 700)
    assert terms.split_passes(50, 100) == (50, 0)
    assert terms.link_both_ways(100, 50, 10, 10) == 10
    assert terms.link_both_ways(10, 50, 10, 10) == 5
    assert terms.migration(2 << 20, 65536, 1e-5, 2 << 20) == pytest.approx(1 + 6e-5)
    assert terms.maintenance(100, 40, 10) == 4
    assert terms.maintenance(20, 40, 10) == 2
    assert terms.overlapped(5, 2, 3, 1, 8) == 5
    assert terms.overlapped(5, 2, 3, 1, 16) == 8
    assert terms.overlapped(1, 2, 3, 7, 8) == 7


def test_a_kernel_takes_the_longest_of_arithmetic_memory_and_link() -> None:
    assert terms.kernel(1, 2, 3, 0) == 4
    assert terms.kernel(1, 5, 3, 2) == 6
    assert terms.kernel(1, 2, 3, 9) == 10
    assert terms.kernel(1, 2, 3, 9, launches=10) == 10
    assert terms.kernel(1, 2, 3, 9, launches=101) == 101
    assert [float(terms.host_pass(1.0, 4.0, share)) for share in (0.0, 0.5, 1.0)] == [1.0, 2.0, 4.0]
    assert float(terms.host_pass(4.0, 1.0, 1.0)) == 4.0
    assert terms.host_pass(0.0, 3.0, 0.0) == 3.0


@every(
    ("count", "page", "faults"),
    [
        (1, 65536, 1),
        (65536, 65536, 1),
        (2 * 65536, 65536, 2),
        (2 << 20, 65536, 6),
        (2 << 20, 4096, 10),
        ((6 << 20) + 65536, 65536, 19),
        # No cliffs: of a page and a byte hardly more than of a page.
        (65537, 65536, 1),
        ((6 << 20) + 1, 65536, 18),
    ],
)
def test_faults_double_what_they_bring_up_to_a_block(count: int, page: int, faults: int) -> None:
    assert terms.fault_count(count, page) == pytest.approx(faults, abs=1e-3)


# Whole predictions


def external(*names: str) -> Profile:
    """vector_add whose named buffers arrive in foreign memory."""
    profile = vector_add()
    for name in names:
        profile = altered(profile, f"workload.buffers.{name}", external=True)
    return profile


@settings(max_examples=40, deadline=None)
@given(
    st.integers(4, 26),
    st.integers(1, 100),
    st.sampled_from(DEFAULT_TARGETS),
    st.sampled_from([s.name for s in STRATEGIES if not s.several_gpus]),
)
def test_terms_add_up_and_more_passes_never_take_less_time(
    power: int, passes: int, device: str, strategy: str
) -> None:
    def row(n: int, p: float) -> Predicted:
        (found,) = predict(vector_add(n, p), load(device), (by_name(strategy),)).results
        assume(isinstance(found, Predicted))
        assert sum(found.terms.values()) == pytest.approx(found.likely_seconds)
        assert 0 < found.low_seconds <= found.likely_seconds <= found.high_seconds
        return found

    less, more = row(1 << power, passes + 1), row(1 << power, passes + 2)
    for end in ("low_seconds", "likely_seconds", "high_seconds"):
        assert getattr(more, end) >= getattr(less, end) * (1 - 1e-12)


def test_rows_carry_their_ratio_to_the_recommended_one_and_the_baseline() -> None:
    found = predict(vector_add(), load("rtx-4090"))
    rows = {r.strategy: r for r in found.results if isinstance(r, Predicted)}
    best = rows[str(found.recommendation.strategy)]
    assert best.strategy != "pageable"
    assert set(rows["staged"].over) == {"pageable", best.strategy}
    assert set(best.over) == {"pageable"}
    for row in rows.values():
        for other, (low, high) in row.over.items():
            apart = row.high_seconds / row.low_seconds * rows[other].high_seconds / rows[other].low_seconds
            assert high / low < 0.8 * apart, (row.strategy, other)
    low, high = best.over["pageable"]
    assert found.recommendation.interval[0] == pytest.approx(1 / high, rel=0.02)


def test_a_row_of_a_state_is_best_in_managed_memory() -> None:
    rows = str(Path(__file__).parent / "workload_files" / "row_of_state")
    found = Concluded(rows, "h200")
    assert found.recommended == "managed"
    managed, pinned = (found.rows[name] for name in ("managed", "pinned"))
    assert managed.low_seconds < 47e-6 < managed.high_seconds
    assert pinned.low_seconds < 113e-6 < pinned.high_seconds
    assert Concluded(rows, "h200", "rows=1", "columns=4000000").recommended != "managed"


def test_a_count_and_a_name_are_a_target() -> None:
    two = load("2xH200")
    assert (two.gpus, two.name, two.origin) == (2, "2 x H200 SXM", "2xh200")
    assert of_device(two.device().name) == two
    assert of_device("H200 SXM") == load("1xh200") == load("h200")
    assert of_device("2 x Nothing") is None


@every("target", ["0xh200", "17xh200", "2x2xh200"])
def test_a_wrong_count_is_one_message(target: str) -> None:
    with pytest.raises(UsageError) as problem:
        load(target)
    assert re.match(r"^\S+xh200'? is not a target|there is no device '2x2xh200'", problem.value.message)
