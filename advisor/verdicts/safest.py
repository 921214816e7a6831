"""What to use where the measurements cannot tell the best strategies apart: no winner, but a safe choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor import stats, units
from advisor.strategies.registry import BASELINE
from advisor.verdicts.pairwise import Candidate, Contest
from advisor.verdicts.ties import break_tie, change_step, leanest, listing, memory_step


@dataclass(frozen=True)
class Safest:
    """The rival that risks least, and what is known of them all, one sentence each."""

    strategy: str
    steps: tuple[str, ...]


def safest(contest: Contest) -> Safest:
    """The baseline where it is a rival, since nothing is surely faster. Otherwise the least regret.

    Regret is how much longer than another rival's its time may be, by the end of the interval of their ratio;
    the rival whose worst is the least risks least (Savage, "The Theory of Statistical Decision", JASA 46,
    1951). Worsts within the equivalence margin are equal: then memory decides, then the change of code. One
    that may be slower than the baseline is not safe.
    """
    rivals = contest.rivals
    known = (_certain(contest), *_memory_and_change(rivals))
    if any(row.strategy == BASELINE for row in rivals):
        stays = f"{BASELINE} is one of them: no change of code is surely worth it."
        return Safest(BASELINE, tuple(filter(None, (*known, stays))))
    worst = {row.strategy: _worst(contest, row) for row in _surely_faster(contest)}
    least = min(worst.values())
    level = [row for row in rivals if worst.get(row.strategy, least * 9) <= least * (1 + stats.EQUIVALENCE)]
    chosen, _ = break_tie([row.equal for row in level])
    risk = (
        f"{chosen} is the safe choice: whichever of them is the fastest, it takes at most "
        f"{units.ratio(worst[chosen])} that one's time."
    )
    return Safest(chosen, tuple(filter(None, (*known, risk))))


def _surely_faster(contest: Contest) -> list[Candidate]:
    """The rivals that beat the baseline for certain, the fastest always; all of them where it did not run."""
    base = contest.baseline
    sure = [row for row in contest.rivals if base is None or contest.over(base, row).low > 1]
    return sure or [contest.best]


def _worst(contest: Contest, row: Candidate) -> float:
    return max(contest.over(row, other).high for other in contest.rivals if other is not row)


def _certain(contest: Contest) -> str:
    """What holds whichever of them is the best."""
    baseline, rivals = contest.baseline, contest.rivals
    if baseline is None or baseline.strategy in {row.strategy for row in rivals}:
        return ""
    least = min(contest.over(baseline, row).low for row in rivals)
    who = "Both" if len(rivals) == 2 else f"All {len(rivals)}"
    if least > 1:
        return f"{who} are surely faster than {BASELINE}, at least {units.ratio(least)}: {_names(rivals)}."
    sure = _surely_faster(contest)
    return f"{_names(sure)} {'is' if len(sure) == 1 else 'are'} surely faster than {BASELINE}."


def _memory_and_change(rivals: Sequence[Candidate]) -> list[str]:
    """Who needs the least memory, and who changes the least code, where that differs among them."""
    told = [f"{memory_step(rivals)}."] if len(leanest(rivals)) < len(rivals) else []
    equals = [row.equal for row in rivals]
    if len({row.code_change for row in equals}) > 1:
        told.append(f"{change_step(equals)}.")
    return told


def _names(rows: Sequence[Candidate]) -> str:
    return listing([row.strategy for row in rows])
