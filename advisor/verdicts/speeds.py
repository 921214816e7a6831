"""How much faster than the baseline each strategy is, measured or predicted, with intervals where known."""

from __future__ import annotations

import math

from advisor import stats
from advisor.profiles.schema import Measured, Predicted, Profile
from advisor.strategies.registry import BASELINE
from advisor.verdicts.estimate import Pairs
from advisor.verdicts.final import ratio
from advisor.verdicts.measured import compared, figure_of


def baseline(profile: Profile) -> Measured | None:
    """What ratios and break-even compare with: the recommendation's baseline, else `pageable`."""
    named = profile.recommendation.baseline if profile.recommendation else None
    return profile.measured().get(named or BASELINE)


def speeds(profile: Profile) -> dict[str, stats.Ratio]:
    """The baseline's figure over that of each row, with intervals where the two were compared."""
    base, pairs = baseline(profile), compared(profile)
    if base is None:
        return {}
    told = {name: _speed(profile, pairs, base, row) for name, row in profile.measured().items()}
    return {name: found for name, found in told.items() if found is not None}


def _speed(profile: Profile, pairs: Pairs, base: Measured, row: Measured) -> stats.Ratio | None:
    """The baseline's figure over this row's; without an interval where no final compared them."""
    objective, chosen = profile.preferences.objective, profile.recommendation
    if chosen and chosen.strategy == row.strategy != base.strategy and chosen.speedup and chosen.interval:
        return stats.Ratio(chosen.speedup, *chosen.interval)
    if {base.strategy, row.strategy} <= set(pairs.names):
        return ratio(pairs.among([base.strategy, row.strategy]), profile.method.confidence)
    above, below = figure_of(base, objective), figure_of(row, objective)
    return _plain(above[0], below[0]) if above and below else None


def _plain(above: float, below: float) -> stats.Ratio:
    """A ratio whose interval is not known."""
    return stats.Ratio(above / below, 0.0, math.inf)


def predicted_speed(base: Predicted, row: Predicted) -> stats.Ratio:
    """The baseline's likely time over this row's, with its range where that is known."""
    plain = _plain(base.likely_seconds, row.likely_seconds)
    over = row.over.get(base.strategy)
    return stats.Ratio(plain.value, 1 / over[1], 1 / over[0]) if over else plain
