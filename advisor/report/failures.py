"""What failed, why, and what to do about it: every form says so before any verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from advisor.profiles.schema import Failed, Measured, Predicted, Prediction, Profile
from advisor.profiles.sweeps import Point, SweepResults, Value
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


Doubt = Literal["", "failed", "host only", "alone"]
"""failed: a prediction of a workload that failed here under every strategy. host only: no stage of a frame
runs on the device. alone: one strategy has figures."""

FIRST_FRAMES = "The workload failed under every strategy here; predictions rest on its first frames"
HOST_ONLY = "No stage of a frame runs on the device, so that no memory strategy matters"


def doubt(profile: Profile, prediction: Prediction | None = None) -> Doubt:
    """What stands against the verdict over the measured rows, or against that of one prediction."""
    if not profile.workload.frame_stages("device"):
        return "host only"
    if prediction is not None and all_failed(profile):
        return "failed"
    rows = prediction.results if prediction else profile.results
    return "alone" if sum(isinstance(row, (Measured, Predicted)) for row in rows) == 1 else ""


def asked_for_one(profile: Profile, prediction: Prediction | None = None) -> bool:
    """Whether there is one strategy only since no other was asked for."""
    return len(prediction.results if prediction else profile.results) == 1


def undoubted(profile: Profile) -> Profile:
    """The profile without the recommendations that are in doubt, so that no table or chart marks them."""
    return profile.model_copy(
        update={
            "recommendation": None if doubt(profile) else profile.recommendation,
            "predictions": tuple(
                p.model_copy(update={"recommendation": None}) if doubt(profile, p) else p
                for p in profile.predictions
            ),
        }
    )


_MEND = "Fix the error above and run again."


def sweep_failures(sweep: SweepResults, parameter: str) -> tuple[Failure, ...]:
    """Each failure once, with the strategies and values it holds for; `parameter` as it is shown."""
    return (*_of_values(sweep.points, parameter), *_of_strategies(sweep, parameter))


def _of_values(points: Sequence[Point], parameter: str) -> Iterator[Failure]:
    alike: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        if point.profile is None and point.status == "failed":
            alike.setdefault((FIGURES.sub("0", point.reason), excerpt(point.detail)), []).append(point)
    for where in alike.values():
        first = where[0]
        headline = f"{_at(parameter, where)} failed: {words.line(first.reason, 500)}"
        yield Failure(headline, excerpt(first.detail), _MEND, words.block(first.detail))


def _of_strategies(sweep: SweepResults, parameter: str) -> Iterator[Failure]:
    alike: dict[tuple[str, str], list[tuple[Value, Failed]]] = {}
    for point in sweep.points:
        for row in failed_rows(point.profile) if point.profile else ():
            key = FIGURES.sub("0", row.reason), excerpt(row.detail)
            alike.setdefault(key, []).append((point.value, row))
    for told in alike.values():
        who = listing(dict.fromkeys(row.strategy for _, row in told))
        values = list({words.value(value): None for value, _ in told})
        first, where = told[0][1], f"{parameter} = {words.listing(values, limit=12)}"
        yield Failure(
            f"{who} failed at {where}: {words.line(first.reason, 500)}",
            excerpt(first.detail),
            words.line(first.next_step, 300) or MEND,
        )


def _at(parameter: str, points: Sequence[Point]) -> str:
    return f"{parameter} = {words.listing([words.value(p.value) for p in points], limit=12)}"
