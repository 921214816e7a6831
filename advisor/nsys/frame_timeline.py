"""The timeline of one frame as nsys saw it: the host's steps, and what the GPU did meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.nsys.activities import DIRECTIONS, cause_words
from advisor.nsys.aggregates import COPIES, KERNELS, NEEDED
from advisor.nsys.database import THREAD_BITS, Database
from advisor.nsys.frames import Frame
from advisor.profiles.traces import Span, Timeline, Track, thinned, track

MOST_SPANS = 300
_ON_HOST = ("host:", "host-copy", "synchronize")
"""Steps that the host itself does; the calls of the others return at once, or their work is the GPU's."""
_MOST_ROWS = 100_000


def timeline(database: Database, frame: Frame) -> Timeline:
    """Of one frame; what is too close together to be told apart is merged."""
    gpu_seen = any(database.has(table, *NEEDED[table]) for table in (COPIES, KERNELS))
    # The GPU's own work stands in the place of the steps that it does, where that was seen.
    steps = [step for step in frame.steps if step.name.startswith(_ON_HOST) or not gpu_seen]
    found = [_span(frame, track(step.name), step.name, step.begin, step.end) for step in steps]
    spans = [span for span in (*found, *_copies(database, frame), *_kernels(database, frame)) if span]
    length = (frame.end - frame.begin) / 1e9
    spans.sort(key=lambda span: (span.begin_seconds, span.end_seconds))
    return thinned(Timeline(source="nsys", frame_seconds=length, spans=tuple(spans)), MOST_SPANS)


def _copies(database: Database, frame: Frame) -> Iterator[Span | None]:
    names, labels = database.names("ENUM_CUDA_MEMCPY_OPER"), database.labels("ENUM_CUDA_MEMCPY_OPER")
    memories, causes = database.labels("ENUM_CUDA_MEM_KIND"), cause_words(database)
    for begin, end, kind, source, target, cause in _within(
        database, frame, COPIES, "copyKind", "srcKind", "dstKind", "migrationCause"
    ):
        name = names.get(kind, "")
        line: Track = "migration" if "_UVM_" in name else "copy"
        host = target if name.endswith("_DTOH") else source  # the side whose kind of memory tells something
        more = causes.get(cause, "") if line == "migration" else memories.get(host, "")
        label = labels.get(kind, f"kind {kind}")
        if line == "migration":
            label = DIRECTIONS.get(name.rpartition("_")[2], label)
        yield _span(frame, line, f"{label}, {more}" if more else label, begin, end)


def _kernels(database: Database, frame: Frame) -> Iterator[Span | None]:
    rows = list(_within(database, frame, KERNELS, "shortName"))
    names = database.strings(list({row[2] for row in rows}))
    for begin, end, name in rows:
        yield _span(frame, "kernel", names.get(name, "kernel"), begin, end)


def _within(database: Database, frame: Frame, table: str, *columns: str) -> Iterator[tuple[int, ...]]:
    """Begin, end and columns of a table's rows that touch the frame."""
    if not database.has(table, *NEEDED[table]):
        return
    where = f'"start" < {frame.end} AND "end" > {frame.begin}'
    if database.has(table, "globalPid"):
        where += f" AND globalPid / {THREAD_BITS} = {frame.process}"
    for block in database.blocks(table, ("start", "end", *columns), f"{where} LIMIT {_MOST_ROWS}"):
        yield from zip(*(block[c].tolist() for c in ("start", "end", *columns)), strict=True)


def _span(frame: Frame, line: Track, label: str, begin: int, end: int) -> Span | None:
    first, last = max(begin, frame.begin) - frame.begin, min(end, frame.end) - frame.begin
    if last <= first:
        return None
    return Span(track=line, label=label, begin_seconds=first / 1e9, end_seconds=last / 1e9)
