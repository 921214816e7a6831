"""Shared by the commands: where messages and results go, which device is used, what happens without one."""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.errors import INTERRUPTED, FileProblem, NothingMeasured, UsageError, WorkloadError
from advisor.texts import bounded, for_log, printable

if TYPE_CHECKING:
    from advisor.calibration.calibrations import Launch
    from advisor.configuration import OptionSource
    from advisor.doctor import Facts
    from advisor.measure.backends import Machine
    from advisor.measure.jobs import Settings
    from advisor.measure.launcher import Launcher
    from advisor.nsys.exports import FileTrace
    from advisor.profiles.schema import Profile
    from advisor.report.page import Page

STDOUT = "-"


class _Messages(io.FileIO):
    """stderr that drops a message which cannot be written: that changes no exit code."""

    def write(self, data: Any) -> int:
        """All of it counts as written."""
        with suppress(OSError):
            super().write(data)
        return memoryview(data).nbytes


def settle() -> None:
    """Gives the program the streams that it was started without; errors on stderr are no errors. Without one,
    the next file that is opened would take its number. What is written to a closed stdout fails as on a full
    disk; Python would not report it."""
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8")
    if sys.stderr is sys.__stderr__:
        encoding = getattr(sys.stderr, "encoding", None)
        raw = io.BufferedWriter(_Messages(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, encoding=encoding, errors="replace", line_buffering=True)


def put(text: str) -> None:
    """Writes to stdout, into a pipe or file as UTF-8. A reader that goes away changes no exit code."""
    try:
        if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
            sys.stdout.reconfigure(encoding="utf-8")
        print(text, end="" if text.endswith("\n") else "\n", flush=True)
    except BrokenPipeError:
        drop()


def flush() -> None:
    """Flushes stdout. Raises OSError, such as `BrokenPipeError`, if it cannot be written. The rest is then
    dropped: Python would try again at its end, and exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        drop()
        raise


def drop() -> None:
    with suppress(OSError, ValueError):  # a stream that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


GATE_FAILED = 1
READER_GONE = 128 + 13
"""Exit code that a shell gives a program ended by SIGPIPE, signal 13."""
BUG = 70
"""EX_SOFTWARE of sysexits.h: 1 means that a gate failed, and a bug must not be taken for that."""


@dataclass(frozen=True)
class Around:
    """Surroundings of the commands. None is the real thing, imported when a command needs it."""

    machine: Machine | None = None
    calibrating: Launch | None = None
    facts: Callable[[int, Path | None], Facts] | None = None
    launching: Callable[[Settings], Launcher] | None = None
    began: float | None = None
    """On `time.monotonic`, when the command's time began; that of this process's start if None."""


REAL = Around()
AROUND = ContextVar("AROUND", default=REAL)
"""Set by `advisor.cli.app.main` for the command that it runs."""


def machine() -> Machine:
    from advisor.measure.backends import Machine

    return AROUND.get().machine or Machine()


def launcher(settings: Settings) -> Launcher | None:
    """Launcher of the jobs; None for processes of this run's own."""
    make = AROUND.get().launching
    return make(settings) if make else None


def began() -> float:
    """On `time.monotonic`, when the command's time began: starting Python and its imports are in it. The
    kernel counts a process's start from its own (proc(5), `stat`, field 22)."""
    if (start := AROUND.get().began) is not None:
        return start
    now = time.monotonic()
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        started = int(fields.split()[19]) / os.sysconf("SC_CLK_TCK")
        return now - max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, ValueError, IndexError):
        return now


def say(text: str, *, written: bool = False, most: int | None = None) -> None:
    """Prints a message to stderr, without secrets, names and what a terminal would obey. If it has the path
    of a file that was `written`, the path stays one that can be opened. most: characters, if it may hold what
    the user gave; secrets are masked before it is cut."""
    from advisor.profiles.redaction import here

    redactor = here(include_host=written)
    masked = (redactor.mask if written else redactor.hide)(text)
    print(for_log(printable(bounded(masked, most) if most else masked)), file=sys.stderr)


def text(page: Page, *, details: bool, quiet: bool = False) -> str:
    """A page for stdout: what fits a screen, everything, or the verdict alone."""
    from advisor.report.pages import render

    form = "verdict" if quiet else "details" if details else "txt"
    bars = sys.stdout.isatty() and (sys.stdout.encoding or "").lower().startswith("utf")
    width = min(max(shutil.get_terminal_size().columns, 40), 160) if sys.stdout.isatty() else 80
    return for_log(render(page, form, bars=bars, width=width))


@dataclass(frozen=True)
class Output:
    """Where a command's page goes, in which forms, and how much of it is printed. Raises `UsageError` for
    unknown forms, and for several on stdout."""

    out: Path | None
    formats: str
    details: bool
    quiet: bool

    def __post_init__(self) -> None:
        self.form  # noqa: B018

    @property
    def wanted(self) -> tuple[str, ...]:
        from advisor.configuration import parse_formats

        return parse_formats(self.formats)

    @property
    def form(self) -> str | None:
        """The one form that goes to stdout; None where files are written."""
        wanted = self.wanted
        if self.out is None or str(self.out) != STDOUT:
            return None
        if len(wanted) > 1:
            wrong = f"--out - takes one format, not {', '.join(wanted)}"
            raise UsageError(wrong, next_step="Add --format md, for example.")
        return wanted[0]

    def reserved(self, kind: str) -> AbstractContextManager[object]:
        """Makes sure, before a long run, that the files of such a page can be written."""
        from advisor.profiles import outputs
        from advisor.report import pages

        if self.out is None or self.form:
            return nullcontext()
        return outputs.output_directory(self.out, pages.names(kind, self.wanted))

    def show(
        self, page: Page, directory: Path | None = None, *, aside: bool = False, printed: bool = True
    ) -> None:
        """One form on stdout, or files and the text; aside: the earlier report moves to `previous`. printed:
        with the text."""
        from advisor.profiles import outputs
        from advisor.report import pages

        directory = directory or self.out
        if self.form:
            put(pages.render(page, self.form))
        elif directory is None:
            put(text(page, details=self.details, quiet=self.quiet))
        else:
            names = pages.names(page.kind, self.wanted)
            with outputs.output_directory(directory, names, aside=aside) as folder:
                self.write(page, folder, aside=aside, printed=printed)
        if directory is not None:
            summarize(page)

    def write(
        self,
        page: Page,
        folder: Path,
        *,
        aside: bool = True,
        printed: bool = True,
        further: Mapping[str, str] | None = None,
    ) -> list[Path]:
        """Writes a page and further texts by file name, prints the page, and says where they are."""
        from advisor.profiles import outputs
        from advisor.report import pages

        previous = outputs.set_aside(folder) if aside else None
        if previous and not self.quiet:
            say(f"the previous report is in {previous}", written=True)
        paths = pages.write(page, folder, self.wanted)
        paths += [outputs.write(folder, name, content) for name, content in (further or {}).items()]
        if printed:
            print(text(page, details=self.details, quiet=self.quiet))
        say_written(paths, quiet=self.quiet)
        return paths


@contextmanager
def interruptible(state: Callable[[], str]) -> Iterator[None]:
    """After Ctrl-C, says in what state it leaves things, and exits."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"interrupted: {state()}", written=True)
        sys.exit(INTERRUPTED)


def say_written(paths: Sequence[Path], *, quiet: bool) -> None:
    """Where the files of one folder are, the one to open first."""
    from advisor.profiles.outputs import instead_of

    for path in paths:
        if wanted := instead_of(path):
            say(f"warning: {wanted} was changed by another program during the run: wrote {path}")
    if quiet or not paths:
        return
    names = [path.name for path in sorted(paths, key=lambda path: path.suffix != ".html")]
    say(f"wrote {paths[0].parent / names[0]}" + "".join(f", {name}" for name in names[1:]), written=True)


def summarize(page: Page) -> None:
    """The page in the summary of a GitHub job. That it cannot be written is no reason to fail."""
    from advisor.report import pages

    try:
        pages.append_step_summary(page)
    except FileProblem as problem:
        say(f"warning: {problem.message}")


def is_report(file: Path) -> bool:
    return file.suffix in (".sqlite", ".nsys-rep", ".qdrep")


def require_report(is_given: bool, *, frame: str | None, nsys: Path | None) -> None:
    """Raises `UsageError` for options that have no effect without a report of Nsight Systems."""
    for name, value in (("--frame", frame), ("--nsys", nsys)):
        if value is not None and not is_given:
            wrong = f"{name} has no effect without a report of Nsight Systems"
            raise UsageError(wrong, next_step=f"Omit {name}.")


def read_trace(file: Path, nsys: Path | None, frame: str | None, source: OptionSource) -> FileTrace:
    """A report of Nsight Systems, judged by the rules with the thresholds that were given; `frame` is the
    NVTX range that is one frame, "" for a program's, even with ranges of advisor."""
    from advisor import configuration
    from advisor.nsys.capturing import read_report
    from advisor.profiles.conclusions import Preferences
    from advisor.profiles.files import scratch
    from advisor.rules.reports import judged

    with scratch() as folder:
        summary = read_report(file, nsys, folder, frame)
    if summary.program is None:
        return summary
    preferences = configuration.preferences(configuration.places(source), Preferences())
    return summary.model_copy(update={"program": judged(summary.program, preferences)})


def require_figures(result: Profile) -> None:
    """Exit code 3 when the user's code raised under every strategy that was run; 4 when they failed for other
    reasons, or nothing was measured nor predicted."""
    from advisor.profiles.schema import RAISED

    if result.measured() or result.script:
        return
    failed = [row for row in result.results if row.status == "failed"]
    if failed:
        raised = all(row.reason.startswith(RAISED) for row in failed)
        raise (WorkloadError if raised else NothingMeasured)(
            f"the workload failed under every strategy. {failed[0].strategy}: {failed[0].reason}",
            next_step=failed[0].next_step or "The report has the output of each process.",
            detail=failed[0].detail if raised else "",
        )
    if not any(r.status == "predicted" for p in result.predictions for r in p.results):
        wrong = "no strategy could be measured or predicted"
        raise NothingMeasured(wrong, next_step="The report lists the reason for each.")
