"""What each strategy is likely to cost on a device that is not here: a sum of terms a reader can check.

The steps are those the runner would take (strategies/schedule.py), the bytes those that tracing saw
(measure/traffic.py), the rates the device's (machines.py), the formulas in terms.py. Everything is computed
at the likely figures and in joint draws of the uncertain ones (monte_carlo.py), for all strategies alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from advisor.devices.catalogue import CatalogueEntry
from advisor.model.assumptions import assumptions
from advisor.model.machines import Machine
from advisor.model.measured import learned
from advisor.model.monte_carlo import Values, span
from advisor.model.simulate import Simulated, simulate, with_declared
from advisor.profiles.preferences import Preferences
from advisor.profiles.schema import Predicted, PredictedResult, Prediction, Profile, Recommendation, Skipped
from advisor.strategies.registry import BASELINE, STRATEGIES, Strategy
from advisor.verdicts.budgets import by_memory
from advisor.verdicts.predicted import Draws, confidence, recommend_predicted


def predict(
    profile: Profile, target: CatalogueEntry, strategies: Sequence[Strategy] = STRATEGIES
) -> Prediction:
    """Predicts the strategies on the target from the profile's traffic, and from its times on a GPU if any.

    What cannot be predicted is a `Skipped` with the reason; all of them where nothing is known.
    """
    machine = Machine(target)
    known = learned(profile, machine)
    found = simulate(profile.workload, known.trace, machine, strategies, known)
    rows = {name: _row(name, outcome) for name, outcome in found.items()}
    wanted = profile.preferences
    counted = {name: s.counted(wanted.objective) for name, s in found.items() if isinstance(s, Simulated)}
    draws = {name: seconds[1:] for name, seconds in counted.items()}
    scored = tuple(_scored(row, counted.get(name)) for name, row in rows.items())
    chosen = recommend_predicted(scored, draws, preferences=wanted)
    trace = with_declared(profile.workload, known.trace)
    told = () if isinstance(trace, str) or not draws else assumptions(trace, machine)
    others = {BASELINE, str(chosen.strategy)} & set(draws) if chosen else set()
    return Prediction(
        device=target.device(),
        results=tuple(_with_ratios(row, counted, sorted(others)) for row in rows.values()),
        recommendation=chosen,
        assumptions=(*told, *known.sentences) if told else (),
        confidence=_confidence(chosen, scored, draws, wanted),
    )


def _with_ratios(
    row: PredictedResult, counted: Mapping[str, Values], others: Iterable[str]
) -> PredictedResult:
    """The row with its counted time over that of others, draw by draw: what two strategies share cancels."""
    if isinstance(row, Skipped):
        return row
    own = counted[row.strategy]
    spans = {name: span(own / counted[name]) for name in others if name != row.strategy}
    return row.model_copy(update={"over": {name: (low, high) for name, (low, _, high) in spans.items()}})


def _scored(row: PredictedResult, counted: Values | None) -> PredictedResult:
    """The row with those seconds in place of its own, for the verdict alone."""
    if counted is None:
        return row
    low, likely, high = span(counted)
    return row.model_copy(update={"low_seconds": low, "likely_seconds": likely, "high_seconds": high})


def _confidence(
    chosen: Recommendation | None, rows: Sequence[PredictedResult], draws: Draws, wanted: Preferences
) -> float | None:
    """Among the strategies that memory left to choose from."""
    if chosen is None or chosen.strategy is None:
        return None
    left, _ = by_memory([row for row in rows if isinstance(row, Predicted)], wanted)
    return confidence(
        chosen.strategy, {row.strategy: draws[row.strategy] for row in left}, wanted.indifference
    )


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
