"""The sentence of a verdict: which strategy, and why it and no other."""

from __future__ import annotations

from advisor import units
from advisor.profiles.conclusions import Recommendation
from advisor.verdicts.reasons import counted, listing, shown_bound

_NAMED = 3
"""Buffers of a mix in a headline."""


def headline(made: Recommendation, gain: str = "") -> str:
    """`use pinned: the fastest`, what it gains, and the mix that it is preferred to; names in backquotes."""
    return f"{', '.join(filter(None, (_decided(made), gain)))}{_simpler(made)}"


def _simpler(made: Recommendation) -> str:
    """Says that a uniform strategy is a preference where a mix is, or may be, faster."""
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
    name, bound, among = f"`{made.strategy}`", shown_bound(made.bound), _among(made)
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
