"""What the model says of a published case, and how to count it: right or wrong, in range, how far off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from left_out import simulations
from published_cases import Case, Figure, timed

from advisor.model.machines import Machine, shares_memory
from advisor.model.simulate import Simulated
from advisor.model.terms import Values, span
from advisor.profiles.schema import Predicted
from advisor.verdicts.predicted import recommend_predicted

NEAR = 1.05
ROUNDING = 1.01
"""Published times have three digits at most."""
ABOUT = 1.05
"""Published ratios are told as "about the same" and "~5x"."""


@dataclass(frozen=True)
class Outcome:
    """A case with the model's figures for the timed parts, in every draw."""

    case: Case
    memory_class: str
    seconds: dict[str, Values]
    recommended: str | None

    def of(self, figure: Figure) -> Values:
        return self.seconds[figure.strategy]

    @property
    def exact(self) -> list[Figure]:
        return [f for f in self.case.figures if f.exact]


def outcome(case: Case, machine: Machine | None = None) -> Outcome:
    """The case on its device as the catalogue has it, or on another form of it."""
    machine = machine or Machine(case.entry)
    found = {n: (s, timed(s, case)) for n, s in simulations(case, machine).items()}
    rows = [_row(name, *pair) for name, pair in found.items()]
    choice, _ = recommend_predicted(rows, {n: seconds[1:] for n, (_, seconds) in found.items()})
    return Outcome(
        case,
        machine.entry.memory_class,
        {n: seconds for n, (_, seconds) in found.items()},
        choice.strategy if choice else None,
    )


def _row(name: str, simulated: Simulated, seconds: Values) -> Predicted:
    low, likely, high = span(seconds)
    return Predicted(
        strategy=name,
        low_seconds=low,
        likely_seconds=likely,
        high_seconds=high,
        terms={"timed": likely},
        physical_bytes=simulated.physical_bytes,
    )


# What is counted


def _near_best(found: Outcome, strategy: str | None) -> bool:
    """Whether it is the published best or within 5 % of it; where we measured, whether it may be."""
    chosen = next(f for f in found.exact if f.strategy == strategy)
    best = min(found.exact, key=lambda f: f.published)
    return chosen.ends[0] <= NEAR * best.ends[1]


RULE = {
    True: ("managed", "zero-copy", "system", "pinned"),
    False: ("pinned", "managed-prefetch", "pageable", "zero-copy"),
}
SMALL = 1 << 18
"""Bytes of all buffers of a frame."""


def by_the_rule(found: Outcome) -> str:
    """What three lines would choose: managed where there is one memory; on cards zero-copy for the smallest
    sizes, else pinned. Of what was published, in that order."""
    entry = found.case.entry
    small = sum(b.bytes for b in found.case.profile.workload.buffers) <= SMALL
    shared = shares_memory(entry)
    order = ("zero-copy", *RULE[False]) if small and not shared else RULE[shared]
    known = [f.strategy for f in found.exact]
    return next((name for name in order if name in known), known[0])


def regret(found: Outcome, chosen: str | None) -> float:
    """How much longer the chosen strategy takes than the best, as published: a share."""
    seconds = next(f.published for f in found.exact if f.strategy == chosen)
    return seconds / min(f.published for f in found.exact) - 1


def over_published(found: Outcome) -> list[float]:
    if found.case.relative:
        return []
    return [float(found.of(f)[0]) / f.published for f in found.case.figures]


def ratio_errors(found: Outcome) -> list[float]:
    """Of each pair of strategies: by how much their predicted ratio misses the published one, as a share."""
    errors = []
    for one, other in combinations(found.exact, 2):
        predicted = found.of(one)[0] / found.of(other)[0]
        errors.append(float(np.exp(abs(np.log(predicted / (one.published / other.published)))) - 1))
    return errors


def inside(found: Outcome) -> list[bool]:
    """Whether each published figure lies in the range; of relative ones, each ratio in the ratio's range."""
    if not found.case.relative:
        return [holds(found.of(f), f.published, relative=False) for f in found.case.figures]
    return ratios_inside(found)


def holds(values: Values, published: float, *, relative: bool) -> bool:
    low, _, high = span(values)
    rounding = ABOUT if relative else ROUNDING
    return low / rounding <= published <= high * rounding


def widths(found: Outcome) -> list[float]:
    """The high end of each figure's range over the low one."""
    if found.case.relative:
        return []
    ends = [span(found.of(f)) for f in found.case.figures]
    return [high / low for low, _, high in ends]


def ratios_inside(found: Outcome) -> list[bool]:
    """Whether the published ratio of each pair of strategies lies in the range of the predicted one."""
    return [
        holds(found.of(one) / found.of(other), one.published / other.published, relative=found.case.relative)
        for one, other in combinations(found.exact, 2)
    ]


def rank_correlation(found: Outcome) -> float | None:
    """Spearman's, of the strategies of a case; None for fewer than three, and where all take the same."""
    if len(found.exact) < 3:
        return None
    predicted = _ranks([float(found.of(f)[0]) for f in found.exact])
    published = _ranks([f.published for f in found.exact])
    if np.ptp(predicted) == 0 or np.ptp(published) == 0:
        return None
    return float(np.corrcoef(predicted, published)[0, 1])


def _ranks(values: Sequence[float]) -> Values:
    """Ranks from 0; values within a percent of one another share their mean rank."""
    x = np.log(values)
    below = (x[:, None] - x[None, :] > np.log(ROUNDING)).sum(axis=1)
    above = (x[None, :] - x[:, None] > np.log(ROUNDING)).sum(axis=1)
    return np.asarray((below + len(x) - 1 - above) / 2)


def summary(outcomes: Sequence[Outcome]) -> dict[str, float | int | None]:
    """The figures of a group of cases; None where no case can give one."""
    ratios, errors = _all(outcomes, over_published), _all(outcomes, ratio_errors)
    several = [o for o in outcomes if len(o.exact) > 1]
    ranks = [x for x in map(rank_correlation, outcomes) if x is not None]
    held = _all(outcomes, inside)
    return {
        "cases": len(outcomes),
        "figures": sum(len(o.case.figures) for o in outcomes),
        "choices": len(several),
        "right_share": _mean([_near_best(o, o.recommended) for o in several]),
        "rule_right_share": _mean([_near_best(o, by_the_rule(o)) for o in several]),
        "regret_mean": _mean([regret(o, o.recommended) for o in several]),
        "rule_regret_mean": _mean([regret(o, by_the_rule(o)) for o in several]),
        "ratio_median": _percentile(ratios, 50),
        "ratio_90": _percentile(ratios, 90),
        "ratio_error_median": _percentile(errors, 50),
        "inside_share": _mean(held),
        "ratio_inside_share": _mean(_all(outcomes, ratios_inside)),
        "width_median": _percentile(_all(outcomes, widths), 50),
        "rank_correlation": _mean(ranks),
    }


def _all(outcomes: Iterable[Outcome], measure: Callable[[Outcome], list[float] | list[bool]]) -> list[float]:
    return [float(x) for o in outcomes for x in measure(o)]


def _mean(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), 3) if values else None


def _percentile(values: Sequence[float], q: float) -> float | None:
    return round(float(np.percentile(values, q)), 3) if values else None
