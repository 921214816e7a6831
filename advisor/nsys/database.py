"""A SQLite export of nsys, opened read-only: which tables and columns it has, their rows in blocks.

Tables are made only when something goes into them, and columns differ between versions, so everything is
looked up. Kinds are joined by name through the ENUM_ tables: their numbers are not CUPTI's, nor for ever.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from advisor.errors import FileProblem
from advisor.nsys.tables import NEEDED

Integers = npt.NDArray[np.int64]
BLOCK = 200_000
"""Rows read at a time, so that the memory does not grow with the file."""
UNKNOWN = -1
"""In place of NULL."""
THREAD_BITS = 0x1000000
"""A globalTid divided by this tells processes apart: PID is globalTid / 0x1000000 % 0x1000000, TID is
globalTid % 0x1000000 (nsys's user guide, "Serialized process and thread identifiers")."""
_HEADER = b"SQLite format 3\0"
_MARKS = ("NVTX_EVENTS", "ENUM_NSYS_EVENT_TYPE", "TARGET_INFO_SYSTEM_ENV", "META_DATA_EXPORT")
_EXPORT = "Export the report again: nsys export --type sqlite REPORT.nsys-rep"


class Database:
    """Reads one export. Made by `opened`."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        names = [str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master")]
        self._columns = {
            name: frozenset(str(row[1]) for row in connection.execute(f'PRAGMA table_info("{name}")'))
            for name in names
            if name.replace("_", "").isalnum()
        }

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table is there with all these columns."""
        return table in self._columns and self._columns[table].issuperset(columns)

    def readable(self, table: str) -> bool:
        """Whether a table of `NEEDED` is there in a form that is known."""
        return self.has(table, *NEEDED[table])

    def lacks(self, table: str) -> list[str]:
        """The needed columns that the table, where it is there, does not have."""
        return [c for c in NEEDED[table] if table in self._columns and c not in self._columns[table]]

    def names(self, enumeration: str) -> dict[int, str]:
        """Symbolic names of an ENUM_ table by number; empty where there is no such table."""
        return self._pairs(enumeration, "name")

    def labels(self, enumeration: str) -> dict[int, str]:
        """What an ENUM_ table calls its numbers, in lower case."""
        column = "label" if self.has(enumeration, "label") else "name"
        return {number: text.lower() for number, text in self._pairs(enumeration, column).items()}

    def strings(self, numbers: Sequence[int]) -> dict[int, str]:
        """Texts of the StringIds table."""
        if not self.has("StringIds", "id", "value"):
            return {}
        found = {}
        for part in range(0, len(numbers), 500):
            wanted = ",".join(str(int(n)) for n in numbers[part : part + 500])
            query = f"SELECT id, value FROM StringIds WHERE id IN ({wanted})"
            found.update({int(row[0]): str(row[1]) for row in self._connection.execute(query)})
        return found

    def settings(self, table: str) -> dict[str, str]:
        """A META_DATA_ table of names and values; empty where there is none."""
        if not self.has(table, "name", "value"):
            return {}
        return {str(n): str(v) for n, v in self._connection.execute(f"SELECT name, value FROM {table}")}

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Any query's rows, one by one."""
        return iter(self._connection.execute(query, parameters))

    def blocks(self, table: str, columns: Sequence[str], where: str = "") -> Iterator[dict[str, Integers]]:
        """Integer columns of a table in blocks of rows; `UNKNOWN` for NULL, and for a column it has not."""
        there = self._columns.get(table, frozenset())
        chosen = [f'COALESCE("{c}", {UNKNOWN})' if c in there else str(UNKNOWN) for c in columns]
        condition = f" WHERE {where}" if where else ""
        cursor = self._connection.execute(f"SELECT {', '.join(chosen)} FROM {table}{condition}")
        form = np.dtype([(column, np.int64) for column in columns])
        while len(block := np.fromiter(islice(cursor, BLOCK), form)):
            yield {column: np.ascontiguousarray(block[column]) for column in columns}

    def _pairs(self, enumeration: str, column: str) -> dict[int, str]:
        if not self.has(enumeration, "id", column):
            return {}
        rows = self._connection.execute(f"SELECT id, {column} FROM {enumeration}")
        return {int(number): str(text) for number, text in rows}


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """The export, closed again at the end. Raises `FileProblem` where it is none, or damaged."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_HEADER))
    except FileNotFoundError:
        raise FileProblem(f"{path} does not exist", next_step="Give a .nsys-rep or a .sqlite file.") from None
    except OSError as problem:
        raise FileProblem(f"{path} cannot be read: {problem.strerror}", next_step="Check the path.") from None
    if head != _HEADER:
        raise FileProblem(f"{path} is not an SQLite file", next_step=_EXPORT)
    try:
        connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)
        try:
            database = Database(path, connection)
            if not any(database.has(mark) for mark in _MARKS):
                raise FileProblem(
                    f"{path} is an SQLite file but not an Nsight Systems export: it has none of the "
                    "expected tables",
                    next_step=_EXPORT,
                )
            yield database
        finally:
            connection.close()
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as problem:
        raise FileProblem(f"{path} is damaged: {problem}", next_step=_EXPORT) from None
