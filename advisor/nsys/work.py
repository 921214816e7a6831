"""The work of each GPU in an export, and the host's calls around it, as columns of numbers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from advisor.nsys.database import THREAD_BITS, UNKNOWN, Database, Integers, Tables, distinct
from advisor.nsys.intervals import NOTHING, Intervals, inside, starting
from advisor.profiles.programs import HostWork

Columns = dict[str, Integers]
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
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
_BLOCKING = re.compile(r"cuda(Memcpy|Memcpy2D|Memcpy3D)_|cuMemcpy[A-Z0-9]\w*?(?<!Async)(_v\d+)?$")
"""Copies whose call returns when they are done."""


@dataclass
class GpuWork:
    """One process's work on one GPU. Kernels include memsets, copies on the device and graphs."""

    process: int
    device: int
    kernels: Columns = field(default_factory=dict)
    copies: Columns = field(default_factory=dict)
    moved: Columns = field(default_factory=dict)

    def intervals(self, kind: str) -> Intervals:
        columns: Columns = getattr(self, kind)
        return columns.get("start", NOTHING), columns.get("end", NOTHING)


@dataclass
class Calls:
    """The host's CUDA calls of one process; `work` is a position in `WORKS`."""

    columns: Columns

    def of(self, *works: HostWork) -> Integers:
        """Positions of the calls of these kinds."""
        return np.flatnonzero(np.isin(self.columns["work"], [WORKS.index(work) for work in works]))

    def intervals(self, at: Integers | slice = slice(None)) -> Intervals:
        return self.columns["start"][at], self.columns["end"][at]


class _Collected:
    """Columns by process and device, block after block, in as few bytes as they need."""

    def __init__(self) -> None:
        self._parts: defaultdict[int, list[Columns]] = defaultdict(list)

    def add(self, block: Columns, **columns: Integers) -> None:
        keys = block["globalPid"] // THREAD_BITS * _DEVICES + np.maximum(block["deviceId"], 0)
        for key in distinct(keys):
            mine = keys == key
            self._parts[key].append({name: _small(each[mine]) for name, each in columns.items()})

    def all(self) -> Iterator[tuple[int, int, Columns]]:
        for key in list(self._parts):
            parts = self._parts.pop(key)
            yield *divmod(key, _DEVICES), {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}


def _small(column: Integers) -> Integers:
    fits = len(column) and column.min() >= -(2**31) and column.max() < 2**31
    return column.astype(np.int32) if fits else column


def read_work(database: Database) -> list[GpuWork]:
    """Each GPU of each process that did anything, with migrations apart from copies."""
    found: dict[tuple[int, int], GpuWork] = {}
    for name, collected in (
        ("kernels", _kernels(database)),
        ("copies", _copies(database)),
        ("moved", _moved(database)),
    ):
        for process, device, columns in collected.all():
            setattr(found.setdefault((process, device), GpuWork(process, device)), name, columns)
    return [found[key] for key in sorted(found)]


_PLACE = ("start", "end", "globalPid", "deviceId")
_ORDER = ("streamId", "correlationId")


def _kernels(database: Database) -> _Collected:
    """What keeps the GPU busy itself; of graphs recorded as a whole, their runs."""
    found = _Collected()
    tables = {Tables.KERNELS: "shortName", Tables.MEMSETS: "value", GRAPHS: "graphId"}
    if not database.has(Tables.KERNELS, "shortName"):
        tables[Tables.KERNELS] = "demangledName"
    for number, (table, name) in enumerate(tables.items()):
        if not database.has(table, "start", "end"):
            continue
        for block in database.blocks(table, (*_PLACE, *_ORDER, name)):
            # Names are numbers of strings; below 0 they are memsets and graphs.
            named = block[name] if number == 0 else np.full(len(block["start"]), -1 - number)
            found.add(block, name=named, **_timed(block))
    if database.readable(Tables.COPIES):
        where = f"copyKind IN ({_kinds(database)[1]})"
        for block in database.blocks(Tables.COPIES, (*_PLACE, *_ORDER), where):
            found.add(block, name=np.full(len(block["start"]), -9), **_timed(block))
    return found


def _timed(block: Columns) -> Columns:
    return {
        "start": block["start"],
        "end": np.maximum(block["end"], block["start"]),
        "stream": block["streamId"],
        "call": block["correlationId"],
    }


def _kinds(database: Database) -> tuple[str, str]:
    """The numbers of migrations, and of copies within a device, for a query."""
    names = database.names("ENUM_CUDA_MEMCPY_OPER")
    pages = [n for n, name in names.items() if "_UVM_" in name]
    within = [n for n, name in names.items() if re.search(r"_KIND_[DA]TO[DA]$", name)]
    return ",".join(map(str, pages)) or "NULL", ",".join(map(str, within)) or "NULL"


def _copies(database: Database) -> _Collected:
    found = _Collected()
    if not database.readable(Tables.COPIES):
        return found
    others = ",".join(_kinds(database))
    where = f"copyKind NOT IN ({others.replace('NULL', str(UNKNOWN))})"
    for block in database.blocks(Tables.COPIES, (*_PLACE, *_ORDER, "bytes", *_KIND), where):
        kind = np.zeros(len(block["start"]), np.int64)
        for column in _KIND:
            kind = kind * _MOST_KINDS + block[column] + 1  # NULL is -1
        found.add(block, bytes=block["bytes"], kind=kind, **_timed(block))
    return found


_KIND = ("copyKind", "srcKind", "dstKind")
_MOST_KINDS = 512


def split_kind(kind: int) -> tuple[int, int, int]:
    """Kind of copy, of the source's memory and of the destination's, of a column `kind`."""
    rest, target = divmod(kind, _MOST_KINDS)
    copied, source = divmod(rest, _MOST_KINDS)
    return copied - 1, source - 1, target - 1


def _moved(database: Database) -> _Collected:
    found = _Collected()
    if not database.readable(Tables.COPIES):
        return found
    more = ("bytes", "copyKind", "migrationCause", "virtualAddress")
    where = f"copyKind IN ({_kinds(database)[0]})"
    for block in database.blocks(Tables.COPIES, (*_PLACE, *more), where):
        found.add(
            block,
            start=block["start"],
            end=np.maximum(block["end"], block["start"]),
            bytes=block["bytes"],
            kind=block["copyKind"],
            cause=block["migrationCause"],
            range=np.where(block["virtualAddress"] > 0, block["virtualAddress"] >> RANGE, UNKNOWN),
        )
    return found


_HEAVY: tuple[HostWork, ...] = ("page-locking", "allocation", "copies", "waits")
"""What memory decides on. The other calls are many, so that they are only added up (`add_launches`)."""


def _names(database: Database) -> dict[int, str]:
    if not database.has(Tables.CALLS, "start", "end", "globalTid", "nameId"):
        return {}
    rows = database.rows(f"SELECT DISTINCT nameId FROM {Tables.CALLS} LIMIT 5000")
    return database.strings([int(row[0]) for row in rows if row[0] is not None])


def read_calls(database: Database) -> Mapping[int, Calls]:
    """The CUDA calls that copy, wait, allocate and page-lock, by process; empty where none were recorded."""
    names = _names(database)
    heavy = [number for number, name in names.items() if WORKS[_work(name)] in _HEAVY]
    columns = ("start", "end", "globalTid", "nameId", "correlationId")
    parts: defaultdict[int, list[Columns]] = defaultdict(list)
    for process in _processes(database) if names else ():
        parts[process] = [dict.fromkeys(("start", "end", "call", "work", "blocking"), NOTHING)]
    where = f"nameId IN ({','.join(map(str, heavy)) or 'NULL'})"
    for block in database.blocks(Tables.CALLS, columns, where) if names else ():
        kinds, which = np.unique(block["nameId"], return_inverse=True)
        told = [(_work(names[n]), _blocks(names[n])) for n in kinds.tolist()]
        work, blocking = np.array(told, np.int8)[which.reshape(-1)].T
        processes = block["globalTid"] // THREAD_BITS
        for process in distinct(processes):
            mine = processes == process
            found = {"start": block["start"], "end": np.maximum(block["end"], block["start"])}
            found |= {"call": _small(block["correlationId"]), "work": work, "blocking": blocking}
            parts[process].append({name: each[mine] for name, each in found.items()})
    return {
        process: Calls({name: np.concatenate([part[name] for part in mine]) for name in mine[0]})
        for process, mine in parts.items()
    }


def _processes(database: Database) -> list[int]:
    query = (
        f"SELECT DISTINCT globalTid / {THREAD_BITS} FROM {Tables.CALLS} WHERE globalTid NOT NULL LIMIT 1000"
    )
    return [int(row[0]) for row in database.rows(query)]


@dataclass
class Light:
    """Calls of one process that launch work or do something else, added up over its threads, in ns."""

    process: int
    window: Intervals
    idle: Intervals
    sums: dict[HostWork, list[int]] = field(default_factory=dict)
    """Count, time, and time in which the GPU was idle."""


def add_launches(database: Database, gpus: Sequence[Light]) -> None:
    """Adds up the calls that `read_calls` leaves out, for each GPU in its window."""
    names = _names(database)
    for work in ("launches", "other"):
        numbers = [number for number, name in names.items() if WORKS[_work(name)] == work]
        where = f"nameId IN ({','.join(map(str, numbers)) or 'NULL'})"
        for block in database.blocks(Tables.CALLS, ("start", "end", "globalTid"), where) if numbers else ():
            processes = block["globalTid"] // THREAD_BITS
            for gpu in gpus:
                mine = np.flatnonzero(processes == gpu.process)
                mine = mine[starting(block["start"][mine], gpu.window)]
                begins, ends = block["start"][mine], np.maximum(block["end"], block["start"])[mine]
                figures = len(mine), (ends - begins).sum(), inside((begins, ends), gpu.idle).sum()
                sums = gpu.sums.setdefault(work, [0, 0, 0])
                sums[:] = (had + int(more) for had, more in zip(sums, figures, strict=True))


def _work(name: str) -> int:
    fitting = (work for work, pattern in _CALLS if re.search(pattern, name))
    return WORKS.index(next(fitting, "other"))


def _blocks(name: str) -> bool:
    return bool(_BLOCKING.match(name)) or _work(name) == WORKS.index("waits")


def places(database: Database, calls: Integers, process: int) -> str | None:
    """The function that most of these calls came from: the first of their backtraces outside of libraries.

    None where the report has no backtraces.
    """
    if not (
        database.has("CUDA_CALLCHAINS", "id", "symbol", "module", "stackDepth")
        and database.has(Tables.CALLS, "callchainId", "correlationId", "globalTid")
        and len(calls)
    ):
        return None
    some = ",".join(str(int(call)) for call in calls[:: max(len(calls) // 200, 1)])
    chains = (
        f"SELECT callchainId, COUNT(*) FROM {Tables.CALLS} WHERE correlationId IN ({some}) AND "
        f"globalTid / {THREAD_BITS} = {process} AND callchainId IS NOT NULL GROUP BY 1 ORDER BY 2 DESC "
        "LIMIT 1"
    )
    for chain, _ in database.rows(chains):
        frames = database.rows(
            "SELECT symbol, module FROM CUDA_CALLCHAINS WHERE id = ? ORDER BY stackDepth LIMIT 100", (chain,)
        )
        return _outside_libraries(database, [(int(s), int(m)) for s, m in frames])
    return None


_CUDA = re.compile(r"0x|_*cuda[A-Z_]|cu[A-Z]")
"""Addresses without a name, and CUDA's own functions, which programs link statically."""
_LIBRARY = re.compile(
    r"(^|/)(lib(cuda|cudart|c|pthread|stdc\+\+|torch|c10|cupy|cu[a-z]+|nv[a-z]+|ToolsInjection)[^/]*\.so|ld-)"
    r"|\.cpython-|/python3?[.\d]*$|site-packages"
)


def _outside_libraries(database: Database, frames: Sequence[tuple[int, int]]) -> str | None:
    texts = database.strings([number for pair in frames for number in pair])
    for symbol, module in frames:
        name, file = texts.get(symbol, ""), texts.get(module, "")
        if name and not _CUDA.match(name) and not _LIBRARY.search(file):
            return f"{name} ({file.rpartition('/')[2]})" if file else name
    return None
