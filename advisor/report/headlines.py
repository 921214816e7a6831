"""A recommendation in words: the headline and the interval behind it."""

from __future__ import annotations

from advisor import units
from advisor.profiles.schema import Recommendation
from advisor.report import words
from advisor.stats import EQUIVALENCE

_BY = " by these measurements"
NAMED = 3
"""More strategies than these are counted in a headline, not named."""


def headline(chosen: Recommendation, *, predicted: bool = False) -> str:
    """What to use and why, in one line; of a bet it says that it is one."""
    if chosen.strategy is None:
        return f"{undecided(chosen)}{'' if predicted or chosen.safest or chosen.excluded else _BY}"
    strategy, kept = words.code(chosen.strategy), chosen.strategy == chosen.baseline
    if chosen.verdict == "inconclusive":
        # A prediction whose ranges overlap still names its bet; it must not read as a verdict.
        return ", ".join(filter(None, (f"Likely {strategy}", "" if kept else _faster(chosen))))
    tied = f"tied with {_rivals(chosen.tied_with)}" if chosen.tied_with else ""
    lean = "the least memory" if chosen.objective == "footprint" else ""
    if kept:
        return f"Keep {strategy}: {tied or lean or f'nothing {_tried(predicted)} is faster'}"
    why = ", ".join(filter(None, (lean, tied, _faster(chosen, "likely " if predicted else ""))))
    return f"Use {strategy}: {why}" if why else f"Use {strategy}"


def _tried(predicted: bool) -> str:
    return "predicted" if predicted else "tried"


def uncapitalised(sentence: str) -> str:
    """For the middle of another sentence."""
    return sentence[:1].lower() + sentence[1:]


def undecided(chosen: Recommendation) -> str:
    """That the best strategies cannot be told apart, and which of them is safe, or that none fits."""
    if chosen.safest:
        return _safe(chosen.safest, chosen)
    if chosen.excluded and not chosen.tied_with:
        return "No strategy fits the memory budget"
    if len(chosen.tied_with) > NAMED:
        return f"{len(chosen.tied_with)} strategies cannot be told apart"
    if len(chosen.tied_with) > 1:
        return f"{names(chosen.tied_with)} cannot be told apart"
    return "The best strategy cannot be told"


def _safe(safest: str, chosen: Recommendation) -> str:
    """The safe choice with what is certain of it first, where it surely gains something."""
    safe, among = words.code(safest), f"No clear winner among {len(chosen.tied_with)}"
    if safest == chosen.baseline:
        return f"{among}: keep {safe} for now"
    if chosen.interval is None or chosen.interval[0] <= 1:
        return f"{among}: {safe} is the safe choice"
    rivals = tuple(name for name in chosen.tied_with if name != safest)
    return f"{safe} is the safe choice: {_faster(chosen)}; {_rivals(rivals)} may be as good"


def _rivals(strategies: tuple[str, ...]) -> str:
    return names(strategies) if len(strategies) <= NAMED else f"{len(strategies)} others"


def names(strategies: tuple[str, ...]) -> str:
    """`a` and `b`."""
    return words.listing(map(words.code, strategies))


def _faster(chosen: Recommendation, likely: str = "") -> str:
    if chosen.speedup is None or chosen.baseline is None:
        return ""
    low, high = chosen.interval or (chosen.speedup, chosen.speedup)
    if low <= 1 <= high and abs(chosen.speedup - 1) <= EQUIVALENCE:
        return f"as fast as {words.code(chosen.baseline)}"
    direction = "faster than" if chosen.speedup >= 1 else "the speed of"
    if chosen.objective == "throughput":
        direction = "the frames per second of"
    return f"{likely}{units.ratio(chosen.speedup)} {direction} {words.code(chosen.baseline)}"


def certainty_of(chosen: Recommendation, kind: str) -> str:
    """The interval of the gain; nothing where nothing is gained."""
    if chosen.interval is None or (chosen.strategy or chosen.safest) in (None, chosen.baseline):
        return ""
    return f"{kind} {words.ratio_between(*chosen.interval)}"
