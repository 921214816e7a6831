"""Progress on stderr: a bar with the strategy at work and the time left, or plain lines in a pipe."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.text import Text
from typing_extensions import Self


class Progress:
    """Receives the number of processes, the time limit and the current activity. This class prints nothing
    (--quiet)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
    def start(self, total: int) -> None: ...
    def limit(self, seconds: float) -> None: ...
    def note(self, line: str) -> None: ...
    def begin(self, what: str) -> None: ...
    def printed(self, lines: str) -> None:
        """What the user's code printed in its first run, as it is to be shown."""

    def end(self) -> None: ...


Silent = Progress


class Labelled(Progress):
    """Puts a label before what is at work: a version of the code, a value of a sweep. How many processes are
    to come is known of the whole alone, and so is the time left unless each part has `limits` of its own.
    What the user's code prints is shown once."""

    def __init__(self, progress: Progress, label: str = "", *, limits: bool = False) -> None:
        self._progress, self.label, self._limits = progress, label, limits
        self._printed = False

    def limit(self, seconds: float) -> None:
        if self._limits:
            self._progress.limit(seconds)

    def begin(self, what: str) -> None:
        self._progress.begin(f"{self.label}: {what}" if self.label else what)

    def printed(self, lines: str) -> None:
        if not self._printed:
            self._printed = True
            self._progress.printed(lines)

    def end(self) -> None:
        self._progress.end()


class _Printing(Progress):
    def note(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def printed(self, lines: str) -> None:
        print(f"output of the first run:\n{lines}", file=sys.stderr, flush=True)


class Lines(_Printing):
    """One line for each process, for logs, with the time left where that is limited."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._done, self._total = 0, 0  # the total is known once the workload is
        self._clock, self._end = clock, math.inf

    def start(self, total: int) -> None:
        self._total = total

    def limit(self, seconds: float) -> None:
        self._end = self._clock() + seconds

    def begin(self, what: str) -> None:
        of = f"/{self._total}" if self._total else ""
        left = f" ({_left(self._end - self._clock())} left)" if math.isfinite(self._end) else ""
        print(f"[{self._done + 1}{of}] {what}{left}", file=sys.stderr, flush=True)

    def end(self) -> None:
        self._done += 1


def _left(seconds: float) -> str:
    return f"{max(0.0, seconds):.0f} s"


class _TimeLeft(TimeRemainingColumn):
    """The time until the limit; without one, an estimate by the pace so far."""

    end = math.inf

    def render(self, task: Task) -> Text:
        return Text(_left(self.end - time.monotonic())) if math.isfinite(self.end) else super().render(task)


class Bar(_Printing):
    """A bar that stays on one line of 80 columns; Rich prints above it what is written to stderr."""

    def __init__(self) -> None:
        self._left = _TimeLeft(compact=True)
        self._bar = RichProgress(
            TextColumn("{task.description:<26}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            self._left,
            TextColumn("left"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def start(self, total: int) -> None:
        self._bar.update(self._task, total=total)

    def limit(self, seconds: float) -> None:
        self._left.end = time.monotonic() + seconds

    def begin(self, what: str) -> None:
        self._bar.update(self._task, description=what)

    def end(self) -> None:
        self._bar.advance(self._task)


def make_progress(*, quiet: bool) -> Progress:
    if quiet:
        return Silent()
    return Bar() if sys.stderr.isatty() else Lines()
