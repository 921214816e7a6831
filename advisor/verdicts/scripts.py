"""The verdict over a script's strategies: each round is one process of each, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from advisor import stats
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.preferences import Preferences
from advisor.profiles.scripts import ScriptMeasured
from advisor.strategies.scripts import UNCHANGED
from advisor.verdicts.choice import Aim, Contestant
from advisor.verdicts.estimate import Block
from advisor.verdicts.final import decide
from advisor.verdicts.words import recorded, told


def recommend(rows: Sequence[ScriptMeasured], confidence: float) -> Recommendation | None:
    """By ratios inside a round, as for a workload; None without rows."""
    if not rows:
        return None
    blocks = [
        Block(process=number, round=0, contestant=row.strategy, place=0, seconds=seconds)
        for row in rows
        for number, seconds in enumerate(row.run_seconds)
    ]
    contestants = [Contestant(row.strategy, 0, int(row.strategy != UNCHANGED)) for row in rows]
    verdict = decide(blocks, contestants, Aim(UNCHANGED, confidence=confidence)).verdict
    unchecked = [row.strategy for row in rows if not row.verified]
    seconds = {row.strategy: row.median_seconds for row in rows}
    return told(recorded(verdict, UNCHANGED), seconds, Preferences(), unit="run", unchecked=unchecked)


def ratio(row: ScriptMeasured, other: ScriptMeasured, confidence: float) -> stats.Ratio:
    """This one's time over the other's, with its interval."""
    return stats.ratio_interval(row.rounds, other.rounds, confidence=confidence)
