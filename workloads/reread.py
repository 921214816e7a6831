"""Reads its input repeatedly: a kernel for which zero-copy memory bypasses the cache.

Source: "Zero Copy and Pinned Memory on NVIDIA TX-1": one pass over mapped memory is as fast as over device
memory, repeated reads of the same data are not; FrancescoL96/Cache-Benchmark: about 5 times slower on a
Xavier, 80 on a TX2; CUDA for Tegra application note: the GPU of a Jetson does not cache page-locked memory.
Question: from how many passes on is zero-copy memory the wrong choice?
Must advise: with passes=64, against zero-copy (zero-copy-reread): on a Jetson before Thor for managed
memory, on a card for a copy.
Must not: warn with passes=1.
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload

KERNEL = r"""
extern "C" __global__ void reread(const float* a, float* b, int n, int passes) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int pass = 0; pass < passes; ++pass) {
        // Each pass starts elsewhere, so that a value is not kept in a register between two passes.
        sum += a[(int)((i + (long long)pass * 4099) % n)];
    }
    b[i] = sum;
}
"""
THREADS = 256


@workload
def reread(n: int = 1 << 20, passes: int = 8) -> Workload:
    """Sums `passes` elements of a float32 vector for each of its n elements."""

    def produce(a: Out, frame: int) -> None:
        a.fill(frame % 128)

    def read(xp, a: In, b: Out) -> None:
        kernel = compiled(xp)
        kernel(((n + THREADS - 1) // THREADS,), (THREADS,), (a, b, np.int32(n), np.int32(passes)))

    def read_on_cpu(a: In, b: Out) -> None:
        b.fill(0)
        for number in range(passes):
            start = number * 4099 % n
            b[: n - start] += a[start:]
            b[n - start :] += a[:start]

    def consume(b: In) -> None:
        b.sum()

    def check(b: In, frame: int) -> None:
        np.testing.assert_array_equal(b, np.float32(frame % 128 * passes))

    return Workload(
        buffers={"a": Buffer(n, np.float32), "b": Buffer(n, np.float32)},
        frame=[
            host(produce),
            device(read, cpu=read_on_cpu, passes={"a": passes}, flops=float(n) * passes),
            host(consume),
        ],
        check=check,
    )


def compiled(xp):
    """The kernel, compiled at its first use and kept."""
    if xp not in _kernels:
        _kernels[xp] = xp.RawKernel(KERNEL, "reread")
    return _kernels[xp]


_kernels: dict = {}
