"""One frame as a timeline: what the GPU and the host did in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from advisor.nsys.database import Database
from advisor.nsys.work import OWN, Columns, GpuWork, copy_kinds, move_kinds
from advisor.profiles.traces import Span, Timeline, Track, thinned

Row = tuple[Track, str, int, int]
"""Track, label, begin and end in ns."""
_MOST_SPANS, _MOST_DRAWN = 300, 20_000


def timeline(rows: Iterable[Row], begin: int, end: int) -> Timeline:
    """Cut to the frame; those too close together to be distinguished are merged."""
    spans = [
        Span(
            track=track,
            label=label,
            begin_seconds=(max(first, begin) - begin) / 1e9,
            end_seconds=(min(last, end) - begin) / 1e9,
        )
        for track, label, first, last in rows
        if min(last, end) > max(first, begin)
    ]
    spans.sort(key=lambda span: (span.begin_seconds, span.end_seconds))
    whole = Timeline(source="nsys", frame_seconds=(end - begin) / 1e9, spans=tuple(spans))
    return thinned(whole, _MOST_SPANS)


def gpu_rows(database: Database, work: GpuWork, begin: int, end: int) -> Iterator[Row]:
    copies = {
        number: f"{way}, {memory}" if memory else way
        for number, way, source, target in copy_kinds(database, work.copies)
        for memory in [source if way.startswith("host") else target]
    }
    moves = {n: f"{way}, {why}" if why else way for n, way, why in move_kinds(database, work.moved)}
    yield from rows("copy", work.copies, "kind", copies, begin, end)
    yield from rows("migration", work.moved, "kind", moves, begin, end)
    at = _touching(work.kernels, begin, end)
    names = database.strings(np.unique(at["name"]).tolist()) | OWN if at else {}
    yield from rows("kernel", at, "name", names, begin, end)


def rows(
    track: Track, columns: Columns, label: str, labels: dict[int, str], begin: int, end: int
) -> Iterator[Row]:
    """The rows of these columns that touch the frame."""
    if at := _touching(columns, begin, end):
        for number, first, last in zip(*(at[c].tolist() for c in (label, "start", "end")), strict=True):
            yield track, labels.get(number, track), first, last


def _touching(columns: Columns, begin: int, end: int) -> Columns:
    if not columns:
        return {}
    at = np.flatnonzero((columns["start"] < end) & (columns["end"] > begin))[:_MOST_DRAWN]
    return {name: column[at] for name, column in columns.items()}
