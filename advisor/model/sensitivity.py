"""What would change the verdict: other preferences; and the model's choice: more reading, other sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import get_args

import numpy as np

from advisor.devices.entries import CatalogueEntry
from advisor.model.context import scaled
from advisor.model.measured import entry_of
from advisor.model.predict import predict
from advisor.profiles.conclusions import Alternative, Objective, Preferences, Sensitivity
from advisor.profiles.schema import Predicted, Profile, Trace
from advisor.strategies.registry import BASELINE, STRATEGIES
from advisor.verdicts.caveats import doubt
from advisor.verdicts.measured import compared, recommend
from advisor.verdicts.predicted import recommend_predicted
from advisor.verdicts.scores import counted, figures_of

FACTORS = (2, 4, 8, 16, 32, 64)
MOST_STEPS = 40
"""Stages and buffers; above that nothing is computed: 19 predictions would take more than two seconds."""


def sensitivity(profile: Profile) -> Profile:
    """The profile with what would change the model's choice for the measured device, or for each target."""
    devices = [profile.device] if profile.device.kind != "cpu" else [p.device for p in profile.predictions]
    entries = ((device.name, entry_of(device)) for device in devices)
    found = tuple(one for name, entry in entries if entry for one in turns(profile, entry, name))
    others = tuple(_predicted(profile) if profile.device.kind == "cpu" else _measured(profile))
    return profile.model_copy(update={"sensitivity": found, "alternatives": others})


def _measured(profile: Profile) -> Iterator[Alternative]:
    """For each objective that has figures, each memory budget from which on another strategy fits."""
    rows = tuple(profile.measured().values())
    if profile.recommendation is None or doubt(profile):
        return
    for objective in get_args(Objective):
        if objective == "throughput":  # elsewhere it says nothing that time does not
            known = any(row.latency_seconds is not None for row in rows)
        else:
            known = bool(figures_of(rows, objective)) and bool(compared(profile, objective).names)
        for budget in _budgets(row.footprint.physical_bytes for row in rows) if known else ():
            wanted = _preferences(profile, objective, budget)
            found = recommend(profile.model_copy(update={"preferences": wanted}))
            if found is not None:
                yield Alternative.of(
                    found, device=profile.device.name, objective=objective, budget_bytes=budget
                )


def _predicted(profile: Profile) -> Iterator[Alternative]:
    """By the likely times; the draws, which say how sure that is, are not in the profile."""
    trusted = {m.device.name for m in profile.predictions if m.recommendation and not doubt(profile, m)}
    results = [row for made in profile.predictions for row in made.results if isinstance(row, Predicted)]
    overlapping: tuple[Objective, ...] = ("throughput",) if any(r.latency_seconds for r in results) else ()
    objectives: tuple[Objective, ...] = ("time", *overlapping, "footprint")
    for objective in objectives:
        for made in counted(profile, "time" if objective == "footprint" else objective).predictions:
            rows = [row for row in made.results if isinstance(row, Predicted)]
            likely = {row.strategy: row.likely_seconds for row in rows}
            draws = {name: np.array([seconds]) for name, seconds in likely.items()}
            for budget in _budgets(r.physical_bytes for r in rows) if made.device.name in trusted else ():
                wanted = _preferences(profile, objective, budget)
                found = recommend_predicted(rows, draws, preferences=wanted)
                if found is not None:
                    gain = likely.get(BASELINE, 0.0) / likely.get(found.strategy or "", math.inf)
                    yield Alternative.of(
                        found,
                        device=made.device.name,
                        objective=objective,
                        budget_bytes=budget,
                        speedup=gain or None,
                    )


def _budgets(sizes: Iterable[int]) -> list[int | None]:
    """None, each size from the largest down, and one that nothing fits."""
    known = sorted(set(sizes), reverse=True)
    return [None, *(size for size in (*known, *[known[-1] - 1] * bool(known)) if size > 0)]


def _preferences(profile: Profile, objective: Objective, budget: int | None) -> Preferences:
    return profile.preferences.model_copy(update={"objective": objective, "memory_budget_bytes": budget})


def turns(profile: Profile, entry: CatalogueEntry, device: str) -> Iterator[Sensitivity]:
    """Each question; none where the profile's traffic is not known, or the model's choice is another one.

    By the traced traffic alone: the measured times are left out. Between the strategies that the profile has.
    """
    trace = profile.traffic
    size = len(profile.workload.stages) + len(profile.workload.buffers)
    if trace is None or not trace.traffic or size > MOST_STEPS:
        return
    blind = profile.model_copy(update={"results": ()})
    rows = next((each.results for each in profile.predictions if each.device.name == device), profile.results)
    names = {row.strategy for row in rows}
    strategies = [strategy for strategy in STRATEGIES if strategy.name in names]
    now = predict(blind, entry, strategies).recommendation if strategies else None
    chosen = profile.recommendation
    if now is None or now.strategy is None:
        return
    same = (now.strategy, *now.tied_with)
    if chosen and chosen.strategy not in same:
        return
    kernels = {stage.name for stage in profile.workload.frame_stages("device")}
    changes: dict[str, Callable[[int], Profile]] = {
        "reads": lambda k: _reading(blind, trace, kernels, k),
        "larger": lambda k: _sized(blind, trace, k),
        "smaller": lambda k: _sized(blind, trace, 1 / k),
    }
    for question, changed in changes.items():
        factor, strategy = None, None
        for k in FACTORS:
            then = predict(changed(k), entry, strategies).recommendation
            if then and then.strategy and now.strategy not in (then.strategy, *then.tied_with):
                factor, strategy = k, then.strategy
                break
        yield Sensitivity.model_validate(
            {"device": device, "question": question, "factor": factor, "strategy": strategy}
        )


def _reading(profile: Profile, trace: Trace, device: set[str], factor: float) -> Profile:
    read = tuple(scaled(t, factor, "bytes_read") if t.stage in device else t for t in trace.traffic)
    return profile.model_copy(update={"traffic": trace.model_copy(update={"traffic": read})})


def _sized(profile: Profile, trace: Trace, factor: float) -> Profile:
    """Everything that goes with the buffers' size in proportion to it: bytes, arithmetic, time on the CPU."""
    workload = profile.workload
    moved = {
        "traffic": tuple(scaled(t, factor, "bytes_read", "bytes_written") for t in trace.traffic),
        "work": tuple(scaled(w, factor, "flops", "temporary_bytes", "seconds") for w in trace.work),
        "valid_bytes": {name: size * factor for name, size in trace.valid_bytes.items()},
    }
    sizes = {b.name: max(1, round(b.bytes * factor)) for b in workload.buffers}
    made = {
        "buffers": tuple(b.model_copy(update={"bytes": sizes[b.name]}) for b in workload.buffers),
        "stages": tuple(scaled(s, factor, "flops") for s in workload.stages),
    }
    traced = trace.model_copy(update=moved)
    return profile.model_copy(update={"traffic": traced, "workload": workload.model_copy(update=made)})
