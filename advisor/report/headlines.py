"""A recommendation in words: the headline and the interval behind it."""

from __future__ import annotations

from typing import Literal

from advisor import units
from advisor.profiles.schema import Recommendation
from advisor.report import words
from advisor.stats import EQUIVALENCE
from advisor.verdicts.words import counted
from advisor.verdicts.words import headline as verdict_headline

NAMED = 3
"""More strategies than these are counted in a headline, not named."""
TONES: dict[str, Literal["clear", "tie", "inconclusive"]] = {
    "fastest": "clear",
    "near": "tie",
    "keep": "tie",
    "open": "inconclusive",
    "untrusted": "inconclusive",
}
"""How the page colours a verdict."""


def headline(chosen: Recommendation, *, predicted: bool = False) -> str:
    """What to use and how sure, in one line, with what it gains; of a prediction it says that it is one."""
    if chosen.strategy is None or chosen.verdict in ("keep", "untrusted"):
        return decided(chosen)
    likely = "likely " * (predicted and chosen.verdict != "open")
    gain = "" if chosen.strategy == chosen.baseline else _faster(chosen, likely)
    if predicted and chosen.verdict == "open":
        # A prediction whose ranges overlap still names its best; it must not read as a verdict.
        return ", ".join(filter(None, (f"Likely {words.code(chosen.strategy)}", gain)))
    return ", ".join(filter(None, (decided(chosen), gain)))


def decided(chosen: Recommendation) -> str:
    """The verdict's own words; a name from a file may hold anything."""
    name = chosen.strategy and words.name(chosen.strategy)
    return verdict_headline(chosen.model_copy(update={"strategy": name}))


def uncapitalised(sentence: str) -> str:
    """For the middle of another sentence."""
    return sentence[:1].lower() + sentence[1:]


def names(strategies: tuple[str, ...]) -> str:
    """`a` and `b`."""
    return words.listing(map(words.code, strategies))


def _faster(chosen: Recommendation, likely: str = "") -> str:
    if chosen.speedup is None or chosen.baseline is None:
        return ""
    low, high = chosen.interval or (chosen.speedup, chosen.speedup)
    if (noun := counted(chosen.objective).noun) != "time":
        return f"{words.code(chosen.baseline)} takes {units.ratio(chosen.speedup)} that {noun}"
    if low <= 1 <= high and abs(chosen.speedup - 1) <= EQUIVALENCE:
        return f"as fast as {words.code(chosen.baseline)}"
    direction = "faster than" if chosen.speedup >= 1 else "the speed of"
    if chosen.objective == "throughput":
        direction = "the frames per second of"
    return f"{likely}{units.ratio(chosen.speedup)} {direction} {words.code(chosen.baseline)}"


def certainty_of(chosen: Recommendation, kind: str) -> str:
    """The interval of the gain; nothing where nothing is gained."""
    if chosen.interval is None or chosen.strategy in (None, chosen.baseline):
        return ""
    return f"{kind} {words.ratio_between(*chosen.interval)}"
