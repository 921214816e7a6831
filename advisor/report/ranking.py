"""What is sure although the fastest cannot be told: who is slower, and what tells the others apart."""

from __future__ import annotations

from collections.abc import Sequence

from advisor import units
from advisor.profiles.schema import Measured, Profile
from advisor.report import words
from advisor.report.blocks import Fact
from advisor.verdicts.counting import counted
from advisor.verdicts.ties import code_change


def certainties(profile: Profile) -> tuple[Fact, ...]:
    """Sentences beneath an inconclusive verdict over measured rows; nothing for any other."""
    chosen, measured = profile.recommendation, counted(profile).measured()
    if chosen is None or chosen.verdict != "inconclusive" or chosen.strategy is not None:
        return ()
    rivals = [measured[name] for name in chosen.tied_with if name in measured]
    if len(rivals) < 2:
        return ()
    slower = [row for row in measured.values() if row not in rivals]
    return (
        Fact("One of these is the fastest", _names(sorted(rivals, key=lambda row: row.median_seconds))),
        *(Fact("Surely slower", _names(slower)) for _ in slower[:1]),
        Fact("Least memory of the first", _least_memory(rivals)),
        Fact("Smallest change of the first", _smallest_change(rivals)),
        *(Fact("Beside them", words.line(step, 300)) for step in chosen.steps if "--objective" in step),
    )


def _names(rows: Sequence[Measured]) -> str:
    return words.listing((words.code(row.strategy) for row in rows), limit=20)


def _least_memory(rivals: Sequence[Measured]) -> str:
    least = min(row.footprint.physical_bytes for row in rivals)
    lean = [row for row in rivals if row.footprint.physical_bytes == least]
    if len(lean) == len(rivals):
        return f"all take the same, {units.size(least)}"
    return f"{_names(lean)}: {units.size(least)}"


def _smallest_change(rivals: Sequence[Measured]) -> str:
    least = min(code_change(row.strategy) for row in rivals)
    return _names([row for row in rivals if code_change(row.strategy) == least])
