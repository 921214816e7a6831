"""Sums of an export's tables: copies, migrations, kernels, waits by place (a strategy, a step of it).

Work on the GPU belongs to the place whose call launched it, found by the correlation id; what has none
(migrations, faults) belongs to the place the host was in when it began.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

import numpy as np

from advisor.nsys.database import NEEDED, THREAD_BITS, UNKNOWN, Database, Integers, Tables, distinct
from advisor.nsys.intervals import Intervals, before, union


class Windows:
    """Stretches of time, each of one process and with a number; those of one process do not overlap."""

    def __init__(self, stretches: Iterable[tuple[int, int, int, int]]) -> None:
        """`stretches`: process, begin, end, number."""
        ordered = sorted(stretches)
        self._of = {
            process: np.array([row[1:] for row in rows], np.int64)
            for process, rows in groupby(ordered, key=lambda row: row[0])
        }

    def find(self, processes: Integers, moments: Integers) -> Integers:
        """The number of the stretch that each moment lies in; -1 where it lies in none."""
        result = np.full(len(moments), -1, np.int64)
        for process, stretches in self._of.items():
            mine = np.flatnonzero(processes == process)
            if not len(mine):
                continue
            begins, ends, numbers = stretches.T
            at = np.searchsorted(begins, moments[mine], side="right") - 1
            inside = (at >= 0) & (moments[mine] <= ends[at])
            result[mine[inside]] = numbers[at[inside]]
        return result


class Busy:
    """Collects when the GPU worked, by process: 16 bytes for each piece of work, 32 while it is sorted."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[Intervals]] = {}

    @property
    def seen(self) -> bool:
        return bool(self._pieces)

    def add(self, processes: Integers, begins: Integers, ends: Integers) -> None:
        for process in distinct(processes):
            mine = processes == process
            self._pieces.setdefault(process, []).append((begins[mine], ends[mine]))

    def share(self, key: int, begins: Integers, ends: Integers) -> float:
        """The share of these stretches, which do not overlap, in which that process's GPU work ran."""
        length = int((ends - begins).sum())
        if key not in self._pieces or length <= 0:
            return 0.0
        pieces = self._pieces[key]
        if len(pieces) > 1 or np.any(pieces[0][0][1:] <= pieces[0][1][:-1]):
            pieces[:] = [union(pieces)]
        starts, stops = pieces[0]
        worked = before(ends, (starts, stops)) - before(begins, (starts, stops))
        return min(int(worked.sum()) / length, 1.0)


Key = tuple[int, ...]
_NOWHERE = -1
_MOST_KEYS = 5000
"""Kinds of copies, names of kernels."""


@dataclass
class Sums:
    """Count, bytes and nanoseconds by kind: copies, migrations, kernels, waits."""

    of: defaultdict[str, defaultdict[Key, list[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(lambda: [0, 0, 0]))
    )
    faults: Counter[str] = field(default_factory=Counter)
    """By table."""

    def add(self, kind: str, key: Key, figures: Sequence[int]) -> None:
        """Raises ValueError for more kinds than a program has."""
        sums = self.of[kind][key]
        if len(self.of[kind]) > _MOST_KEYS:
            raise ValueError(f"it has more than {_MOST_KEYS} kinds of {kind}")
        for position, figure in enumerate(figures):
            sums[position] += int(figure)

    def include(self, other: Sums) -> None:
        for kind, by_key in other.of.items():
            for key, figures in by_key.items():
                self.add(kind, key, figures)
        self.faults.update(other.faults)


class Aggregates:
    """Reads the tables once; `places` maps a moment of a process to a place."""

    def __init__(self, database: Database, places: Windows, extent: tuple[int, int]) -> None:
        self.busy = Busy()
        self.migrations_seen = False
        self.places: defaultdict[int, Sums] = defaultdict(Sums)
        self._database = database
        self._where = places
        self._extent = extent
        self._launched: Calls | None = Calls(database, extent, "start")
        self._copies()
        self._kernels()
        self._launched = None  # its memory is wanted for what follows
        self._waits()
        self._faults()

    def _placed(self, block: dict[str, Integers], launched: bool) -> Integers:
        moments = block["start"]
        processes = block["globalPid"] // THREAD_BITS
        if launched and self._launched:
            moments = self._launched.find(processes, block["correlationId"], moments)
        return self._where.find(processes, moments)

    def _blocks(self, table: str, *more: str) -> Iterator[dict[str, Integers]]:
        """The rows around our frames."""
        if not self._database.readable(table):
            return
        first, last = self._extent
        ends = "end" if "end" in NEEDED[table] else "start"
        where = f'"{ends}" >= {first} AND "start" <= {last}'
        columns = dict.fromkeys((*NEEDED[table], "globalPid", *more))
        yield from self._database.blocks(table, tuple(columns), where)

    def _busy(self, block: dict[str, Integers]) -> None:
        self.busy.add(block["globalPid"] // THREAD_BITS, block["start"], block["end"])

    def _copies(self) -> None:
        kinds = self._database.names("ENUM_CUDA_MEMCPY_OPER")
        unified = np.array([number for number, name in kinds.items() if "_UVM_" in name], np.int64)
        for block in self._blocks(Tables.COPIES, "correlationId", "srcKind", "dstKind", "migrationCause"):
            self._busy(block)
            moved = np.isin(block["copyKind"], unified)
            self.migrations_seen |= bool(moved.any())
            copied = np.where(moved, _NOWHERE, self._placed(block, launched=True))
            self._sum("copies", block, copied, ("copyKind", "srcKind", "dstKind"))
            migrated = np.where(moved, self._placed(block, launched=False), _NOWHERE)
            self._sum("migrations", block, migrated, ("copyKind", "migrationCause"))

    def _kernels(self) -> None:
        for block in self._blocks(Tables.KERNELS, "correlationId", "shortName"):
            self._busy(block)
            self._sum("kernels", block, self._placed(block, launched=True), ("shortName",))
        for block in self._blocks(Tables.MEMSETS):
            self._busy(block)

    def _waits(self) -> None:
        """By the call as well: nsys 2023.4 records cudaStreamWaitEvent, in which no host waits, as a kind
        of wait of the host's, and cudaEventSynchronize as another than it is (seen on an H200)."""
        database = self._database
        if not database.readable(Tables.WAITS):
            return
        where = "0"
        if database.has("StringIds", "id", "value") and database.has(Tables.CALLS, "nameId"):
            named = "value LIKE '%Synchronize%' OR value LIKE '%StreamWaitEvent%'"
            where = f"correlationId IS NOT NULL AND nameId IN (SELECT id FROM StringIds WHERE {named})"
        calls = Calls(database, self._extent, "nameId", where)
        for block in self._blocks(Tables.WAITS, "correlationId"):
            unknown = np.full(len(block["start"]), UNKNOWN, np.int64)
            processes = block["globalPid"] // THREAD_BITS
            block["call"] = calls.find(processes, block["correlationId"], unknown)
            self._sum("waits", block, self._placed(block, launched=False), ("syncType", "call"))

    def _faults(self) -> None:
        for table in (Tables.CPU_FAULTS, Tables.GPU_FAULTS):
            for block in self._blocks(table):
                places, which = np.unique(self._placed(block, launched=False), return_inverse=True)
                counts = np.bincount(which.reshape(-1), block.get("numberOfPageFaults"))
                for place, count in zip(places.tolist(), counts.tolist(), strict=True):
                    self.places[place].faults[table] += int(count)

    def _sum(self, kind: str, block: dict[str, Integers], place: Integers, columns: Sequence[str]) -> None:
        """Adds rows up by place and these columns; rows in no place are left out."""
        keep = place >= 0
        if not keep.any():
            return
        kinds, which = _distinct([place[keep], *(block[c][keep] for c in columns)])
        size = len(kinds)
        lasted = (block["end"] - block["start"])[keep]
        counts = np.bincount(which, minlength=size)
        seconds = np.bincount(which, lasted, size)
        moved = np.bincount(which, block["bytes"][keep], size) if "bytes" in block else np.zeros(size)
        for at, (place_number, *key) in enumerate(kinds):
            figures = (counts[at], round(moved[at]), round(seconds[at]))
            self.places[place_number].add(kind, tuple(key), figures)


def _distinct(columns: Sequence[Integers]) -> tuple[list[tuple[int, ...]], Integers]:
    """The distinct rows, and which of them each row is. As one number each, since whole rows sort slowly.

    Places, kinds and numbers of names are small enough for their product to fit into 63 bits.
    """
    lowest = [int(column.min()) for column in columns]
    widths = [int(column.max()) - low + 1 for column, low in zip(columns, lowest, strict=True)]
    keys = np.zeros(len(columns[0]), np.int64)
    for column, low, width in zip(columns, lowest, widths, strict=True):
        keys = keys * width + (column - low)
    distinct, which = np.unique(keys, return_inverse=True)
    rows = []
    for key in distinct.tolist():
        row = []
        for low, width in zip(reversed(lowest), reversed(widths), strict=True):
            key, rest = divmod(key, width)
            row.append(low + rest)
        rows.append(tuple(reversed(row)))
    return rows, np.asarray(which, np.int64).reshape(-1)


class Calls:
    """One column of the host's calls that launch or await the GPU's work, by process and correlation id."""

    def __init__(
        self,
        database: Database,
        extent: tuple[int, int] | None,
        column: Literal["start", "nameId"],
        where: str = "correlationId IS NOT NULL",
    ) -> None:
        keys: list[Integers] = []
        values: list[Integers] = []
        self._processes: list[int] = []
        if database.has(Tables.CALLS, "start", "globalTid", "correlationId"):
            if extent:
                where = f"start >= {extent[0]} AND start <= {extent[1]} AND {where}"
            for block in database.blocks(Tables.CALLS, (*{column, "globalTid", "correlationId"},), where):
                keys.append(self._keys(block["globalTid"] // THREAD_BITS, block["correlationId"]))
                values.append(block[column])
        self._keyed = np.concatenate(keys) if keys else np.array([], np.int64)
        del keys
        order = np.argsort(self._keyed, kind="stable")
        self._keyed = self._keyed[order]
        self._values = np.concatenate(values)[order] if values else self._keyed

    def find(self, processes: Integers, correlations: Integers, otherwise: Integers) -> Integers:
        """The column of each row's call; where no call is known, `otherwise`."""
        if not len(self._keyed):
            return otherwise
        wanted = self._keys(processes, correlations)
        at = np.minimum(np.searchsorted(self._keyed, wanted), len(self._keyed) - 1)
        return np.where(self._keyed[at] == wanted, self._values[at], otherwise)

    def _keys(self, processes: Integers, correlations: Integers) -> Integers:
        """One number of both: correlation ids are 32 bits wide."""
        keys = correlations.copy()
        for process in distinct(processes):
            if process not in self._processes:
                self._processes.append(process)
            keys[processes == process] += (self._processes.index(process) + 1) << 32
        return keys
