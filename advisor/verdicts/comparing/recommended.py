"""Did the recommendation change? Only where the figures of both sides speak against the other's choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from advisor.profiles.conclusions import Recommendation

Change = Literal["same", "changed", "cannot tell"]


@dataclass(frozen=True)
class Recommended:
    """Each side's recommended strategy; None where it recommends nothing."""

    base: str | None
    head: str | None
    change: Change
    reason: str


def recommended(
    base: Recommendation | None,
    head: Recommendation | None,
    *,
    figures: tuple[int, int],
    basis: Literal["measured", "predicted"],
    whole: bool = True,
) -> Recommended:
    """Whether the best strategy is another one now. `figures`: how many strategies have figures on each side.

    A recommendation speaks for the strategy it names and those it is tied with; an open one for all that may
    be it. The best strategy changed where the two sets have nothing in common.
    """
    names = (_named(base), _named(head))
    unsound = _unsound(base, head, figures, whole=whole)
    if unsound:
        return Recommended(*names, "cannot tell", unsound)
    assert base is not None
    assert head is not None
    before, now = _best(base), _best(head)
    if not before & now:
        sure = basis == "measured" or "open" not in (base.verdict, head.verdict)
        if sure:
            return Recommended(
                *names, "changed", "No strategy is a candidate for the best in both BASE and HEAD."
            )
        return Recommended(*names, "cannot tell", "The predicted ranges overlap.")
    told = basis == "predicted" or "open" not in (base.verdict, head.verdict)
    if told and names[0] is not None and names[0] == names[1]:
        return Recommended(*names, "same", "")
    return Recommended(*names, "cannot tell", f"{', '.join(sorted(before & now))} may be the best in both.")


def _unsound(
    base: Recommendation | None, head: Recommendation | None, figures: tuple[int, int], *, whole: bool
) -> str:
    """Why nothing follows from the two recommendations; empty where something does."""
    for side, told, count in (("BASE", base, figures[0]), ("HEAD", head, figures[1])):
        if told is None:
            return f"{side} recommends nothing."
        if told.verdict == "untrusted":
            return f"{side} cannot be trusted: its control differs from itself."
        if count < 2:
            return f"{side} has figures for only one strategy."
    return "" if whole else "A run was interrupted."


def _named(told: Recommendation | None) -> str | None:
    return told.strategy if told else None


def _best(told: Recommendation) -> frozenset[str]:
    """Every strategy that may be the best by this recommendation."""
    return frozenset(filter(None, (told.strategy, *told.tied_with)))
