"""What an export's sums say, in words: the activity of some places, allocations, and what was not observed.

nsys makes a table only when something goes into it. A missing table is not 0; but where another table shows
that nsys looked, nothing was there to be seen, and that is a figure: none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence

import numpy as np

from advisor.nsys import tables
from advisor.nsys.aggregates import Aggregates, Key, Sums
from advisor.nsys.database import THREAD_BITS, UNKNOWN, Database, distinct
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
"""What a call waits for, in nsys's words. Its own kinds of 2023.4 are not those of the calls."""
_NONE = "nsys wrote no table for them: none occurred, or they were not recorded"
_UNMANAGED = "no managed memory was allocated"
_UNSEEN = (
    "managed memory was allocated, but nsys recorded no migration: none occurred, or nsys cannot record "
    "them here"
)
_TABLES = {
    "cpu_page_faults": tables.CPU_FAULTS,
    "gpu_page_faults": tables.GPU_FAULTS,
    "kernels": tables.KERNELS,
    "synchronizations": tables.WAITS,
    "allocations": tables.MEMORY,
}


def activity(database: Database, sums: Sequence[Sums], absent: Container[str]) -> Activity:
    """The sums of some places as one record; None for what is absent."""
    whole = Sums()
    for one in sums:
        whole.include(one)
    kernels = _rows(whole, "kernels")
    names = database.strings([key[0] for key in kernels])
    told = {
        "copies": _copies(database, _rows(whole, "copies")),
        "migrations": _migrations(database, _rows(whole, "migrations")),
        "cpu_page_faults": whole.cpu_faults,
        "gpu_page_faults": whole.gpu_faults,
        "kernels": tuple(
            Kernels(name=names.get(number, "unnamed"), count=count, seconds=seconds)
            for (number,), (count, _, seconds) in kernels.items()
        ),
        "synchronizations": _waits(database, _rows(whole, "waits")),
    }
    return Activity.model_validate({name: made for name, made in told.items() if name not in absent})


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
    found: defaultdict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for (kind, call), (count, _, seconds) in rows.items():
        called = calls.get(call, "")
        if "StreamWaitEvent" in called:
            continue  # the stream waits, later; the call returns at once
        waited = _WAITED_FOR.search(called)
        word = f"{_WAITS[waited[1]]} sync" if waited else kinds.get(kind, f"kind {kind}")
        found[word] = (found[word][0] + count, found[word][1] + seconds)
    return tuple(Synchronizations(kind=kind, count=n, seconds=s) for kind, (n, s) in found.items())


def allocations(database: Database, processes: Sequence[int] | None) -> tuple[Allocations, ...] | None:
    """What these processes allocated, by kind of memory; None for all, and where none was seen."""
    if not database.readable(tables.MEMORY):
        return None
    operations = database.names("ENUM_CUDA_DEV_MEM_EVENT_OPER")
    made = np.array([n for n, name in operations.items() if name.endswith("_ALLOCATION")], np.int64)
    found: defaultdict[int, tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
    for block in database.blocks(tables.MEMORY, ("bytes", "memKind", "memoryOperationType", "globalPid")):
        keep = np.isin(block["memoryOperationType"], made)
        if processes is not None:
            keep &= np.isin(block["globalPid"] // THREAD_BITS, np.array(processes, np.int64))
        for kind in distinct(block["memKind"][keep]):
            sizes = block["bytes"][keep & (block["memKind"] == kind)]
            count, total, largest = found[kind]
            found[kind] = (count + len(sizes), total + int(sizes.sum()), max(largest, int(sizes.max())))
    kinds = database.labels("ENUM_CUDA_MEM_KIND")
    return tuple(
        Allocations(kind=kinds.get(kind, f"kind {kind}"), count=count, bytes=total, largest_bytes=largest)
        for kind, (count, total, largest) in sorted(found.items())
        if kind != UNKNOWN
    )


def absent(seen: Aggregates, database: Database, allocated: Sequence[Allocations] | None) -> dict[str, str]:
    """The figures that the export cannot tell, each with the reason."""
    # --trace=cuda is one switch for both: where kernels were seen, copies would be.
    copies = database.readable(tables.COPIES) or (
        database.readable(tables.KERNELS) and not database.has(tables.COPIES)
    )
    found = {} if copies else {"copies": _NONE, "migrations": _NONE}
    found.update((figure, _NONE) for figure, table in _TABLES.items() if not database.readable(table))
    managed = None if allocated is None else any(made.kind.startswith("managed") for made in allocated)
    if managed is False:
        faults = {"cpu_page_faults", "gpu_page_faults"}
        found.update(dict.fromkeys(faults & found.keys(), _UNMANAGED))
    if managed and not seen.migrations_seen:
        found.setdefault("migrations", _UNSEEN)
    if not seen.busy.seen:
        found["idle_share"] = "nsys recorded no GPU work"
    if not database.has(tables.CALLS):
        found["calls"] = _NONE
    return found
