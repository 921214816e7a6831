"""Writes a large result once, directly into host memory: the best case for zero-copy memory.

Source: CUDA C++ Best Practices Guide, "Zero Copy": mapped memory should be read or written only once, by
coalesced accesses; then kernel and transfer overlap by themselves, without streams. Nothing is uploaded
here.
Question: is one pass of writes over the link as fast as a kernel followed by a copy?
Must advise: on a Jetson, drop the copy.
Must not: warn of re-reads, since no kernel reads a shared buffer; say on a card that zero-copy is generally
slow: on an H100 a kernel's writes cross PCIe at 52.8 GB/s and its reads at 35 (NVIDIA/nvbandwidth issue 24).
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, kernel, workload

KERNEL = r"""
extern "C" __global__ void ramp(float* wave, int n, float start) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) wave[i] = start + (float)(i & 1023);
}
"""
ramp = kernel(KERNEL, "ramp")


@workload
def mapped_output(n: int = 1 << 24) -> Workload:
    """Generates n float32 samples on the device, each written once, and reads them on the CPU."""
    period = np.arange(1024, dtype=np.float32)

    def generate(wave: Out, frame: int) -> None:
        ramp(wave, n, frame)

    def generate_on_cpu(wave: Out, frame: int) -> None:
        wave[...] = np.resize(period + np.float32(frame), n)

    def play(wave: In) -> None:
        wave.max()

    def check(wave: In, frame: int) -> None:
        np.testing.assert_array_equal(wave, np.resize(period + np.float32(frame), n))

    return Workload(
        buffers={"wave": Buffer(n, np.float32)},
        frame=[device(generate, cpu=generate_on_cpu, passes={"wave": 1}, flops=float(n)), host(play)],
        check=check,
    )
