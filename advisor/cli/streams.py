"""`--out -`: one form of the result on stdout in place of the summary, and files for none of it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from advisor.errors import UsageError

STDOUT = "-"


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
