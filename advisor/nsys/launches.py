"""Which call of the host's launched a piece of the GPU's work, or waited for it."""

from __future__ import annotations

from typing import Literal

import numpy as np

from advisor.nsys.database import Database, Integers
from advisor.nsys.windows import THREAD_BITS

CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"


class Calls:
    """One column of the host's calls, by process and correlation id."""

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
        if database.has(CALLS, "start", "globalTid", "correlationId"):
            if extent:
                where = f"start >= {extent[0]} AND start <= {extent[1]} AND {where}"
            for block in database.blocks(CALLS, (*{column, "globalTid", "correlationId"},), where):
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
        for process in np.unique(processes):
            if int(process) not in self._processes:
                self._processes.append(int(process))
            keys[processes == process] += (self._processes.index(int(process)) + 1) << 32
        return keys


def waiting_calls(database: Database, extent: tuple[int, int] | None) -> Calls:
    """The names, as numbers of StringIds, of the calls that wait."""
    if not (database.has("StringIds", "id", "value") and database.has(CALLS, "nameId")):
        return Calls(database, extent, "nameId", "0")
    chosen = "SELECT id FROM StringIds WHERE value LIKE '%Synchronize%' OR value LIKE '%StreamWaitEvent%'"
    return Calls(database, extent, "nameId", f"correlationId IS NOT NULL AND nameId IN ({chosen})")
