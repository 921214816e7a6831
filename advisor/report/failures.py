"""What failed, why, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from advisor.profiles.schema import Failed, Profile
from advisor.profiles.sweeps import SweepResults
from advisor.report import words
from advisor.report.blocks import Failure
from advisor.verdicts.caveats import all_failed, failed_rows

FIX = "Fix the error above and run again."
FIGURES = re.compile(r"\d+(\.\d+)?")
"""Reasons that differ in their figures only are told once."""
_FRAME = re.compile(r'\s*File ".+", line \d+')
_EXCERPT_LINES = 5
_EXCERPT_WIDTH = 74

FIRST_FRAMES = "The workload failed under every strategy here; predictions are based on its first frames"
HOST_ONLY = "No stage of a frame runs on the device, so the memory strategy does not matter"


def first_reason(profile: Profile) -> str:
    """Why the first of all strategies failed; nothing where one of them did not."""
    return words.line(failed_rows(profile)[0].reason, 300) if all_failed(profile) else ""


def _key(reason: str, detail: str) -> tuple[str, str]:
    """The same for failures that are told once."""
    return FIGURES.sub("0", reason), excerpt(detail)


def failures(profile: Profile) -> tuple[Failure, ...]:
    """The strategies that failed, those with the same reason and the same traceback together."""
    alike = words.grouped(failed_rows(profile), lambda row: _key(row.reason, row.detail)).values()
    every = all_failed(profile) and len(alike) == 1
    before, after = ("Every strategy that was run (", ") failed") if every else ("", " failed")
    return tuple(_failure(rows, before, after) for rows in alike)


def _failure(rows: Sequence[Failed], before: str, after: str) -> Failure:
    first, who = rows[0], words.listing(dict.fromkeys(words.code(row.strategy) for row in rows))
    headline = f"{before}{who}{after}: {words.line(first.reason, 500)}"
    return Failure(headline, excerpt(first.detail), words.line(first.next_step, 300) or FIX)


def sweep_failures(sweep: SweepResults, parameter: str) -> tuple[Failure, ...]:
    """Each failure once, with the strategies and values it holds for; `parameter` as it is shown."""
    return (*_of_values(sweep, parameter), *_of_strategies(sweep, parameter))


def _of_values(sweep: SweepResults, parameter: str) -> Iterator[Failure]:
    failed = [point for point in sweep.points if point.profile is None and point.status == "failed"]
    for where in words.grouped(failed, lambda point: _key(point.reason, point.detail)).values():
        first, values = where[0], words.listing([words.value(p.value) for p in where], limit=12)
        headline = f"{parameter} = {values} failed: {words.line(first.reason, 500)}"
        yield Failure(headline, excerpt(first.detail), FIX, words.block(first.detail))


def _of_strategies(sweep: SweepResults, parameter: str) -> Iterator[Failure]:
    failed = [(p.value, row) for p in sweep.points if p.profile for row in failed_rows(p.profile)]
    for told in words.grouped(failed, lambda pair: _key(pair[1].reason, pair[1].detail)).values():
        values = words.listing(dict.fromkeys(words.value(value) for value, _ in told), limit=12)
        yield _failure([row for _, row in told], "", f" failed at {parameter} = {values}")


def excerpt(detail: str) -> str:
    """The last frame of a traceback and the error; nothing where there is none."""
    lines = [line for line in words.block(detail).splitlines() if set(line) - set(" ^~")]
    frames = [i for i, line in enumerate(lines) if _FRAME.match(line)]
    if not frames:
        return ""
    last = lines[frames[-1] :]
    kept = last if len(last) <= _EXCERPT_LINES else [*last[:2], "  …", *last[2 - _EXCERPT_LINES + 1 :]]
    return "\n".join(t if len(t) <= _EXCERPT_WIDTH else f"{t[: _EXCERPT_WIDTH - 1]}…" for t in kept)
