"""The verdict over a script's strategies: each round is one process of each, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from advisor import stats
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.preferences import Preferences
from advisor.profiles.scripts import ScriptMeasured
from advisor.strategies.scripts import UNCHANGED
from advisor.verdicts.choice import Aim, Contestant
from advisor.verdicts.estimate import Block, paired, times
from advisor.verdicts.final import decide
from advisor.verdicts.final import ratio as paired_ratio
from advisor.verdicts.reasons import recorded, told


def recommend(rows: Sequence[ScriptMeasured], confidence: float) -> Recommendation | None:
    """By ratios inside a round, as for a workload; None without rows."""
    if not rows:
        return None
    contestants = [Contestant(row.strategy, 0, int(row.strategy != UNCHANGED)) for row in rows]
    verdict = decide(_blocks(rows), contestants, Aim(UNCHANGED, confidence=confidence)).verdict
    unchecked = [row.strategy for row in rows if not row.verified]
    seconds = {row.strategy: row.median_seconds for row in rows}
    return told(recorded(verdict, UNCHANGED), seconds, Preferences(), unit="run", unchecked=unchecked)


def timed(rows: Sequence[ScriptMeasured]) -> tuple[ScriptMeasured, ...]:
    """With the times of runs that the verdict compares."""
    found = times(_blocks(rows))
    return tuple(
        row.model_copy(
            update={
                "median_seconds": (seconds := found[row.strategy]),
                "interval_seconds": tuple(end * seconds / row.median_seconds for end in row.interval_seconds),
            }
        )
        for row in rows
    )


def ratio(
    row: ScriptMeasured, other: ScriptMeasured, rows: Sequence[ScriptMeasured], confidence: float
) -> stats.Ratio:
    """This one's time over the other's, with its interval; `rows` are all of the script's."""
    return paired_ratio(paired(_blocks(rows), [row.strategy, other.strategy]), confidence)


def _blocks(rows: Sequence[ScriptMeasured]) -> list[Block]:
    return [
        Block(process=number, round=0, contestant=row.strategy, place=0, seconds=seconds)
        for row in rows
        for number, seconds in enumerate(row.run_seconds)
    ]
