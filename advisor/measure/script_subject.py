"""A script, a workload with one opaque frame: a run to warm up, one per strategy observed, then rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from advisor import stats
from advisor.errors import NothingMeasured, WorkloadError
from advisor.measure.jobs import Description, Problem, ScriptSample
from advisor.measure.launcher import Ended
from advisor.measure.row_figures import of_runs
from advisor.measure.settings import AnyStrategy, Settings
from advisor.measure.subjects import CONFIDENCE, AnySample, Launch, Prepared, Row, Step, observing
from advisor.profiles.row_figures import ScriptMeasured, ScriptRun
from advisor.strategies.scripts import UNCHANGED
from advisor.workloads.scripts import nothing_to_change

NEXT_STEPS = {
    "timeout": "Raise --timeout SECONDS, or give the script less work.",
    "memory": "Give the script less work.",
    "died": "Check that it runs with python. It must end normally or with sys.exit, not os._exit.",
}
_NOTHING_COMPARED = (
    "The script's output is empty or differs between runs, so only the exit status was compared. Pass "
    "arrays to `advisor.result` to compare results."
)

_NOT_ITS_MEMORY = "CuPy's allocators do not change its memory."


@dataclass(frozen=True)
class ScriptSubject:
    """See `Subject`."""

    settings: Settings

    next_steps: ClassVar[Mapping[str, str]] = NEXT_STEPS
    observed: ClassVar[bool] = True

    has_final: ClassVar[bool] = False

    @property
    def rounds(self) -> int:
        """A run is a block, and the rounds are of adjacent processes."""
        return self.settings.rounds

    def describe(self, launch: Launch) -> Description:
        """The GPU, in a separate process. Raises `NothingMeasured` without one."""
        ended = launch(Step("describe", UNCHANGED, "describe", "querying the GPU"))
        if isinstance(ended.outcome, Description):
            return ended.outcome
        if isinstance(ended.outcome, Problem):
            told = ended.outcome
            next_step = told.next_step or "Check the driver with nvidia-smi."
            raise NothingMeasured(told.message, next_step=next_step, detail=told.detail)
        raise NothingMeasured(
            f"the GPU cannot be used: {ended.reason}",
            next_step="The output of the process is below. Run `advisor doctor` to check each component.",
            detail=ended.log,
        )

    def prepare(self, launch: Launch) -> Prepared:
        """The script as it is, twice: what all others are compared with. Raises where it fails by itself,
        `NothingToChange` where it makes nothing with CuPy."""
        first = _succeeded(launch(Step("reference", UNCHANGED, "warm-up", "warming up")))
        if not _uses_cupy(first):
            raise nothing_to_change(self.settings.file, first.libraries)
        again = _succeeded(launch(observing(UNCHANGED)))
        ran = ScriptRun(
            arguments=self.settings.arguments or (),
            baseline=UNCHANGED,
            warm_up_seconds=first.seconds,
            compared=again.compared,
        )
        notes: tuple[str, ...] = () if again.results_compared else (_NOTHING_COMPARED,)
        notes += tuple(f"The script also uses {name}: {_NOT_ITS_MEMORY}" for name in first.libraries)
        return Prepared(notes=notes, script=ran, samples={UNCHANGED: again})

    def obstacle(self, strategy: AnyStrategy, description: Description) -> str | None:
        """What the device does not allow."""
        return strategy.unavailable(description.device)

    def row(self, strategy: str, samples: Sequence[AnySample]) -> Row | None:
        """Times of the plain runs, the rest from the observed one."""
        mine = [sample for sample in samples if isinstance(sample, ScriptSample)]
        timed = [sample for sample in mine if sample.copies is None]
        observed = next((sample for sample in mine if sample.copies is not None), None)
        if observed is None or observed.copies is None or not timed:
            return None
        rounds = [(sample.seconds,) for sample in timed]
        return ScriptMeasured(
            strategy=strategy,
            run_seconds=tuple(sample.seconds for sample in timed),
            median_seconds=stats.median(rounds),
            interval_seconds=stats.median_interval(rounds, confidence=CONFIDENCE),
            setup_seconds=median(sample.setup_seconds for sample in timed),
            ranges=observed.ranges,
            copies=observed.copies,
            memory=observed.memory,
            verified=observed.results_compared,
            notes=observed.notes,
            **of_runs(timed),
        )


def _uses_cupy(run: ScriptSample) -> bool:
    """Whether CuPy's allocators served anything in it; an allocator of the script's own may have no hooks."""
    copies, memory = run.copies, run.memory
    if run.notes or copies is None or memory is None:
        return True
    return bool(memory.requests or copies.to_device or copies.to_host)


def _succeeded(ended: Ended) -> ScriptSample:
    """The sample of a run of the unchanged script. Raises `AdvisorError` where it fails by itself."""
    if isinstance(ended.outcome, ScriptSample):
        return ended.outcome
    if isinstance(ended.outcome, Problem):
        raise ended.outcome.as_error(ended.log)
    raise WorkloadError(
        f"the script did not finish: {ended.reason}",
        next_step=NEXT_STEPS[ended.how],
        detail=ended.log,
    )
