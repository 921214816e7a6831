"""The verdict over measured rows: from the final's blocks, or from separate processes where none was held."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from advisor import stats
from advisor.profiles import figures as saved
from advisor.profiles.conclusions import Objective, Preferences, Recommendation, counts_latency
from advisor.profiles.figures import FinalRecord
from advisor.profiles.schema import Measured, Predicted, Profile
from advisor.strategies.registry import BASELINE
from advisor.verdicts.choice import Contestant, code_change, leanest, most_gained, within
from advisor.verdicts.estimate import Pairs, paired, unpaired
from advisor.verdicts.final import FEWEST_PROCESSES, Alias, Decision, Pace, Step, decide, judge, ratio
from advisor.verdicts.reasons import by_screening, least_memory, with_mixes, with_reason
from advisor.verdicts.scores import counted_row, figure_of, figures_of, percentile, rounds_of_a_score, scores

SCREENED = "screened out"
"""How the reason of a row begins that screening kept from the final."""


def recommend(profile: Profile) -> Recommendation | None:
    """The verdict of a measured profile by its own preferences; None without measured rows.

    Rows that took part in no final do not compete where there was one: they were slower by more than that
    could change, or left it.
    """
    rows, preferences = list(profile.measured().values()), profile.preferences
    if not rows:
        return None
    final = profile.final if profile.blocks else None
    contestants = _contestants(rows, final)
    decision = decided(profile.blocks, rows, preferences, final) if final else _separate(rows, preferences)
    if final and preferences.objective == "footprint" and decision.verdict.strategy is None:
        # The least memory was screened out, for its time: time decides as far as screening knows it.
        remaining = [one for one in contestants if not one.left]
        lean = {one.name for one in leanest(within(remaining, preferences.memory_budget_bytes))}
        least = [row for row in rows if row.strategy in lean]
        decision = _separate(least, preferences) if lean else decision
    result, by_name = decision.verdict, {row.strategy: row for row in rows}
    chosen = by_name.get(result.strategy or "")
    doubts = [f"The results of {result.strategy} could not be compared."] * bool(
        chosen and not chosen.verified
    )
    figures, memory = figures_of(rows, preferences.objective), least_memory(result, rows)
    result = with_reason(result, figures, preferences, before=memory, after=doubts)
    ahead = _ahead(profile, result)
    if ahead is not None:
        return with_mixes(by_screening(result, ahead), {}, profile.search)
    if final is None or chosen is None or chosen.placements:
        return result
    gained = most_gained(scores(profile.blocks, preferences.objective), contestants, final.share)
    return with_mixes(result, gained, profile.search)


def _ahead(profile: Profile, result: Recommendation) -> float | None:
    """By how much the quickest other strategy is slower than the chosen one, where screening left that one
    alone: all others are so far behind that no final was held."""
    rows, objective = profile.measured(), profile.preferences.objective
    if profile.blocks or result.verdict != "open" or result.excluded or objective in ("energy", "footprint"):
        return None
    inside = [name for name, row in rows.items() if not row.outside.startswith(SCREENED)]
    times = figures_of(list(rows.values()), objective)
    chosen = times.pop(result.strategy or "", None)
    return min(times.values()) / chosen if inside == [result.strategy] and chosen and times else None


def compared(profile: Profile) -> Pairs:
    """How far the measured rows are apart in what the objective counts."""
    objective, rows, final = profile.preferences.objective, profile.measured(), profile.final
    if final is None or not profile.blocks:
        return _apart(list(rows.values()), objective)
    scored = scores(profile.blocks, objective)
    finalists = {block.contestant for block in scored}
    remaining = finalists & final.contestants.keys() - final.left.keys()
    names = [name for name in rows if name in remaining]
    return paired(scored, names, final.alone)


def decided(
    blocks: Iterable[saved.Block], rows: Sequence[Measured], preferences: Preferences, final: FinalRecord
) -> Decision:
    """The decision from the blocks of a final. Steps are in rounds of blocks, whatever is counted."""
    listed = tuple(blocks)
    scored, objective = scores(listed, preferences.objective), preferences.objective
    each = rounds_of_a_score(listed, objective)
    contestants = _contestants(rows, final)
    alias = Alias(final.alias, final.contestants[final.alias]) if final.alias in final.contestants else None
    pace = Pace(final.process_seconds, final.round_seconds * each) if final.round_seconds else None
    decision = decide(scored, contestants, preferences, final.share, alias=alias, pace=pace)
    step = Step(FEWEST_PROCESSES, 1) if pace and not scored else decision.step
    return replace(decision, step=step and Step(step.processes, step.rounds * each))


def _separate(rows: Sequence[Measured], preferences: Preferences) -> Decision:
    pairs = _apart(rows, preferences.objective)
    return judge(pairs, _contestants(rows, None), preferences)


def _apart(rows: Sequence[Measured], objective: Objective) -> Pairs:
    rounds = {row.strategy: _rounds(row, objective) for row in rows}
    return unpaired({name: each for name, each in rounds.items() if each})


def _rounds(row: Measured, objective: Objective) -> tuple[tuple[float, ...], ...]:
    """Times that count of each process; frames that overlap count by their median latency alone."""
    if objective == "energy":
        return ()
    if objective == "latency-p99":
        overlaps = row.latency_seconds is not None or row.samples == "blocks"
        figures = () if overlaps else tuple(percentile(frames) for frames in row.rounds)
        return tuple((seconds,) for seconds in figures if seconds is not None)
    return (counted_row(row) if counts_latency(objective) else row).rounds


def _contestants(rows: Iterable[Measured], final: FinalRecord | None) -> list[Contestant]:
    """All rows: those without a block do not compete, but for the least memory."""
    return [
        Contestant(
            row.strategy,
            row.footprint.physical_bytes,
            code_change(row),
            row.placements,
            left=final is not None and row.strategy in final.left,
            dropped=final is not None and row.strategy in final.dropped,
            alone=final is not None and row.strategy in final.alone,
        )
        for row in rows
    ]


# How much faster than the baseline each strategy is


def baseline(profile: Profile) -> Measured | None:
    """Base of ratios and break-even: the recommendation's baseline, else `pageable`."""
    named = profile.recommendation.baseline if profile.recommendation else None
    return profile.measured().get(named or BASELINE)


def speeds(profile: Profile) -> dict[str, stats.Ratio]:
    """The baseline's figure over that of each row, with intervals where the two were compared."""
    base, pairs = baseline(profile), compared(profile)
    if base is None:
        return {}
    objective = profile.preferences.objective
    chosen = profile.recommendation
    ratios = {}
    for name, row in profile.measured().items():
        above, below = figure_of(base, objective), figure_of(row, objective)
        if chosen and chosen.strategy == name != base.strategy and chosen.speedup and chosen.interval:
            ratios[name] = stats.Ratio(chosen.speedup, *chosen.interval)
        elif {base.strategy, name} <= set(pairs.names):
            ratios[name] = ratio(pairs.among([base.strategy, name]), profile.method.confidence)
        elif above and below:  # no final compared them
            ratios[name] = _plain(above[0], below[0])
    return ratios


def _plain(above: float, below: float) -> stats.Ratio:
    return stats.Ratio(above / below, 0.0, math.inf)


def predicted_speed(base: Predicted, row: Predicted) -> stats.Ratio:
    """The baseline's likely time over this row's, with its range where that is known."""
    plain = _plain(base.likely_seconds, row.likely_seconds)
    over = row.over.get(base.strategy)
    return stats.Ratio(plain.value, 1 / over[1], 1 / over[0]) if over else plain
