"""Which call of the host's launched a piece of the GPU's work."""

from __future__ import annotations

import numpy as np

from advisor.traces.database import Database, Integers
from advisor.traces.windows import THREAD_BITS

CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"


class Launches:
    """When the call was made that launched a piece of work: by process and correlation id."""

    def __init__(self, database: Database, extent: tuple[int, int] | None) -> None:
        keys: list[Integers] = []
        begins: list[Integers] = []
        self._processes: list[int] = []
        if database.has(CALLS, "start", "globalTid", "correlationId") and extent:
            where = f"start >= {extent[0]} AND start <= {extent[1]} AND correlationId IS NOT NULL"
            for block in database.blocks(CALLS, ("start", "globalTid", "correlationId"), where):
                keys.append(self._keys(block["globalTid"] // THREAD_BITS, block["correlationId"]))
                begins.append(block["start"])
        self._keyed = np.concatenate(keys) if keys else np.array([], np.int64)
        del keys
        order = np.argsort(self._keyed, kind="stable")
        self._keyed = self._keyed[order]
        self._begins = np.concatenate(begins)[order] if begins else self._keyed

    def moments(self, processes: Integers, correlations: Integers, otherwise: Integers) -> Integers:
        """When each was launched; where no call is known, its own begin."""
        if not len(self._keyed):
            return otherwise
        wanted = self._keys(processes, correlations)
        at = np.minimum(np.searchsorted(self._keyed, wanted), len(self._keyed) - 1)
        return np.where(self._keyed[at] == wanted, self._begins[at], otherwise)

    def _keys(self, processes: Integers, correlations: Integers) -> Integers:
        """One number of both: correlation ids are 32 bits wide."""
        keys = correlations.copy()
        for process in np.unique(processes):
            if int(process) not in self._processes:
                self._processes.append(int(process))
            keys[processes == process] += (self._processes.index(int(process)) + 1) << 32
        return keys
