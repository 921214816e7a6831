"""Which figures an export can tell, and why it cannot tell the others.

nsys makes a table only when something goes into it. No table is no 0, but where another table shows that
it looked, nothing was there to be seen, and that is a figure: none.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.nsys.aggregates import COPIES, CPU_FAULTS, GPU_FAULTS, KERNELS, MEMORY, WAITS, Tallies
from advisor.nsys.database import Database
from advisor.nsys.launches import CALLS
from advisor.profiles.traces import Allocations

_NONE = "nsys wrote no table of them: none was seen, or it did not look"
_UNMANAGED = "no managed memory was allocated"
_UNSEEN = "managed memory was allocated, but nsys saw none of it move: none did, or it cannot look here"
_TABLES = {
    "cpu_page_faults": CPU_FAULTS,
    "gpu_page_faults": GPU_FAULTS,
    "kernels": KERNELS,
    "synchronizations": WAITS,
    "allocations": MEMORY,
}


def absent(tallies: Tallies, database: Database, allocated: Sequence[Allocations] | None) -> dict[str, str]:
    """The figures that cannot be told, each with the reason."""
    managed = None if allocated is None else any(made.kind.startswith("managed") for made in allocated)
    found = {} if _copies_watched(tallies, database) else {"copies": _NONE, "migrations": _NONE}
    found.update((figure, _NONE) for figure, table in _TABLES.items() if not tallies.readable(table))
    if managed is False:
        faults = {"cpu_page_faults", "gpu_page_faults"}
        found.update(dict.fromkeys(faults & found.keys(), _UNMANAGED))
    if managed and not tallies.migrations_seen:
        found.setdefault("migrations", _UNSEEN)
    if not tallies.busy.seen:
        found["idle_share"] = "nsys saw no work of the GPU"
    if not database.has(CALLS):
        found["calls"] = _NONE
    return found


def _copies_watched(tallies: Tallies, database: Database) -> bool:
    """`--trace=cuda` is one switch for kernels and copies: where kernels were seen, so would be copies.

    A table of copies that is there in an unknown form tells nothing.
    """
    return tallies.readable(COPIES) or (tallies.readable(KERNELS) and not database.has(COPIES))
