"""What BASE promised of a change, and what HEAD that makes it gained: of a strategy, of lines of a script.

A workload runs under every strategy, so the user says which one the code uses: where it alone is compared and
BASE recommended it, HEAD makes the change. Advice on a line is followed where HEAD has no such crossing there
any more, and the advice's rule fires neither there nor on a new line of the file. What is gained is the whole
frame's: several lines have one gain together, and it includes whatever else changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from advisor.profiles.amounts import Interval
from advisor.profiles.crossings import Crossing, Place
from advisor.profiles.schema import Measured, Profile
from advisor.stats import Ratio
from advisor.strategies.registry import BASELINE
from advisor.verdicts.ceilings import Scope, ceiling_of
from advisor.verdicts.comparing.comparisons import DECIDING, Comparison
from advisor.verdicts.comparing.conditions import conditions, differing
from advisor.verdicts.comparing.lines import ComparedFrames, LineComparison
from advisor.verdicts.comparing.results import changed_work
from advisor.verdicts.comparing.rows import ratio_of
from advisor.verdicts.scores import counted


@dataclass(frozen=True)
class Promise:
    """Seconds of a frame that the advice on `places` was to save, and that HEAD saves.

    `tried`: BASE measured the changes of these lines; else the promise is an estimate. `between` holds where
    the 95 % intervals of both frames do.
    """

    places: tuple[Place, ...]
    seconds: float
    tried: bool
    saved: float
    between: Interval


@dataclass(frozen=True)
class PromisedSpeed:
    """The baseline's time in BASE over the strategy's: as BASE promised it, and as HEAD measured it."""

    strategy: str
    baseline: str
    promised: Ratio
    got: Ratio


def promised_speed(comparison: Comparison) -> PromisedSpeed | None:
    """None unless BASE recommended, by time on the same device, the one strategy that is compared."""
    promise = _promise_of(comparison.base, comparison.head, [row.strategy for row in comparison.rows])
    if promise is None:
        return None
    before, now = counted(comparison.base).measured().get(promise.baseline), comparison.rows[0].head
    if before is None or not isinstance(now, Measured):
        return None
    return replace(
        promise, got=ratio_of(now, before, comparison.confidence, seed=comparison.head.method.seed)
    )


def promised_to_versions(
    saved: Profile, head: Profile, strategies: Sequence[str], gains: Mapping[str, Ratio]
) -> PromisedSpeed | None:
    """What a saved profile of BASE promised of the one strategy that the user says HEAD uses, against BASE's
    baseline over HEAD measured side by side (`gains`, by strategy)."""
    promise = _promise_of(saved, head, strategies)
    alike = saved.workload.name == head.workload.name and not changed_work(saved.workload, head.workload)
    if promise is None or not alike or promise.baseline != BASELINE or promise.strategy not in gains:
        return None
    return replace(promise, got=gains[promise.strategy])


def _promise_of(base: Profile, head: Profile, strategies: Sequence[str]) -> PromisedSpeed | None:
    """The promise, as if it were kept, where the one strategy is BASE's choice by time on the same device."""
    advice = base.recommendation
    if not (advice and advice.strategy and advice.baseline and advice.speedup and advice.interval):
        return None
    sound = (
        advice.verdict != "untrusted" and advice.objective == "time" and advice.baseline != advice.strategy
    )
    alike = not any(c.what in DECIDING for c in differing(conditions(base, head)))
    if not (sound and alike and list(strategies) == [advice.strategy]):
        return None
    promised = Ratio(advice.speedup, *advice.interval)
    return PromisedSpeed(advice.strategy, advice.baseline, promised, promised)


def promises(comparison: LineComparison) -> tuple[Promise, ...]:
    """One for each loop in which HEAD follows advice of BASE, where both frames were measured alike."""
    failed = any(side.script and side.script.exit_code for side in (comparison.base, comparison.head))
    if failed or any(c.what in DECIDING for c in differing(comparison.conditions)):
        return ()
    return tuple(filter(None, (_promise(comparison, frames) for frames in comparison.frames)))


def _promise(comparison: LineComparison, frames: ComparedFrames) -> Promise | None:
    before, now = frames.base.loop, frames.head.loop
    if not (before and now and before.frame_seconds and now.frame_seconds):
        return None
    gains = dict(_followed(comparison, frames))
    if not (gains and before.interval_seconds and now.interval_seconds):
        return None
    (low, high), (least, most) = before.interval_seconds, now.interval_seconds
    seconds, tried = _together(comparison.base, frames.base, gains)
    saved = before.frame_seconds - now.frame_seconds
    places = tuple(dict.fromkeys(place for place, _ in gains))
    return Promise(places, seconds, tried, saved, (low - most, high - least))


Followed = tuple[Place, str]
"""A line, and the rule whose advice HEAD follows there: other findings of the line promise nothing of it."""


def _followed(comparison: LineComparison, frames: ComparedFrames) -> Iterator[tuple[Followed, float]]:
    """Advice that HEAD follows, with the gain that the rule promised for all crossings of the line."""
    assert comparison.base.script is not None
    assert comparison.head.script is not None
    crossings, still = dict(frames.base.crossings), {_use(c) for _, c in frames.head.crossings}
    before, now = comparison.base.script.advice, comparison.head.script.advice
    gains: dict[Followed, float] = {}
    for line in before:
        gain, crossing = line.advice.gain, crossings.get(line.crossing)
        if crossing is None or _use(crossing) in still or line.advice.device != comparison.base.device.name:
            continue
        of_rule = (line.advice.rule, line.place.file)
        texts = [
            {a.place.text for a in side if (a.advice.rule, a.place.file) == of_rule} for side in (before, now)
        ]
        fires = texts[1] - (
            texts[0] - {line.place.text}
        )  # in HEAD, there or on a line where it did not in BASE
        if gain and gain.seconds_per_frame and not fires:
            key = line.place, line.advice.rule
            gains[key] = gains.get(key, 0.0) + gain.seconds_per_frame
    yield from gains.items()


def _use(crossing: Crossing) -> tuple[object, ...]:
    """The line and how it moves what it moves."""
    place, how = crossing.place, (crossing.memory, crossing.staged, crossing.non_blocking)
    return place.file, place.text, crossing.kind, *how


def _together(base: Profile, scope: Scope, gains: Mapping[Followed, float]) -> tuple[float, bool]:
    """Seconds of a frame that all lines together promise; whether the changes advised there were tried.

    A patch of just these lines counts before their sum, which is never more than memory can change.
    """
    tried = base.trials if base.trials and base.trials.loop == scope.number else None
    trials = {(t.place, t.rule): t for t in tried.trials if t.outcome == "faster"} if tried else {}
    patch = tried.patch if tried else None
    in_patch = {key for key, t in trials.items() if t.in_patch}
    if patch and patch.speedup and patch.holds and in_patch == set(gains) and scope.seconds:
        return scope.seconds * (1 - 1 / patch.speedup), True
    alone = trials.get(next(iter(gains))) if len(gains) == 1 else None
    if tried and tried.frame_seconds and alone and alone.frame_seconds:
        return tried.frame_seconds - alone.frame_seconds, True
    ceiling = base.script and ceiling_of(base.script, scope)
    return min(sum(gains.values()), ceiling.seconds if ceiling else math.inf), False
