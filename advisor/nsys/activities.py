"""From sums by number to records in words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Sequence

import numpy as np

from advisor.nsys.aggregates import MEMORY, NEEDED, Key, Kind, Sums
from advisor.nsys.database import UNKNOWN, Database
from advisor.nsys.windows import THREAD_BITS
from advisor.profiles.traces import (
    Activity,
    Allocations,
    Copies,
    Direction,
    Kernels,
    Migrations,
    Synchronizations,
)

DIRECTIONS: dict[str, Direction] = {"HTOD": "to-device", "DTOH": "to-host", "DTOD": "device-to-device"}
_CAUSES = {"speculative prefecth": "speculative prefetch"}
"""nsys up to 2023.4 spells it so."""
_WAITED_FOR = re.compile("(Event|Stream|Device|Ctx)Synchronize")
_WAITS = {"Event": "event", "Stream": "stream", "Device": "context", "Ctx": "context"}
"""What a call waits for, in nsys's words. Its own kinds of 2023.4 are not those of the calls."""


def activity(database: Database, sums: Sequence[Sums], absent: Container[str]) -> Activity:
    """The sums of some places as one record, in words; None for what is absent."""
    total: defaultdict[Kind, Counter[tuple[Key, int]]] = defaultdict(Counter)
    for one in sums:
        for kind, by_key in one.of.items():
            for key, figures in by_key.items():
                for position, figure in enumerate(figures):
                    total[kind][key, position] += figure
    told = {
        "copies": _copies(database, _rows(total["copies"])),
        "migrations": _migrations(database, _rows(total["migrations"])),
        "cpu_page_faults": sum(s.cpu_faults for s in sums),
        "gpu_page_faults": sum(s.gpu_faults for s in sums),
        "kernels": _kernels(database, _rows(total["kernels"])),
        "synchronizations": _waits(database, _rows(total["waits"])),
    }
    return Activity.model_validate({name: made for name, made in told.items() if name not in absent})


def _rows(counted: Counter[tuple[Key, int]]) -> dict[Key, tuple[int, int, float]]:
    """Count, bytes and seconds by key, the longest first."""
    keys = {key for key, _ in counted}
    rows = {k: (counted[k, 0], counted[k, 1], counted[k, 2] / 1e9) for k in keys}
    return dict(sorted(rows.items(), key=lambda row: (-row[1][2], row[0])))


def _copies(database: Database, rows: dict[Key, tuple[int, int, float]]) -> tuple[Copies, ...]:
    kinds, memories = database.labels("ENUM_CUDA_MEMCPY_OPER"), database.labels("ENUM_CUDA_MEM_KIND")
    return tuple(
        Copies(
            kind=kinds.get(kind, f"kind {kind}"),
            source=memories.get(source),
            destination=memories.get(target),
            count=count,
            bytes=moved,
            seconds=seconds,
        )
        for (kind, source, target), (count, moved, seconds) in rows.items()
    )


def _migrations(database: Database, rows: dict[Key, tuple[int, int, float]]) -> tuple[Migrations, ...]:
    names, causes = database.names("ENUM_CUDA_MEMCPY_OPER"), cause_words(database)
    return tuple(
        Migrations(
            direction=DIRECTIONS[names[kind].rpartition("_")[2]],
            cause=causes.get(cause),
            count=count,
            bytes=moved,
            seconds=seconds,
        )
        for (kind, cause), (count, moved, seconds) in rows.items()
        if names[kind].rpartition("_")[2] in DIRECTIONS
    )


def cause_words(database: Database) -> dict[int, str]:
    """Why pages migrate, by number."""
    labels = database.labels("ENUM_CUDA_UNIF_MEM_MIGRATION")
    return {number: _CAUSES.get(label, label) for number, label in labels.items()}


def _kernels(database: Database, rows: dict[Key, tuple[int, int, float]]) -> tuple[Kernels, ...]:
    names = database.strings([key[0] for key in rows])
    return tuple(
        Kernels(name=names.get(number, "unnamed"), count=count, seconds=seconds)
        for (number,), (count, _, seconds) in rows.items()
    )


def _waits(database: Database, rows: dict[Key, tuple[int, int, float]]) -> tuple[Synchronizations, ...]:
    kinds, calls = database.labels("ENUM_CUPTI_SYNC_TYPE"), database.strings([key[1] for key in rows])
    found: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for (kind, call), (count, _, seconds) in rows.items():
        called = calls.get(call, "")
        if "StreamWaitEvent" in called:
            continue  # the stream waits, later; the call returns at once
        waited = _WAITED_FOR.search(called)
        word = f"{_WAITS[waited[1]]} sync" if waited else kinds.get(kind, f"kind {kind}")
        found[word] = [found[word][0] + count, found[word][1] + seconds]
    return tuple(Synchronizations(kind=k, count=int(n), seconds=s) for k, (n, s) in found.items())


def allocations(database: Database, processes: Sequence[int] | None) -> tuple[Allocations, ...] | None:
    """What these processes allocated, by kind of memory; None for all, and where none was seen."""
    if not database.has(MEMORY, *NEEDED[MEMORY]):
        return None
    kinds = database.labels("ENUM_CUDA_MEM_KIND")
    operations = database.names("ENUM_CUDA_DEV_MEM_EVENT_OPER")
    made = np.array([n for n, name in operations.items() if name.endswith("_ALLOCATION")], np.int64)
    found: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for block in database.blocks(MEMORY, ("bytes", "memKind", "memoryOperationType", "globalPid")):
        keep = np.isin(block["memoryOperationType"], made)
        if processes is not None:
            keep &= np.isin(block["globalPid"] // THREAD_BITS, np.array(processes, np.int64))
        for kind in np.unique(block["memKind"][keep]):
            sizes = block["bytes"][keep & (block["memKind"] == kind)]
            count, total, largest = found[int(kind)]
            found[int(kind)] = [
                count + len(sizes),
                total + int(sizes.sum()),
                max(largest, int(sizes.max())),
            ]
    return tuple(
        Allocations(kind=kinds.get(kind, f"kind {kind}"), count=count, bytes=total, largest_bytes=largest)
        for kind, (count, total, largest) in sorted(found.items())
        if kind != UNKNOWN
    )
