"""Reasons to doubt a verdict: the workload failed, nothing was compared, or the host is noisy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from advisor.profiles.figures import Block
from advisor.profiles.schema import Failed, Measured, Predicted, Prediction, Profile

Doubt = Literal["", "failed", "host only", "alone"]
"""failed: a prediction of a workload that failed here under every strategy. host only: no stage of a frame
runs on the device. alone: one strategy has figures."""
FEWEST_BLOCKS = 6
"""A standard deviation from fewer is off by a third."""
WORTH_TELLING = 0.01
"""Share of a frame: less host noise decides nothing."""


def all_failed(profile: Profile) -> bool:
    status = {row.status for row in profile.results}
    return "failed" in status and "measured" not in status


def failed_rows(profile: Profile) -> list[Failed]:
    return [row for row in profile.results if isinstance(row, Failed)]


def doubt(profile: Profile, prediction: Prediction | None = None) -> Doubt:
    """The reason to doubt the verdict over the measured rows, or that of one prediction."""
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
    predictions = (p.model_copy(update=silent) if doubt(profile, p) else p for p in profile.predictions)
    recommendation = None if doubt(profile) else profile.recommendation
    return profile.model_copy(update={"recommendation": recommendation, "predictions": tuple(predictions)})


@dataclass(frozen=True)
class Noise:
    """Standard deviations between blocks, as shares of a frame: of all host stages together, and of the rest.

    `stage` is the host stage that varies most.
    """

    host: float
    rest: float
    stage: str

    @property
    def is_the_hosts(self) -> bool:
        """Host stages vary more than all else: as a rule by where their memory lies."""
        return self.host > max(self.rest, WORTH_TELLING)


def noise_of(blocks: Iterable[Block], contestant: str) -> Noise | None:
    """One contestant's noise; None with too few blocks, or overlapping frames, whose parts do not add up."""
    mine = [block for block in blocks if block.contestant == contestant and block.host_seconds]
    if len(mine) < FEWEST_BLOCKS or any(block.latency_seconds is not None for block in mine):
        return None
    frames = np.array([block.period_seconds for block in mine])
    hosts = np.array([sum(block.host_seconds.values()) for block in mine])
    names = sorted({name for block in mine for name in block.host_seconds})
    spread = {name: float(np.std([b.host_seconds.get(name, 0.0) for b in mine])) for name in names}
    mean = float(frames.mean())
    return Noise(
        float(hosts.std(ddof=1)) / mean,
        float((frames - hosts).std(ddof=1)) / mean,
        max(spread, key=lambda name: spread[name]),
    )
