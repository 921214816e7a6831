"""Why a recommendation must not be shown as one: nothing was compared, or nothing depends on it."""

from __future__ import annotations

from typing import Literal

from advisor.profiles.schema import Measured, Predicted, Prediction, Profile
from advisor.report.failures import all_failed

Doubt = Literal["", "failed", "host only", "alone"]
"""failed: a prediction of a workload that failed here under every strategy. host only: no stage of a frame
runs on the device. alone: one strategy has figures."""

FIRST_FRAMES = "The workload failed under every strategy here; predictions rest on its first frames"
HOST_ONLY = "No stage of a frame runs on the device, so that no memory strategy matters"


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
    return profile.model_copy(
        update={
            "recommendation": None if doubt(profile) else profile.recommendation,
            "predictions": tuple(
                p.model_copy(update={"recommendation": None}) if doubt(profile, p) else p
                for p in profile.predictions
            ),
        }
    )
