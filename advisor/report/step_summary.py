"""The Markdown in the summary of a GitHub job."""

from __future__ import annotations

import os
from pathlib import Path

from advisor.errors import FileProblem

_VARIABLE = "GITHUB_STEP_SUMMARY"


def append_step_summary(markdown: str) -> None:
    """Appends a report in Markdown to the file that $GITHUB_STEP_SUMMARY names, if it names one.

    Raises `FileProblem` where that file cannot be written.
    """
    name = os.environ.get(_VARIABLE)
    if not name:
        return
    try:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(markdown + "\n")
    except OSError as problem:
        raise FileProblem(
            f"${_VARIABLE} names {name}, which cannot be written: {problem.strerror}",
            next_step="The report itself is written; unset the variable or correct it.",
        ) from None
