"""The reason that a verdict is saved with, in steps, and what to do next. Headlines are the report's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from advisor import units
from advisor.profiles.conclusions import Objective, Preferences, Recommendation
from advisor.profiles.figures import Block, Search
from advisor.profiles.schema import Failed, Measured, Predicted, Prediction, Profile
from advisor.verdicts.choice import SAME_MEMORY, Sized
from advisor.verdicts.scores import bytes_of

TELLING = 1.0
"""A bound on the gain of mixes from which nothing is said of it: twice as fast."""

_CONFIRM = "Run `advisor profile` on the device to confirm."
_NOTHING_FITS = "Raise --memory-budget, or make the workload's buffers smaller."


@dataclass(frozen=True)
class Counted:
    """The figure that an objective counts, in words."""

    noun: str = "time"
    equal: str = "equally fast"
    takes: str = "{figure} a frame"
    written: Callable[[float], str] = units.seconds
    lacking: str = "No strategy is left to recommend"
    """The headline where no row has a figure of it."""
    remedy: str = "Check why each strategy left the final, then run again."

    @property
    def better(self) -> str:
        return "faster" if self.noun == "time" else "better"

    @property
    def worse(self) -> str:
        return "slower" if self.noun == "time" else "worse"


_COUNTED: dict[Objective, Counted] = {
    "latency-p99": Counted(
        noun="99th percentile",
        equal="equal in their 99th percentiles",
        takes="{figure} or less in 99 % of the frames",
        lacking="Undecided: too few frames were timed for a 99th percentile",
        remedy="Run again with --objective latency-p99 for longer blocks, or with a larger --max-seconds.",
    ),
    "energy": Counted(
        noun="energy",
        equal="equal in energy",
        takes="{figure} a frame above idle power",
        written=units.joules,
        lacking="Undecided: no energy was measured",
        remedy="Each row gives the reason. If time ran out, run again with a larger --max-seconds.",
    ),
}


def counted(objective: Objective) -> Counted:
    """Mean times, but for what is named above."""
    return _COUNTED.get(objective, Counted())


def with_reason(
    result: Recommendation,
    figures: Mapping[str, float],
    preferences: Preferences,
    *,
    before: str = "",
    after: Sequence[str] = (),
    predicted: bool = False,
) -> Recommendation:
    """The recommendation with its reason, in steps, and what to do next.

    figures: what counts of a frame under each strategy. before: how memory ruled others out.
    after: what else is known of the choice.
    """
    parts = (
        before,
        _takes(result, figures, predicted),
        _groups(result, predicted),
        _saves(result),
        _noise(result),
    )
    over, budget = list(result.excluded), preferences.memory_budget_bytes
    without = f"Over the memory budget of {units.size(budget)}: {listing(over)}." if over and budget else ""
    steps = filter(None, (*parts, *after, without))
    return _with_steps(result, *steps, next_step=_CONFIRM if predicted else _next(result))


def _with_steps(result: Recommendation, *steps: str, **changes: object) -> Recommendation:
    every = (*result.steps, *steps)
    return result.model_copy(update={**changes, "steps": every, "reason": " ".join(every)})


def with_mixes(result: Recommendation, gained: Mapping[str, float], search: Search | None) -> Recommendation:
    """The recommendation with a line on mixes, where they were searched and none is recommended.

    gained: the most that mixes of the final gain, by its blocks; all others count by those of the search.
    """
    if search is None or not search.tried:
        return result
    bound = max(0.0, *gained.values(), *(one.most - 1 for one in search.tried if one.name not in gained))
    tried, untried = len(search.tried), search.mixes - len(search.tried)
    line = f"{tried} of {search.mixes} mixes measured" if untried > 0 else f"All {tried} mixes measured"
    if bound < TELLING:
        line += f"; none is more than {shown_bound(bound)} {counted(result.objective).better}"
    else:
        line += "; too few blocks to bound their gain"
    early = f" ({search.reason})" if search.reason else ""
    line += f"; {untried} were not tried{early}." if untried > 0 else "."
    return _with_steps(result, line)


def by_screening(result: Recommendation, times: float) -> Recommendation:
    line = f"In screening every other took at least {units.ratio(times)} as long, so no final was held."
    decided = _with_steps(result, line, verdict="fastest", bound=0.0, tied_with=())
    return decided.model_copy(update={"next_step": _next(decided)})


def shown_bound(bound: float | None) -> str:
    return f"{max(bound or 0.0, 0.001) * 100:.1f} %"


def _takes(result: Recommendation, figures: Mapping[str, float], predicted: bool) -> str:
    if result.strategy is None or result.strategy not in figures:
        return ""
    how = counted(result.objective)
    figure = how.written(figures[result.strategy])
    verb = "is predicted to take" if predicted else "takes"
    takes = f"{result.strategy} {verb} {how.takes.format(figure=figure)}"
    if len(figures) == 1:
        return f"{takes}; it is the only strategy with figures."
    if result.interval is None or result.speedup is None or result.strategy == result.baseline:
        return f"{takes}."
    between = " to ".join(map(units.ratio, result.interval))
    return f"{takes}; {result.baseline} takes {units.ratio(result.speedup)} ({between}) the {how.noun}."


def _groups(result: Recommendation, predicted: bool) -> str:
    group = next((group for group in result.groups if result.strategy in group), ())
    if len(group) < 2:
        return ""
    return f"{listing(list(group))} are {'predicted ' * predicted}{counted(result.objective).equal}."


def _saves(result: Recommendation) -> str:
    """Which tie-breaker chose it over the fastest."""
    if result.fastest in (None, result.strategy):
        return ""
    if result.saved_bytes and result.saved_bytes > 0:
        return f"It needs {units.size(result.saved_bytes)} less than {result.fastest}."
    smaller = f"{result.strategy} needs a smaller code change than {result.fastest}."
    return smaller if result.verdict == "near" else ""


def _noise(result: Recommendation) -> str:
    if result.verdict != "untrusted" or result.noise is None:
        return ""
    between = " to ".join(map(units.ratio, result.noise))
    noun = counted(result.objective).noun
    return (
        f"The control, one strategy measured under two names, differs from itself: {between} its own {noun}."
    )


def _next(result: Recommendation) -> str:
    if result.strategy is None and not result.excluded:
        return counted(result.objective).remedy
    if result.strategy is None:
        return _NOTHING_FITS
    if result.verdict == "untrusted":
        return "Close other programs and run again. The advice lists what varied."
    if result.verdict == "open":
        return "Run again with a larger --max-seconds."
    if result.verdict == "keep":
        return "Keep the code unchanged."
    return f"Change the code to {result.strategy}."


def needs(row: Sized) -> str:
    return f"needs {units.size(row.physical_bytes)}"


def least_memory(result: Recommendation, rows: Sequence[Measured | Predicted]) -> str:
    """Reasons by footprint: what the chosen one needs, and which need less and cannot be chosen."""
    if result.objective != "footprint" or result.strategy is None:
        return ""
    needed = {row.strategy: bytes_of(row) or 0 for row in rows}
    least = needed[result.strategy] / (1 + SAME_MEMORY)
    less = (row for row in rows if isinstance(row, Measured) and needed[row.strategy] < least and row.outside)
    but = "".join(f"; {row.strategy} {needs(row.footprint)}, but it {row.outside}" for row in less)
    return f"{result.strategy} needs {units.size(needed[result.strategy])}{but}."


def nothing_fits(rows: Sequence[Predicted], preferences: Preferences) -> Recommendation:
    budget = preferences.memory_budget_bytes or 0
    least = min(rows, key=lambda row: row.physical_bytes)
    excluded = {row.strategy: needs(row) for row in rows}
    none = Recommendation(strategy=None, verdict="open", reason="", excluded=excluded)
    which = f"the smallest, {least.strategy}, {needs(least)}"
    reason = f"No strategy fits the memory budget of {units.size(budget)}: {which}."
    return _with_steps(none, reason, next_step=_NOTHING_FITS, objective=preferences.objective)


def listing(names: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


Doubt = Literal["", "failed", "host only", "alone"]
"""failed: a prediction of a workload that failed here under every strategy. host only: no stage of a frame
runs on the device. alone: one strategy has figures."""
FEWEST_BLOCKS = 6
"""A standard deviation from fewer is off by a third."""
WORTH_TELLING = 0.01
"""Share of a frame: less host noise decides nothing."""


def all_failed(profile: Profile) -> bool:
    status = {row.status for row in profile.results}
    return "failed" in status and "measured" not in status


def failed_rows(profile: Profile) -> list[Failed]:
    return [row for row in profile.results if isinstance(row, Failed)]


def doubt(profile: Profile, prediction: Prediction | None = None) -> Doubt:
    """The reason to doubt the verdict over the measured rows, or that of one prediction."""
    if not profile.workload.frame_stages("device"):
        return "host only"
    if prediction is not None and all_failed(profile):
        return "failed"
    rows = prediction.results if prediction else profile.results
    return "alone" if sum(isinstance(row, (Measured, Predicted)) for row in rows) == 1 else ""


def asked_for_one(profile: Profile, prediction: Prediction | None = None) -> bool:
    """Whether there is one strategy only since no other was asked for."""
    return len(prediction.results if prediction else profile.results) == 1


def undoubted(profile: Profile) -> Profile:
    """The profile without the recommendations that are in doubt, so that no table or chart marks them."""
    silent = {"recommendation": None}
    predictions = (p.model_copy(update=silent) if doubt(profile, p) else p for p in profile.predictions)
    recommendation = None if doubt(profile) else profile.recommendation
    return profile.model_copy(update={"recommendation": recommendation, "predictions": tuple(predictions)})


@dataclass(frozen=True)
class Noise:
    """Standard deviations between blocks, as shares of a frame: of all host stages together, and of the rest.

    `stage` is the host stage that varies most.
    """

    host: float
    rest: float
    stage: str

    @property
    def is_the_hosts(self) -> bool:
        """Host stages vary more than all else: as a rule by where their memory lies."""
        return self.host > max(self.rest, WORTH_TELLING)


def noise_of(blocks: Iterable[Block], contestant: str) -> Noise | None:
    """One contestant's noise; None with too few blocks, or overlapping frames, whose parts do not add up."""
    mine = [block for block in blocks if block.contestant == contestant and block.host_seconds]
    if len(mine) < FEWEST_BLOCKS or any(block.latency_seconds is not None for block in mine):
        return None
    frames = np.array([block.period_seconds for block in mine])
    hosts = np.array([sum(block.host_seconds.values()) for block in mine])
    names = sorted({name for block in mine for name in block.host_seconds})
    spread = {name: float(np.std([b.host_seconds.get(name, 0.0) for b in mine])) for name in names}
    mean = float(frames.mean())
    host, rest = (float(part.std(ddof=1)) / mean for part in (hosts, frames - hosts))
    return Noise(host, rest, max(spread, key=spread.__getitem__))
