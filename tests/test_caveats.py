"""What readings mean: when a warning is given, what it says, and when there is none."""

from __future__ import annotations

from typing import Any

from rendering import Accepted

from advisor.devices.environment import cautions
from advisor.profiles.system_state import CpuClocks, GpuState, Moment, TegraState


def gpu(moment: Moment = "after", seconds: float = 0.0, **figures: Any) -> GpuState:
    return GpuState(moment=moment, clock_seconds=seconds, **figures)


def board(moment: Moment = "after", **figures: Any) -> TegraState:
    return TegraState(moment=moment, **figures)


def link(generation: int, width: int, **figures: Any) -> dict[str, Any]:
    best = {"link_generation_max": 4, "link_width_max": 16}
    return {"link_generation": generation, "link_width": width, **best, **figures}


def clocked(*hertz: int) -> list[GpuState]:
    """Clocks under load, between those of an idle GPU."""
    loaded = [gpu("under-load", sm_hertz=each) for each in hertz]
    return [gpu("before", sm_hertz=345_000_000), *loaded, gpu(sm_hertz=345_000_000)]


def heated(seconds: float) -> list[GpuState]:
    """So much of 100 s too hot."""
    after = {"heat": 7.0 + seconds, "power": 1.0}
    return [
        gpu("before", 100.0, throttled_seconds={"heat": 7.0, "power": 1.0}),
        gpu("after", 200.0, throttled_seconds=after),
    ]


def governed(governor: str, hertz: int) -> TegraState:
    return board(cpu=CpuClocks(governors=(governor,), hertz=hertz, max_hertz=2_000_000_000))


HEALTHY: dict[str, Any] = {
    "throttle_reasons": (), "other_processes": 0, "link_generation": 5, "link_generation_max": 5,
    "link_width": 16, "link_width_max": 16, "performance_state": 0, "utilization": 0.0,
    "throttled_seconds": {"power": 3.0},
}  # fmt: skip
IDLE = gpu("before", **link(1, 16, performance_state=0))
OVER_CURRENT = [
    board(moment, over_current_events={"under voltage": 4, "average over-current": events})  # type: ignore[arg-type]
    for moment, events in (("before", 9), ("after", 12))
]
Readings = GpuState | TegraState
WARNED: dict[str, list[Readings]] = {
    **{
        f"throttled by {reason}": [gpu("under-load", throttle_reasons=(reason,)), gpu(throttle_reasons=())]
        for reason in (
            "power cap", "thermal slowdown by the hardware", "hardware slowdown", "power brake", "sync boost",
        )
    },
    "counters show what was over before the last reading": [*heated(1.5)],
    "clocks that moved under load": [*clocked(1_500_000_000, 1_980_000_000)],
    "another process": [
        gpu("before", other_processes=0), gpu(other_processes=1, other_processes_bytes=3 << 30),
    ],
    "other processes": [gpu(other_processes=2)],
    "busy before we use it": [gpu("before", utilization=0.35)],
    "an older generation and fewer lanes": [gpu("under-load", **link(3, 8))],
    "fewer lanes": [gpu("after", **link(4, 8, performance_state=8))],
    "generation 1 under load": [gpu("under-load", **link(1, 16, performance_state=8))],
    "generation 1 and not idle": [gpu("after", **link(1, 16, performance_state=2))],
    "a power mode of a board": [board(power_mode="15W", best_power_mode="MAXN_SUPER")],
    "over-current": [*OVER_CURRENT],
    "a board that throttled": [board("before", throttle_alerts=("gpu-throttle-alert",)), board()],
    "a governor that keeps the CPU slow": [governed("schedutil", 1_000_000_000)],
}  # fmt: skip
QUIET: dict[str, list[Readings]] = {
    "nothing read": [],
    "nothing known": [gpu("before"), gpu(), board("before"), board()],
    "healthy": [gpu("before", 0.0, **HEALTHY), gpu("after", 60.0, **HEALTHY)],
    "hot for half a percent": [*heated(0.5)],
    "one counter": [gpu(seconds=5.0, throttled_seconds={"heat": 1e6})],
    "different counters": [
        gpu(throttled_seconds={"power": 0.0}), gpu(seconds=9.0, throttled_seconds={"heat": 8.0}),
    ],
    "steady clocks": [*clocked(1_900_000_000, 1_980_000_000)],
    "clocks of an idle GPU": [*clocked()],
    "hardly used before": [gpu("before", utilization=0.05)],
    "busy with us": [gpu("under-load", utilization=1.0), gpu("after", utilization=1.0)],
    "a link that rose under load": [IDLE, gpu("under-load", **link(4, 16))],
    "no best link known": [gpu("under-load", link_generation=1, link_width=1)],
    "an idle GPU lowers its generation": [gpu("after", **link(1, 16, performance_state=3))],
    "a GPU that may be idle does": [gpu("after", **link(1, 16, performance_state=None))],
    "the best power mode": [board(power_mode="MAXN", best_power_mode="MAXN")],
    "over-current long ago": [OVER_CURRENT[0], OVER_CURRENT[0]],
    "over-current, when is not known": [OVER_CURRENT[1]],
    "a governor that does not": [governed("schedutil", 1_950_000_000)],
    "slow by request": [governed("performance", 1_000_000_000)],
}  # fmt: skip


def warnings(readings: list[Readings]) -> tuple[str, ...]:
    boards = [each for each in readings if isinstance(each, TegraState)]
    return cautions([each for each in readings if isinstance(each, GpuState)], boards)


def test_a_warning_says_what_and_what_to_do(accepted: Accepted) -> None:
    text = "".join(f"{name}: {' | '.join(warnings(readings))}\n" for name, readings in WARNED.items())
    accepted(text, "cautions.txt")
    assert [name for name, readings in WARNED.items() if len(warnings(readings)) != 1] == []
    assert {name: said for name, readings in QUIET.items() if (said := warnings(readings))} == {}
