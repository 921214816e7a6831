"""Times that no clock can have taken: a profile that holds one was damaged or made up."""

from __future__ import annotations

from advisor.errors import FileProblem
from advisor.profiles.schema import Measured, Predicted, Profile
from advisor.profiles.scripts import ScriptMeasured

SHORTEST = 1e-12
"""Far below one cycle of any clock."""
LONGEST = 1e9
"""Thirty years."""


def require_plausible(profile: Profile, name: str) -> None:
    """Raises `FileProblem` where a time is outside what can be divided and drawn; `name` is the profile's."""
    rows = [*profile.results, *(row for made in profile.predictions for row in made.results)]
    for row in (*rows, *(profile.script.measured if profile.script else ())):
        for seconds in _seconds(row) if isinstance(row, (Measured, Predicted, ScriptMeasured)) else ():
            if not SHORTEST <= seconds <= LONGEST:
                what = "a run" if isinstance(row, ScriptMeasured) else "a frame"
                raise FileProblem(
                    f"{name} is damaged: {what} of {row.strategy} takes {seconds!r} s",
                    next_step="Profile again, or take an undamaged copy.",
                )


def _seconds(row: Measured | Predicted | ScriptMeasured) -> tuple[float, ...]:
    if not isinstance(row, Predicted):
        return (*(s for taken in row.rounds for s in taken), row.median_seconds, *row.interval_seconds)
    return (row.low_seconds, row.likely_seconds, row.high_seconds)
