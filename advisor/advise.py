"""The verdict and the advice: which strategy, how sure, and what to change. Pure functions of the data."""

from __future__ import annotations

from advisor.profiles import Measured, Profile
from advisor.rules import RULES
from advisor.rules.base import apply
from advisor.rules.case import cases
from advisor.rules.traced import with_trace
from advisor.verdicts.measured import Candidate, recommend
from advisor.verdicts.predicted import recommend_predicted
from advisor.verdicts.ties import code_change

__all__ = ["Candidate", "advise", "candidates", "recommend", "recommend_predicted"]


def advise(profile: Profile) -> Profile:
    """The profile with its recommendation and the rules' advice; nothing else changes.

    The recommendation is None where nothing was measured on a GPU: the predictions carry their own.
    """
    chosen = None
    if profile.device.kind == "cuda":
        chosen = recommend(candidates(profile), confidence=profile.method.confidence, device=profile.device)
    profile = profile.model_copy(update={"recommendation": chosen})
    advice = tuple(apply(rule, case) for case in cases(profile) for rule in RULES)
    return profile.model_copy(update={"advice": with_trace(profile, advice)})


def candidates(profile: Profile) -> tuple[Candidate, ...]:
    """The measured strategies of a profile."""
    return tuple(
        Candidate(
            row.strategy, row.rounds, row.footprint.physical_bytes, code_change(row.strategy), row.verified
        )
        for row in profile.results
        if isinstance(row, Measured)
    )
