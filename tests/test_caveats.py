"""What readings mean: when a warning is given, what it says, and when there is none."""

from __future__ import annotations

from typing import Any

from every import every
from running import missing

from advisor.devices.environment import cautions
from advisor.profiles.system_state import CpuClocks, GpuState, Moment, TegraState


def gpu(moment: Moment = "after", seconds: float = 0.0, **figures: Any) -> GpuState:
    return GpuState(moment=moment, clock_seconds=seconds, **figures)


def board(moment: Moment = "after", **figures: Any) -> TegraState:
    return TegraState(moment=moment, **figures)


def one(gpus: list[GpuState], boards: list[TegraState] | None = None) -> str:
    (warning,) = cautions(gpus, boards or [])
    return warning


def test_nothing_amiss_is_nothing_said() -> None:
    assert cautions([], []) == ()
    assert cautions([gpu("before"), gpu()], [board("before"), board()]) == ()
    healthy: dict[str, Any] = {
        "throttle_reasons": (),
        "other_processes": 0,
        "link_generation": 5,
        "link_generation_max": 5,
        "link_width": 16,
        "link_width_max": 16,
        "performance_state": 0,
        "utilization": 0.0,
        "throttled_seconds": {"power": 3.0},
    }
    assert cautions([gpu("before", 0.0, **healthy), gpu("after", 60.0, **healthy)], []) == ()


# Throttling


@every(
    ("reason", "remedy"),
    [
        ("power cap", "nvidia-smi -pl"),
        ("thermal slowdown by the hardware", "cooling"),
        ("hardware slowdown", "nvidia-smi -q -d PERFORMANCE"),
        ("power brake", "power supply"),
        ("sync boost", "sync boost group"),
    ],
)
def test_throttling_names_the_reason_and_the_remedy(reason: str, remedy: str) -> None:
    warning = one([gpu("under-load", throttle_reasons=(reason,)), gpu(throttle_reasons=())])
    assert f"The GPU throttled ({reason})" in warning
    assert remedy in warning


@every(("seconds", "warns"), [(0.5, False), (1.5, True)])
def test_counters_show_what_was_over_before_the_last_reading(seconds: float, warns: bool) -> None:
    readings = [
        gpu("before", 100.0, throttled_seconds={"heat": 7.0, "power": 1.0}),
        gpu("after", 200.0, throttled_seconds={"heat": 7.0 + seconds, "power": 1.0}),
    ]
    found = cautions(readings, [])
    assert bool(found) is warns
    if warns:
        assert "heat for 1.5 %" in found[0]
        assert "cooling" in found[0]


def test_counters_that_tell_no_difference_are_no_reason() -> None:
    assert cautions([gpu(seconds=5.0, throttled_seconds={"heat": 1e6})], []) == ()
    readings = [gpu(throttled_seconds={"power": 0.0}), gpu(seconds=9.0, throttled_seconds={"heat": 8.0})]
    assert cautions(readings, []) == ()


# Sharing


@every(
    ("clocks", "warns"),
    [((1_500_000_000, 1_980_000_000), True), ((1_900_000_000, 1_980_000_000), False), ((), False)],
)
def test_clocks_are_told_where_they_moved_under_load(clocks: tuple[int, ...], warns: bool) -> None:
    loaded = [gpu("under-load", sm_hertz=hertz) for hertz in clocks]
    readings = [gpu("before", sm_hertz=345_000_000), *loaded, gpu(sm_hertz=345_000_000)]
    if not warns:
        assert cautions(readings, []) == ()
    else:
        assert "between 1.50 GHz and 1.98 GHz under load" in one(readings)


def test_other_processes_with_their_memory() -> None:
    warning = one([gpu("before", other_processes=0), gpu(other_processes=1, other_processes_bytes=3 << 30)])
    assert not missing(warning, "1 other process ", "3.00 GiB")
    assert "--gpu" in warning
    assert one([gpu(other_processes=2)]).startswith("2 other processes ")


@every(
    ("moment", "share", "warns"),
    [("before", 0.35, True), ("before", 0.05, False), ("under-load", 1.0, False), ("after", 1.0, False)],
)
def test_a_busy_gpu_counts_only_before_we_use_it(moment: Moment, share: float, warns: bool) -> None:
    found = cautions([gpu(moment, utilization=share)], [])
    assert bool(found) is warns
    if warns:
        assert "35 % busy" in found[0]


# The link


def link(generation: int, width: int, **figures: Any) -> dict[str, Any]:
    return {
        "link_generation": generation,
        "link_generation_max": 4,
        "link_width": width,
        "link_width_max": 16,
        **figures,
    }


def test_a_slow_link_with_its_figures_and_cost() -> None:
    warning = one([gpu("under-load", **link(3, 8))])
    assert not missing(warning, "generation 3 ×8", "generation 4 ×16")
    assert "4.00× as long" in warning
    assert "2.00× as long" in one([gpu("after", **link(4, 8, performance_state=8))])
    readings = [gpu("before", **link(1, 16, performance_state=0)), gpu("under-load", **link(4, 16))]
    assert cautions(readings, []) == ()
    assert cautions([gpu("under-load", link_generation=1, link_width=1)], []) == ()


@every(
    ("moment", "state", "warns"),
    [
        ("under-load", 8, True),
        ("after", 0, True),
        ("after", 2, True),
        ("after", 3, False),
        ("after", None, False),
    ],
)
def test_an_idle_gpu_may_lower_its_generation(moment: Moment, state: int | None, warns: bool) -> None:
    assert bool(cautions([gpu(moment, **link(1, 16, performance_state=state))], [])) is warns


# Jetson boards


def test_what_a_board_tells() -> None:
    warning = one([], [board(power_mode="15W", best_power_mode="MAXN_SUPER")])
    assert not missing(warning, "15W", "MAXN_SUPER")
    assert "nvpmodel -m" in warning
    assert cautions([], [board(power_mode="MAXN", best_power_mode="MAXN")]) == ()
    before = board("before", over_current_events={"under voltage": 4, "average over-current": 9})
    after = board(over_current_events={"under voltage": 4, "average over-current": 12})
    assert "over-current 3 times" in one([], [before, after])
    assert cautions([], [before, before]) == ()
    assert cautions([], [after]) == ()
    hot = board("before", throttle_alerts=("gpu-throttle-alert",))
    assert "gpu-throttle-alert" in one([], [hot, board(throttle_alerts=())])


@every(
    ("governor", "hertz", "warns"),
    [
        ("schedutil", 1_000_000_000, True),
        ("schedutil", 1_950_000_000, False),
        ("performance", 1_000_000_000, False),
    ],
)
def test_a_governor_that_keeps_the_cpu_slow(governor: str, hertz: int, warns: bool) -> None:
    cpu = CpuClocks(governors=(governor,), hertz=hertz, max_hertz=2_000_000_000)
    found = cautions([], [board(cpu=cpu)])
    assert bool(found) is warns
    if warns:
        assert not missing(found[0], "schedutil", "1.00 GHz of 2.00 GHz")
        assert "jetson_clocks" in found[0]
