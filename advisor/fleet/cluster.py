"""What the scheduling needs of a cluster: who is there, give out a task, hear what ended. Dask's is in
`dask_cluster.py`; tests have others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from advisor.errors import NothingMeasured

Call = Literal["look", "profile"]
"""A function of `advisor.fleet.remote`."""


@dataclass(frozen=True)
class Given:
    """One call on one worker; `number` tells calls apart."""

    number: int
    worker: str


@dataclass(frozen=True)
class Ended:
    """The text that a call returned, or why there is none. `no_package`: advisor cannot be imported there."""

    given: Given
    text: str | None = None
    reason: str = ""
    no_package: bool = False


class SchedulerLost(NothingMeasured):
    """The connection to the scheduler is gone, for longer than it takes to come back."""


class Cluster(Protocol):
    """Raises `SchedulerLost` from each of these."""

    def workers(self) -> Collection[str]:
        """The addresses of the workers that are there now."""

    def give(self, worker: str, call: Call, text: str = "") -> Given:
        """Starts a call on that worker alone."""

    def ended(self, seconds: float) -> Sequence[Ended]:
        """The calls that ended since the last time; waits so long at most for the first."""

    def drop(self, given: Given) -> None:
        """Nobody waits for that call any more: the worker ends it."""
