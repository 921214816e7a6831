"""A profile measured on one GPU makes predictions for others tighter, and shows the model's error."""

from __future__ import annotations

from typing import Any

import builders
import pytest
from builders import altered
from every import every
from published_cases import predicted

from advisor.devices.catalogue import load
from advisor.model.machines import Machine
from advisor.model.measured import entry_of, host_spread, learned, modelled
from advisor.model.predict import predict
from advisor.model.terms import span
from advisor.profiles.schema import Device, MemoryClass, Predicted, Profile, StageWork

pytestmark = pytest.mark.usefixtures("constants_as_read")


def device(name: str, memory_class: MemoryClass = "discrete", **attributes: Any) -> Device:
    return Device(name=name, kind="cuda", memory_class=memory_class, attributes=attributes)


def measured_on(name: str, kernel: float, host: float, **fields: Any) -> Profile:
    """vector_add measured there: seconds of its kernel and of each host stage."""
    stages = {"produce": host, "add": kernel, "consume": host}
    rows = tuple(builders.measured(s, 0.02, stage_seconds=stages) for s in ("pageable", "pinned"))
    parts: dict[str, Any] = {"device": device(name), "results": rows, "traffic": builders.vector_add_trace()}
    return builders.profile(**{**parts, **fields})


@every(
    ("name", "memory_class", "attributes", "slug"),
    [
        ("NVIDIA GeForce RTX 4090", "discrete", {}, "rtx-4090"),
        ("NVIDIA GeForce GTX 1650 SUPER", "discrete", {}, "gtx-1650-super"),
        ("NVIDIA GeForce GTX 1650", "discrete-hmm", {}, "gtx-1650"),
        ("NVIDIA A100-PCIE-40GB", "discrete", {}, None),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "discrete", {}, "rtx-3060-laptop"),
        ("NVIDIA GeForce RTX 3060 Ti", "discrete", {}, None),
        ("NVIDIA GH200 480GB", "coherent", {}, "gh200"),
        ("", "discrete", {}, None),
        ("Orin", "tegra-io-coherent", {"total_global_mem": 64_000_000_000}, "agx-orin"),
        ("NVIDIA Thor", "tegra-coherent", {"total_global_mem": 131_000_000_000}, "agx-thor"),
        ("Orin", "tegra-io-coherent", {"total_global_mem": 7_900_000_000}, None),  # Nano or Nano Super
        ("NVIDIA GeForce RTX 4090", "tegra", {}, None),
    ],
)
def test_the_entry_is_found_by_the_name(
    name: str, memory_class: MemoryClass, attributes: dict[str, int], slug: str | None
) -> None:
    found = entry_of(device(name, memory_class, **attributes))
    assert (found.origin if found else None) == slug
    if found:
        assert found.memory_class == memory_class


def test_host_stages_are_the_median_over_strategies_whose_memory_does_not_migrate() -> None:
    times = {"pageable": 0.03, "pinned": 0.01, "registered": 0.02, "managed": 0.5, "write-combined": 0.4}
    rows = tuple(
        builders.measured(s, 0.02, stage_seconds={"produce": x, "add": 1e-3, "consume": x})
        for s, x in times.items()
    )
    found = learned(measured_on("Tesla T4", 1e-3, 0.0, results=rows), Machine(load("t4"))).trace
    assert {w.stage: w.seconds for w in found.work}["consume"] == pytest.approx(0.02)
    alone = measured_on("Tesla T4", 1e-3, 0.0, results=rows[3:4])
    only = learned(alone, Machine(load("t4"))).trace
    assert {w.stage: w.seconds for w in only.work}["consume"] == pytest.approx(0.5)


def test_the_model_alone_on_the_measured_device() -> None:
    """Not its measured stages, which would make it look better than it is."""
    row = predicted(builders.cpu_profile(traffic=builders.vector_add_trace()), "t4")["pinned"]
    found = modelled(measured_on("Tesla T4", 0.5, 0.01))
    assert set(found) == {"pageable", "pinned"}
    assert span(found["pinned"]) == pytest.approx((row.low_seconds, row.likely_seconds, row.high_seconds))
    for nothing in (
        builders.cpu_profile(),
        measured_on("NVIDIA Unheard of", 1, 1),
        measured_on("Tesla T4", 1, 1, traffic=None),
        measured_on("Tesla T4", 1, 1, results=()),
    ):
        assert modelled(nothing) == {}


def test_host_stages_of_a_cpu_profile_are_the_median_over_its_processes() -> None:
    trace = builders.vector_add_trace().model_copy(
        update={"work": (StageWork(stage="consume", seconds=0.030),)}
    )
    rows = tuple(
        builders.measured(name, 1.0, stage_seconds={"consume": seconds})
        for name, seconds in (("zero-copy", 0.010), ("pageable", 0.012))
    )
    profile = builders.cpu_profile(traffic=trace, results=rows)
    found = learned(profile, Machine(load("t4"))).trace
    assert [(w.stage, w.seconds) for w in found.work] == [("consume", 0.012)]
    # From 10 to 30 ms about 12.
    assert host_spread(profile) == pytest.approx(10 / 12)
    spreads = {r.host_spread for r in predict(profile, load("t4")).results if isinstance(r, Predicted)}
    assert spreads == {host_spread(profile)}
    assert host_spread(profile.model_copy(update={"results": rows[:1]})) is None
    assert host_spread(measured_on("Tesla T4", 0.001, 0.01)) is None


def timed(*host: float, busy: float | None = None, n: int = 1 << 24) -> Profile:
    """A run with these host stages in its three processes, on a machine whose CPU others used so far."""
    rows = tuple(
        builders.measured(name, 0.02, stage_seconds={"produce": s, "consume": s})
        for name, s in zip(("pageable", "pinned", "zero-copy"), host, strict=True)
    )
    work = tuple(StageWork(stage=stage, seconds=host[0]) for stage in ("produce", "consume"))
    traffic = builders.vector_add_trace(n).model_copy(update={"work": work})
    workload = builders.vector_add_workload(n)
    made = builders.cpu_profile(workload=workload, results=rows, traffic=traffic)
    return altered(made, "environment", cpu_busy=busy)


def gain(*host: float, busy: float | None = None) -> tuple[float, float, float]:
    chosen = predict(timed(*host, busy=busy), load("orin-nano")).recommendation
    assert chosen.interval[0] < chosen.speedup < chosen.interval[1]
    return chosen.interval[0], chosen.speedup, chosen.interval[1]


def test_what_others_took_of_the_cpu_is_in_the_range_of_a_gain() -> None:
    """In some processes; or in a whole run, all of one half as slow again: each range holds the other."""
    alike, varied = gain(0.06, 0.06, 0.06), gain(0.06, 0.02, 0.14)
    one, other, idle = gain(*[0.03] * 3, busy=1.0), gain(*[0.045] * 3, busy=1.0), gain(*[0.03] * 3)
    for quiet, busy in ((alike, varied), (idle, one)):
        assert busy[0] < 0.97 * quiet[0]
        assert busy[2] > 1.03 * quiet[2]
    assert predict(timed(1e-6, 1e-6, 60.0, n=1 << 10), load("orin-nano")).recommendation, "one stood still"
    assert one[0] < other[1] < one[2]
    assert other[0] < one[1] < other[2]
    busy_run = timed(*[0.03] * 3, busy=1.0)
    assert host_spread(busy_run) == pytest.approx(1.0)
    few = altered(timed(*[0.03] * 3, busy=0.5), "", results=())
    assert host_spread(few) is None
    rows = predict(few, load("orin-nano")).results
    assert {row.cpu_busy for row in rows if isinstance(row, Predicted)} == {0.5}


def test_a_choice_that_the_load_of_the_cpu_may_change_is_open() -> None:
    """A long host stage hides a gain, which it does not at half its time."""
    quiet, busy = (
        predict(timed(*[1e-3] * 3, busy=share, n=1 << 16), load("rtx-4090")).recommendation
        for share in (0.02, 1.0)
    )
    assert (quiet.strategy, quiet.verdict) == (busy.strategy, "keep")
    assert busy.verdict == "open"
