"""The model: each term by hand, then what must hold of whole predictions whatever the figures are."""

from __future__ import annotations

import math

import builders
import pytest
from builders import altered
from every import every
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from published_cases import predicted

from advisor.devices.catalogue import DEFAULT_TARGETS, load
from advisor.model import terms
from advisor.model.context import Learned
from advisor.model.machines import Machine
from advisor.model.predict import predict
from advisor.model.simulate import Simulated, simulate
from advisor.model.terms import constant
from advisor.profiles.schema import Predicted, Prediction, Profile, Skipped
from advisor.profiles.traces import HostRates, StageWork
from advisor.strategies.registry import STRATEGIES, by_name

pytestmark = pytest.mark.usefixtures("constants_as_read")

N = 1 << 24


def vector_add(n: int = N, passes: float = 1.0) -> Profile:
    """On a machine without a GPU."""
    return builders.cpu_profile(
        results=(), workload=builders.vector_add_workload(n), traffic=builders.vector_add_trace(n, passes)
    )


def seconds(profile: Profile, device: str) -> dict[str, float]:
    return {name: row.likely_seconds for name, row in predicted(profile, device).items()}


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
        (0, 65536, 0),
        (1, 65536, 1),
        (65536, 65536, 1),
        (2 * 65536, 65536, 2),
        (4 * 65536, 65536, 3),
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


@every("device", DEFAULT_TARGETS)
def test_terms_add_up_and_are_named_as_measured_ranges(device: str) -> None:
    rows = predicted(vector_add(), device)
    assert len(rows) >= 11
    for row in rows.values():
        assert sum(row.terms.values()) == pytest.approx(row.likely_seconds)
        assert 0 < row.low_seconds <= row.likely_seconds <= row.high_seconds
        assert set(row.terms) <= {
            "host:produce",
            "host:consume",
            "device:add",
            "to-device",
            "to-host",
            "synchronize",
        }
    assert {"to-device", "to-host"} <= set(predicted(vector_add(), device)["pinned"].terms)
    assert "to-device" not in predicted(vector_add(), device)["zero-copy"].terms


def test_copies_and_waits_of_a_frame() -> None:
    row = predicted(vector_add(), "rtx-4090")["pinned"]
    size = 4 * N
    assert row.terms["to-device"] == pytest.approx(2 * (4.6e-6 + size / 26.1e9))
    assert row.terms["to-host"] == pytest.approx(4.6e-6 + size / 26.8e9)
    rows = predicted(vector_add(), "h200")
    for name in ("pinned", "pageable", "staged"):
        assert rows[name].terms["synchronize"] == pytest.approx(8e-6), name


def test_uploads_of_weights_cost_nothing_in_steady_frames() -> None:
    workload = builders.workload(
        {"load": "host", "produce": "host", "apply": "device", "consume": "host"},
        {
            "weights": {"load": "out", "apply": "in"},
            "x": {"produce": "out", "apply": "inout", "consume": "in"},
        },
        size=4 * N,
        setup=("load",),
    )
    rows = predicted(builders.profile(workload=workload, traffic=builders.traced(workload)), "rtx-4090")
    assert rows["pinned"].terms["to-device"] == pytest.approx(4.6e-6 + 4 * N / 26.1e9)
    # Managed weights stay on the card: only x comes and goes.
    up = 4 * N / 26.1e9 + 4 * N / (2 << 20) * 6 * 28e-6
    assert rows["managed"].terms["device:apply"] == pytest.approx(up, rel=0.1)


def test_a_compute_bound_host_stage_widens_the_range() -> None:
    slow = altered(vector_add(), "traffic", work=(StageWork(stage="consume", seconds=1.0),))
    row = predicted(slow, "rtx-4090")["pinned"]
    # The median: between half of its time here, as far as another CPU's memory can explain, and all of it.
    likely = 0.5 ** (1 - math.sqrt(0.5))
    assert row.terms["host:consume"] == pytest.approx(likely, rel=0.01)
    slower = predicted(slow, "orin-nano")["pinned"].terms["host:consume"]
    assert slower == pytest.approx(2.12 * likely, rel=0.05)
    # Another CPU takes half of it at least, as far as its memory can explain.
    assert 0.3 < row.low_seconds < 0.6
    assert row.high_seconds > 1.25
    assert predicted(slow, "orin-nano")["pinned"].high_seconds > 1.6


def test_a_host_stage_is_told_apart_by_what_the_cpu_at_hand_can_do() -> None:
    """Its bytes at the target's rates, the rest of its time here by the target's CPU."""
    here = HostRates(read_bytes_per_second=4 * N / 0.1, write_bytes_per_second=1e9)
    rows = []
    for seconds in (0.1, 0.3):
        work = (StageWork(stage="consume", seconds=seconds),)
        rows.append(
            predicted(altered(vector_add(), "traffic", work=work, host_rates=here), "nano")["managed"]
        )
    memory = 4 * N / 2.1e9
    assert rows[0].terms["host:consume"] == pytest.approx(memory, rel=0.01)
    assert rows[1].terms["host:consume"] == pytest.approx(memory + 0.2 * 2.99, rel=0.01)
    assert rows[1].host_interval[1] > 1.2 * (memory + 0.2 * 2.99)


def test_arithmetic_bounds_a_kernel() -> None:
    work = (StageWork(stage="add", flops=82.6e12),)
    library, by_hand = (altered(vector_add(passes=passes), "traffic", work=work) for passes in (1, 2))
    assert predicted(library, "rtx-4090")["pinned"].terms["device:add"] == pytest.approx(1 / 0.8, rel=1e-3)
    assert predicted(by_hand, "rtx-4090")["pinned"].terms["device:add"] == pytest.approx(1 / 0.13, rel=1e-3)
    twin = altered(vector_add(), "traffic", work=(StageWork(stage="add", flops=82.6e12, twin=True),))
    reached = predicted(twin, "rtx-4090")["pinned"].terms["device:add"]
    assert reached == pytest.approx((0.8 * 0.13) ** -0.5, rel=1e-3)
    # Twice the shared memory for each lane, on peaks of 82.6 and 15.7 TFLOP/s.
    wide = predicted(by_hand, "v100")["pinned"].terms["device:add"]
    assert wide == pytest.approx(82.6 / 15.7 / 0.2, rel=1e-3)


def test_a_small_kernel_written_by_hand_leaves_multiprocessors_idle() -> None:
    def arithmetic(flops: float, passes: float) -> float:
        work = (StageWork(stage="add", flops=flops),)
        row = predicted(altered(vector_add(1 << 15, passes), "traffic", work=work), "h200")["pinned"]
        return (row.terms["device:add"] - 4.94e-6) * 66.9e12 * 0.13 / flops

    # 32 blocks of 1024 threads, or 128 of 256, for 132 multiprocessors.
    assert arithmetic(1e8, 2.0) == pytest.approx(132 / 32, rel=0.01)
    assert arithmetic(1e8, 32.0) == pytest.approx(132 / 128, rel=0.01)
    # A long kernel loses 0.1 ms of 11.5 at most.
    assert arithmetic(1e11, 2.0) == pytest.approx(1 + 1e-4 / 11.5e-3, rel=0.001)


def test_assumed_traffic_widens_the_range_and_is_named() -> None:
    profile = vector_add()
    assert profile.traffic is not None
    assumed = tuple(
        t if t.buffer == "b" else t.model_copy(update={"source": "assumed"}) for t in profile.traffic.traffic
    )
    unsure = altered(profile, "traffic", traffic=assumed)
    sure, wide = (predicted(p, "h200")["zero-copy"] for p in (profile, unsure))
    assert wide.likely_seconds == sure.likely_seconds
    assert wide.high_seconds > 1.1 * sure.high_seconds
    sentences = predict(unsure, load("h200")).assumptions
    assert any("could not see how stage 'add' uses buffer 'a'" in sentence for sentence in sentences)
    assert not any("could not see" in sentence for sentence in predict(profile, load("h200")).assumptions)


def test_a_device_stage_that_nothing_is_known_of_is_not_predicted() -> None:
    unknown = altered(altered(vector_add(), "traffic", work=()), "traffic.traffic.add", source="assumed")
    found = predict(unknown, load("h200"))
    assert found.recommendation is None
    assert {row.status for row in found.results} == {"skipped"}
    assert 'device(add, flops=..., passes={"a": 1, "b": 1})' in getattr(found.results[0], "reason", "")
    said = altered(unknown, "workload.stages.add", flops=1e6)
    assert predict(said, load("h200")).recommendation is not None


def test_a_device_stage_with_a_factorization_is_not_predicted_until_it_was_measured() -> None:
    work = (StageWork(stage="add", uncounted=("solve",)),)
    found = predict(altered(vector_add(), "traffic", work=work), load("h200"))
    assert found.recommendation is None
    assert "how long solve of device stage 'add' takes" in getattr(found.results[0], "reason", "")
    known = Learned(kernel_factor={"add": constant(1.0)})
    profile = altered(vector_add(), "traffic", work=work)
    pinned = simulate(profile.workload, profile.traffic, Machine(load("h200")), [by_name("pinned")], known)
    assert isinstance(pinned["pinned"], Simulated)


def test_assumptions_name_every_default_with_its_source_and_say_predicted() -> None:
    found = predict(vector_add(), load("rtx-4090")).assumptions
    assert "predicted, not measured" in found[0]
    assert any("fault time" in s and "28.0 µs" in s and "ObservUVM" in s for s in found)
    assert not any("pinned to device" in s for s in found)  # the entry knows it


def external(*names: str) -> Profile:
    """vector_add whose named buffers arrive in foreign memory."""
    profile = vector_add()
    for name in names:
        profile = altered(profile, f"workload.buffers.{name}", external=True)
    return profile


def test_foreign_memory_pays_a_copy_by_the_cpu() -> None:
    plain, foreign = (predicted(p, "rtx-4090") for p in (vector_add(), external("a")))
    copied = 4 * N / 16.8e9
    assert foreign["pinned"].terms["host-copy"] == pytest.approx(copied)
    assert foreign["pinned"].terms["to-device"] == pytest.approx(plain["pinned"].terms["to-device"])
    assert foreign["zero-copy"].terms["host-copy"] == pytest.approx(copied)
    for name in ("pageable", "staged", "registered", "zero-copy-registered"):
        assert foreign[name].terms == plain[name].terms
    assert foreign["zero-copy"].physical_bytes == plain["zero-copy"].physical_bytes + 4 * N
    # The copy into managed memory takes its pages back from the card.
    back = 4 * N / 26.8e9 + 4 * N / (2 << 20) * 10 * 28e-6
    assert foreign["managed"].terms["host-copy"] == pytest.approx(copied + back)


def test_caches_are_written_back_once_at_launch_and_at_synchronise() -> None:
    read = {"produce": "out", "add": "in"}
    workload = builders.workload(
        {"produce": "host", "add": "device", "again": "device", "consume": "host"},
        {"a": read, "b": read, "c": {"add": "out", "again": "inout", "consume": "in"}},
        size=4 * N,
    )
    profile = vector_add().model_copy(update={"workload": workload, "traffic": builders.traced(workload)})
    rows = predicted(profile, "orin-nano")
    extra = {k: s - rows["zero-copy"].terms[k] for k, s in rows["managed"].terms.items()}
    assert extra["device:add"] == pytest.approx(4e6 / 20.4e9)
    assert extra["device:again"] == pytest.approx(0)
    assert extra["synchronize"] == pytest.approx(2097152 / (0.65 * 68e9))


def skipped(prediction: Prediction) -> dict[str, str]:
    return {r.strategy: r.reason for r in prediction.results if isinstance(r, Skipped)}


def test_what_does_not_fit_is_declined() -> None:
    found = predict(vector_add(1 << 29), load("orin-nano"))  # 6 GB, twice where there are two memories
    too_large = {n for n, reason in skipped(found).items() if "of device memory" in reason}
    copying = {s.name for s in STRATEGIES if s.placement.device_kind == "device" and not s.several_gpus}
    assert copying >= {"pageable", "staged", "pinned", "write-combined", "registered", "pinned-pipelined"}
    assert too_large == copying
    assert "12.0 GiB" in skipped(found)["pageable"]
    assert "18.0 GiB" in skipped(found)["staged"]
    large = predict(vector_add(1 << 32), load("rtx-4090"))  # 48 GB on a card of 24 GB
    managed = {s.name for s in STRATEGIES if s.placement.managed}
    assert managed >= {"managed", "managed-prefetch", "managed-advised"}
    assert {n for n, reason in skipped(large).items() if "of device memory" in reason} == copying | managed


@settings(max_examples=40, deadline=None)
@given(
    st.integers(4, 26),
    st.integers(1, 100),
    st.sampled_from(DEFAULT_TARGETS),
    st.sampled_from([s.name for s in STRATEGIES if not s.several_gpus]),
)
def test_more_work_never_takes_less_time(power: int, passes: int, device: str, strategy: str) -> None:
    def row(n: int, p: float) -> Predicted:
        (found,) = predict(vector_add(n, p), load(device), (by_name(strategy),)).results
        assume(isinstance(found, Predicted))
        return found

    small, longer = row(1 << power, passes + 1), row(1 << power, passes + 2)
    large = row(1 << (power + 1), passes + 1)
    for more in (longer, large):
        assert more.low_seconds >= small.low_seconds * (1 - 1e-12)
        assert more.likely_seconds >= small.likely_seconds * (1 - 1e-12)
        assert more.high_seconds >= small.high_seconds * (1 - 1e-12)


# What the host takes to ask for kernels


def test_what_the_host_takes_to_ask_for_kernels() -> None:
    small = vector_add(1 << 10)
    slow = altered(small, "traffic", work=(StageWork(stage="add", calls=10, issue_seconds=1e-3),))
    before, after = (predicted(p, "rtx-4090")["pinned"].terms for p in (small, slow))
    assert after["device:add"] == pytest.approx(1e-3, rel=0.03)
    assert before["device:add"] < 0.05e-3
    assert {k: v for k, v in after.items() if k != "device:add"} == pytest.approx(
        {k: v for k, v in before.items() if k != "device:add"}
    )
    large = vector_add()
    slow = altered(large, "traffic", work=(StageWork(stage="add", calls=10, issue_seconds=1e-3),))
    before, after = (predicted(p, "rtx-4090") for p in (large, slow))
    assert after["pinned"].terms == pytest.approx(before["pinned"].terms)
    late = after["pageable"].terms["device:add"] - before["pageable"].terms["device:add"]
    assert 0.5e-3 < late <= 1e-3
