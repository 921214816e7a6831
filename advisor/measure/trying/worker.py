"""One run of a script with changes imposed, in a separate process: `run_trial` starts it, `main` is what it
runs. It records nothing but what its job names: blocks of frames, or the results.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Literal

from pydantic import Field

from advisor.errors import WorkloadError
from advisor.measure.fork_server import ForkServer, die_with_parent
from advisor.measure.jobs import LOG, OUTCOME, ScriptJob
from advisor.measure.processes import end, fork_server, log_tail, start, watch
from advisor.measure.recording.calls import MODULES
from advisor.measure.recording.loops import Loop, Loops
from advisor.measure.recording.running import Finder, OwnFiles, program_of, run
from advisor.measure.trying.alternation import Alternation
from advisor.measure.trying.changes import Imposed, imposed, is_variable
from advisor.measure.trying.libraries import LIBRARIES
from advisor.measure.trying.results import Downloads, Results, WatchedFile
from advisor.profiles.base import Record
from advisor.profiles.crossings import Library
from advisor.profiles.files import write_atomically
from advisor.profiles.trials import TrialBlock
from advisor.strategies.edits import Change
from advisor.strategies.syntax import loop_lines

WORKER = "advisor.measure.trying.worker"
PRINTED, ERRORS = "stdout", "stderr"
"""Files of a run's folder, for what the script prints."""
TIMED_SHARE = 0.25
"""Share of the time left for one run: two processes of frames in turns, comparing results, and the patch."""


class TrialJob(Record):
    """One run of a script. `contestants` have frames in turns, each with the change of that name in force.
    For results all changes are."""

    script: ScriptJob
    task: Literal["results", "time"]
    process: int = 0
    changes: tuple[Change, ...] = ()
    contestants: tuple[str, ...]
    loop_file: str
    loop: int
    """Which loop of the file it is, in the order of lines: its line moves where the file is changed."""
    frames: float | None = None
    """How many it had when it was recorded."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Texts that stand in for files, which stay as they are."""
    files: tuple[str, ...] = ()
    most_seconds: float | None = None
    """What is left for the whole run; a timed one begins no frame after a `TIMED_SHARE` of that, told at its
    first frame."""


class TrialRun(Record):
    """What the run gave; `refused` are changes that could not be tried, with the reason."""

    blocks: tuple[TrialBlock, ...] = ()
    results: Results
    refused: dict[str, str] = Field(default_factory=dict)
    error: str = ""


class TimeUp(Exception):
    """The time for all trials is over."""


@contextmanager
def preloaded(libraries: Sequence[str], files: Sequence[Path]) -> Iterator[ForkServer | None]:
    """A server whose workers have the script's libraries imported, which takes seconds for each run else.

    None where one of the script's files has to do with variables of the environment, which a library may read
    when it is imported.
    """
    if any(b"environ" in text or b"putenv" in text for text in (each.read_bytes() for each in files)):
        yield None
        return
    with fork_server([WORKER, *libraries]) as server:
        yield server


def run_trial(job: TrialJob, timeout: float, folder: Path, server: ForkServer | None = None) -> TrialRun:
    """Runs the script once, with its output kept apart. Raises `WorkloadError` without an outcome, and
    `TimeUp` where the job's time ends before it."""
    left = job.most_seconds or float("inf")
    number = len([*folder.glob("trial-*")])
    directory = folder / f"trial-{number}"
    job = job.model_copy(update={"script": job.script.model_copy(update={"directory": str(directory)})})
    if any(map(is_variable, job.changes)):
        server = None  # PyTorch reads the variable when it is imported
    process = start(job, directory, WORKER, server=server)
    try:
        is_late = watch(process, directory, min(timeout, left))
    finally:
        end(process, directory)
    outcome = directory / OUTCOME
    if not outcome.exists():
        if is_late and left <= timeout:
            raise TimeUp
        how, step = f"took longer than {timeout:.0f} s", "Run again with a longer --timeout."
        if not is_late:
            how = f"ended without results: exit code {process.returncode}"
            step = "Check that it ends normally or with sys.exit, not os._exit."
        log = log_tail(directory / ERRORS) or log_tail(directory / LOG)
        raise WorkloadError(f"a trial of the script {how}", next_step=step, detail=log)
    run = TrialRun.model_validate_json(outcome.read_bytes())
    lines = tuple(outcome.with_name(PRINTED).read_text("utf-8", "replace").splitlines())
    return run.model_copy(update={"results": run.results.model_copy(update={"printed": lines})})


def main(arguments: list[str]) -> None:
    die_with_parent(int(arguments[1]))
    job = TrialJob.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    directory = Path(job.script.directory).resolve()
    for descriptor, name in ((1, PRINTED), (2, ERRORS)):
        with (directory / name).open("wb") as output:
            os.dup2(output.fileno(), descriptor)
    run = _Session(job).run()
    sys.stdout.flush()
    write_atomically(directory / OUTCOME, run.model_dump_json())


class _Session:
    """Loops, changes and the clock of one run."""

    def __init__(self, job: TrialJob) -> None:
        self.job, self.script = job, job.script
        self.loops = Loops()
        for name, text in job.sources.items():
            self.loops.compiled(text.encode(), name)
        self.files = {name: WatchedFile(Path(name).absolute()) for name in job.files}
        self.own = OwnFiles.of(Path(self.script.file), self.script.module)
        checks = job.task == "results"
        self.changes: dict[str, Imposed] = {
            change.name: imposed(change, self.loops.files.__contains__, checks=checks)
            for change in job.changes
        }
        self.downloads = Downloads(self.loops.files.__contains__) if checks else None
        self.modules: dict[Library, ModuleType] = {}
        self.finder = Finder(
            self.own, self.loops, {name: partial(self._install, each) for name, each in MODULES.items()}, {}
        )
        self.began = perf_counter()
        self.alternation = Alternation(
            job.contestants,
            process=job.process,
            switch=self._switch,
            synchronize=self._synchronize,
            clock=perf_counter,
            tell_end=self._end,
            frames=job.frames or math.inf,
        )

    def _end(self) -> float:
        """When no further frame begins: decided at the first one, since imports and set-up take long. Results
        are of whole runs."""
        if self.job.most_seconds is None or self.job.task == "results":
            return math.inf
        left = self.began + self.job.most_seconds - perf_counter()
        return perf_counter() + TIMED_SHARE * left

    def run(self) -> TrialRun:
        sys.meta_path.insert(0, self.finder)
        program = program_of(self.script, self.loops)
        self._loop().listen(self.alternation.frame, self.alternation.end)
        self._switch(self.job.contestants[0])
        self.finder.install_imported()
        ended = run(program, self.loops)
        self._synchronize()
        self._switch("")
        downloads = self.downloads.by_line() if self.downloads else ()
        files = {name: file.digest() for name, file in self.files.items()}
        return TrialRun(
            blocks=tuple(self.alternation.whole_rounds) if self.job.task == "time" else (),
            results=Results(downloads=downloads, files=files, exit_code=ended.code),
            refused={name: change.refused for name, change in self.changes.items() if change.refused},
            error=ended.error[:1000],
        )

    def _loop(self) -> Loop:
        """The loop of the frames; its file may be a module that the script imports later."""
        file = self.job.loop_file
        text = self.job.sources.get(file, "").encode() or Path(file).read_bytes()
        self.loops.compiled(text, file)
        lines = loop_lines(text)
        loop = self.loops.at(file, lines[self.job.loop]) if self.job.loop < len(lines) else None
        if loop is None:
            raise WorkloadError(f"{file} has other loops than before", next_step="Profile it again.")
        return loop

    def _install(self, library: Library, module: ModuleType) -> None:
        """What downloads are compared by goes around the changes, which may replace a call by others."""
        self.modules[library] = module
        for change in self.changes.values():
            if change.change.library == library:
                change.install(module)
        if self.downloads:
            self.downloads.install(library, module)

    def _switch(self, contestant: str) -> None:
        every = bool(contestant) and self.job.task == "results"
        for name, change in self.changes.items():
            change.switch(every or name == contestant)

    def _synchronize(self) -> None:
        for library, module in self.modules.items():
            LIBRARIES[library](module).synchronize()
