"""What failed, why, and what to do about it: every form says so before any verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from advisor.profiles.schema import Failed, Profile
from advisor.report import words
from advisor.report.blocks import Failure

MEND = "Fix the error above and run again."
FIGURES = re.compile(r"\d+(\.\d+)?")
"""Reasons that differ in their figures only are told once."""
_FRAME = re.compile(r'\s*File ".+", line \d+')
_EXCERPT_LINES = 5
_EXCERPT_WIDTH = 74


def all_failed(profile: Profile) -> bool:
    """Whether the workload failed under every strategy that was run."""
    status = {row.status for row in profile.results}
    return "failed" in status and "measured" not in status


def failures(profile: Profile) -> tuple[Failure, ...]:
    """The strategies that failed, those with the same reason and the same traceback together."""
    alike: dict[tuple[str, str], list[Failed]] = {}
    for row in failed_rows(profile):
        alike.setdefault((FIGURES.sub("0", row.reason), excerpt(row.detail)), []).append(row)
    every = all_failed(profile) and len(alike) == 1
    return tuple(_failure(rows, every) for rows in alike.values())


def _failure(rows: Sequence[Failed], every: bool) -> Failure:
    who = listing(row.strategy for row in rows)
    what = f"Every strategy that was run ({who}) failed" if every else f"{who} failed"
    first = rows[0]
    return Failure(
        f"{what}: {words.line(first.reason, 500)}",
        excerpt(first.detail),
        words.line(first.next_step, 300) or MEND,
    )


def failed_rows(profile: Profile) -> list[Failed]:
    """The strategies that were tried and failed."""
    return [row for row in profile.results if isinstance(row, Failed)]


def first_reason(profile: Profile) -> str:
    """Why the first of all strategies failed; nothing where one of them did not."""
    return words.line(failed_rows(profile)[0].reason, 300) if all_failed(profile) else ""


def listing(strategies: Iterable[str]) -> str:
    """`a` and `b`."""
    return words.listing(map(words.code, strategies))


def excerpt(detail: str) -> str:
    """The last frame of a traceback and the error; nothing where there is none."""
    lines = [line for line in words.block(detail).splitlines() if set(line) - set(" ^~")]
    frames = [i for i, line in enumerate(lines) if _FRAME.match(line)]
    if not frames:
        return ""
    last = lines[frames[-1] :]
    kept = last if len(last) <= _EXCERPT_LINES else [*last[:2], "  …", *last[2 - _EXCERPT_LINES + 1 :]]
    return "\n".join(_narrow(line) for line in kept)


def _narrow(line: str) -> str:
    return line if len(line) <= _EXCERPT_WIDTH else f"{line[: _EXCERPT_WIDTH - 1]}…"
