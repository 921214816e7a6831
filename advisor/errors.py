"""The one tree of errors a user can meet: what happened, with the value, and the next step.

Anything that is not an `AdvisorError` is a bug in advisor and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as a shell has it."""


class AdvisorError(Exception):
    """`message` says what happened, `next_step` what to do about it; `detail` is shown verbatim below."""

    exit_code = 70

    def __init__(self, message: str, *, next_step: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step
        self.detail = detail

    def __str__(self) -> str:
        step = f"  next: {self.next_step}" if self.next_step else ""
        return "\n".join(filter(None, (self.message, step, self.detail)))

    def _render_traceback_(self) -> list[str]:
        """For notebooks: no lines of our own."""
        return [f"error: {self}"]


class UsageError(AdvisorError):
    exit_code = 2


class WorkloadError(AdvisorError):
    """The workload cannot be loaded, or is wrong."""

    exit_code = 3


class NothingMeasured(AdvisorError):
    exit_code = 4


class FileProblem(AdvisorError):
    """A file is missing, damaged, or of an unknown format."""

    exit_code = 5


class NothingToCompare(AdvisorError):
    """An answer, not a failure: HEAD runs, and BASE has no such workload or fails."""

    exit_code = 0


def nearest(name: str, known: Iterable[str], most: int = 1) -> str:
    """The end of a message on an unknown name: up to three known ones that contain it (four letters or more,
    or a word between hyphens); else up to `most` that are like it, by `difflib`'s ratio; or nothing.
    """
    spelled, low = {each.lower(): each for each in known}, name.lower()
    longer = [each for each in spelled if low in (each if len(low) > 3 else each.split("-"))][:3]
    near = longer or difflib.get_close_matches(low, spelled, n=most)
    *others, last = [repr(spelled[each]) for each in near] or [""]
    return f"; did you mean {' or '.join(filter(None, (', '.join(others), last)))}?" if near else ""
