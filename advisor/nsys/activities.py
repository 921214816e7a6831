"""The records of an export's sums: the activity of some places, allocations, and what was not observed.

nsys makes a table only when something goes into it. A missing table is not 0; but where another table shows
that nsys looked, nothing was there to be seen, and that is a figure: none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence

import numpy as np

from advisor.nsys.aggregates import Aggregates, Key, Sums
from advisor.nsys.database import THREAD_BITS, UNKNOWN, Database, Tables, distinct
from advisor.profiles.traces import (
    Activity,
    Allocations,
    Copies,
    Direction,
    Kernels,
    Migrations,
    Synchronizations,
)

Rows = Mapping[Key, tuple[int, int, float]]
"""Count, bytes and seconds by key."""
DIRECTIONS: dict[str, Direction] = {"HTOD": "to-device", "DTOH": "to-host", "DTOD": "device-to-device"}
_CAUSES = {"speculative prefecth": "speculative prefetch"}
"""nsys up to 2023.4 spells it so."""
_WAITED_FOR = re.compile("(Event|Stream|Device|Ctx)Synchronize")
_WAITS = {"Event": "event", "Stream": "stream", "Device": "context", "Ctx": "context"}
"""The object of a wait by its call, in nsys's words: the kinds of 2023.4 differ from the calls."""
_NONE = "nsys wrote no table for them: none occurred, or they were not recorded"
_UNMANAGED = "no managed memory was allocated"
_UNSEEN = (
    "managed memory was allocated, but nsys recorded no migration: none occurred, or nsys cannot record "
    "them here"
)
_TABLES = {
    "cpu_page_faults": Tables.CPU_FAULTS,
    "gpu_page_faults": Tables.GPU_FAULTS,
    "kernels": Tables.KERNELS,
    "synchronizations": Tables.WAITS,
    "allocations": Tables.MEMORY,
}


def activity(database: Database, sums: Sequence[Sums], absent: Container[str]) -> Activity:
    """The sums of some places as one record; None for what is absent."""
    whole = Sums()
    for one in sums:
        whole.include(one)
    kernels = _rows(whole, "kernels")
    names = database.strings([key[0] for key in kernels])
    figures = {
        "copies": _copies(database, _rows(whole, "copies")),
        "migrations": _migrations(database, _rows(whole, "migrations")),
        "cpu_page_faults": whole.faults[Tables.CPU_FAULTS],
        "gpu_page_faults": whole.faults[Tables.GPU_FAULTS],
        "kernels": tuple(
            Kernels(name=names.get(number, "unnamed"), count=count, seconds=seconds)
            for (number,), (count, _, seconds) in kernels.items()
        ),
        "synchronizations": _waits(database, _rows(whole, "waits")),
    }
    return Activity.model_validate({name: each for name, each in figures.items() if name not in absent})


def _rows(sums: Sums, kind: str) -> Rows:
    """The longest first."""
    rows = {key: (count, moved, ns / 1e9) for key, (count, moved, ns) in sums.of[kind].items()}
    return dict(sorted(rows.items(), key=lambda row: (-row[1][2], row[0])))


def _copies(database: Database, rows: Rows) -> tuple[Copies, ...]:
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


def _migrations(database: Database, rows: Rows) -> tuple[Migrations, ...]:
    names, causes = database.names("ENUM_CUDA_MEMCPY_OPER"), cause_words(database)
    return tuple(
        Migrations(direction=way, cause=causes.get(cause), count=count, bytes=moved, seconds=seconds)
        for (kind, cause), (count, moved, seconds) in rows.items()
        if (way := DIRECTIONS.get(names[kind].rpartition("_")[2]))
    )


def cause_words(database: Database) -> dict[int, str]:
    """Why pages migrate, by number."""
    labels = database.labels("ENUM_CUDA_UNIF_MEM_MIGRATION")
    return {number: _CAUSES.get(label, label) for number, label in labels.items()}


def _waits(database: Database, rows: Rows) -> tuple[Synchronizations, ...]:
    kinds, calls = database.labels("ENUM_CUPTI_SYNC_TYPE"), database.strings([key[1] for key in rows])
    sums: defaultdict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for (kind, call), (count, _, seconds) in rows.items():
        called = calls.get(call, "")
        if "StreamWaitEvent" in called:
            continue  # the stream waits, later; the call returns at once
        waited = _WAITED_FOR.search(called)
        word = f"{_WAITS[waited[1]]} sync" if waited else kinds.get(kind, f"kind {kind}")
        sums[word] = (sums[word][0] + count, sums[word][1] + seconds)
    return tuple(Synchronizations(kind=kind, count=n, seconds=s) for kind, (n, s) in sums.items())


def allocations(database: Database, processes: Sequence[int] | None) -> tuple[Allocations, ...] | None:
    """Allocations of these processes (None: of all), by kind of memory; None where none was recorded."""
    if not database.readable(Tables.MEMORY):
        return None
    operations = database.names("ENUM_CUDA_DEV_MEM_EVENT_OPER")
    allocating = np.array([n for n, name in operations.items() if name.endswith("_ALLOCATION")], np.int64)
    sums: defaultdict[int, tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
    for block in database.blocks(Tables.MEMORY, ("bytes", "memKind", "memoryOperationType", "globalPid")):
        keep = np.isin(block["memoryOperationType"], allocating)
        if processes is not None:
            keep &= np.isin(block["globalPid"] // THREAD_BITS, np.array(processes, np.int64))
        for kind in distinct(block["memKind"][keep]):
            sizes = block["bytes"][keep & (block["memKind"] == kind)]
            count, total, largest = sums[kind]
            sums[kind] = (count + len(sizes), total + int(sizes.sum()), max(largest, int(sizes.max())))
    kinds = database.labels("ENUM_CUDA_MEM_KIND")
    return tuple(
        Allocations(kind=kinds.get(kind, f"kind {kind}"), count=count, bytes=total, largest_bytes=largest)
        for kind, (count, total, largest) in sorted(sums.items())
        if kind != UNKNOWN
    )


def absent(seen: Aggregates, database: Database, allocated: Sequence[Allocations] | None) -> dict[str, str]:
    """The figures that the export cannot tell, each with the reason."""
    # --trace=cuda is one switch for both: where kernels were seen, copies would be.
    copies = database.readable(Tables.COPIES) or (
        database.readable(Tables.KERNELS) and not database.has(Tables.COPIES)
    )
    reasons = {} if copies else {"copies": _NONE, "migrations": _NONE}
    reasons.update((figure, _NONE) for figure, table in _TABLES.items() if not database.readable(table))
    managed = None if allocated is None else any(each.kind.startswith("managed") for each in allocated)
    if managed is False:
        faults = {"cpu_page_faults", "gpu_page_faults"}
        reasons.update(dict.fromkeys(faults & reasons.keys(), _UNMANAGED))
    if managed and not seen.migrations_seen:
        reasons.setdefault("migrations", _UNSEEN)
    if not seen.busy.seen:
        reasons["idle_share"] = "nsys recorded no GPU work"
    if not database.has(Tables.CALLS):
        reasons["calls"] = _NONE
    return reasons
