"""What is profiled, as the runner sees it: here is what a workload and a script have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from advisor.measure.jobs import Description, Sample, ScriptSample, Task
from advisor.measure.launcher import Ended
from advisor.measure.settings import AnyStrategy
from advisor.profiles.row_figures import ScriptMeasured, ScriptRun
from advisor.profiles.schema import Result, Trace

CONFIDENCE = 0.95
CPU_ROUNDS = 2
"""On the CPU device host stages are timed in two processes; nothing is decided there."""
AnySample = Sample | ScriptSample
Row = Result | ScriptMeasured


@dataclass(frozen=True)
class Step:
    """One process to come. `label` names its folder, `shown` is what progress says of it."""

    task: Task
    strategy: str
    label: str
    shown: str
    timeline: bool = False


def observing(strategy: str) -> Step:
    """The run of a strategy that is looked at and not timed."""
    return Step("observe", strategy, f"{strategy}-observed", f"{strategy}, observed")


Launch = Callable[[Step], Ended]


@dataclass(frozen=True)
class Prepared:
    """What is known before the strategies are run; `samples` are observed runs that count."""

    trace: Trace | None = None
    notes: tuple[str, ...] = ()
    script: ScriptRun | None = None
    samples: Mapping[str, AnySample] = field(default_factory=dict)


class Subject(Protocol):
    """A workload or a script."""

    next_steps: ClassVar[Mapping[str, str]]
    """For the user, by how a process ended that has no outcome."""
    observed: ClassVar[bool]
    """Each strategy has a run that is looked at and not timed, before the rounds."""

    @property
    def rounds(self) -> int:
        """Processes of each strategy before the final, or in its place."""

    @property
    def has_final(self) -> bool:
        """The best strategies meet in processes that hold all of them."""

    def describe(self, launch: Launch) -> Description:
        """What it is and where it runs. Raises `AdvisorError` where it cannot be run at all."""

    def prepare(self, launch: Launch) -> Prepared:
        """What has to run before the strategies. Raises `AdvisorError` as `describe` does."""

    def obstacle(self, strategy: AnyStrategy, description: Description) -> str | None:
        """Why a strategy is not run; None where it is."""

    def row(self, strategy: str, samples: Sequence[AnySample]) -> Row | None:
        """The row of what its processes measured; None where that is too little for one."""
