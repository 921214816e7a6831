"""The times that a verdict counts, put into the rows, so that every table and chart says what it says."""

from __future__ import annotations

from typing import TypeVar

from advisor.profiles.preferences import Objective, counts_latency
from advisor.profiles.schema import Measured, Predicted, Profile

AnyRow = TypeVar("AnyRow")


def counted(profile: Profile, objective: Objective | None = None) -> Profile:
    """The profile with the rows of frames that overlap as the objective counts them: its own or that one.

    That is the latency of a frame in place of the time between finished frames, except for throughput. Of
    measured frames only the median latency is kept; its spread is taken to be theirs.
    """
    if not counts_latency(objective or profile.preferences.objective):
        return profile
    return profile.model_copy(
        update={
            "results": tuple(_row(row) for row in profile.results),
            "predictions": tuple(
                made.model_copy(update={"results": tuple(_row(row) for row in made.results)})
                for made in profile.predictions
            ),
        }
    )


def _row(row: AnyRow) -> AnyRow:
    if not isinstance(row, (Measured, Predicted)) or row.latency_seconds is None:
        return row
    if isinstance(row, Predicted):
        longer = row.latency_seconds / row.likely_seconds
        times = {name: getattr(row, name) * longer for name in ("low_seconds", "high_seconds")}
        return row.model_copy(update={"likely_seconds": row.latency_seconds, **times})
    longer = row.latency_seconds / row.median_seconds
    low, high = row.interval_seconds
    return row.model_copy(
        update={
            "frame_seconds": tuple(seconds * longer for seconds in row.frame_seconds),
            "median_seconds": row.latency_seconds,
            "interval_seconds": (low * longer, high * longer),
        }
    )
