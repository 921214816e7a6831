"""Trials of a script: runs of it with changes imposed, and a patch of those that pay.

    one run with all changes, where one depends on bytes alone -> what refuses itself
    runs with frames in turns -> how much faster each is; where none is in the first, that is all
    an unchanged run, and a second where they differ -> whether results are equal; without them, each alone
    the patch on a copy -> its results, and its time beside the script's

No file of the user's is written: a patched source stands in for the file in the process that runs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from time import monotonic

from advisor import units
from advisor.errors import WorkloadError
from advisor.measure.jobs import ScriptJob, Settings
from advisor.measure.launcher import script_job
from advisor.measure.progress import Progress
from advisor.measure.recording.calls import MODULES
from advisor.measure.trying.alternation import AS_IS, TrialTimes, fits, judged, trial_times
from advisor.measure.trying.candidates import (
    Candidate,
    allocator_candidates,
    candidates,
    nothing_to_gain,
    written_patch,
)
from advisor.measure.trying.changes import WHOLE_PROCESS, is_variable
from advisor.measure.trying.results import Equality, Results
from advisor.measure.trying.worker import TimeUp, TrialJob, TrialRun, preloaded, run_trial
from advisor.profiles.crossings import ScriptRun
from advisor.profiles.trials import Patch, Trial, TrialBlock, TrialOutcome, Trials
from advisor.strategies.edits import Change
from advisor.strategies.syntax import loop_lines
from advisor.verdicts.ceilings import LITTLE, ceiling_of, scopes

PROCESSES = 2
"""Runs in which frames alternate: what a process draws is told from what a change gives by two."""
MOST_PROCESSES = 5
"""For a change that seems to gain `_WORTH_MORE` and is not sure to: on an H200, two processes of a DataLoader
with `pin_memory=True` told 1.18x (0.96 to 1.43), of a page-locked camera frame 1.17x (0.95 to 1.44)."""
PATCHED_PROCESSES, MOST_PATCHED_PROCESSES = 2, 6
"""Runs of the script as it is and as patched, in turns; as many as the second where they do not tell which is
faster: on an H200, three of each told 1.23x (0.94 to 1.62) of a patch whose gain was 1.35x."""
SCREENING = MOST_PROCESSES
"""The number of the process in which CuPy's allocators take turns; those of the patch come after it."""
PATCHED = "patched"
_AS_IT_IS = "the unchanged script"
_ANOTHER = "another allocator was faster"
_WORTH_MORE = 1.05
_LEAST_SPEEDUP = 1.01
"""In the first process, before further ones are spent on a change. With a process's luck of 2 % a gain of 5 %
stays in 19 of 20; what is dropped has little to gain."""
INTERRUPTED = "Interrupted while changes were tried: the page shows what was measured before."
RunTrial = Callable[[TrialJob], TrialRun]


def try_script(
    settings: Settings, script: ScriptRun, concluded: ScriptRun | None, progress: Progress, folder: Path
) -> Trials:
    """Tries changes of the lines of the slowest loop, or tells why not. concluded: with its advice."""
    run = concluded or script
    if script.exit_code:
        return Trials(reason="Nothing was tried: the script failed.", seconds=0.0)
    if settings.backend != "cuda":
        return Trials(reason="Nothing was tried: that needs a GPU.", seconds=0.0)
    slowest = next(iter(scopes(run)), None)
    if slowest is None or slowest.number is None:
        return Trials(reason="Nothing to gain: no loop repeats a copy or a wait.", seconds=0.0)
    ceiling = ceiling_of(run, slowest)
    loop = slowest.number
    suggested = candidates(script, loop, Path.cwd(), run.advice)
    if reason := nothing_to_gain(ceiling, suggested):
        return Trials(loop=loop, reason=reason, seconds=0.0)
    file = settings.file.absolute()  # as its lines name it
    job = script_job(settings, folder).model_copy(update={"file": str(file)})
    end = (monotonic() if settings.began is None else settings.began) + settings.trial_seconds
    promised = sum(sum(each.promised.values()) for each in suggested)
    if promised >= LITTLE * ((ceiling and ceiling.of_seconds) or 0.0):
        suggested = (*suggested, *allocator_candidates(script, loop, file))
    used = {crossing.library for crossing in script.crossings if crossing.loop == loop}
    libraries = sorted(module for module, library in MODULES.items() if library in used)
    files = {file, *(Path.cwd() / each.file for each in script.sources)}
    with preloaded(libraries, [*files]) as server:
        runs = partial(run_trial, timeout=settings.timeout, folder=folder / "trials", server=server)
        session = Session(script, job, loop, suggested, runs, progress, settings.options.checked, end=end)
        return session.trials(ceiling.seconds if ceiling else math.inf)


@dataclass
class Session:
    """All trials of one script. `run` runs it once; results are compared as `files` and downloads tell."""

    script: ScriptRun
    job: ScriptJob
    loop: int
    suggested: Sequence[Candidate]
    run: RunTrial
    progress: Progress
    files: tuple[str, ...] = ()
    start: Path = field(default_factory=Path.cwd)
    end: float = math.inf
    """On the monotonic clock: no run goes on after it, and what was measured before counts."""
    _blocks: list[TrialBlock] = field(default_factory=list)
    _left: dict[str, tuple[TrialOutcome, str]] = field(default_factory=dict)
    """Changes that left the trials, each with its outcome and why."""
    _alone: set[str] = field(default_factory=set)
    _unchanged: Equality | None = None
    _ran_twice: bool = False
    _all_compared: bool = False
    _runs: int = 0
    _ended: str = ""
    """Why trials ended before all was tried."""
    _patch: Patch | None = None
    _written: tuple[str, ...] = ()

    def trials(self, most: float) -> Trials:
        """Runs all trials; a script that fails unchanged ends them. most: seconds of a frame that memory can
        change."""
        began = monotonic()
        try:
            self.progress.note(self._plan())
            self._measure()
            if faster := self._faster():
                self._try_patch(faster, most)
        except TimeUp:
            self._ended = "The time (--max-seconds) ended before all was tried."
        except KeyboardInterrupt:
            self._ended = INTERRUPTED
        except WorkloadError as problem:
            self._ended = f"Trials ended early: {problem.message}. {problem.next_step}"
        equality = self._unchanged
        return Trials(
            frame_seconds=self._times().seconds.get(AS_IS),
            loop=self.loop,
            trials=tuple(map(self._judged, self._measured())),
            blocks=tuple(self._blocks),
            compared=equality.compared if equality else (),
            unlike=equality.unlike if equality else (),
            patch=self._patch,
            runs=self._runs,
            seconds=monotonic() - began,
            reason=self._ended,
        )

    def _plan(self) -> str:
        count, runs = len(self._lines), self._runs_needed
        least, most, first = (units.seconds(each * self.script.seconds, 2) for each in runs)
        changes = f"{count} change{'s' * (count != 1)}"
        whole = f"{runs[0]} to {runs[1]} runs of the script ({least} to {most})"
        return f"trying {changes}: {whole} if one pays, else about {runs[2]} ({first})"

    @property
    def _lines(self) -> list[Change]:
        return [each.change for each in self.suggested if each.change.kind != "allocator"]

    @property
    def _runs_needed(self) -> tuple[int, int, int]:
        """Runs for changes of lines: at least and at most where one pays, with results and the patch; and
        where none does."""
        first = 1 + len(self._alone_of(self._lines))
        least = PROCESSES * first + 2 * PATCHED_PROCESSES + 3
        return least, MOST_PROCESSES * first + 2 * MOST_PATCHED_PROCESSES + 4, first

    def _measure(self) -> None:
        """Times changes, and compares their results. Where one differs, the others are timed without it."""
        lines = self._lines
        hoists = any(change.kind == "hoist" for change in lines)
        together = self._results("all changes", lines) if hoists else None
        if together and together.exit_code:
            self._compare(together, lines)
        self._time()
        if not self._differ and any(each.change.kind != "allocator" for each in self._faster()):
            self._compare(together or self._results("all changes", lines), lines)
            if self._differ and self._live(lines):
                self._blocks = [block for block in self._blocks if block.process >= SCREENING]
                self._time()
        for change in self._faster_allocators():
            self._compare(self._results(change.name, [change]), [change])
        times = self._times().seconds
        behind = sorted(self._faster_allocators(), key=lambda change: times[change.name])[1:]
        self._leave("not-faster", {change.name: _ANOTHER for change in behind})
        self._all_compared = True

    @property
    def _differ(self) -> bool:
        return any(outcome == "differs" for outcome, _ in self._left.values())

    def _leave(self, outcome: TrialOutcome, reasons: Mapping[str, str]) -> None:
        """Ends the trials of changes, by name with the reason."""
        self._left |= {name: (outcome, reason) for name, reason in reasons.items()}

    def _live(self, changes: Iterable[Change] | None = None) -> list[Change]:
        every = (each.change for each in self.suggested) if changes is None else changes
        return [change for change in every if change.name not in self._left]

    def _faster(self) -> list[Candidate]:
        outcomes = {trial.name: trial.outcome for trial in self._measured()}
        return [each for each in self.suggested if outcomes[each.change.name] == "faster"]

    def _faster_allocators(self) -> list[Change]:
        return [each.change for each in self._faster() if each.change.kind == "allocator"]

    def _measured(self) -> list[Trial]:
        untimed = "the loop has too few frames: run it with more"
        if self._ended:
            untimed = "the trials ended before it was timed"
        times, trials = self._times(), (each.trial for each in self.suggested)
        return [judged(trial, times, self._left.get(trial.name), untimed) for trial in trials]

    def _judged(self, trial: Trial) -> Trial:
        """The trial as reported: faster only where its results were compared and are known to be equal."""
        figures: dict[str, object] = {"in_patch": trial.name in self._written}
        unproved = self._unchanged is not None and self._unchanged.unproved
        if trial.outcome == "faster" and (unproved or not self._all_compared):
            reason = "the trials ended before results were compared"
            if self._all_compared:
                reason = "faster, but nothing proves that results are equal"
            figures |= {"outcome": "open", "reason": reason}
        return trial.model_copy(update=figures)

    def _times(self) -> TrialTimes:
        """Times from the main processes. What screening left out is told at their speed, so that a page's
        times divide to its ratios: the script as it is took another time in the screening's process."""
        main = trial_times((b for b in self._blocks if b.process < SCREENING), self._alone)
        screened = trial_times(b for b in self._blocks if b.process == SCREENING)
        as_is = screened.seconds.get(AS_IS, math.nan)
        speed = main.seconds.get(AS_IS, as_is) / as_is
        seconds = {name: speed * each for name, each in screened.seconds.items()}
        return TrialTimes({**seconds, **main.seconds}, {**screened.speedups, **main.speedups})

    def _as_it_is(self) -> Equality:
        """Raises `WorkloadError` where the script cannot run again."""
        if self._unchanged is None:
            first = self._results(_AS_IT_IS)
            self._unchanged = Equality(first, first)
        return self._unchanged

    def _difference(self, changed: Results) -> str:
        """How a changed run differs from an unchanged one. A second unchanged run is needed only where it
        does: it tells what the script does not agree in with itself."""
        if not self._ran_twice and self._as_it_is().difference(changed):
            self._ran_twice = True
            self._unchanged = Equality(self._as_it_is().expected, self._results(_AS_IT_IS))
        return self._as_it_is().difference(changed)

    def _compare(self, together: Results, changes: Sequence[Change]) -> None:
        """Ends the trials of changes whose results differ. together: the results under all of them."""
        difference = self._difference(together)
        live = self._live(changes) if difference else []
        if len(changes) == 1:
            alone = {change.name: difference for change in live}
        else:
            alone = {c.name: self._difference(self._results(c.name, [c])) for c in live}
        if not any(alone.values()):
            alone = dict.fromkeys(alone, f"only together with the others, {difference}")
        self._leave("differs", {n: why for n, why in alone.items() if why and n not in self._left})

    def _results(
        self, what: str, changes: Sequence[Change] = (), sources: Mapping[str, str] | None = None
    ) -> Results:
        """The results of a run with all of these in force; what was refused in it is noted."""
        run = self._run_once(f"comparing results: {what}", [AS_IS], changes, sources)
        self._leave("refused", run.refused)
        if not changes and not sources and run.results.exit_code:
            raise WorkloadError(
                f"the script ended with exit code {run.results.exit_code} when it ran again: {run.error}",
                next_step="Check that it can run twice: files that it writes, ports that it opens.",
            )
        return run.results

    def _time(self) -> None:
        """Frames in two processes, in more for a change that seems to gain. Allocators are tried where a
        line's change gains in the first."""
        allocators = [change for change in self._live() if change.kind == "allocator"]
        lines = [change for change in self._live() if change not in allocators]
        self._take_turns(0, lines)
        if lines and not self._live(lines):
            self._leave("open", {c.name: "not tried: no change of a line gained" for c in allocators})
        elif self.end - monotonic() < self._runs_needed[0] * self.script.seconds:
            no_time = "left out: the time (--max-seconds) is for changes of lines"
            self._leave("open", {change.name: no_time for change in allocators})
        # CuPy's take turns in one process: the fastest, if it gains, is timed on its own.
        screened = [change for change in self._live(allocators) if not is_variable(change)]
        if screened and not any(block.process == SCREENING for block in self._blocks):
            self._timed("allocators in turns", SCREENING, screened)
        self._drop(screened, SCREENING)
        ahead = self._seconds(SCREENING)
        behind = sorted(self._live(screened), key=lambda change: ahead[change.name])[1:]
        self._leave("not-faster", {change.name: _ANOTHER for change in behind})
        self._take_turns(0, self._live(allocators))
        for process in range(1, MOST_PROCESSES):
            self._take_turns(process, self._live() if process < PROCESSES else self._promising())

    def _alone_of(self, changes: Sequence[Change]) -> list[Change]:
        """Changes that are timed in separate processes: all if the loop has too few frames."""
        fit = fits(self.script.loops[self.loop].frames, len(changes) + 1)
        return [change for change in changes if not fit or change.kind in WHOLE_PROCESS]

    def _take_turns(self, process: int, changes: Sequence[Change]) -> None:
        """Frames in turns with the script as it is, or in processes beside it. What gains nothing in the
        first leaves."""
        alone = self._alone_of(changes)
        turning = [change for change in changes if change not in alone]
        if turning or (alone and all(block.process != process for block in self._blocks)):
            self._timed("the changes in turns", process, turning)
        for change in alone:
            self._alone.add(change.name)
            self._timed(change.name, process, [change], first=())
        if process == 0:
            self._drop(alone)
            self._drop(turning, together=True)

    def _promising(self) -> list[Change]:
        """Changes that seem to gain much, where processes differ by as much."""
        ratios = self._times().speedups
        return [
            change
            for change in self._live()
            if (ratio := ratios.get(change.name)) and ratio.low <= 1 and ratio.value >= _WORTH_MORE
        ]

    def _seconds(self, process: int) -> Mapping[str, float]:
        return trial_times(b for b in self._blocks if b.process == process).seconds

    def _drop(self, changes: Sequence[Change], process: int = 0, *, together: bool = False) -> None:
        """Leaves out changes that have no frames in a process or gain next to nothing there; together: all of
        them or none, since more frames cost the same for all."""
        seconds, live = self._seconds(process), self._live(changes)
        as_is = seconds.get(AS_IS, 0.0)
        slow = [c.name for c in live if seconds.get(c.name, math.inf) * _LEAST_SPEEDUP > as_is]
        if not together or (as_is and len(slow) == len(live)):
            self._leave("not-faster", dict.fromkeys(slow, "dropped after its first process"))

    def _timed(
        self,
        what: str,
        process: int,
        changes: Sequence[Change] = (),
        *,
        first: Sequence[str] = (AS_IS,),
        sources: Mapping[str, str] | None = None,
    ) -> None:
        """Blocks of frames of each change, in turns after `first`."""
        contestants = [*first, *(change.name for change in changes)]
        what = f"timing {what}, process {process + 1}"
        run = self._run_once(what, contestants, changes, sources, process)
        refused = run.refused
        if run.results.exit_code:
            self._as_it_is()
            it = "it" if len(changes) == 1 else "one of the changes in turns"
            failed = f"the script ends with exit code {run.results.exit_code} under {it}: {run.error}"
            refused = {**dict.fromkeys((change.name for change in changes), failed), **refused}
        self._leave("refused", refused)
        self._blocks += [block for block in run.blocks if block.contestant not in refused]

    def _run_once(
        self,
        what: str,
        contestants: Sequence[str],
        changes: Sequence[Change],
        sources: Mapping[str, str] | None,
        process: int | None = None,
    ) -> TrialRun:
        """process: its number, if it times frames; without one, its results are compared."""
        left = self.end - monotonic()
        if left <= 0:
            raise TimeUp
        self._runs += 1
        self.progress.begin(what)
        changed = {
            "task": "results" if process is None else "time",
            "process": process or 0,
            "changes": tuple(changes),
            "contestants": tuple(contestants),
            "sources": dict(sources or {}),
            "most_seconds": left if left < math.inf else None,
        }
        run = self.run(self._unchanged_job.model_copy(update=changed))
        self.progress.end()
        return run

    @cached_property
    def _unchanged_job(self) -> TrialJob:
        """What all runs have in common."""
        loop = self.script.loops[self.loop]
        place, file = loop.place, self.start / loop.place.file
        lines = loop_lines(file.read_bytes())
        if place.line not in lines:
            raise WorkloadError(
                f"{place.file} has no loop in line {place.line} any more", next_step="Profile it again."
            )
        return TrialJob(
            script=self.job,
            task="results",
            contestants=(AS_IS,),
            loop_file=str(file),
            loop=lines.index(place.line),
            frames=loop.frames,
            files=self.files,
        )

    def _try_patch(self, faster: Sequence[Candidate], most: float) -> None:
        """The patch of these, run and timed. What is known of it stays where the time ends."""
        loop = self.script.loops[self.loop].place
        patch, self._written = written_patch(faster, loop, self.start, most)
        self._patch = patch
        if not patch.text:
            return
        sources = {str(file): after for file, (_, after) in patch.texts.items()}
        difference = self._difference(self._results("the patch", sources=sources))
        unproved = self._as_it_is().unproved
        equal = None if unproved and not difference else not difference
        patch = patch.model_copy(update={"equal": equal, "reason": difference or unproved})
        self._patch = patch
        if difference:
            return
        for number in range(1, MOST_PATCHED_PROCESSES + 1):
            process = SCREENING + number
            self._timed(_AS_IT_IS, process)
            self._timed("the patch", process, first=[PATCHED], sources=sources)
            mine = [block for block in self._blocks if block.process > SCREENING]
            ratio = trial_times(mine, (PATCHED,)).speedups.get(PATCHED)
            if ratio is not None:
                timed = {"speedup": ratio.value, "interval": (ratio.low, ratio.high)}
                self._patch = patch.model_copy(update=timed)
            settled = ratio is not None and (ratio.low > 1 or ratio.high < 1)
            untimed = all(block.contestant != PATCHED for block in mine)
            if number >= PATCHED_PROCESSES and (settled or untimed):
                return
