"""What each strategy is likely to cost on a device that is not here: a sum of terms a reader can check.

The steps are those the runner would take (advisor/schedule.py), the bytes those that tracing saw
(traffic.py), the rates the device's (machines.py), the formulas in terms.py. Every strategy is computed
three times: with every uncertain figure at its likely value, and with all of them at either end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor import units
from advisor.advise import recommend_predicted
from advisor.devices.catalogue import CatalogueEntry, Figure
from advisor.model.defaults import COVERED, HOST_SLOWDOWN
from advisor.model.machines import Machine, Scenario
from advisor.model.steady_frame import ASSUMED_AGAIN, Frame, Setting
from advisor.profiles import (
    Predicted,
    PredictedResult,
    Prediction,
    Profile,
    Skipped,
    Trace,
    WorkloadRecord,
)
from advisor.schedule import plan, stage_uses
from advisor.strategies import STRATEGIES, Strategy


@dataclass(frozen=True)
class _Computed:
    """One strategy in the three scenarios, and the machines that noted what they had to assume."""

    row: Predicted
    machines: tuple[Machine, ...]


def predict(
    profile: Profile, target: CatalogueEntry, strategies: Sequence[Strategy] = STRATEGIES
) -> Prediction:
    """Predicts the strategies on the target from the profile's traced traffic.

    What cannot be predicted is a `Skipped` with the reason; all of them where nothing was traced.
    """
    results: list[PredictedResult] = []
    machines: list[Machine] = []
    for strategy in strategies:
        outcome = _attempt(profile, target, strategy)
        if isinstance(outcome, _Computed):
            results.append(outcome.row)
            machines.extend(outcome.machines)
        else:
            results.append(Skipped(strategy=strategy.name, reason=outcome))
    return Prediction(
        device=target.device(),
        results=tuple(results),
        recommendation=recommend_predicted(results),
        assumptions=_assumptions(profile, target, machines) if machines else (),
    )


def _attempt(profile: Profile, target: CatalogueEntry, strategy: Strategy) -> _Computed | str:
    """The figures, or the reason there are none."""
    workload, trace = profile.workload, profile.traffic
    if target.memory_class not in COVERED:
        return f"the model does not cover devices of memory class {target.memory_class} yet"
    unavailable = strategy.unavailable(target.device())
    if unavailable:
        return unavailable
    if trace is None:
        return "nothing was traced: the workload did not run on the CPU"
    unseen = _unseen(workload, trace)
    if unseen:
        return unseen
    setting = _setting(workload, trace, target, strategy)
    too_large = _too_large(setting, target)
    return too_large or _compute(setting, target, strategy.name)


def _unseen(workload: WorkloadRecord, trace: Trace) -> str | None:
    seen = {traffic.stage for traffic in trace.traffic}
    for stage in workload.frame_stages():
        touches = any(stage.name in buffer.access for buffer in workload.buffers)
        if touches and stage.name not in seen:
            return (
                f"the traffic of {stage.side} stage {stage.name!r} is unknown: give it a CPU twin, "
                "device(function, cpu=numpy_twin), or state its passes, device(function, passes={...})"
            )
    return None


def _setting(workload: WorkloadRecord, trace: Trace, target: CatalogueEntry, strategy: Strategy) -> Setting:
    device = target.device()
    placements = strategy.placements(workload)
    traits = {name: placement.traits(device) for name, placement in placements.items()}
    steps = plan(stage_uses(workload, "setup"), stage_uses(workload, "frame"), traits)
    return Setting(workload, trace, placements, steps)


def _too_large(setting: Setting, target: CatalogueEntry) -> str | None:
    memory = int(target.figures.memory_bytes.value)
    shared = target.memory_class.startswith("tegra")
    needed = setting.physical_bytes() if shared else setting.device_bytes()
    if needed <= memory:
        return None
    return f"needs {units.size(needed)} of the device's memory of {units.size(memory)}"


def _compute(setting: Setting, target: CatalogueEntry, name: str) -> _Computed:
    scenarios: tuple[Scenario, ...] = ("fast", "likely", "slow")
    machines = tuple(Machine(target, scenario) for scenario in scenarios)
    fast, likely, slow = (Frame(setting, machine).terms() for machine in machines)
    total = sum(likely.values())
    row = Predicted(
        strategy=name,
        low_seconds=min(sum(fast.values()), total),
        likely_seconds=total,
        high_seconds=max(sum(slow.values()), total),
        terms=likely,
        physical_bytes=setting.physical_bytes(),
    )
    return _Computed(row, machines)


def _assumptions(profile: Profile, target: CatalogueEntry, machines: Sequence[Machine]) -> tuple[str, ...]:
    """Everything that is not known of this device or this workload, one sentence each."""
    taken: dict[str, Figure] = {}
    for machine in machines:
        taken.update(machine.taken)
    missing = set().union(*(machine.missing for machine in machines))
    return (
        f"All figures for {target.name} are predicted, none was measured on it. The range joins the ends of "
        "all uncertain figures: all favourable, all unfavourable.",
        "Each device stage is one kernel launch; transfers, kernels and host stages follow one another.",
        *_of_the_trace(profile, target),
        *(
            f"Not known: {_words(name)}; taken as {_value(name, figure)} ({figure.source})."
            for name, figure in sorted(taken.items())
        ),
        *(_WITHOUT[name] for name in sorted(missing) if name in _WITHOUT),
    )


def _of_the_trace(profile: Profile, target: CatalogueEntry) -> list[str]:
    sentences = [
        "A host stage takes between its bytes at the device's CPU rates and its time on the CPU that "
        "traced it."
    ]
    if target.memory_class in HOST_SLOWDOWN:
        factor, source = HOST_SLOWDOWN[target.memory_class]
        sentences.append(f"Its upper end is {factor:g} times that: a slower core ({source}).")
    traffic = profile.traffic.traffic if profile.traffic else ()
    sentences.extend(
        f"Tracing could not see stage {t.stage!r} use buffer {t.buffer!r}: taken as one pass, "
        f"at most {ASSUMED_AGAIN:g}."
        for t in traffic
        if t.source == "assumed"
    )
    if any(t.source == "declared" for t in traffic):
        sentences.append(
            "A kernel with declared passes finds what it reads again in the L2 cache, where that memory is "
            "cached; at the upper end only if all it touches fits."
        )
    return sentences


_WITHOUT = {
    "flops_per_second": "The rate of arithmetic is not known: kernels are taken as bound by memory.",
    "l2_bytes": "The size of the L2 cache is not known: every pass is taken from memory.",
}
_UNITS = ("bytes_per_second", "bytes", "seconds", "share")


def _words(name: str) -> str:
    unit = next(unit for unit in _UNITS if name.endswith(unit))
    kind = {"bytes_per_second": "rate", "bytes": "size", "seconds": "time", "share": "share"}[unit]
    return f"{name.removesuffix(unit).strip('_').replace('_', ' ')} {kind}"


def _value(name: str, figure: Figure) -> str:
    write = next(w for end, w in _WRITE if name.endswith(end))
    low, high = figure.low or figure.value, figure.high or figure.value
    span = "" if low == high else f", between {write(low)} and {write(high)}"
    return f"{write(figure.value)}{span}"


_WRITE = (
    ("bytes_per_second", units.rate),
    ("bytes", units.size),
    ("seconds", units.seconds),
    ("share", units.percent),
)
