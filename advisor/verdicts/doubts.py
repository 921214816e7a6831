"""Why a recommendation must not be shown as one: the workload failed, or nothing was compared."""

from __future__ import annotations

from typing import Literal

from advisor.profiles.schema import Failed, Measured, Predicted, Prediction, Profile

Doubt = Literal["", "failed", "host only", "alone"]
"""failed: a prediction of a workload that failed here under every strategy. host only: no stage of a frame
runs on the device. alone: one strategy has figures."""


def all_failed(profile: Profile) -> bool:
    """Whether the workload failed under every strategy that was run."""
    status = {row.status for row in profile.results}
    return "failed" in status and "measured" not in status


def failed_rows(profile: Profile) -> list[Failed]:
    """The strategies that were tried and failed."""
    return [row for row in profile.results if isinstance(row, Failed)]


def doubt(profile: Profile, prediction: Prediction | None = None) -> Doubt:
    """What stands against the verdict over the measured rows, or against that of one prediction."""
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
    made = (p.model_copy(update=silent) if doubt(profile, p) else p for p in profile.predictions)
    kept = None if doubt(profile) else profile.recommendation
    return profile.model_copy(update={"recommendation": kept, "predictions": tuple(made)})
