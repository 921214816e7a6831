"""The model against this very run: predicted beside measured on the same device."""

from __future__ import annotations

from dataclasses import dataclass

from advisor import units
from advisor.model import measured
from advisor.model.measured import RowAgainstRun
from advisor.profiles.schema import Profile
from advisor.report import words


@dataclass(frozen=True)
class Beside:
    """One strategy; `verdict` says in words where the measured time lies."""

    strategy: str
    measured: str
    predicted: str
    between: str
    ratio: str
    """Predicted over measured."""
    inside: bool
    verdict: str


@dataclass(frozen=True)
class ModelBeside:
    """The rows and what they come to; without rows, `reason` says why there are none."""

    entry: str
    """The catalogue's name of the device."""
    summary: str
    rows: tuple[Beside, ...]
    reason: str


def beside_model(profile: Profile) -> ModelBeside:
    """What the model would have said of this run, and how that turned out; the fastest strategy first."""
    found = measured.compare(profile)
    rows = tuple(_beside(row) for row in sorted(found.rows, key=lambda row: row.measured))
    times = words.count(len(rows), "measured time")
    lie = "lies" if len(rows) == 1 else "lie"
    summary = f"{found.inside} of {times} {lie} in the predicted range." if rows else ""
    return ModelBeside(words.name(found.device), summary, rows, words.line(found.reason))


def _beside(row: RowAgainstRun) -> Beside:
    outside = (
        "outside: slower than predicted" if row.measured > row.high else "outside: faster than predicted"
    )
    return Beside(
        strategy=words.name(row.strategy),
        measured=units.seconds(row.measured),
        predicted=units.seconds(row.likely),
        between=words.seconds_between(row.low, row.high),
        ratio=units.ratio(row.ratio),
        inside=row.inside,
        verdict="inside" if row.inside else outside,
    )
