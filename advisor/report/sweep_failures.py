"""What failed in a sweep: strategies at some values, and values that have no profile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.profiles.schema import Failed
from advisor.profiles.sweeps import Point, SweepResults, Value
from advisor.report import words
from advisor.report.blocks import Failure
from advisor.report.failures import FIGURES, MEND, excerpt, failed_rows, listing
from advisor.report.sweep_verdicts import value_text

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
        values = list({value_text(value): None for value, _ in told})
        first, where = told[0][1], f"{parameter} = {words.listing(values, limit=12)}"
        yield Failure(
            f"{who} failed at {where}: {words.line(first.reason, 500)}",
            excerpt(first.detail),
            words.line(first.next_step, 300) or MEND,
        )


def _at(parameter: str, points: Sequence[Point]) -> str:
    return f"{parameter} = {words.listing([value_text(p.value) for p in points], limit=12)}"
