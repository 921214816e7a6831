"""Progress on stderr: a bar with the strategy at work and the time left, or plain lines in a pipe."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


class Progress(Protocol):
    """Hears what is at work."""

    def start(self, total: int) -> None:
        """So many processes are to come."""

    def begin(self, what: str) -> None:
        """One of them starts."""

    def end(self) -> None:
        """It has ended."""


class Silent:
    """Says nothing (--quiet)."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def start(self, total: int) -> None:
        """See `Progress`."""

    def begin(self, what: str) -> None:
        """See `Progress`."""

    def end(self) -> None:
        """See `Progress`."""


class Lines(Silent):
    """One line for each process, for logs."""

    def __init__(self) -> None:
        self._done, self._total = 0, 0  # the total is known once the workload is

    def start(self, total: int) -> None:
        """So many in all."""
        self._total = total

    def begin(self, what: str) -> None:
        """Prints what starts."""
        of = f"/{self._total}" if self._total else ""
        print(f"[{self._done + 1}{of}] {what}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Counts it."""
        self._done += 1


class Bar(Silent):
    """A bar that stays on one line of 80 columns."""

    def __init__(self) -> None:
        self._bar = RichProgress(
            TextColumn("{task.description:<26}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: TaskID = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def start(self, total: int) -> None:
        """The bar's length."""
        self._bar.update(self._task, total=total)

    def begin(self, what: str) -> None:
        """Shows it."""
        self._bar.update(self._task, description=what)

    def end(self) -> None:
        """One step on."""
        self._bar.advance(self._task)


def make_progress(*, quiet: bool) -> Silent:
    """What fits: nothing, lines, or a bar on a terminal."""
    if quiet:
        return Silent()
    return Bar() if sys.stderr.isatty() else Lines()
