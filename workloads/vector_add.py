"""Adds two vectors that are new in every frame: the classic question of copy or zero-copy.

Each element is read once by the GPU, so nothing is gained by having it in a cache. The host writes the
inputs at memory speed and reads the result once.
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


@workload
def vector_add(n: int = 1 << 24) -> Workload:
    """Adds two float32 vectors of n elements; both inputs are new every frame."""

    def produce(a: Out, b: Out, frame: int) -> None:
        a.fill(frame)
        b.fill(0.5)

    def add(xp, a: In, b: In, c: Out) -> None:
        xp.add(a, b, out=c)

    def consume(c: In) -> None:
        c.sum()

    def check(c: In, frame: int) -> None:
        np.testing.assert_array_equal(c, np.float32(frame + 0.5))

    return Workload(
        buffers={name: Buffer(n, np.float32) for name in "abc"},
        frame=[host(produce), device(add), host(consume)],
        check=check,
    )
