"""Times that no clock can have taken: a profile that holds one was damaged or made up."""

from __future__ import annotations

from advisor.errors import FileProblem
from advisor.profiles.schema import Measured, Predicted, Profile

SHORTEST = 1e-12
"""Far below one cycle of any clock."""
LONGEST = 1e9
"""Thirty years."""


def require_plausible(profile: Profile, name: str) -> None:
    """Raises `FileProblem` where a time is outside what can be divided and drawn; `name` is the profile's."""
    rows = [*profile.results, *(row for made in profile.predictions for row in made.results)]
    for row in rows:
        for seconds in _seconds(row) if isinstance(row, (Measured, Predicted)) else ():
            if not SHORTEST <= seconds <= LONGEST:
                raise FileProblem(
                    f"{name} is damaged: a frame of {row.strategy} takes {seconds!r} s",
                    next_step="Profile again, or take an undamaged copy.",
                )


def _seconds(row: Measured | Predicted) -> tuple[float, ...]:
    if isinstance(row, Measured):
        return (*row.frame_seconds, row.median_seconds, *row.interval_seconds)
    return (row.low_seconds, row.likely_seconds, row.high_seconds)
