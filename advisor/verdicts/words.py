"""The words of a verdict, everywhere the same: one sentence that decides, and what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from advisor import units
from advisor.profiles.blocks import Search
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.preferences import Objective, Preferences
from advisor.verdicts.final import Verdict, known
from advisor.verdicts.ties import listing

_NAMED = 3
"""Buffers of a mix in a headline."""
TELLING = 1.0
"""A bound on the gain of mixes from which nothing is said of it: twice as fast."""


@dataclass(frozen=True)
class Counted:
    """What an objective counts, in words."""

    noun: str = "time"
    best: str = "the fastest"
    equal: str = "equally fast"
    takes: str = "takes {figure} a {unit}"
    """A unit is a frame, or a run of a script."""
    written: Callable[[float], str] = units.seconds
    lacking: str = "No strategy is left to recommend"
    """The headline where no row has a figure of it."""
    remedy: str = "Check why each strategy left the final, then run again."


_COUNTED: dict[Objective, Counted] = {
    "latency-p99": Counted(
        noun="99th percentile",
        best="the lowest 99th percentile",
        equal="equal in their 99th percentiles",
        takes="takes {figure} or less in 99 % of the {unit}s",
        lacking="Open: too few frames were timed for a 99th percentile",
        remedy="Run again with --objective latency-p99 for longer blocks, or raise --max-seconds.",
    ),
    "energy": Counted(
        noun="energy",
        best="the least energy",
        equal="equal in energy",
        takes="takes {figure} a {unit} above idle power",
        written=units.joules,
        lacking="Open: no energy was measured",
        remedy="Each row gives the reason. If time ran out, raise --max-seconds and run again.",
    ),
}


def counted(objective: Objective) -> Counted:
    """Mean times, but for what is named above."""
    return _COUNTED.get(objective, Counted())


def headline(made: Recommendation, gain: str = "") -> str:
    """`use pinned: the fastest`, what it gains, and the mix that it is preferred to; names in backquotes."""
    return f"{', '.join(filter(None, (_decided(made), gain)))}{_simpler(made)}"


def _simpler(made: Recommendation) -> str:
    """That a uniform strategy is a preference where a mix is faster, or may be and that leaves it open."""
    mix = made.faster_mix
    if mix is None or made.verdict == "untrusted" or (made.verdict != "open" and mix.interval[0] <= 1):
        return ""
    low, high = (_points(end) for end in mix.interval)
    looks = "is" if mix.interval[0] > 1 else "looks"
    where = f" for {listing([f'`{name}`' for name in mix.buffers])}" if 0 < len(mix.buffers) <= _NAMED else ""
    faster = f"{_points(mix.ratio)} % faster ({low} to {high})"
    return f"; simplest: the mix `{mix.strategy}`, with a placement of its own{where}, {looks} {faster}"


def _points(ratio: float) -> str:
    """1.092 is 9, in percent."""
    return f"{(ratio - 1) * 100:.0f}".replace("-", "\N{MINUS SIGN}")


def _decided(made: Recommendation) -> str:
    name, bound, among = f"`{made.strategy}`", _percent(made.bound), _among(made)
    best = counted(made.objective).best
    if made.strategy is None:
        fits = "No strategy fits the memory budget"
        return fits if made.excluded else counted(made.objective).lacking
    if made.verdict == "untrusted":
        return "This run cannot be trusted: a strategy measured twice differs from itself"
    if made.objective == "footprint" and made.groups == ((made.strategy,),):
        return f"{'Keep' if made.verdict == 'keep' else 'Use'} {name}: it needs the least memory"
    if made.verdict == "fastest":
        return f"Use {name}: {best}{among}"
    if made.verdict == "keep":
        return f"Keep {name}: no other{among} gains more than {bound}"
    if made.verdict == "near":
        return f"Use {name}: at most {bound} from {best}{among}"
    if made.bound is None:
        return f"Open: {name} looks best, but there are too few measurements to tell"
    more = f"; about {units.seconds(made.seconds_more)} more would settle it" if made.seconds_more else ""
    return f"Open: {name} is at most {bound} from {best}{among}{more}"


def _among(made: Recommendation) -> str:
    """Whom time was compared among, where memory ruled out others, which may be faster."""
    if made.objective == "footprint":
        return " of those with the least memory"
    return " that fits the memory budget" if made.excluded else ""


def recorded(verdict: Verdict, baseline: str) -> Recommendation:
    """The verdict as it is saved, before it has words; `baseline` is what its speedup is over."""
    group = next((group for group in verdict.groups if verdict.chosen in group), ())
    return Recommendation(
        strategy=verdict.chosen,
        verdict=verdict.kind,
        bound=verdict.bound,
        speedup=verdict.speedup.value if verdict.speedup else None,
        interval=known(verdict.speedup),
        baseline=baseline if verdict.speedup else None,
        tied_with=tuple(name for name in (verdict.undecided or group) if name != verdict.chosen),
        groups=verdict.groups,
        reason="",
    )


def told(
    made: Recommendation,
    figures: Mapping[str, float],
    preferences: Preferences,
    *,
    unit: str = "frame",
    memory: str = "",
    unchecked: Collection[str] = (),
) -> Recommendation:
    """With its reason, in steps, and what to do next. figures: what counts of a unit under each strategy.

    memory: what the objective footprint goes by. unchecked: strategies whose results were not compared.
    """
    doubt = f"The results of {made.strategy} could not be compared." if made.strategy in unchecked else ""
    parts = (memory, _takes(made, figures, unit), _groups(made), _saves(made), _noise(made), doubt)
    steps = tuple(filter(None, (*parts, _memory(made, preferences))))
    return made.model_copy(update={"steps": steps, "reason": " ".join(steps), "next_step": _next(made, unit)})


def with_mixes(made: Recommendation, bound: float | None, search: Search | None) -> Recommendation:
    """With the line on mixes, where they were searched and none is recommended."""
    if bound is None or search is None:
        return made
    tried, left = len(search.tried), search.mixes - len(search.tried)
    which = f"{tried} of {search.mixes} mixes" if left > 0 else f"{tried} mixes, which are all,"
    if bound < TELLING:
        line = f"None of the {which} that were measured is better by more than {_percent(bound)}"
    else:
        line = f"Too few measurements to tell what the {which} that were measured gain"
    early = f" ({search.reason})" if search.reason else ""
    line += f"; {left} were not tried{early}." if left > 0 else "."
    steps = (*made.steps, line)
    told = bound if bound < TELLING else None
    return made.model_copy(update={"mix_bound": told, "steps": steps, "reason": " ".join(steps)})


def by_screening(made: Recommendation, times: float) -> Recommendation:
    """Named by screening: every other strategy took at least that many times as long."""
    line = f"In screening every other took at least {units.ratio(times)} as long, so no final was held."
    steps = (*made.steps, line)
    decided = {"verdict": "fastest", "bound": 0.0, "tied_with": (), "next_step": ""}
    named = made.model_copy(update={**decided, "steps": steps, "reason": " ".join(steps)})
    return named.model_copy(update={"next_step": _next(named, "frame")})


def _percent(bound: float | None) -> str:
    return f"{max(bound or 0.0, 0.001) * 100:.1f} %"


def _takes(made: Recommendation, figures: Mapping[str, float], unit: str) -> str:
    if made.strategy is None or made.strategy not in figures:
        return ""
    how = counted(made.objective)
    figure = how.written(figures[made.strategy])
    takes = f"{made.strategy} {how.takes.format(figure=figure, unit=unit)}"
    if len(figures) == 1:
        return f"{takes}; it is the only strategy with figures."
    if made.interval is None or made.speedup is None or made.strategy == made.baseline:
        return f"{takes}."
    low, high = made.interval
    return (
        f"{takes}; {made.baseline} takes {units.ratio(made.speedup)} "
        f"({units.ratio(low)} to {units.ratio(high)}) the {how.noun}."
    )


def _groups(made: Recommendation) -> str:
    group = next((group for group in made.groups if made.strategy in group), ())
    if len(group) < 2:
        return ""
    return f"{listing(list(group))} are {counted(made.objective).equal}."


def _saves(made: Recommendation) -> str:
    if not made.saved_bytes or made.saved_bytes <= 0 or made.fastest is None:
        return ""
    return f"It needs {units.size(made.saved_bytes)} less than {made.fastest}."


def _noise(made: Recommendation) -> str:
    if made.verdict != "untrusted" or made.noise is None:
        return ""
    low, high = made.noise
    noun = counted(made.objective).noun
    return (
        f"The control, one strategy measured under two names, differs from itself: {units.ratio(low)} to "
        f"{units.ratio(high)} its own {noun}."
    )


def _memory(made: Recommendation, preferences: Preferences) -> str:
    if not made.excluded or preferences.memory_budget_bytes is None:
        return ""
    budget = units.size(preferences.memory_budget_bytes)
    return f"Over the memory budget of {budget}: {listing(list(made.excluded))}."


def _next(made: Recommendation, unit: str) -> str:
    """A unit of a script is a run, which --max-seconds does not limit."""
    script = unit == "run"
    if made.strategy is None and not made.excluded:
        return counted(made.objective).remedy
    if made.strategy is None:
        return "Raise --memory-budget, or make the workload's buffers smaller."
    if made.verdict == "untrusted":
        return "Close other programs and run again. The advice lists what varied."
    if made.verdict == "open":
        return f"Raise {'--rounds' if script else '--max-seconds'} and run again."
    if made.verdict == "keep":
        return f"Keep the {'script' if script else 'code'} unchanged."
    if script:
        return f"Set up {made.strategy} at the top of the script, as shown in the report."
    return f"Change the code to {made.strategy}."
