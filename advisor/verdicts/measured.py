"""The verdict over measured rows: never a winner inside the noise.

By time: the fastest; of those tied with it, the smallest footprint; of these, the smallest change of code.
Where one cannot be told from the fastest nobody wins, but one of them is named as the safe choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from advisor import stats, units
from advisor.profiles.preferences import Preferences
from advisor.profiles.schema import Device, Recommendation
from advisor.strategies.registry import BASELINE
from advisor.units import times
from advisor.verdicts.budgets import Ruled, by_memory, nothing_fits
from advisor.verdicts.pairwise import Candidate as Candidate
from advisor.verdicts.pairwise import Contest, contest
from advisor.verdicts.safest import safest
from advisor.verdicts.ties import break_tie, listing, sentence

MORE_ROUNDS = 10
"""Processes to ask for when 3 cannot tell: Student's factor falls from 4.3 to 2.3, the width to a third."""


def recommend(
    rows: Sequence[Candidate],
    *,
    confidence: float = 0.95,
    device: Device | None = None,
    preferences: Preferences | None = None,
) -> Recommendation | None:
    """The verdict over measured rows; None when there are none. `device` only words the next step."""
    wanted = preferences or Preferences()
    if not rows:
        return None
    scored = [row.scored(wanted.objective) for row in rows]
    left, ruled = by_memory(scored, wanted)
    if not left:
        return nothing_fits(rows, wanted, ruled)
    chosen = _chosen(contest(left, confidence, scored), device, alone=len(rows) == 1)
    overlapping = _more_frames(rows, chosen, confidence) if wanted.objective == "time" else []
    return _with(chosen, ruled, overlapping, wanted)


def _chosen(run: Contest, device: Device | None, *, alone: bool) -> Recommendation:
    if len(run.by_name) == 1:
        return _alone(run) if alone else _left(run)
    if run.named("unclear"):
        return _inconclusive(run, device)
    if run.named("tied"):
        return _tie(run)
    return _clear(run)


def _with(
    chosen: Recommendation, ruled: Ruled, more: Sequence[str], preferences: Preferences
) -> Recommendation:
    """With what memory decided before, and what another objective would see."""
    steps = (*ruled.steps, *chosen.steps, *more)
    return chosen.model_copy(
        update={
            "steps": steps,
            "reason": " ".join(steps),
            "objective": preferences.objective,
            "excluded": dict(ruled.excluded),
        }
    )


def _more_frames(rows: Sequence[Candidate], chosen: Recommendation, confidence: float) -> list[str]:
    """That frames which overlap are done more often, though each takes longer from begin to end."""
    winner = next((row for row in rows if row.strategy == (chosen.strategy or chosen.safest)), None)
    told = []
    for row in rows if winner else ():
        if row is winner or row.latency is None or row.strategy in chosen.excluded or winner is None:
            continue
        ratio = stats.ratio_interval(winner.rounds, row.rounds, confidence=confidence)
        if ratio.low > 1:
            told.append(
                f"{row.strategy} finishes {times(ratio)} as many frames per second, each "
                f"{units.seconds(row.latency)} from begin to end: --objective throughput goes by that."
            )
    return told


def _verdict(
    run: Contest,
    winner: Candidate,
    verdict: Literal["clear", "tie"],
    steps: Sequence[str],
    tied: Sequence[str] = (),
) -> Recommendation:
    """A recommendation of one strategy, with its speed-up over the baseline when that ran."""
    speedup = run.speedup(winner)
    told = tuple(filter(None, (*steps, _caveat(run), _unverified(winner))))
    return Recommendation(
        strategy=winner.strategy,
        verdict=verdict,
        speedup=speedup.value if speedup else None,
        interval=(speedup.low, speedup.high) if speedup else None,
        baseline=BASELINE if speedup else None,
        tied_with=tuple(tied),
        reason=" ".join(told),
        next_step=_adopt(winner.strategy),
        steps=told,
    )


def _adopt(strategy: str) -> str:
    return "Keep the code as it is." if strategy == BASELINE else f"Change the code to {strategy}."


def _caveat(run: Contest) -> str:
    if run.rounds > 1:
        return ""
    return "Each strategy ran in one process only: differences between processes are not in the intervals."


def _unverified(winner: Candidate) -> str:
    return "" if winner.verified else f"The results of {winner.strategy} could not be compared."


def _alone(run: Contest) -> Recommendation:
    only = run.best
    reason = (
        f"{only.strategy} is the only strategy with figures ({units.seconds(only.seconds)} a frame): there "
        "is nothing to compare it with."
    )
    recommendation = _verdict(run, only, "clear", [reason])
    step = "See why the other strategies have no figures, and run them too."
    return recommendation.model_copy(update={"next_step": step})


def _left(run: Contest) -> Recommendation:
    """The only one that memory leaves."""
    only, speedup = run.best, run.speedup(run.best)
    reason = f"{only.strategy} is the only one left; it takes {units.seconds(only.seconds)} a frame"
    against = f", {BASELINE} {times(speedup)} that time" if speedup and only.strategy != BASELINE else ""
    return _verdict(run, only, "clear", [f"{reason}{against}."])


def _clear(run: Contest) -> Recommendation:
    best, others = run.best, run.against_best
    second = min(others, key=lambda name: others[name].value)
    takes = f"{best.strategy} takes {units.seconds(best.seconds)} a frame"
    level = units.percent(run.confidence)
    if best.strategy == BASELINE:
        reason = (
            f"Nothing beats the baseline: {takes}, and the next best, {second}, {times(others[second])} that "
            f"time (with its {level} interval)."
        )
        return _verdict(run, best, "clear", [reason])
    rest = f"{second}, the next best, {times(others[second])} that time (with its {level} interval)"
    slower = f", {BASELINE} {times(others[BASELINE])}" if BASELINE in others and second != BASELINE else ""
    return _verdict(run, best, "clear", [f"{takes}; {rest}{slower}."])


def _tie(run: Contest) -> Recommendation:
    equals = [run.best, *run.named("tied")]
    winner, why = break_tie([row.equal for row in equals])
    steps = [_equally_fast(run, equals), sentence(why)]
    if winner == BASELINE:
        steps.append("Nothing beats the baseline by more than that.")
    tied = [row.strategy for row in equals if row.strategy != winner]
    return _verdict(run, run.by_name[winner], "tie", steps, tied)


def _equally_fast(run: Contest, equals: Sequence[Candidate]) -> str:
    """How near the others are to the fastest, by the far end of their intervals in whole percent."""
    ratios = [run.against_best[row.strategy] for row in equals if row is not run.best]
    apart = max(max(ratio.high, 1 / ratio.low) for ratio in ratios) - 1
    percent = max(1, math.ceil(apart * 100 - 1e-9))
    return (
        f"{listing([row.strategy for row in equals])} are equally fast: the fastest, {run.best.strategy}, "
        f"takes {units.seconds(run.best.seconds)} a frame, and the others are within {percent} % of it "
        f"({stats.EQUIVALENCE * 100:g} % counts as equal)."
    )


def _inconclusive(run: Contest, device: Device | None) -> Recommendation:
    unclear, rivals, safe = run.named("unclear"), run.rivals, safest(run)
    ranges = ", ".join(
        f"{row.strategy} takes {times(run.against_best[row.strategy])} the time" for row in unclear
    )
    names = listing([row.strategy for row in rivals])
    who = "They" if any(step.endswith(f": {names}.") for step in safe.steps) else names
    apart = (
        f"{who} cannot be told apart: against "
        f"{run.best.strategy} at {units.seconds(run.best.seconds)} a frame, {ranges}."
    )
    steps = tuple(filter(None, (*safe.steps, apart, _caveat(run))))
    speedup = run.speedup(run.by_name[safe.strategy])
    return Recommendation(
        strategy=None,
        verdict="inconclusive",
        speedup=speedup.value if speedup else None,
        interval=(speedup.low, speedup.high) if speedup else None,
        baseline=BASELINE if run.baseline else None,
        tied_with=tuple(row.strategy for row in rivals),
        reason=" ".join(steps),
        next_step=_measure_better(run, device, safe.strategy),
        steps=steps,
        safest=safe.strategy,
    )


def _measure_better(run: Contest, device: Device | None, safe: str) -> str:
    rounds = MORE_ROUNDS if run.rounds < MORE_ROUNDS else 3 * run.rounds
    integrated = device is not None and (device.memory_class or "").startswith("tegra")
    clocks = "sudo jetson_clocks" if integrated else "sudo nvidia-smi --lock-gpu-clocks=MHZ"
    meanwhile = "Keep the code as it is for now" if safe == BASELINE else f"Take {safe} to be safe"
    return (
        f"{meanwhile}. To know the fastest, run again with --rounds {rounds}, with other programs closed and "
        f"the clocks fixed ({clocks}); if the verdict stays, the difference is too small to matter or this "
        "machine is too noisy to show it."
    )
