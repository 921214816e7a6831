"""Makes a test's data of an export by real nsys: `python tests/trim_export.py EXPORT.sqlite TARGET.sqlite`.

Keeps the tables that are read and the texts they refer to. What nsys records of the machine and of the
process's environment (names, paths, variables, perhaps secrets) is left behind.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

from nsys_exports import ENUMS, TABLES

KEPT = (*(table for table in TABLES if table not in ("StringIds", "CUDA_CALLCHAINS")), *ENUMS)
TOLD = ("EXPORT_PRODUCT_NAME", "EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")
TEXTS = (
    ("NVTX_EVENTS", "textId"),
    ("CUPTI_ACTIVITY_KIND_KERNEL", "shortName"),
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"),
)
UNIQUE = (("TARGET_INFO_GPU", "uuid"), ("TARGET_INFO_GPU", "busLocation"))
"""What tells one GPU from all others."""


def trim(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    connection = sqlite3.connect(target)
    connection.execute("ATTACH ? AS whole", (str(source),))
    there = {row[0]: row[1] for row in connection.execute("SELECT name, sql FROM whole.sqlite_master")}
    for table in there.keys() & {*KEPT, "StringIds", "META_DATA_EXPORT"}:
        connection.execute(there[table])
    for table in KEPT:
        if table in there:
            connection.execute(f"INSERT INTO main.{table} SELECT * FROM whole.{table}")
    for table, column in TEXTS:
        if table in there:
            connection.execute(
                "INSERT OR IGNORE INTO main.StringIds SELECT id, value FROM whole.StringIds WHERE id IN "
                f"(SELECT {column} FROM whole.{table})"
            )
    if "META_DATA_EXPORT" in there:
        marks = ",".join("?" * len(TOLD))
        connection.execute(
            f"INSERT INTO main.META_DATA_EXPORT SELECT * FROM whole.META_DATA_EXPORT WHERE name IN ({marks})",
            TOLD,
        )
    for table, column in UNIQUE if "TARGET_INFO_GPU" in there else ():
        connection.execute(f"UPDATE main.{table} SET {column} = NULL")
    connection.commit()
    connection.execute("DETACH whole")
    connection.execute("PRAGMA page_size = 1024")  # most tables are short
    connection.execute("VACUUM")
    connection.close()


if __name__ == "__main__":
    trim(Path(sys.argv[1]), Path(sys.argv[2]))
