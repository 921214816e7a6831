"""A tiled matrix product, so that rows can be compared with published tables of UnifiedMemoryPerf.

Source: NVIDIA's CUDA sample UnifiedMemoryPerf, rewritten from its description: the host copies two matrices
into the buffers, a kernel of 32 by 32 tiles multiplies them, the host compares the product element by
element with what it must be. The kernel reads each matrix n / 32 times.
Question: which memory is best for a kernel that reads its input many times, at each size? Small sizes are
latency-bound, large ones compute-bound.
Must advise: on a card, zero-copy for the smallest matrices and pinned copies from 256 KB on, as in the
published tables.
Must not: advise zero-copy where kernels re-read over the link; managed memory without prefetch on a card.
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload

KERNEL = r"""
#define TILE 32
extern "C" __global__ void multiply(const float* a, const float* b, float* c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < n; start += TILE) {
        int along = start + threadIdx.x, down = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < n && along < n ? a[(size_t)row * n + along] : 0.0f;
        right[threadIdx.y][threadIdx.x] = down < n && column < n ? b[(size_t)down * n + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n) c[(size_t)row * n + column] = sum;
}
"""
TILE = 32


@workload
def matrix_multiply(n: int = 1024) -> Workload:
    """Multiplies two n by n float32 matrices that the host copies in, and checks the product."""
    # Rows of `a` and columns of `b` are constant, so that the product is known exactly: n times both.
    rows = np.arange(n, dtype=np.float32) % 4
    columns = np.arange(n, dtype=np.float32) % 3 + 1
    sources = [np.repeat(((rows + turn) % 4)[:, None], n, axis=1) for turn in range(2)]
    other = np.repeat(columns[None, :], n, axis=0)
    products = [n * np.outer(source[:, 0], columns) for source in sources]
    kernels: dict = {}

    def copy_in(a: Out, b: Out, frame: int) -> None:
        np.copyto(a, sources[frame % 2])
        np.copyto(b, other)

    def multiply(xp, a: In, b: In, c: Out) -> None:
        if "multiply" not in kernels:
            kernels["multiply"] = xp.RawKernel(KERNEL, "multiply")
        blocks = (n + TILE - 1) // TILE
        kernels["multiply"]((blocks, blocks), (TILE, TILE), (a, b, c, np.int32(n)))

    def multiply_on_cpu(a: In, b: In, c: Out) -> None:
        np.matmul(a, b, out=c)

    def compare(c: In, frame: int) -> None:
        if not (c == products[frame % 2]).all():
            raise ValueError(f"the product of frame {frame} is wrong")

    passes = (n + TILE - 1) // TILE
    return Workload(
        buffers={name: Buffer((n, n), np.float32) for name in "abc"},
        frame=[
            host(copy_in),
            device(multiply, cpu=multiply_on_cpu, passes={"a": passes, "b": passes}, flops=2.0 * n**3),
            host(compare),
        ],
    )
