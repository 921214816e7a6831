"""What was measured, ready to print: the tables and charts, the fastest strategy first in all of them."""

from __future__ import annotations

from dataclasses import dataclass

from advisor import units
from advisor.profiles.schema import Measured, Profile
from advisor.report import words
from advisor.report.caveats import undoubted
from advisor.report.charts import Chart
from advisor.report.distribution import Distribution, Spread, distribution, spread
from advisor.report.model_beside import ModelBeside, beside_model
from advisor.report.page import Item
from advisor.report.setup_costs import SetupCost, setup_costs
from advisor.report.stacks import footprint_chart, frame_chart, overlap_note
from advisor.report.tables import Row, apart, baseline, gaps, overlaps, rows
from advisor.verdicts.counting import counted


@dataclass(frozen=True)
class Evidence:
    """The measured strategies beside one another, and those without figures."""

    baseline: str
    apart: bool
    """Whether the device has a memory of its own, so that a footprint is the sum of both."""
    confidence: str
    rows: tuple[Row, ...]
    all_checked: bool
    """Whether the results of every row were compared with another run's."""
    gaps: tuple[Item, ...]
    frame_chart: Chart | None
    overlap_note: str
    """Why the parts of some frames may exceed them."""
    footprint_chart: Chart | None
    setup_costs: tuple[SetupCost, ...]
    spread: Spread | None
    distributions: tuple[Distribution, ...]
    comparison: ModelBeside


def evidence(profile: Profile) -> Evidence:
    """All of it; charts only where something was measured."""
    ordered = fastest_first(counted(undoubted(profile)))
    raw = profile.measured()
    measured, base = {name: raw[name] for name in ordered.measured()}, baseline(profile)
    told = rows(ordered, overlaps(profile))
    return Evidence(
        baseline=words.name(base.strategy) if base else "baseline",
        apart=apart(profile.device),
        confidence=units.percent(profile.method.confidence),
        rows=told,
        all_checked=all(row.verified for row in told),
        gaps=gaps(profile.results),
        frame_chart=frame_chart(ordered) if measured else None,
        overlap_note=overlap_note(profile),
        footprint_chart=footprint_chart(ordered) if measured else None,
        setup_costs=setup_costs(tuple(measured.values()), base, profile.method.confidence),
        spread=spread(tuple(measured.values())) if measured else None,
        distributions=tuple(distribution(row, i) for i, row in enumerate(measured.values(), 1)),
        comparison=beside_model(ordered),
    )


def fastest_first(profile: Profile) -> Profile:
    """The profile with its measured rows by their median; the other rows follow as they were."""
    measured = sorted(profile.measured().values(), key=lambda row: row.median_seconds)
    others = (row for row in profile.results if not isinstance(row, Measured))
    return profile.model_copy(update={"results": (*measured, *others)})
