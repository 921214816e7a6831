"""Trials of a script: which changes there are, runs of it with each, and a patch of those that pay.

    two unchanged runs -> what results are compared by
    one run with all changes -> whether results are equal; without them, each alone
    runs with frames in turns -> how much faster each is
    the patch on a copy -> its results, and its time beside the script's

No file of the user's is written: a patched source stands in for the file in the process that runs it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Literal

from advisor.errors import WorkloadError
from advisor.measure.jobs import ScriptJob
from advisor.measure.processes import end, start
from advisor.measure.progress import Progress
from advisor.measure.recorded import script_job
from advisor.measure.settings import Settings
from advisor.measure.trying.changes import WHOLE_PROCESS, ScriptChange
from advisor.measure.trying.results import Equality, Results
from advisor.measure.trying.worker import OUTCOME, TrialJob, TrialRun
from advisor.profiles.crossings import Crossing, Place, ScriptRun
from advisor.profiles.trials import ChangeKind, Patch, Trial, TrialBlock, Trials
from advisor.strategies.edits import Change, edited
from advisor.strategies.patches import diff
from advisor.strategies.syntax import CannotWrite, loader_line, loop_lines
from advisor.verdicts.ceilings import ceiling_of, is_little, scopes
from advisor.verdicts.trials import AS_IS, judged, trial_times

WORKER = "advisor.measure.trying.worker"
PROCESSES = 2
"""Runs in which frames alternate: what a process draws is told from what a change gives by two."""
PATCHED_PROCESSES = 3
"""Runs of the script as it is and as patched, in turns."""
TOGETHER, PATCHED = "together", "patched"
_LEAST_REPEATS = 3
"""Uploads whose bytes were seen to be the same before keeping them out of the loop is tried."""
RunTrial = Callable[[TrialJob], TrialRun]


@dataclass(frozen=True)
class Candidate:
    """A change that the record suggests, and its trial before anything is measured."""

    trial: Trial
    change: ScriptChange


def candidates(
    script: ScriptRun, loop: int, promised: Mapping[int, float], start: Path
) -> tuple[Candidate, ...]:
    """Changes of the crossings of a loop. promised: seconds of a frame by crossing; start: what files are
    relative to."""
    found: list[Candidate] = []
    for index, crossing in enumerate(script.crossings):
        if crossing.loop == loop and (suggested := _suggested(script, crossing, loop)):
            kind, origin, title = suggested
            made = origin if kind == "pin-memory" and origin else crossing.place
            name = f"{kind}-{made.line}"
            if any(each.change.name == name for each in found):
                continue
            trial = Trial(
                name=name, kind=kind, place=crossing.place, origin=origin, title=title, outcome="open",
                promised_seconds=promised.get(index),
            )  # fmt: skip
            change = ScriptChange(
                name=name, kind=kind, file=str(start / crossing.place.file), line=crossing.place.line,
                origin_file=str(start / origin.file) if origin else "",
                origin_line=origin.line if origin else 0,
                uploads=tuple(_uploads(script, origin, crossing, start)) if kind == "lock" else (),
            )  # fmt: skip
            found.append(Candidate(trial, change))
    return tuple(found)


def _uploads(
    script: ScriptRun, origin: Place | None, upload: Crossing, start: Path
) -> Iterator[tuple[str, int]]:
    """File and line of other uploads of what a line allocates."""
    for other in script.crossings:
        same = other.origin and origin and other.origin.place == origin
        if same and other.kind == "upload" and other.place != upload.place:
            yield str(start / other.place.file), other.place.line


def _suggested(
    script: ScriptRun, crossing: Crossing, loop: int
) -> tuple[ChangeKind, Place | None, str] | None:
    """The change for one crossing, the line where what crosses is made, and its title."""
    origin = crossing.origin.place if crossing.origin else None
    each_frame = bool(crossing.origin and crossing.origin.each_frame)
    repeats, name = crossing.repeats, _name(crossing.place)
    if crossing.library == "cupy" and crossing.kind == "upload":
        if repeats and _LEAST_REPEATS <= repeats.compared == repeats.same:
            return "hoist", None, f"upload {name} once"
        if crossing.memory == "pageable" and origin and not each_frame:
            return "lock", origin, f"page-lock {_name(origin)} (line {origin.line})"
    if (
        crossing.library == "cupy"
        and crossing.kind == "download"
        and crossing.memory == "pageable"
        and each_frame
    ):
        return "reuse", None, f"reuse {name}"
    if crossing.library == "torch" and crossing.kind == "upload" and not crossing.non_blocking:
        if crossing.memory == "pinned":
            return "non-blocking", None, f"copy {name} without blocking"
        file = next((s for s in script.sources if s.file == crossing.place.file and s.first == 1), None)
        line = loader_line("\n".join(file.lines), script.loops[loop].place.line) if file else None
        if file and line:
            made = Place(file=file.file, line=line, text=file.lines[line - 1].strip())
            return "pin-memory", made, f"pin the loader's memory (line {line})"
    return None


def _name(place: Place) -> str:
    """The variable that the line sets."""
    name = re.match(r"(\w+)\s*(:[^=]*)?=", place.text.strip())
    return name[1] if name else "the array"


def try_script(
    settings: Settings, script: ScriptRun, concluded: ScriptRun | None, progress: Progress, folder: Path
) -> Trials:
    """Tries changes of the lines of the slowest loop; tells why not, where it does not.

    concluded: the same run with its ceilings and advice. Raises `WorkloadError` where the script does not run
    a second time.
    """
    run = concluded or script
    if script.exit_code:
        return Trials(reason="Nothing was tried: the script failed.", seconds=0.0)
    told = scopes(run)
    ceiling = ceiling_of(run, told[0]) if told else None
    if settings.backend != "cuda":
        return Trials(reason="Nothing was tried: that needs a GPU.", seconds=0.0)
    if not told or told[0].number is None:
        return Trials(reason="Nothing was tried: no loop repeats a copy or a wait.", seconds=0.0)
    if ceiling is not None and is_little(ceiling):
        return Trials(reason="Nothing was tried: memory can change too little of a frame.", seconds=0.0)
    gains = {each.crossing: each.advice.gain for each in run.advice}
    promised = {
        i: gain.seconds_per_frame for i, gain in gains.items() if gain and gain.seconds_per_frame is not None
    }
    runs = partial(run_trial, timeout=settings.timeout, folder=folder / "trials")
    job, loop = script_job(settings, folder), told[0].number
    job = job.model_copy(update={"file": str(settings.file.absolute())})  # as its lines name it
    session = Session(script, job, loop, runs, progress, settings.checked)
    most = ceiling.seconds if ceiling else float("inf")
    return session.trials(candidates(script, loop, promised, Path.cwd()), most)


@dataclass
class Session:
    """All trials of one script. `run` runs it once; results are compared as `files` and downloads tell."""

    script: ScriptRun
    job: ScriptJob
    loop: int
    run: RunTrial
    progress: Progress
    files: tuple[str, ...] = ()
    start: Path = field(default_factory=Path.cwd)
    _blocks: list[TrialBlock] = field(default_factory=list)
    _refused: dict[str, str] = field(default_factory=dict)
    _differing: dict[str, str] = field(default_factory=dict)

    def trials(self, suggested: Sequence[Candidate], most: float) -> Trials:
        """most: seconds of a frame that memory can change. Raises `WorkloadError` where the script fails
        unchanged."""
        began = monotonic()
        if not suggested:
            reason = "No change that can be imposed fits the lines of this loop."
            return Trials(loop=self.loop, reason=reason, seconds=0.0)
        changes = tuple(each.change for each in suggested)
        equality = self._equality()
        self._check(changes, equality)
        live = self._live(changes)
        self._time(live)
        measured = trial_times(self._blocks)
        trials = judged(self._with_refusals(suggested), measured, self._differing)
        kept = [each for each in trials if each.outcome == "faster"]
        patch = self._patched(kept, {c.name: c for c in changes}, equality) if kept else None
        written = {name for each in ([patch] if patch else []) for name in each[1]}
        promises = [t.promised_seconds for t in trials if t.name in written]
        promised = min(sum(p or 0.0 for p in promises), most) if any(promises) else None
        return Trials(
            frame_seconds=measured.seconds.get(AS_IS),
            loop=self.loop,
            trials=tuple(t.model_copy(update={"in_patch": t.name in written}) for t in trials),
            blocks=tuple(self._blocks),
            compared=equality.compared,
            unlike=equality.unlike,
            patch=patch[0].model_copy(update={"promised_seconds": promised}) if patch else None,
            seconds=monotonic() - began,
        )

    def _equality(self) -> Equality:
        """What two unchanged runs agree in."""
        first, second = (self._results("the script as it is") for _ in range(2))
        return Equality(first, second)

    def _results(
        self, what: str, changes: Sequence[ScriptChange] = (), sources: Mapping[str, str] | None = None
    ) -> Results:
        """The results of a run with all of these in force; what was refused in it is noted."""
        self.progress.begin(f"comparing results: {what}")
        run = self.run(
            self._job("results", {AS_IS: tuple(c.name for c in changes)}, changes, sources=sources)
        )
        self.progress.end()
        self._refused |= run.refused
        if not changes and not sources and run.results.exit_code:
            raise WorkloadError(
                f"the script ended with exit code {run.results.exit_code} when it ran again: {run.error}",
                next_step="Check that it can run twice: files that it writes, ports that it opens.",
            )
        return run.results

    def _check(self, changes: Sequence[ScriptChange], equality: Equality) -> None:
        """Whether results are equal under all changes; where they are not, which change is why."""
        together = equality.difference(self._results("all changes", changes))
        if together and len(changes) == 1:
            self._differing |= {each.name: together for each in self._live(changes)}
        elif together:
            alone = {c.name: equality.difference(self._results(c.name, [c])) for c in self._live(changes)}
            self._differing |= {name: why for name, why in alone.items() if why}
            if not self._differing:
                self._differing |= dict.fromkeys(alone, f"only together with the others, {together}")

    def _live(self, changes: Iterable[ScriptChange]) -> list[ScriptChange]:
        return [c for c in changes if c.name not in self._refused and c.name not in self._differing]

    def _time(self, changes: Sequence[ScriptChange]) -> None:
        """Frames in turns; a change of the whole process beside them in another process."""
        turning = [c for c in changes if c.kind not in WHOLE_PROCESS]
        for process in range(PROCESSES if changes else 0):
            contestants = {AS_IS: (), **{c.name: (c.name,) for c in turning}}
            self._timed("the changes in turns", process, contestants, turning)
            for change in (c for c in changes if c.kind in WHOLE_PROCESS):
                self._timed(change.name, process, {change.name: (change.name,)}, [change])

    def _timed(
        self,
        what: str,
        process: int,
        contestants: Mapping[str, tuple[str, ...]],
        changes: Sequence[ScriptChange] = (),
        sources: Mapping[str, str] | None = None,
    ) -> None:
        self.progress.begin(f"timing {what}, process {process + 1}")
        run = self.run(self._job("time", contestants, changes, process=process, sources=sources))
        self.progress.end()
        self._refused |= run.refused
        self._blocks += [b for b in run.blocks if b.contestant not in run.refused]

    def _job(
        self,
        task: Literal["results", "time"],
        contestants: Mapping[str, tuple[str, ...]],
        changes: Sequence[ScriptChange],
        *,
        process: int = 0,
        sources: Mapping[str, str] | None = None,
    ) -> TrialJob:
        place = self.script.loops[self.loop].place
        file = self.start / place.file
        lines = loop_lines(file.read_text(encoding="utf-8"))
        if place.line not in lines:
            raise WorkloadError(
                f"{place.file} has no loop in line {place.line} any more", next_step="Profile it again."
            )
        return TrialJob(
            script=self.job,
            task=task,
            process=process,
            changes=tuple(changes),
            contestants=dict(contestants),
            loop_file=str(file),
            loop=lines.index(place.line),
            sources=dict(sources or {}),
            files=self.files,
        )

    def _with_refusals(self, suggested: Iterable[Candidate]) -> list[Trial]:
        return [
            each.trial.model_copy(update={"outcome": "refused", "reason": self._refused[each.trial.name]})
            if each.trial.name in self._refused
            else each.trial
            for each in suggested
        ]

    def _patched(
        self, kept: Sequence[Trial], changes: Mapping[str, ScriptChange], equality: Equality
    ) -> tuple[Patch, tuple[str, ...]]:
        """The patch of these, run and timed; and the names of those that are in it."""
        written, left_out = self._written(kept, changes)
        sources = {file: after for file, (_, after, _) in written.items()}
        names = tuple(name for _, _, part in written.values() for name in part)
        text = "".join(
            diff(os.path.relpath(file, self.start), before, after)
            for file, (before, after, _) in written.items()
        )
        lines = sum(row[:1] in "+-" and row[:3] not in ("+++", "---") for row in text.splitlines() if row)
        patch = Patch(text=text, lines=lines, left_out=tuple(left_out))
        if not text:
            return patch.model_copy(update={"reason": "none of the changes could be written"}), ()
        difference = equality.difference(self._results("the patch", sources=sources))
        if difference:
            return patch.model_copy(update={"equal": False, "reason": difference}), names
        first = PROCESSES
        for process in range(first, first + PATCHED_PROCESSES):
            self._timed("the script as it is", process, {AS_IS: ()})
            self._timed("the patch", process, {PATCHED: ()}, sources=sources)
        mine = [b for b in self._blocks if b.process >= first]
        found = trial_times(mine, alone=True).speedups.get(PATCHED)
        figures = {"speedup": found.value, "interval": (found.low, found.high)} if found else {}
        return patch.model_copy(update={"equal": bool(equality.compared) or None, **figures}), names

    def _written(
        self, kept: Iterable[Trial], changes: Mapping[str, ScriptChange]
    ) -> tuple[dict[str, tuple[str, str, tuple[str, ...]]], list[str]]:
        """By file: its text, the text with the changes, and their names. And what could not be written."""
        written: dict[str, tuple[str, str, tuple[str, ...]]] = {}
        texts: dict[str, list[Change]] = {}
        left_out = []
        loop = self.script.loops[self.loop].place
        for trial in kept:
            change = changes[trial.name]
            before, _, names = written.get(change.file) or (_text(change.file), "", ())
            at = loop.line if str(self.start / loop.file) == change.file else None
            try:
                mine = [*texts.get(change.file, ()), *_edits(change, at)]
                after = edited(before, mine)
            except CannotWrite as reason:
                left_out.append(f"line {change.line}: {reason}")
                continue
            texts[change.file] = mine
            written[change.file] = before, after, (*names, trial.name)
        return written, left_out


def _text(file: str) -> str:
    """With its line ends as they are, which the patch keeps."""
    return Path(file).read_bytes().decode()


def _edits(change: ScriptChange, loop: int | None) -> Iterator[Change]:
    """Raises `CannotWrite` where an array is page-locked that another file uploads too."""
    origin = change.origin_line if change.origin_file == change.file else None
    others = {line for file, line in change.uploads if file == change.file}
    if len(others) < len(change.uploads):
        raise CannotWrite("another file uploads the same array")
    yield Change(change.kind, change.line, origin, loop, (*sorted(others),))
    if change.kind == "pin-memory":
        yield Change("non-blocking", change.line, None, loop)


def run_trial(job: TrialJob, timeout: float, folder: Path) -> TrialRun:
    """Runs the script once, with its output kept apart. Raises `WorkloadError` without an outcome."""
    number = len([*folder.glob("trial-*")])
    directory = folder / f"trial-{number}"
    job = job.model_copy(update={"script": job.script.model_copy(update={"directory": str(directory)})})
    directory.mkdir(parents=True)
    printed = directory / "stdout"
    with printed.open("wb") as output, (directory / "stderr").open("wb") as errors:
        process = start(job, directory, WORKER, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
    try:
        process.wait(timeout if timeout < float("inf") else None)
    except subprocess.TimeoutExpired:
        raise WorkloadError(
            f"a trial of the script took longer than {timeout:.0f} s",
            next_step="Run again with a longer --timeout.",
        ) from None
    finally:
        end(process, directory)
    outcome = directory / OUTCOME
    if not outcome.exists():
        tail = (directory / "stderr").read_text("utf-8", "replace")[-2000:]
        raise WorkloadError(
            f"a trial of the script ended without results: exit code {process.returncode}",
            next_step="Check that it ends normally or with sys.exit, not os._exit.",
            detail=tail,
        )
    run = TrialRun.model_validate_json(outcome.read_bytes())
    lines = tuple(printed.read_text("utf-8", "replace").splitlines())
    return run.model_copy(update={"results": run.results.model_copy(update={"printed": lines})})
