"""A batch split over two GPUs: each adds its half at the same time, from one host buffer into another.

Source: The CUDA Handbook, chapters 5 (portable pinned memory) and 9 (multiple GPUs): one host buffer for
several GPUs.
Question: how much faster are two GPUs than one if every byte comes from the host and goes back?
Must advise: if the GPUs share one link to the host, that two copy no faster than one (one-link-for-two).
Must not: advise copies between the GPUs: neither reads what the other writes.
"""

from __future__ import annotations

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


@workload
def two_gpus_split(n: int = 1 << 24) -> Workload:
    """Adds two float32 vectors of n elements; each of two GPUs adds one half."""
    half = n // 2

    def produce(a: Out, b: Out, frame: int) -> None:
        a.fill(frame)
        b.fill(0.5)

    def first(xp, a: In[:half], b: In[:half], c: Out[:half]) -> None:
        xp.add(a[:half], b[:half], out=c[:half])

    def second(xp, a: In[half:], b: In[half:], c: Out[half:]) -> None:
        xp.add(a[half:], b[half:], out=c[half:])

    def consume(c: In) -> None:
        c.sum()

    def check(c: In, frame: int) -> None:
        assert (c == frame + 0.5).all(), "c is not a + b"

    return Workload(
        buffers={name: Buffer(n, np.float32) for name in "abc"},
        frame=[host(produce), device(first), device(second, gpu=1), host(consume)],
        check=check,
    )
