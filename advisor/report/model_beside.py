"""The model against this very run: predicted beside measured on the same device."""

from __future__ import annotations

from dataclasses import dataclass

from advisor import units
from advisor.model import measured
from advisor.model.measured import RowAgainstRun
from advisor.profiles.schema import Profile
from advisor.report import words
from advisor.report.blocks import Row, TableCell


@dataclass(frozen=True)
class ModelBeside:
    """The rows and what they come to; without rows, `reason` says why there are none."""

    entry: str
    """The catalogue's name of the device."""
    summary: str
    rows: tuple[Row, ...]
    reason: str


def beside_model(profile: Profile) -> ModelBeside:
    """What the model would have said of this run, and how that turned out; the fastest strategy first."""
    found = measured.compare(profile)
    rows = tuple(_beside(row) for row in sorted(found.rows, key=lambda row: row.measured))
    times = words.count(len(rows), "measured time")
    lie = "lies" if len(rows) == 1 else "lie"
    summary = f"{found.inside} of {times} {lie} in the predicted range." if rows else ""
    return ModelBeside(words.name(found.device), summary, rows, words.line(found.reason))


def _beside(row: RowAgainstRun) -> Row:
    """Measured, predicted, predicted over measured, and in words where the measured time lies."""
    outside = f"outside: {'slower' if row.measured > row.high else 'faster'} than predicted"
    return Row(
        words.name(row.strategy),
        (
            TableCell(units.seconds(row.measured)),
            TableCell(units.seconds(row.likely), words.seconds_between(row.low, row.high), mark="forecast"),
            TableCell(units.ratio(row.ratio)),
            TableCell("inside") if row.inside else TableCell(outside, mark="outside"),
        ),
    )
