"""What tells the strategies apart on each class of memory, term by term."""

from __future__ import annotations

from pathlib import Path

import builders
import pytest
from builders import altered
from every import every
from published_cases import DATA, device_path, predicted, simulated, touched
from test_model import vector_add

from advisor.devices.catalogue import load
from advisor.devices.entries import Attribute
from advisor.model.machines import Machine
from advisor.model.predict import predict
from advisor.profiles.schema import Predicted, Profile, Skipped, StageRecord
from advisor.profiles.traces import StageWork
from advisor.strategies.registry import STRATEGIES, by_name

pytestmark = pytest.mark.usefixtures("constants_as_read")

N = 1 << 24
SIZE = 4 * N


# Copies


@every(("device", "sides"), [("rtx-4090", 2), ("gh200", 2), ("orin-nano", 1)])
def test_managed_memory_beside_a_cards_own_counts_on_both_sides(device: str, sides: int) -> None:
    rows = predicted(vector_add(), device)
    assert rows["managed"].physical_bytes == sides * 3 * SIZE
    assert rows["zero-copy"].physical_bytes == 3 * SIZE


def test_copies_of_registered_and_write_combined_memory() -> None:
    for device in ("rtx-4090", "gh200", "orin-nano"):
        rows = predicted(vector_add(), device)
        assert rows["registered"].terms == rows["pinned"].terms
    for device, factor in (("gh200", 2.0), ("rtx-4090", 1.0)):
        rows = predicted(vector_add(), device)
        wc, pinned = (rows[name].terms["to-device"] for name in ("write-combined", "pinned"))
        assert wc / pinned == pytest.approx(factor, rel=0.03)
        assert rows["write-combined"].terms["to-host"] == rows["pinned"].terms["to-host"]  # the host reads c


# Managed memory


def test_prefetched_memory_crosses_the_link_once_each_way_without_faults() -> None:
    row = predicted(vector_add(), "rtx-4090")["managed-prefetch"]
    assert row.terms["to-device"] == pytest.approx(3 * (32e-6 + SIZE / 26.1e9 / 0.85))
    # Kernels leave c on the card; the host needs all three again.
    pages = SIZE / 4096
    assert row.terms["to-host"] == pytest.approx(3 * (32e-6 + (SIZE / 26.8e9 + pages * 0.1e-6) / 0.85))
    assert row.terms["device:add"] == predicted(vector_add(), "rtx-4090")["pinned"].terms["device:add"]


def test_what_all_only_read_is_kept_on_both_sides_when_advised() -> None:
    workload = builders.workload(
        {"load": "host", "add": "device", "consume": "host"},
        {"w": {"load": "out", "add": "in", "consume": "in"}, "c": {"add": "out", "consume": "in"}},
        size=SIZE,
        setup=("load",),
    )
    rows = predicted(builders.cpu_profile(workload=workload, traffic=builders.traced(workload)), "rtx-4090")
    moved = rows["managed-prefetch"].terms["to-device"] - rows["managed-advised"].terms["to-device"]
    assert by_name("managed-advised").placements(workload)["w"].hints == ("read-mostly",)
    assert moved == pytest.approx(SIZE / 26.1e9 / 0.85)


def test_managed_and_cached_memory_by_class() -> None:
    rows = predicted(vector_add(), "gh200")
    # 18 to 29 GB/s of reads and writes (dnhkng.github.io): half of it is what moves.
    assert rows["managed"].terms["device:add"] == pytest.approx(3 * SIZE / 11.5e9, rel=0.05)
    assert rows["managed"].likely_seconds > 3 * rows["system"].likely_seconds
    rows = predicted(vector_add(1 << 20, passes=64), "agx-thor")
    kernels = {name: rows[name].terms["device:add"] for name in rows}
    for cached in ("zero-copy-registered", "system", "pinned"):
        for uncached in ("zero-copy", "managed"):
            assert kernels[uncached] > 2 * kernels[cached]
    assert kernels["zero-copy-registered"] == kernels["pinned"]
    once, again = (
        predicted(vector_add(passes=p), "rtx-2060")["zero-copy"].terms["device:add"] for p in (2, 12)
    )
    assert again - once == pytest.approx(2 * 10 * 0.55 * SIZE / (0.79 * 12.8e9))


# Memory used in place


def test_coherent_devices_reach_host_memory_alike() -> None:
    rows = predicted(vector_add(), "gh200")
    names = ("zero-copy", "zero-copy-registered", "system")
    kernels = [rows[name].terms["device:add"] for name in names]
    assert max(kernels) / min(kernels) < 1.02
    rows = predicted(vector_add(1 << 20, passes=64), "gb10")
    in_place = ("zero-copy", "zero-copy-registered", "system", "managed")
    kernels = [rows[name].terms["device:add"] for name in in_place]
    # Ordinary memory comes in small pages, which cost a little; managed memory is reached more slowly.
    assert kernels == pytest.approx([kernels[0]] * 4, rel=0.03)
    assert all("to-device" not in rows[name].terms for name in in_place)


def test_system_memory_faults_over_hmm(tmp_path: Path) -> None:
    text = (DATA / "devices" / "rtx-2060.toml").read_text(encoding="utf-8")
    flag = '[attributes]\npageable_memory_access = { value = 1, source = "test" }'
    path = tmp_path / "hmm.toml"
    path.write_text(text.replace("[attributes]", flag).replace('"discrete"', '"discrete-hmm"'))
    found = predict(vector_add(), load(str(path))).results
    rows = {r.strategy: r for r in found if isinstance(r, Predicted)}
    assert rows["system"].terms["device:add"] == pytest.approx(rows["managed"].terms["device:add"])


# Overlapping frames


def test_overlapping_frames_are_bound_by_the_busiest() -> None:
    rows = predicted(vector_add(), "rtx-4090")
    row, serial = rows["pinned-pipelined"], rows["pinned"]
    host = sum(s for name, s in serial.terms.items() if name.startswith("host:"))
    assert host < row.likely_seconds < serial.likely_seconds
    calls = 5e-6 + 3 * 4.6e-6
    bound = host + serial.terms["synchronize"] + calls
    assert row.likely_seconds == pytest.approx(bound**0.9 * serial.likely_seconds**0.1)
    assert row.terms["host:produce"] == serial.terms["host:produce"]
    assert row.latency_seconds == pytest.approx(2 * row.likely_seconds)
    assert sum(row.terms.values()) == pytest.approx(row.likely_seconds)
    assert row.physical_bytes == 2 * serial.physical_bytes


def test_frames_that_carry_data_over_cannot_overlap() -> None:
    stages = (StageRecord(name="load", side="host", phase="setup"), *builders.vector_add_workload().stages)
    kept = {"load": "out", "produce": "inout", "add": "in"}
    profile = altered(altered(vector_add(), "workload", stages=stages), "workload.buffers.a", access=kept)
    found = predict(profile, load("h200")).results
    (declined,) = (r for r in found if r.strategy == "pinned-pipelined")
    assert "carries data between frames" in declined.reason


# What is only declared


def declared(**passes: float) -> Profile:
    """A kernel without a CPU twin: nothing ran, nothing was traced."""
    workload = altered(builders.vector_add_workload(), "stages.add", passes=passes, flops=1e9)
    return builders.cpu_profile(workload=workload, traffic=None, predictions=())


def test_declared_passes_are_enough_to_predict_with() -> None:
    found = predict(declared(a=3.0), load("rtx-4090"))
    rows = {r.strategy: r for r in found.results if isinstance(r, Predicted)}
    assert set(rows) == {s.name for s in STRATEGIES} - {"system", "peer"}
    full = altered(vector_add(), "traffic", work=(StageWork(stage="add", flops=1e9),))
    traced = {r.strategy: r for r in predict(full, load("rtx-4090")).results if isinstance(r, Predicted)}
    assert rows["pinned"].terms["to-device"] == traced["pinned"].terms["to-device"]
    assert rows["pinned"].terms["host:consume"] == traced["pinned"].terms["host:consume"]
    assert device_path(rows["zero-copy"]) > device_path(traced["zero-copy"])
    assert any("could not see how stage 'produce'" in sentence for sentence in found.assumptions)


def test_a_kernel_of_which_nothing_is_known_is_declined_with_the_way_out() -> None:
    found = predict(declared(), load("rtx-4090"))
    reasons = {r.strategy: r.reason for r in found.results if isinstance(r, Skipped)}
    assert reasons.keys() == {s.name for s in STRATEGIES} - {"peer"}
    assert "passes=" in reasons["pinned"]
    assert "nothing was traced" in reasons["pinned"]
    assert "assumed to run without HMM" in reasons["system"]


# Verdict and draws


def test_rows_carry_their_ratio_to_the_recommended_one_and_the_baseline() -> None:
    found = predict(vector_add(), load("rtx-4090"))
    rows = {r.strategy: r for r in found.results if isinstance(r, Predicted)}
    counted = {name: row.latency_seconds or row.likely_seconds for name, row in rows.items()}
    best = rows[str(found.recommendation.strategy)]
    assert best.strategy != "pageable"
    assert set(rows["zero-copy"].over) == {"pageable", best.strategy} - {"zero-copy"}
    assert set(best.over) == {"pageable"}
    for row in rows.values():
        for other, (low, high) in row.over.items():
            assert low <= counted[row.strategy] / counted[other] <= high
            apart = row.high_seconds / row.low_seconds * rows[other].high_seconds / rows[other].low_seconds
            assert high / low < 0.8 * apart, (row.strategy, other)
    low, high = best.over["pageable"]
    assert found.recommendation.interval[0] == pytest.approx(1 / high, rel=0.02)


def test_what_holds_in_every_draw() -> None:
    rows = simulated(vector_add(), Machine(load("rtx-4090")))
    for name in ("pinned", "zero-copy", "staged"):
        assert (rows[name].parts["host:produce"] == rows["pageable"].parts["host:produce"]).all()
    consume = rows["managed-prefetch"].parts["host:consume"]
    assert (consume == rows["pageable"].parts["host:consume"]).all()
    for device, extra in (("rtx-4090", 2 * SIZE / 4096 * 0.25e-6), ("gh200", 0.0), ("orin-nano", 0.0)):
        rows = predicted(vector_add(), device)
        plain = rows["pageable"].terms["host:produce"]
        assert rows["managed-prefetch"].terms["host:produce"] - plain == pytest.approx(extra, abs=1e-12)
    rows = simulated(vector_add(), Machine(load("orin-nano")))
    ratio = rows["managed"].seconds / rows["zero-copy"].seconds
    assert 1.0 <= ratio.min() <= ratio.max() < 1.1


def test_both_directions_share_one_copy_engine() -> None:
    profile, entry = touched(1e8, "inout"), load("t4")
    one = entry.model_copy(
        update={"attributes": {**entry.attributes, "async_engine_count": Attribute(value=1, source="test")}}
    )
    two_ways, one_way = (
        next(r for r in predict(profile, e).results if r.strategy == "pinned-pipelined") for e in (entry, one)
    )
    assert one_way.likely_seconds > 1.1 * two_ways.likely_seconds
    assert {"to-device", "to-host"} <= set(one_way.terms)


def test_overlapping_frames_share_one_dram() -> None:
    rows = predicted(vector_add(), "xavier-nx")
    # Host stages and kernel touch three buffers each, and each copy reads one and writes one.
    dram = (3 + 3 + 2 * 3) * SIZE / (59.7e9 * 0.7)
    assert rows["pinned-pipelined"].likely_seconds == pytest.approx(
        dram**0.9 * rows["pinned"].likely_seconds ** 0.1
    )


def test_rates_over_a_coherent_link() -> None:
    row = predicted(touched(4e9, "inout"), "gh200")["zero-copy"]
    assert row.terms["device:kernel"] == pytest.approx(8e9 / 400e9, rel=0.01)
    once, again = (
        predicted(vector_add(1 << 20, passes=p), "gh200")["zero-copy"].terms["device:add"] for p in (2, 64)
    )
    assert again == pytest.approx(once)
    rows = predicted(touched(1e9, "out"), "agx-thor")
    kernels = (rows[name].terms["device:kernel"] for name in ("system", "zero-copy-registered"))
    assert next(kernels) / next(kernels) == pytest.approx(1 / 0.6, rel=0.01)
