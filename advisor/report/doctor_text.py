"""What the doctor found, as text for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from advisor.profiles.checkup import Checkup, Finding

WIDTH = 80
_INDENT = " " * 10


def doctor_text(checkup: Checkup) -> str:
    """The verdict, then a paragraph for each finding: what was found, what it means, what to do."""
    lines = textwrap.wrap(checkup.verdict, WIDTH)
    for finding in checkup.findings:
        lines += ["", *_paragraph(finding)]
    return "\n".join(lines)


def _paragraph(finding: Finding) -> Iterator[str]:
    head = f"{'[' + finding.state + ']':<10}{finding.subject}: {finding.found}"
    yield from _wrapped(head, "")
    if finding.means:
        yield from _wrapped(finding.means, _INDENT)
    if finding.next_step:
        yield from _wrapped(f"next: {finding.next_step}", _INDENT)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
