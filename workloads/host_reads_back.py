"""The CPU reads a result several times, which decides where page-locked memory is slow for the CPU.

Source: xnd-project/cuda-benchmarks pull request 3: a Jetson Nano's CPU reads page-locked memory, which it
does not cache, at 169 MB/s and managed memory at 2.1 GB/s, 12 times faster; CUDA Handbook 5.1.4: on x86 the
CPU reads write-combined memory about 6 times slower. Every published table that times transfers and kernels
alone misses it.
Question: does the memory that is best for copies cost more on the CPU than it saves?
Must advise: on Nano, TX1 and TX2, keep what the CPU reads out of page-locked memory (managed or pageable,
never pinned or zero-copy).
Must not: say so on Xavier, Orin, Thor or a card, whose CPUs cache page-locked memory; nor put `result` into
write-combined memory anywhere.
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


@workload
def host_reads_back(n: int = 1 << 22, reads: int = 4) -> Workload:
    """Computes n float32 values on the device, which the CPU then reads `reads` times."""

    def produce(a: Out, frame: int) -> None:
        a.fill(frame % 100)

    def compute(xp, a: In, result: Out) -> None:
        xp.multiply(a, 2, out=result)

    def read(result: In) -> None:
        for _ in range(reads):
            result.max()

    def check(result: In, frame: int) -> None:
        np.testing.assert_array_equal(result, np.float32(2 * (frame % 100)))

    return Workload(
        buffers={name: Buffer(n, np.float32) for name in ("a", "result")},
        frame=[host(produce), device(compute), host(read)],
        check=check,
    )
