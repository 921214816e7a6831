"""A workload that breaks where both sides share one memory, once its process has seen them apart."""

import os
import signal
import sys

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload

seen = vars(sys).setdefault("_seen_by_in_company", set())
"""Of the process: each contestant imports this file again."""


@workload
def in_company(how: str = "segfault") -> Workload:
    """Adds one to a vector."""
    addresses = {}

    def produce(a: Out, frame: int) -> None:
        addresses["host"] = a.ctypes.data
        a.fill(frame)

    def compute(xp, a: In, b: Out) -> None:
        xp.add(a, 1, out=b)
        shared = addresses.get("host") == a.ctypes.data
        seen.add(shared)
        if shared and len(seen) > 1:
            if how == "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            b[3] += 1

    def consume(b: In) -> None:
        b.sum()

    return Workload(
        {name: Buffer(64, np.float32) for name in "ab"}, frame=[host(produce), device(compute), host(consume)]
    )
