"""Reads an export of nsys: per strategy where it has our ranges, else as any program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from advisor.errors import FileProblem
from advisor.nsys.database import NEEDED, Database, opened
from advisor.nsys.programs import program
from advisor.nsys.ranges import steady_frames
from advisor.nsys.strategies import strategies
from advisor.profiles.base import Record, Text, Word, optional
from advisor.profiles.programs import ProgramTrace
from advisor.profiles.traces import StrategyTrace
from advisor.texts import quoted

KNOWN_SCHEMA = 3
"""Major version of nsys's export schema that the tables are read by (2023.4 writes 3.7.2)."""


class FileTrace(Record):
    """One file: our strategies, or any program."""

    tool: Word | None = None
    strategies: tuple[StrategyTrace, ...] = ()
    program: ProgramTrace | None = optional("What the GPUs of any program did")
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
        frames = steady_frames(database) if frame is None else []
        trace = FileTrace(
            tool=tool,
            strategies=strategies(database, frames) if frames else (),
            program=None if frames else program(database, frame),
        )
        notes += [
            f"Rows of {table} skipped: {count} (no start, size or kind, or an end before the start)."
            for table, count in database.unusable.items()
        ]
        if frame and trace.program:
            notes += _without_range(trace.program, frame)
        return trace.model_copy(update={"notes": tuple(notes)})


def _without_range(program: ProgramTrace, frame: str) -> Iterator[str]:
    """GPUs whose process has no range of that name, and what their frames are instead."""
    for gpu in program.gpus:
        if gpu.frames is None or gpu.frames.source != "nvtx":
            instead = "its frames are what repeats" if gpu.frames else "nothing repeats, so it has no frames"
            yield f"{gpu.label}: its process has no NVTX range {quoted(frame)}; {instead}."


def _notes(database: Database, version: str) -> list[str]:
    """Limits of the reading: a newer schema, tables whose columns are not those that are known.

    Raises `FileProblem` where a newer version holds nothing that is known.
    """
    notes: list[str] = []
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
    return notes
