"""The example workloads, run with small parameters and all in this process."""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from running import REPOSITORY, cpu_settings, sample, unstarted

from advisor import pipeline
from advisor.devices import catalogue
from advisor.measure import worker
from advisor.measure.final import Session
from advisor.measure.jobs import FinalJob, Job, TraceRun
from advisor.measure.launcher import Ended, Launcher
from advisor.measure.progress import Silent
from advisor.profiles.conclusions import Advice, Objective
from advisor.profiles.files import scratch
from advisor.profiles.schema import Predicted, Prediction, Profile
from advisor.rules.advise import conclude
from advisor.strategies.registry import STRATEGIES

EXAMPLES = REPOSITORY / "workloads"
SMALL: dict[str, tuple[str, ...]] = {
    "vector_add": ("n=1000",),
    "reread": ("n=5000", "passes=5"),
    "matrix_multiply": ("n=96",),
    "bandwidth": ("nbytes=4096",),
    "dataloader": ("batch=8",),
    "debayer_resize": ("width=46", "height=33", "small_width=16", "small_height=12"),
    "flag_polling": ("polls=20", "adds=3"),
    "host_reads_back": ("n=1000", "reads=3"),
    "inference": ("batch=12", "engine=arrays"),
    "mapped_output": ("n=3000",),
    "pinned_across_processes": ("n=1000",),
    "solver_turns": ("n=17", "restart=4"),
    "sparse_access": ("rows=12", "share=0.25"),
    "streaming": ("width=64", "height=48"),
    "strided_reads": ("records=300", "fields=5"),
    "texture_sampling": ("width=64", "height=32"),
    "two_gpus_pipeline": ("n=1000",),
    "two_gpus_split": ("n=1000",),
    "weights_reuse": ("outputs=30", "inputs=20"),
    "embedding_lookup": ("rows=300", "batch=4", "hidden=32", "updates=5"),
    "detector": ("width=80", "height=60", "boxes=8"),
}
"""Every example."""
EVERY = tuple(strategy.name for strategy in STRATEGIES)
NEEDS = {"dataloader": "torch", "pinned_across_processes": "torch"}


def missing(name: str) -> str | None:
    library = NEEDS.get(name)
    return f"{library} is not installed" if library and importlib.util.find_spec(library) is None else None


def example_part(name: str) -> ModuleType:
    """A file of workloads/ as a module."""
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(EXAMPLES))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXAMPLES))
    return module


class InProcess:
    """Does jobs here and now: for workloads known to leave their process as it was."""

    def __call__(self, job: Job) -> Ended:
        Path(job.directory).mkdir(parents=True)
        return Ended(worker.attempt(job), "finished")

    def session(self, job: FinalJob) -> Session:
        return unstarted(job)


class Checked(InProcess):
    """Checks and traces a workload; nothing is timed."""

    def __call__(self, job: Job) -> Ended:
        return Ended(sample(), "finished") if job.task == "measure" else super().__call__(job)


class Unmeasured(Checked):
    """Traces and checks a few frames, but times nothing: predictions do not hang on this machine's load."""

    def __call__(self, job: Job) -> Ended:
        ended = super().__call__(job.model_copy(update={"left_seconds": 0.0}))
        trace = ended.outcome.trace if isinstance(ended.outcome, TraceRun) else None
        if trace is None:
            return ended
        untimed = tuple(work.model_copy(update={"seconds": None}) for work in trace.work)
        return Ended(TraceRun(trace=trace.model_copy(update={"work": untimed})), "finished")


HERE = InProcess()


def profiled(target: str | Path, *assignments: str, launcher: Launcher = HERE, **options: object) -> Profile:
    """The profile under both strategies of the CPU device; an example by its name."""
    file = target if ".py" in str(target) else EXAMPLES / f"{target}.py"
    with scratch() as folder:
        settings = cpu_settings(file, *assignments, **options)
        return pipeline.profile(settings, Silent(), keep_in=folder, launcher=launcher)


@cache
def traced(name: str, *assignments: str) -> Profile:
    """An example's profile without times, for all tests: what is concluded hangs on the device."""
    return profiled(name, *assignments, launcher=Unmeasured(), strategies=EVERY)


class Concluded:
    def __init__(self, name: str, target: str, *assignments: str, objective: Objective = "time") -> None:
        profile = traced(name, *assignments)
        wanted = profile.preferences.model_copy(update={"objective": objective})
        blank = profile.model_copy(update={"preferences": wanted, "predictions": (), "advice": ()})
        self.profile = conclude(blank, (catalogue.load(target),))
        self.prediction: Prediction = self.profile.predictions[0]
        self.rows = {row.strategy: row for row in self.prediction.results if isinstance(row, Predicted)}
        self.skipped = {r.strategy: r.reason for r in self.prediction.results if not isinstance(r, Predicted)}
        recommendation = self.prediction.recommendation
        self.recommended = recommendation.strategy

    def says(self, rule: str) -> Advice:
        (found,) = [advice for advice in self.profile.advice if advice.rule == rule]
        return found

    def times(self, strategy: str, other: str) -> float:
        """How often the other strategy's likely time goes into this one's."""
        return self.rows[strategy].likely_seconds / self.rows[other].likely_seconds


def main(arguments: list[str]) -> None:
    """In a forked process: saves the profile of an example in that folder."""
    directory, given, options, _parent = arguments
    made = profiled(*json.loads(given), **json.loads(options))
    made.save(Path(directory, "saved.json"))
