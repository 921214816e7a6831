"""What a rule can find, and the sentences that most rules use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from advisor import units
from advisor.profiles.conclusions import Certainty, Evidence, Gain
from advisor.rules.rows import Row
from advisor.strategies.registry import BASELINE


@dataclass(frozen=True)
class Finding:
    """What a rule concluded. An `advice` says what to change; most propose a strategy and its worth."""

    outcome: Literal["advice", "pass", "not-applicable"]
    detail: str
    title: str | None = None
    """In place of the rule's own, where the advice differs by device."""
    strategy: str | None = None
    evidence: tuple[Evidence, ...] = ()
    gain: Gain | None = None
    snippet: str | None = None
    inferred: bool = False
    """The effect was measured, its cause is the likeliest one."""

    @property
    def certainty(self) -> Certainty | None:
        """How sure an advice is; None for other outcomes."""
        if self.outcome != "advice":
            return None
        if any(item.predicted for item in self.evidence):
            return "predicted"
        return "likely" if self.inferred else "measured"


def passed(detail: str, *evidence: Evidence) -> Finding:
    """Nothing to advise; the evidence shows why."""
    return Finding("pass", detail, evidence=evidence)


def unbeaten(subject: Row, nearest: Row | None) -> Finding:
    """Nothing to advise, since no strategy that copies less beats this one."""
    if nearest is None:
        return passed(f"No other strategy has figures to set against {subject.strategy}.", subject.copies())
    said = "No strategy that spends less on copies is surely faster"
    frames = (subject.frame(), nearest.frame())
    return passed(f"{said}: {subject.takes} a frame, {nearest.takes}.", subject.copies(), *frames)


def not_applicable(reason: str) -> Finding:
    """The rule has nothing to say of this case."""
    return Finding("not-applicable", reason)


def text(*sentences: str) -> str:
    """Sentences, those that are empty left out."""
    return " ".join(filter(None, sentences))


def compared(better: Row, against: Row) -> str:
    """ "pinned takes 1.00 ms a frame and pageable 2.00 ms: 2.00× (1.98× to 2.02×) as fast."

    And whose cost the gain is counted against, where that is not the code in use.
    """
    both = f"{better.takes} a frame and {against.strategy} {units.seconds(against.seconds)}"
    whose = "" if against.strategy == BASELINE else f"The gain is against {against.strategy}."
    return text(f"{both}: {units.times(against.over(better))} as fast.", whose)


def gain(better: Row, against: Row) -> Gain:
    """What changing from one to the other is worth; bytes only where fewer are needed."""
    saved = against.physical_bytes - better.physical_bytes
    return Gain(
        seconds_per_frame=against.seconds - better.seconds,
        bytes=saved if saved > 0 else None,
        basis="estimated" if better.predicted or against.predicted else "measured",
        over=against.strategy,
    )


def estimate(seconds: float | None) -> Gain:
    """A gain that a formula gives; the rule says which."""
    return Gain(seconds_per_frame=seconds, bytes=None, basis="estimated")
