"""Adds two vectors: the classic question of copy or zero-copy.

Source: NVIDIA GTC 2022, SE2600 (JetsonUnifiedMemory, vector_addition): two vectors of 16777216 float32, 6.5
times faster with managed memory than with explicit copies on a Xavier NX. The talk fills its vectors before
timing, and its loop copies and adds. `fill_in_frame=false` times the same for a fair comparison: the host
then writes only one element of each, which makes its copy the newest one.
Question: what do the copies cost, and how much of the talk's speed-up remains when host work counts too?
Must advise: on a Jetson, hold the vectors once (managed or zero-copy).
Must not: warn of re-reads: the kernel reads each element once, so a cache gains nothing.
"""

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host, workload


@workload
def vector_add(n: int = 1 << 24, fill_in_frame: bool = True) -> Workload:
    """Adds two float32 vectors of n elements; both inputs are new every frame."""

    def produce(a: Out, b: Out, frame: int) -> None:
        a.fill(frame)
        b.fill(0.5)

    def touch(a: InOut, b: InOut, frame: int) -> None:
        a[0] += frame - a[0]
        b[0] += 0.5 - b[0]

    def add(xp, a: In, b: In, c: Out) -> None:
        xp.add(a, b, out=c)

    def consume(c: In) -> None:
        c.sum()

    def look(c: In) -> None:
        float(c[0])

    def check(c: In, frame: int) -> None:
        rest = frame if fill_in_frame else 0
        np.testing.assert_array_equal(c[:1], np.float32(frame + 0.5))
        np.testing.assert_array_equal(c[1:], np.float32(rest + 0.5))

    timed = [produce, add, consume] if fill_in_frame else [touch, add, look]
    before, compute, after = timed
    return Workload(
        buffers={name: Buffer(n, np.float32) for name in "abc"},
        setup=[] if fill_in_frame else [host(produce)],
        frame=[host(before), device(compute), host(after)],
        check=check,
    )
