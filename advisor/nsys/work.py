"""The work of each GPU in an export and the host's calls around it, as columns; one frame as a timeline."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.nsys.database import (
    COPY_KINDS,
    LONGEST,
    MOST_KINDS,
    THREAD_BITS,
    UNKNOWN,
    Database,
    Integers,
    Tables,
    distinct,
)
from advisor.nsys.ranges import NOTHING, Intervals
from advisor.profiles.programs import HostWork
from advisor.profiles.traces import Allocations, Direction, Span, Timeline, Track, thinned

Columns = dict[str, Integers]
_DEVICES = 1 << 16
"""More than the devices of a process."""
RANGE = 21
"""Bits of an address in a range of 2 MiB, the largest page and the region of the driver's prefetcher."""
WORKS: tuple[HostWork, ...] = ("page-locking", "allocation", "copies", "waits", "launches", "other")
_CALLS: tuple[tuple[HostWork, str], ...] = (
    ("page-locking", r"HostAlloc|MallocHost|MemAllocHost|FreeHost|HostRegister|HostUnregister"),
    ("waits", r"(Stream|Event|Device|Ctx|Thread)Synchronize"),
    ("copies", r"Memcpy"),
    ("allocation", r"Malloc(?!.*Async)|MemAlloc(?!.*Async)|(cudaFree|cuMemFree)(?!.*Async)"),
    ("launches", r"Launch"),
)
"""Calls of the runtime and the driver by name, the first that fits."""
_HEAVY, _WAITS = WORKS[:4], WORKS.index("waits")
_BLOCKING = re.compile(r"cu(da)?Memcpy(?!\w*(Async|Peer|DtoD))")
"""Copies whose call returns when they are done."""
DIRECTIONS: dict[str, Direction] = {"HTOD": "to-device", "DTOH": "to-host", "DTOD": "device-to-device"}
_CAUSES = {"speculative prefecth": "speculative prefetch"}
"""nsys up to 2023.4 spells it so."""
OWN = {-2: "memset", -3: "CUDA graph", -9: "copy on the device"}
"""Names of work other than kernels that keeps a GPU busy, in place of the number of a kernel's name."""
_OWN_NUMBERS = {Tables.MEMSETS: -2, Tables.GRAPHS: -3, Tables.COPIES: -9}
_PLACE = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId")
_KIND, _MOVE = ("copyKind", "srcKind", "dstKind"), ("copyKind", "migrationCause")


@dataclass
class GpuWork:
    """One process's work on one GPU. Kernels include memsets, graphs and copies on the device."""

    process: int
    device: int
    kernels: Columns = field(default_factory=dict)
    copies: Columns = field(default_factory=dict)
    moved: Columns = field(default_factory=dict)

    def intervals(self, kind: str) -> Intervals:
        columns: Columns = getattr(self, kind)
        return columns.get("start", NOTHING), columns.get("end", NOTHING)

    def busy(self) -> list[Intervals]:
        return [self.intervals(kind) for kind in ("kernels", "copies", "moved")]


def read_work(database: Database, where: str = "1", *, device_copies: bool = False) -> list[GpuWork]:
    """Each GPU of each process that did anything, with migrations apart from copies, in as few bytes as it
    needs. device_copies: copies on a device are copies too, not its own work."""
    names = database.names(COPY_KINDS)
    pages = {number for number, name in names.items() if "_UVM_" in name}
    own = {n for n, name in names.items() if re.search(r"_KIND_[DA]TO[DA]$", name) and not device_copies}
    others, copies = f"{where} AND COALESCE(copyKind, {UNKNOWN}) NOT IN", f"{where} AND copyKind IN"
    name = "shortName" if database.has(Tables.KERNELS, "shortName") else "demangledName"
    where_own, where_moved = f"{copies} ({_listed(own)})", f"{copies} ({_listed(pages)})"
    kernels = ((Tables.KERNELS, where), (Tables.MEMSETS, where), (Tables.GRAPHS, where))
    works: dict[int, GpuWork] = {}
    for kind, more, tables in (
        ("kernels", (name,), (*kernels, (Tables.COPIES, where_own))),
        ("copies", ("bytes", *_KIND), ((Tables.COPIES, f"{others} ({_listed(pages | own)})"),)),
        ("moved", ("bytes", *_MOVE, "virtualAddress"), ((Tables.COPIES, where_moved),)),
    ):
        parts: defaultdict[int, list[Columns]] = defaultdict(list)
        for table, condition in filter(lambda each: database.readable(each[0]), tables):
            for block in database.blocks(table, (*_PLACE, *more), condition):
                if table in _OWN_NUMBERS and name in block:
                    block[name] = np.full(len(block["start"]), _OWN_NUMBERS[table])
                keys = block["globalPid"] // THREAD_BITS * _DEVICES + np.maximum(block["deviceId"], 0)
                columns = _kept(kind, block, name)
                for key in distinct(keys):
                    selected = {name: each[keys == key] for name, each in columns.items()}
                    small = {n: _small(each) for n, each in selected.items() if n not in ("start", "end")}
                    parts[key].append(selected | small)
        for key in list(parts):
            setattr(works.setdefault(key, GpuWork(*divmod(key, _DEVICES))), kind, _joined(parts.pop(key)))
    return [works[key] for key in sorted(works)]


def _listed(numbers: Sequence[int] | set[int]) -> str:
    return ",".join(map(str, numbers)) or str(UNKNOWN)


def _joined(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _small(column: Integers) -> Integers:
    fits = len(column) and column.min() >= -(2**31) and column.max() < 2**31
    return column.astype(np.int32) if fits else column


def _kept(kind: str, rows: Columns, name: str) -> Columns:
    times = {"start": rows["start"], "end": rows["end"]}
    if kind == "moved":
        ranges = np.where(rows["virtualAddress"] > 0, rows["virtualAddress"] >> RANGE, UNKNOWN)
        return {**times, "bytes": rows["bytes"], "kind": _packed(rows, _MOVE), "range": ranges}
    launched = {**times, "stream": rows["streamId"], "call": rows["correlationId"]}
    if kind == "copies":
        return {**launched, "bytes": rows["bytes"], "kind": _packed(rows, _KIND)}
    return {**launched, "name": rows[name]}


def _packed(rows: Columns, columns: Sequence[str]) -> Integers:
    """Several columns as one number; NULL, and a number that is no kind, is -1."""
    packed = np.zeros(len(rows["start"]), np.int64)
    for column in columns:
        packed *= MOST_KINDS
        packed += np.where((rows[column] >= 0) & (rows[column] < MOST_KINDS - 1), rows[column] + 1, 0)
    return packed


def copy_kinds(database: Database, copies: Columns) -> Iterator[tuple[int, str, str | None, str | None]]:
    """Each number in a column `kind`, with its direction and the memory of the source and the destination."""
    ways, memories = database.labels(COPY_KINDS), database.labels("ENUM_CUDA_MEM_KIND")
    for number in np.unique(copies.get("kind", NOTHING)).tolist():
        rest, target = divmod(number, MOST_KINDS)
        kind, source = divmod(rest, MOST_KINDS)
        way = ways.get(kind - 1, f"kind {kind - 1}")
        yield number, way, memories.get(source - 1), memories.get(target - 1)


def move_kinds(database: Database, moved: Columns) -> Iterator[tuple[int, Direction, str | None]]:
    """Each number in a column `kind` of migrations that has a direction, with its direction and cause."""
    names, causes = database.names(COPY_KINDS), database.labels("ENUM_CUDA_UNIF_MEM_MIGRATION")
    for number in np.unique(moved.get("kind", NOTHING)).tolist():
        kind, cause = divmod(number, MOST_KINDS)
        if way := DIRECTIONS.get(names[kind - 1].rpartition("_")[2]):
            word = causes.get(cause - 1)
            yield number, way, _CAUSES.get(word or "", word)


@dataclass
class Calls:
    """The host's CUDA calls of one process; `work` is a position in `WORKS`."""

    columns: Columns
    """Calls that memory decides on: copies, waits, allocations and page-locking."""
    light: Columns
    """The others, which are many: begin, length, work and correlation id."""
    unnamed: bool
    """Whether the report lacks names of calls, which may be any call."""

    def of(self, *works: HostWork) -> npt.NDArray[np.bool_]:
        """Which of the calls are of these kinds."""
        return np.isin(self.columns["work"], [WORKS.index(work) for work in works])

    def intervals(self, at: npt.NDArray[Any] | slice = slice(None)) -> Intervals:
        return self.columns["start"][at], self.columns["end"][at]

    def began(self, ids: Integers, otherwise: Integers) -> Integers:
        """When the calls of these correlation ids began; where no call is known, `otherwise`."""
        known, begins = self._by_id  # of at least one call
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where(known[at] == ids, begins[at], otherwise)

    @cached_property
    def _by_id(self) -> Intervals:
        ids, begins = (np.concatenate([self.columns[n], self.light[n]]) for n in ("call", "start"))
        order = np.argsort(ids, kind="stable")
        return ids[order], begins[order]


def read_calls(database: Database, where: str = "1") -> dict[int, Calls]:
    """The CUDA calls by process; empty where none were recorded."""
    columns = ("start", "end", "globalTid", "nameId", "correlationId")
    if not database.has(Tables.CALLS, *columns[:4]):
        return {}
    parts: defaultdict[int, tuple[list[Columns], list[Columns]]] = defaultdict(lambda: ([], []))
    # Each call once: with backtraces nsys writes one row more for a call (2025.4 does), of another event
    # class and with a name without version.
    classes = database.names("ENUM_NSYS_EVENT_CLASS").items()
    twice = [number for number, name in classes if name.endswith("BACKTRACE")]
    if twice and database.has(Tables.CALLS, "eventClass"):
        where += f" AND eventClass NOT IN ({_listed(twice)})"
    unnamed = False
    for block in database.blocks(Tables.CALLS, columns, where):
        kinds, which = np.unique(block["nameId"], return_inverse=True)
        names = database.strings(kinds.tolist())
        unnamed |= len(names) < len(kinds)
        called = [names.get(number, "") for number in kinds.tolist()]
        known = [(_work(name), bool(_BLOCKING.match(name)) or _work(name) == _WAITS) for name in called]
        work, blocking = np.array(known, np.int8)[which.reshape(-1)].T
        calls = {"start": block["start"], "work": work, "call": _small(block["correlationId"])}
        heavy = {"end": block["end"], "blocking": blocking, "name": _small(block["nameId"])}
        light = {"length": _small(block["end"] - block["start"])}
        processes, is_heavy = block["globalTid"] // THREAD_BITS, work < len(_HEAVY)
        for process in distinct(processes):
            mine = processes == process
            for part, rows, more in zip(
                parts[process], (mine & is_heavy, mine & ~is_heavy), (heavy, light), strict=True
            ):
                part.append({name: column[rows] for name, column in (calls | more).items()})
    return {
        process: Calls(_joined(heavies), _joined(lights), unnamed)
        for process in list(parts)
        for heavies, lights in [parts.pop(process)]
    }


def _work(name: str) -> int:
    fitting = (work for work, pattern in _CALLS if re.search(pattern, name))
    return WORKS.index(next(fitting, "other"))


def allocations(database: Database, processes: Sequence[int] | None) -> tuple[Allocations, ...] | None:
    """Allocations of these processes (None: of all), by kind of memory; None where none was recorded."""
    if not database.readable(Tables.MEMORY):
        return None
    operations = database.names("ENUM_CUDA_DEV_MEM_EVENT_OPER").items()
    where = f"memoryOperationType IN ({_listed([n for n, op in operations if op.endswith('_ALLOCATION')])})"
    if processes is not None and database.has(Tables.MEMORY, "globalPid"):
        where += f" AND globalPid / {THREAD_BITS} IN ({_listed(processes)})"
    kinds = database.labels("ENUM_CUDA_MEM_KIND")
    rows = database.rows(
        f"SELECT memKind, COUNT(*), SUM(bytes), MAX(bytes) FROM {Tables.MEMORY} WHERE {where} AND memKind "
        "NOT NULL AND bytes >= 0 GROUP BY 1 ORDER BY 1 LIMIT 1000"
    )
    return tuple(
        Allocations(kind=kinds.get(int(kind), f"kind {kind}"), count=count, bytes=total, largest_bytes=most)
        for kind, count, total, most in rows
    )


def origin(database: Database, calls: Integers, process: int) -> str | None:
    """The function that most of these calls came from: the first of their backtraces outside of libraries.
    None where the report has no backtraces. The export holds functions and modules, no source lines."""
    if not (
        database.has("CUDA_CALLCHAINS", "id", "symbol", "module", "stackDepth")
        and database.has(Tables.CALLS, "callchainId", "correlationId", "globalTid")
        and database.has("StringIds", "id", "value")
    ):
        return None
    some = _listed([int(call) for call in calls[:: max(len(calls) // 200, 1)]])
    # Each call can have a backtrace of its own, so that the functions are counted, not the backtraces.
    rows = database.rows(
        f"SELECT callchainId, substr(function.value, 1, {LONGEST}), substr(file.value, 1, {LONGEST}) "
        f"FROM {Tables.CALLS} JOIN CUDA_CALLCHAINS AS chain ON chain.id = callchainId "
        "JOIN StringIds AS function ON function.id = symbol LEFT JOIN StringIds AS file ON file.id = module "
        f"WHERE correlationId IN ({some}) AND globalTid / {THREAD_BITS} = {process} AND stackDepth < 100 "
        "ORDER BY callchainId, stackDepth LIMIT 50000"
    )
    functions: dict[int, str] = {}
    for chain, name, file in rows:
        if name and chain not in functions and not _CUDA.match(name) and not _LIBRARY.search(file or ""):
            functions[chain] = f"{name} ({file.rpartition('/')[2]})" if file else name
    return next((name for name, _ in Counter(functions.values()).most_common(1)), None)


_CUDA = re.compile(r"0x|_*cuda[A-Z_]|cu[A-Z]")
"""Addresses without a name, and CUDA's own functions, which programs link statically."""
_LIBRARY = re.compile(
    r"(^|/)(lib(cuda|cudart|cupti|c|pthread|stdc\+\+|torch|c10|cupy|cu[a-z]+|nv[a-z]+|ToolsInjection)[^/]*\.so|ld-)"
    r"|\.cpython-|/python3?[.\d]*$|site-packages"
)


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
