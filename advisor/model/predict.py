"""What each strategy is likely to cost on a device that is not here: a sum of terms a reader can check.

The steps are those the runner would take (advisor/schedule.py), the bytes those that tracing saw
(traffic.py), the rates the device's (machines.py), the formulas in terms.py. Everything is computed at the
likely figures and in joint draws of the uncertain ones (draws.py), for all strategies alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from advisor.advise import recommend_predicted
from advisor.devices.catalogue import CatalogueEntry
from advisor.model.assumptions import assumptions
from advisor.model.draws import span
from advisor.model.machines import Machine
from advisor.model.measured import learned
from advisor.model.simulate import Simulated, simulate, with_declared
from advisor.profiles import Predicted, PredictedResult, Prediction, Profile, Skipped
from advisor.strategies import BASELINE, STRATEGIES, Strategy
from advisor.verdicts.predicted import confidence


def predict(
    profile: Profile, target: CatalogueEntry, strategies: Sequence[Strategy] = STRATEGIES
) -> Prediction:
    """Predicts the strategies on the target from the profile's traffic, and from its times on a GPU if any.

    What cannot be predicted is a `Skipped` with the reason; all of them where nothing is known.
    """
    machine = Machine(target)
    known = learned(profile, machine)
    found = simulate(
        profile.workload,
        known.trace,
        machine,
        strategies,
        known.kernel_factor,
        host_measured=known.same_device,
        doubt=known.doubt,
    )
    rows = {name: _row(name, outcome) for name, outcome in found.items()}
    draws = {name: s.seconds[1:] for name, s in found.items() if isinstance(s, Simulated)}
    chosen = recommend_predicted(tuple(rows.values()), draws)
    trace = with_declared(profile.workload, known.trace)
    told = () if isinstance(trace, str) or not draws else assumptions(trace, machine)
    others = {BASELINE, str(chosen.strategy)} & set(draws) if chosen else set()
    return Prediction(
        device=target.device(),
        results=tuple(_with_ratios(row, found, sorted(others)) for row in rows.values()),
        recommendation=chosen,
        assumptions=(*told, *known.sentences) if told else (),
        confidence=confidence(chosen.strategy, draws) if chosen and chosen.strategy else None,
    )


def _with_ratios(
    row: PredictedResult, found: Mapping[str, Simulated | str], others: Iterable[str]
) -> PredictedResult:
    """The row with its time over that of others, draw by draw: what two strategies share cancels out."""
    own = found[row.strategy]
    if isinstance(row, Skipped) or isinstance(own, str):
        return row
    ratios = {name: own.seconds / s.seconds for name in others if not isinstance(s := found[name], str)}
    spans = {name: span(ratio) for name, ratio in ratios.items() if name != row.strategy}
    return row.model_copy(update={"over": {name: (low, high) for name, (low, _, high) in spans.items()}})


def _row(name: str, found: Simulated | str) -> PredictedResult:
    if isinstance(found, str):
        return Skipped(strategy=name, reason=found)
    low, likely, high = span(found.seconds)
    return Predicted(
        strategy=name,
        low_seconds=low,
        likely_seconds=likely,
        high_seconds=high,
        terms={part: float(seconds[0]) for part, seconds in found.parts.items()},
        physical_bytes=found.physical_bytes,
        latency_seconds=None if found.latency is None else float(found.latency[0]),
    )
