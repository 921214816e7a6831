"""Reads an export of nsys: per strategy where it has our ranges, else as any program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from advisor.errors import FileProblem
from advisor.nsys.activities import absent, activity, allocations
from advisor.nsys.aggregates import Aggregates, Windows
from advisor.nsys.database import NEEDED, Database, opened
from advisor.nsys.frames import Frame, steady_frames, timeline
from advisor.nsys.programs import program
from advisor.profiles.base import Record, Text, Word, optional
from advisor.profiles.programs import ProgramTrace
from advisor.profiles.traces import RangeTrace, StrategyTrace

KNOWN_SCHEMA = 3
"""Major version of nsys's export schema that the tables are read by (2023.4 writes 3.7.2)."""


class FileTrace(Record):
    """One file: our strategies, or any program."""

    tool: Word | None = None
    strategies: tuple[StrategyTrace, ...] = ()
    program: ProgramTrace | None = optional("Of any program: what its GPUs did")
    notes: tuple[Text, ...] = ()


def read(path: Path, frame: str | None = None) -> FileTrace:
    """Reads a SQLite export: its strategies where it has our ranges, else any program's.

    frame: the NVTX range that is a frame of a program, even with our ranges; "" for what repeats.

    Raises `FileProblem` where it is not an export of nsys, is damaged, or of an unknown form.
    """
    with opened(path) as database:
        about = database.settings("META_DATA_EXPORT")
        notes = _notes(database, about.get("EXPORT_SCHEMA_VERSION", ""))
        parts = [about.get("EXPORT_PRODUCT_NAME"), about.get("EXPORT_PRODUCT_VERSION")]
        tool = " ".join(part for part in parts if part) or None
        if frame is None and (frames := steady_frames(database)):
            return FileTrace(tool=tool, strategies=_strategies(database, frames), notes=notes)
        return FileTrace(tool=tool, program=program(database, frame), notes=notes)


def _notes(database: Database, version: str) -> tuple[str, ...]:
    """Limits of the reading: a newer schema, tables whose columns are not those that are known.

    Raises `FileProblem` where a newer version holds nothing that is known.
    """
    notes = []
    major = version.partition(".")[0]
    if major.isdecimal() and int(major) > KNOWN_SCHEMA:
        notes.append(
            f"The export's schema {version} is newer than this advisor supports ({KNOWN_SCHEMA}); only "
            "the readable part is shown."
        )
    for table in NEEDED:
        if lacking := database.lacks(table):
            notes.append(f"{table} was skipped: it has no column {', '.join(lacking)}.")
    if notes and not any(map(database.readable, NEEDED)):
        raise FileProblem(
            f"{database.path} is an export whose tables this advisor does not support: {notes[0]}",
            next_step="Export it with an older nsys, or upgrade: pip install -U gpu-memory-advisor",
        )
    return tuple(notes)


def _strategies(database: Database, frames: Sequence[Frame]) -> tuple[StrategyTrace, ...]:
    # Work belongs to a strategy and the step that launched it; to "" between the steps.
    places: dict[tuple[str, str], int] = {}
    stretches = []
    for frame in frames:
        for step, begin, end in _stretches(frame):
            number = places.setdefault((frame.strategy, step), len(places))
            stretches.append((frame.process, begin, end, number))
    last = max(f.end for f in frames)
    slack = max(f.end - f.begin for f in frames)  # work that a frame launched may run after its end
    extent = (min(f.begin for f in frames), last + slack)
    seen = Aggregates(database, Windows(stretches), extent)
    by_strategy: defaultdict[str, list[Frame]] = defaultdict(list)
    for frame in frames:
        by_strategy[frame.strategy].append(frame)
    return tuple(_strategy(database, name, mine, places, seen) for name, mine in by_strategy.items())


def _stretches(frame: Frame) -> list[tuple[str, int, int]]:
    """A frame cut into its steps and what lies between them; the last nanosecond is in it."""
    stretches, at = [], frame.begin
    for step in frame.steps:
        if step.begin > at:
            stretches.append(("", at, step.begin - 1))
        if step.end > step.begin >= at:
            stretches.append((step.name, step.begin, step.end - 1))
            at = step.end
    return [*stretches, ("", at, frame.end)]


def _strategy(
    database: Database,
    name: str,
    frames: Sequence[Frame],
    places: dict[tuple[str, str], int],
    seen: Aggregates,
) -> StrategyTrace:
    mine = {step: seen.places[number] for (strategy, step), number in places.items() if strategy == name}
    lengths = [(frame.end - frame.begin) / 1e9 for frame in frames]
    middle = sorted(frames, key=lambda f: f.end - f.begin)[len(frames) // 2]
    steps: defaultdict[str, list[float]] = defaultdict(list)
    for step in (step for frame in frames for step in frame.steps):
        steps[step.name].append((step.end - step.begin) / 1e9)
    allocated = allocations(database, sorted({frame.process for frame in frames}))
    missing = absent(seen, database, allocated)
    return StrategyTrace(
        strategy=name,
        frames=len(frames),
        frame_seconds=median(lengths),
        activity=activity(database, list(mine.values()), missing),
        idle_share=_idle(seen, frames),
        allocations=allocated,
        ranges=tuple(
            RangeTrace(
                name=step,
                count=len(seconds),
                seconds=median(seconds),
                activity=activity(database, [mine[step]] if step in mine else [], missing),
            )
            for step, seconds in steps.items()
        ),
        timeline=timeline(database, middle),
        absent=missing,
    )


def _idle(seen: Aggregates, frames: Sequence[Frame]) -> float | None:
    """The share of the frames in which the GPU did nothing; None where it was never seen to work."""
    if not seen.busy.seen:
        return None
    worked = total = 0.0
    for process in {frame.process for frame in frames}:
        mine = [f for f in frames if f.process == process]
        begins, ends = np.array([f.begin for f in mine]), np.array([f.end for f in mine])
        length = float((ends - begins).sum())
        worked += seen.busy.share(process, begins, ends) * length
        total += length
    return 1 - worked / total
