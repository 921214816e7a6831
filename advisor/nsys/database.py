"""A SQLite export of nsys, opened read-only: which tables and columns it has, their rows in blocks.

Tables are made only when something goes into them, and columns differ between versions, so everything is
looked up. Kinds are joined by name through the ENUM_ tables: their numbers are not CUPTI's, nor for ever.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from advisor.errors import FileProblem
from advisor.profiles import files
from advisor.profiles.base import first_error

Integers = npt.NDArray[np.int64]
BLOCK = 200_000
"""Rows read at a time, so that the memory does not grow with the file."""
UNKNOWN = -1
"""In place of NULL."""
THREAD_BITS = 0x1000000
"""A globalTid divided by this tells processes apart: PID is globalTid / 0x1000000 % 0x1000000, TID is
globalTid % 0x1000000 (nsys's user guide, "Serialized process and thread identifiers")."""
MOST_ROWS = 10_000_000
"""Rows read from one table. A row takes 16 bytes, twice that while it is sorted."""
MOST_KINDS = 1000
"""Most processes in one export, since each takes some work; most kinds of copies, of memory and of causes."""
_MOST_NAMES = 10_000
LONGEST = 2000
"""Characters of a name that are read."""
_LARGEST_VALUE = 10_000_000
"""Bytes: SQLite would take a GB."""
_SECONDS, _BYTES_PER_SECOND = 6.0, 20e6
"""Processor time that one file may take. A damaged one has no end where its pages point at one another."""
_NO_NUMBER = "a value that has to be a number is not one, or is too large"
_ENDLESS = "reading it takes longer than {:.0f} s of processor time"
_STEPS = 10_000
"""SQLite instructions between two checks of the time limit."""
_HEADER = b"SQLite format 3\0"
_MARKS = ("NVTX_EVENTS", "ENUM_NSYS_EVENT_TYPE", "TARGET_INFO_SYSTEM_ENV", "META_DATA_EXPORT")
_EXPORT = "Export the report again: nsys export --type sqlite REPORT.nsys-rep"


class Tables:
    """Tables of an export, by the names that CUPTI gives their records."""

    CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
    COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
    MEMSETS = "CUPTI_ACTIVITY_KIND_MEMSET"
    KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
    GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
    CPU_FAULTS = "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
    GPU_FAULTS = "CUDA_UM_GPU_PAGE_FAULT_EVENTS"
    MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"


COPY_KINDS = "ENUM_CUDA_MEMCPY_OPER"
_COPY_KINDS = {
    1: ("CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
    2: ("CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
    3: ("CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"),
    4: ("CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"),
    8: ("CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
    10: ("CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
    11: ("CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"),
    12: ("CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"),
}
"""For exports without that enumeration: the rows of it that nsys 2022.4 and 2023.4 write (a test compares),
up to 10 CUPTI's CUpti_ActivityMemcpyKind. There is no such table for kinds of memory, whose numbers in CUPTI
and nsys differ."""
NEEDED: dict[str, tuple[str, ...]] = {
    Tables.COPIES: ("start", "end", "bytes", "copyKind"),
    Tables.KERNELS: ("start", "end"),
    Tables.MEMSETS: ("start", "end"),
    Tables.GRAPHS: ("start", "end"),
    Tables.CPU_FAULTS: ("start",),
    Tables.GPU_FAULTS: ("start", "numberOfPageFaults"),
    Tables.MEMORY: ("bytes", "memKind", "memoryOperationType"),
}
"""The columns that reading a table needs."""


class Database:
    """Reads one export. Made by `opened`."""

    def __init__(self, connection: sqlite3.Connection, until: float) -> None:
        """`until`: by the thread's processor time, when the last query has to be answered."""
        self._connection, self._until = connection, until
        # A view, or a table that a module makes up, can have rows without end.
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        names = [str(row[0]) for row in self._run(f"{tables} LIMIT {_MOST_NAMES}").fetchall()]
        plain = [name for name in names if name.replace("_", "").isalnum()]
        columns = {name: self._run(f'PRAGMA table_info("{name}")').fetchall() for name in plain}
        self._columns = {name: frozenset(str(row[1]) for row in rows) for name, rows in columns.items()}
        self._full = {name: frozenset(str(r[1]) for r in rows if r[3]) for name, rows in columns.items()}
        """Columns that are never NULL, by their table."""
        self.unusable: Counter[str] = Counter()
        """Rows that `blocks` left out, by table."""

    def _run(self, query: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        if time.thread_time() > self._until:
            raise TimeoutError
        return self._connection.execute(query, parameters)

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table is there with all these columns."""
        return table in self._columns and self._columns[table].issuperset(columns)

    def readable(self, table: str) -> bool:
        """Whether a table of `NEEDED` is there in a form that is known."""
        return self.has(table, *NEEDED[table])

    def copies_known(self) -> bool:
        """Whether copies were recorded, some or none: --trace=cuda is one switch for them and kernels."""
        return self.readable(Tables.COPIES) or (self.readable(Tables.KERNELS) and not self.has(Tables.COPIES))

    def names(self, enumeration: str, column: str = "name") -> dict[int, str]:
        """Symbolic names of an ENUM_ table by number; empty where there is no such table."""
        if not self.has(enumeration, "id", column):
            known = _COPY_KINDS if enumeration == COPY_KINDS else {}
            return {number: pair[column == "label"] for number, pair in known.items()}
        query = f"SELECT id, substr({column}, 1, {LONGEST}) FROM {enumeration} WHERE id NOT NULL"
        return {int(number): str(text) for number, text in self._run(f"{query} LIMIT {_MOST_NAMES}")}

    def labels(self, enumeration: str) -> dict[int, str]:
        """Labels of an ENUM_ table by number, in lower case."""
        column = "name" if self.has(enumeration, "name") and not self.has(enumeration, "label") else "label"
        return {number: text.lower() for number, text in self.names(enumeration, column).items()}

    def strings(self, numbers: Sequence[int]) -> dict[int, str]:
        if not self.has("StringIds", "id", "value"):
            return {}
        query = f"SELECT id, substr(value, 1, {LONGEST}) FROM StringIds WHERE id IN"
        rows = self._run(f"{query} (SELECT value FROM json_each(?))", (json.dumps(list(numbers)),))
        return {int(number): str(text) for number, text in rows}

    def settings(self, table: str) -> dict[str, str]:
        """A META_DATA_ table of names and values; empty where there is none."""
        if not self.has(table, "name", "value"):
            return {}
        query = f"SELECT substr(name, 1, {LONGEST}), substr(value, 1, {LONGEST}) FROM {table}"
        return {str(n): str(v) for n, v in self._run(f"{query} LIMIT {_MOST_NAMES}")}

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        return iter(self._run(query, parameters))

    def blocks(self, table: str, columns: Sequence[str], where: str = "") -> Iterator[dict[str, Integers]]:
        """Integer columns of a table in blocks of rows; `UNKNOWN` for NULL, and for a column it has not. Rows
        without a start, a size or a kind, or with an end before the start, are left out and counted in
        `unusable`. Raises ValueError for more than `MOST_ROWS`."""
        there = self._columns.get(table, frozenset())
        full = self._full.get(table, frozenset())
        chosen = [
            f'"{c}"' if c in full else f'COALESCE("{c}", {UNKNOWN})' if c in there else str(UNKNOWN)
            for c in columns
        ]
        condition = f" WHERE {where}" if where else ""
        cursor = self._run(f"SELECT {', '.join(chosen)} FROM {table}{condition} LIMIT {MOST_ROWS + 1}")
        form = np.dtype([(column, np.int64) for column in columns])
        rows = 0
        while len(block := np.fromiter(islice(cursor, BLOCK), form)):
            if (rows := rows + len(block)) > MOST_ROWS:
                raise ValueError(f"{table} holds more than {MOST_ROWS / 1e6:.0f} million rows")
            if time.thread_time() > self._until:
                raise TimeoutError
            usable: npt.NDArray[np.bool_] = block["start"] != UNKNOWN
            for column, least in (("end", block["start"]), ("bytes", 0), ("copyKind", 0)):
                if column in columns:
                    usable &= block[column] >= least
            if not usable.all():
                self.unusable[table] += int((~usable).sum())
                block = block[usable]
            yield {column: np.ascontiguousarray(block[column]) for column in columns}


def distinct(values: Integers) -> list[int]:
    """The processes that occur. Raises ValueError for more than `MOST_KINDS`."""
    numbers: list[int] = np.unique(values).tolist()
    if len(numbers) > MOST_KINDS:
        raise ValueError(f"it has more than {MOST_KINDS} processes")
    return numbers


@contextmanager
def opened(path: Path, seconds: float = _SECONDS) -> Iterator[Database]:
    """The export, closed again at the end. Raises `FileProblem` where it is none, or damaged. Reading a small
    file ends after `seconds`; a large one has longer."""
    try:
        with files.opened(path) as file:
            head = file.read(len(_HEADER))
        allowed = max(seconds, path.stat().st_size / _BYTES_PER_SECOND)
    except FileNotFoundError:
        raise FileProblem(f"{path} does not exist", next_step="Give a .nsys-rep or a .sqlite file.") from None
    except OSError as problem:
        raise FileProblem(f"{path} cannot be read: {problem.strerror}", next_step="Check the path.") from None
    if head != _HEADER:
        raise FileProblem(f"{path} is not an SQLite file", next_step=_EXPORT)
    until = time.thread_time() + allowed
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)
        connection.set_progress_handler(lambda: time.thread_time() > until, _STEPS)
        if sys.version_info >= (3, 11):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
        connection.execute("PRAGMA trusted_schema = OFF")
        try:
            database = Database(connection, until)
            if not any(database.has(mark) for mark in _MARKS):
                raise FileProblem(
                    f"{path} is an SQLite file but not an Nsight Systems export: it has none of the "
                    "expected tables",
                    next_step=_EXPORT,
                )
            yield database
            return
        finally:
            connection.close()
    except TimeoutError:
        wrong = _ENDLESS.format(allowed)
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as damage:
        wrong = _wrong(damage)
        if wrong == "interrupted":
            if time.thread_time() <= until:
                raise KeyboardInterrupt from None  # SQLite swallows what the look at the clock raises
            wrong = _ENDLESS.format(allowed)
    raise FileProblem(f"{path} is damaged: {wrong}", next_step=_EXPORT)


def _wrong(damage: Exception) -> str:
    if isinstance(damage, ValidationError):
        return first_error(damage)
    no_number = isinstance(damage, (TypeError, OverflowError)) or "invalid literal" in str(damage)
    return _NO_NUMBER if no_number else str(damage)
