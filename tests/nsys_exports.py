"""Builds small SQLite exports as nsys writes them, by the schema in the user guides of 2022.4 and 2023.4.

They are built, not recorded: what real nsys wrote lies in tests/data/nsys.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

Version = Literal["2022.4", "2023.4"]

NVTX = (
    "start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value "
    "int64Value doubleValue uint32Value int32Value floatValue jsonTextId jsonText"
)
COMMON = "deviceId contextId streamId correlationId globalPid"
TABLES = {
    "StringIds": "id value",
    "NVTX_EVENTS": NVTX,
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId "
    "returnValue callchainId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"start end {COMMON} bytes copyKind deprecatedSrcId srcKind dstKind "
    "srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"start end {COMMON} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"start end {COMMON} demangledName shortName mangledName launchType "
    "cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory "
    "dynamicSharedMemory localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId",
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": "start globalPid address originalFaultPc CpuInstruction module "
    "unresolvedFaultPc",
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": "start end globalPid deviceId address "
    "numberOfPageFaults faultAccessType",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"start end {COMMON} graphId graphExecId",
    "TARGET_INFO_GPU": "vmId id name busLocation isDiscrete l2CacheSize totalMemory memoryBandwidth",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid uuid numMultiprocessors",
    "CUDA_CALLCHAINS": "id symbol module kernelMode thumbCode unresolved specialEntry originalIP "
    "unwindMethod stackDepth",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start globalPid deviceId contextId address pc bytes memKind "
    "memoryOperationType name correlationId",
}
POOLS = " localMemoryPoolAddress localMemoryPoolSize importedMemoryPoolAddress"
"""Columns that 2023.4 added to CUDA_GPU_MEMORY_USAGE_EVENTS."""
TEXTS = {"value", "text", "jsonText", "name", "busLocation", "uuid"}

ENUMS: dict[str, tuple[tuple[str, str], ...]] = {
    "ENUM_CUDA_MEMCPY_OPER": (
        ("CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"),
        ("CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        ("CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
        ("CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
        ("CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"),
        ("CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"),
        ("CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
    ),
    "ENUM_CUDA_MEM_KIND": (
        ("CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        ("CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
        ("CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
        ("CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"),
        ("CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"),
    ),
    "ENUM_CUDA_UNIF_MEM_MIGRATION": (
        ("CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_UNKNOWN", "Unknown"),
        ("CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_USER", "User prefetch"),
        ("CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_COHERENCE", "Page fault"),
        ("CUDA_UNIFIED_MEMORY_MIGRATION_CAUSE_PREFETCH", "Speculative prefecth"),
    ),
    "ENUM_CUDA_DEV_MEM_EVENT_OPER": (
        ("CUDA_DEV_MEM_EVENT_OPR_ALLOCATION", "Allocation"),
        ("CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION", "Deallocation"),
    ),
    "ENUM_NSYS_EVENT_CLASS": (
        ("TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"),
        ("TRACE_PROCESS_EVENT_CUDABACKTRACE", "CUDA backtrace"),
    ),
    "ENUM_NSYS_EVENT_TYPE": (("Unknown", "Unknown"),),
}
EVENT_TYPES = {"NvtxPushPopRange": 59, "NvtxDomainCreate": 75}
PROCESS = 77 * 0x1000000
THREAD = PROCESS + 5


class Export:
    """One file. `shift` moves the numbers of every enumeration: a reader must go by the names."""

    def __init__(
        self, path: Path, version: Version = "2023.4", *, shift: int = 0, schema: str = "3.7.2"
    ) -> None:
        self.path = path
        self.shift = shift
        self._version = version
        self._connection = sqlite3.connect(path)
        self._strings: dict[str, int] = {}
        self._tables: set[str] = set()
        self._enumerations()
        if version == "2023.4":
            self._execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
            for row in (
                ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
                ("EXPORT_PRODUCT_VERSION", "2023.4.4.54"),
                ("EXPORT_SCHEMA_VERSION", schema),
            ):
                self._execute("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", row)

    def done(self) -> Path:
        self._connection.commit()
        self._connection.close()
        return self.path

    def add(self, table: str, **values: Any) -> None:
        """A row; columns that are not named are 0, or NULL where they are texts. Makes the table first."""
        columns = TABLES[table].split()
        if table == "CUDA_GPU_MEMORY_USAGE_EVENTS" and self._version == "2023.4":
            columns += POOLS.split()
        if table not in self._tables:
            self._tables.add(table)
            self._execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        row = {c: None if c in TEXTS or c.endswith("Value") else 0 for c in columns}
        assert set(values) <= set(row), set(values) - set(row)
        row.update(values)
        self._execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", tuple(row.values()))

    def add_many(self, table: str, rows: Iterable[dict[str, Any]], *, correlated: bool = False) -> None:
        """Very many rows at once; `correlated` numbers them."""
        columns = TABLES[table].split()
        self._execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        number = columns.index("correlationId") if correlated else None
        self._connection.executemany(
            f"INSERT INTO {table} VALUES ({','.join('?' * len(columns))})",
            (
                [at if column == number else row.get(name, 0) for column, name in enumerate(columns)]
                for at, row in enumerate(rows)
            ),
        )

    def string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 30
            self.add("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def number(self, enumeration: str, name: str) -> int:
        """The number of a kind in this very file, by the end of its symbolic name."""
        names = [one for one, _ in ENUMS[enumeration]]
        return next(i for i, one in enumerate(names) if one.endswith(name)) + self.shift

    # What a run leaves

    def domain(self, name: str = "advisor", number: int = 1) -> None:
        kind = EVENT_TYPES["NvtxDomainCreate"] + self.shift
        self.add("NVTX_EVENTS", start=1, eventType=kind, text=name, globalTid=THREAD, domainId=number)

    def strategy(self, name: str, end: int | None = 100_000_000) -> Export:
        """Our domain and the range of a strategy, with a steady frame from 10 to 20 ms."""
        self.domain()
        self.range(f"strategy:{name}", 0, end)
        self.range("frame", 10_000_000, 20_000_000, payload=3)
        return self

    def range(self, name: str, begin: int, end: int | None, payload: int | None = None, **at: int) -> None:
        """at: its thread and domain, if they are not the first."""
        kind, text = EVENT_TYPES["NvtxPushPopRange"] + self.shift, self.string(name)
        place = {"start": begin, "end": end, "globalTid": THREAD, "domainId": 1, **at}
        self.add("NVTX_EVENTS", eventType=kind, textId=text, int64Value=payload, **place)

    def call(self, begin: int, correlation: int, thread: int = THREAD) -> None:
        values = {"start": begin, "end": begin + 1, "correlationId": correlation, "globalTid": thread}
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", **values)

    def copy(
        self, begin: int, end: int, nbytes: int, kind: str, source: str, target: str, **more: Any
    ) -> None:
        number = self.number("ENUM_CUDA_MEMCPY_OPER", f"_KIND_{kind}")
        ends = (self.number("ENUM_CUDA_MEM_KIND", memory) for memory in (source, target))
        kinds = dict(zip(("copyKind", "srcKind", "dstKind"), (number, *ends), strict=True))
        values = {"start": begin, "end": end, "bytes": nbytes, "globalPid": PROCESS, "migrationCause": None}
        self.add("CUPTI_ACTIVITY_KIND_MEMCPY", **{**values, **kinds, **more})

    def migration(self, begin: int, end: int, nbytes: int, direction: str, cause: str) -> None:
        number = self.number("ENUM_CUDA_UNIF_MEM_MIGRATION", cause)
        self.copy(begin, end, nbytes, f"UVM_{direction}", "MANAGED", "MANAGED", migrationCause=number)

    def kernel(self, begin: int, end: int, name: str, correlation: int = 0, **more: int) -> None:
        values = {"start": begin, "end": end, "globalPid": PROCESS, "correlationId": correlation}
        self.add("CUPTI_ACTIVITY_KIND_KERNEL", shortName=self.string(name), **values, **more)

    def wait(self, begin: int, end: int) -> None:
        values = {"start": begin, "end": end, "globalTid": THREAD, "callchainId": None}
        number = self.string("cudaStreamSynchronize_v3020")
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", nameId=number, correlationId=begin, **values)

    def gpu_fault(self, begin: int, faults: int) -> None:
        values = {"start": begin, "end": begin + 1, "globalPid": PROCESS, "numberOfPageFaults": faults}
        self.add("CUDA_UM_GPU_PAGE_FAULT_EVENTS", **values)

    def cpu_fault(self, begin: int) -> None:
        self.add("CUDA_UM_CPU_PAGE_FAULT_EVENTS", start=begin, globalPid=PROCESS)

    def allocation(self, nbytes: int, kind: str, *, freed: bool = False) -> None:
        operation = self.number("ENUM_CUDA_DEV_MEM_EVENT_OPER", "_DEALLOCATION" if freed else "_ALLOCATION")
        values = {"memKind": self.number("ENUM_CUDA_MEM_KIND", kind), "memoryOperationType": operation}
        self.add("CUDA_GPU_MEMORY_USAGE_EVENTS", globalPid=PROCESS, bytes=nbytes, **values)

    def _enumerations(self) -> None:
        for table, rows in ENUMS.items():
            self._execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, name TEXT, label TEXT)")
            for number, row in enumerate(rows):
                self._execute(f"INSERT INTO {table} VALUES (?, ?, ?)", (number + self.shift, *row))
        for name, number in EVENT_TYPES.items():
            row = (number + self.shift, name, name)
            self._execute("INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES (?, ?, ?)", row)

    def _execute(self, query: str, values: tuple[Any, ...] = ()) -> None:
        self._connection.execute(query, values)
