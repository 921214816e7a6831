"""The words of a verdict, everywhere the same: one sentence that decides, and what it rests on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from advisor import units
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.preferences import Preferences
from advisor.verdicts.final import Verdict, known
from advisor.verdicts.ties import listing


def headline(made: Recommendation) -> str:
    """`use pinned: the fastest`, and so on, in backquotes where a strategy is named."""
    name, bound, among = f"`{made.strategy}`", _percent(made.bound), _among(made)
    if made.strategy is None:
        return "No strategy fits the memory budget" if made.excluded else "No strategy is left to recommend"
    if made.verdict == "untrusted":
        return "This run cannot be trusted: a strategy measured against itself differs"
    if made.verdict == "fastest":
        return f"Use {name}: the fastest{among}"
    if made.verdict == "keep":
        return f"Keep {name}: no other{among} gains more than {bound}"
    if made.verdict == "near":
        return f"Use {name}: at most {bound} from the fastest{among}"
    if made.bound is None:
        return f"Open: {name} looks best, and too little was measured to tell"
    more = f"; about {units.seconds(made.seconds_more)} more would settle it" if made.seconds_more else ""
    return f"Open: {name} is at most {bound} from the fastest{among}{more}"


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
    seconds: Mapping[str, float],
    preferences: Preferences,
    *,
    unit: str = "frame",
    unchecked: Collection[str] = (),
) -> Recommendation:
    """With its reason, in steps, and what to do next. seconds: of one unit under each strategy.

    unchecked: strategies whose results were compared with nothing.
    """
    doubt = f"The results of {made.strategy} could not be compared." if made.strategy in unchecked else ""
    parts = (_takes(made, seconds, unit), _groups(made), _saves(made), _noise(made), doubt)
    steps = tuple(filter(None, (*parts, _memory(made, preferences))))
    return made.model_copy(update={"steps": steps, "reason": " ".join(steps), "next_step": _next(made, unit)})


def _percent(bound: float | None) -> str:
    return f"{max(bound or 0.0, 0.001) * 100:.1f} %"


def _takes(made: Recommendation, seconds: Mapping[str, float], unit: str) -> str:
    if made.strategy is None or made.strategy not in seconds:
        return ""
    takes = f"{made.strategy} takes {units.seconds(seconds[made.strategy])} a {unit}"
    if len(seconds) == 1:
        return f"{takes}; it is the only strategy with figures."
    if made.interval is None or made.speedup is None or made.strategy == made.baseline:
        return f"{takes}."
    low, high = made.interval
    return (
        f"{takes}; {made.baseline} takes {units.ratio(made.speedup)} "
        f"({units.ratio(low)} to {units.ratio(high)}) that time."
    )


def _groups(made: Recommendation) -> str:
    group = next((group for group in made.groups if made.strategy in group), ())
    if len(group) < 2:
        return ""
    return f"{listing(list(group))} are equally fast."


def _saves(made: Recommendation) -> str:
    if not made.saved_bytes or made.saved_bytes <= 0 or made.fastest is None:
        return ""
    return f"It needs {units.size(made.saved_bytes)} less than {made.fastest}."


def _noise(made: Recommendation) -> str:
    if made.verdict != "untrusted" or made.noise is None:
        return ""
    low, high = made.noise
    return f"One strategy under two names took {units.ratio(low)} to {units.ratio(high)} its own time."


def _memory(made: Recommendation, preferences: Preferences) -> str:
    if not made.excluded or preferences.memory_budget_bytes is None:
        return ""
    budget = units.size(preferences.memory_budget_bytes)
    return f"Over the memory budget of {budget}: {listing(list(made.excluded))}."


def _next(made: Recommendation, unit: str) -> str:
    """A unit of a script is a run, which --max-seconds does not limit."""
    script = unit == "run"
    if made.strategy is None and not made.excluded:
        return "See why each strategy left the final, and run again."
    if made.strategy is None:
        return "Give more with --memory-budget, or make the workload's buffers smaller."
    if made.verdict == "untrusted":
        return "Close other programs, fix the clocks, and run again."
    if made.verdict == "open":
        return f"Run again with more {'processes: --rounds' if script else 'time: --max-seconds'}."
    if made.verdict == "keep":
        return f"Keep the {'script' if script else 'code'} as it is."
    if script:
        return f"Set up {made.strategy} at the top of the script, as the report shows."
    return f"Change the code to {made.strategy}."
