"""`--out -`: one form of the result on stdout in place of the summary, and files for none of it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from advisor.errors import UsageError

STDOUT = "-"


class _Messages(io.FileIO):
    """stderr, which loses what nobody can take: a message that cannot be given changes no exit code."""

    def write(self, data: Any) -> int:
        """All of it counts as written."""
        with suppress(OSError):
            super().write(data)
        return memoryview(data).nbytes


def settle() -> None:
    """Gives the program the streams that it was started without; errors on stderr are no errors.

    Without one, the next file that is opened would take its number. What is written to a closed stdout fails
    as on a full disk; Python would not report it.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # the lowest number that is free
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), encoding="utf-8")
    if sys.stderr is sys.__stderr__:
        kept = getattr(sys.stderr, "encoding", None)
        raw = io.BufferedWriter(_Messages(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, encoding=kept, errors="replace", line_buffering=True)


def only_format(out: Path | None, formats: Sequence[str]) -> str | None:
    """The one form that goes to stdout; None where files are written. Raises `UsageError` for several."""
    if out is None or str(out) != STDOUT:
        return None
    if len(formats) > 1:
        raise UsageError(
            f"--out - takes one format, not {', '.join(formats)}", next_step="Add --format md, for example."
        )
    return formats[0]


def put(text: str) -> None:
    """Writes to stdout, into a pipe or file as UTF-8. A reader that goes away changes no exit code."""
    try:
        if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
            sys.stdout.reconfigure(encoding="utf-8")
        print(text, end="" if text.endswith("\n") else "\n", flush=True)
    except BrokenPipeError:
        drop()


def flush() -> None:
    """Sends on what was printed. Raises OSError, `BrokenPipeError` of them, where nobody can take it.

    The rest is dropped then: Python would try again at its end, and exit with 120.
    """
    try:
        sys.stdout.flush()
    except OSError:
        drop()
        raise


def drop() -> None:
    """Whatever is not written yet goes nowhere."""
    with suppress(OSError, ValueError):  # a stream that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def require_page(form: str) -> None:
    """Raises `UsageError` for json, which several profiles have none of."""
    if form == "json":
        raise UsageError(
            "several profiles have no combined JSON", next_step="Give --format md, or one profile."
        )
