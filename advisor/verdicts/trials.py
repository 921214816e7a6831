"""Results of trials from their blocks: each change's speedup over the unchanged script, with 95 %."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from advisor import stats
from advisor.profiles.trials import Trial, TrialBlock
from advisor.verdicts.estimate import SUPPOSED_NOISE, Block, paired, times
from advisor.verdicts.final import known, ratio

AS_IS = "as-is"
"""The contestant that is the unchanged script."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class TrialTimes:
    """Seconds of a frame by contestant, and each change's speed-up over the script as it is."""

    seconds: Mapping[str, float]
    speedups: Mapping[str, stats.Ratio]


def trial_times(blocks: Iterable[TrialBlock], alone: Collection[str] = ()) -> TrialTimes:
    """All intervals hold at once (Bonferroni). alone: contestants that had separate processes, so that
    what a process draws is in their intervals.

    A contestant without a block in a round of the script as it is has no speed-up.
    """
    timed = [Block(b.process, b.round, b.contestant, b.place, b.seconds / b.frames, b.frames) for b in blocks]
    names = list(dict.fromkeys([AS_IS, *(block.contestant for block in timed)]))
    seconds = times(timed)
    if AS_IS not in seconds or len(names) < 2:
        return TrialTimes(seconds, {})
    pairs = paired(timed, names, alone=alone, supposed_noise=SUPPOSED_NOISE)
    certainty = 1 - (1 - CONFIDENCE) / (len(names) - 1)
    speedups = {name: ratio(pairs.among([AS_IS, name]), certainty) for name in names[1:]}
    return TrialTimes(seconds, {name: one for name, one in speedups.items() if known(one)})


def judged(
    trials: Sequence[Trial],
    measured: TrialTimes,
    differing: Mapping[str, str],
    dropped: Mapping[str, str] | None = None,
    untimed: str = "the loop has too few frames: run it with more",
) -> tuple[Trial, ...]:
    """The trials with their figures and outcomes. differing: those with other results, in words. dropped:
    those that a first process left out, with the reason. untimed: why others have no figures."""
    left_out = dropped or {}
    return tuple(
        _judged(trial, measured, differing.get(trial.name, ""), left_out.get(trial.name, ""), untimed)
        for trial in trials
    )


def _judged(trial: Trial, measured: TrialTimes, difference: str, dropped: str, untimed: str) -> Trial:
    if trial.outcome == "refused":
        return trial
    speedup = measured.speedups.get(trial.name)
    figures: dict[str, object] = {"frame_seconds": measured.seconds.get(trial.name)}
    if speedup is not None:
        figures |= {"speedup": speedup.value, "interval": (speedup.low, speedup.high)}
    if difference:
        return trial.model_copy(update={**figures, "outcome": "differs", "reason": difference})
    if dropped and figures["frame_seconds"] is not None:
        return trial.model_copy(update={**figures, "outcome": "not-faster", "reason": dropped})
    if speedup is None:
        return trial.model_copy(update={**figures, "outcome": "open", "reason": untimed})
    sure = speedup.low > 1
    settled = sure or speedup.high < 1 + _LEAST_GAIN
    outcome = "faster" if sure else "not-faster" if settled else "open"
    return trial.model_copy(update={**figures, "outcome": outcome})


_LEAST_GAIN = 0.01
"""A gain whose interval ends below this is none: 1 % is the least that our clock's blocks tell apart
(decisions/0010)."""
