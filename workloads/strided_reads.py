"""Sums records, one per thread: neighbouring threads read far apart, which is slow in zero-copy memory.

Source: CUDA C++ Best Practices Guide, "Zero Copy": mapped memory is not cached on the GPU, so its loads
should be coalesced; EMOGI (PVLDB 14(2), 2020): merged and aligned zero-copy reads are what makes graph
traversal over PCIe fast. A load of 4 bytes fetches a sector of 32: in device memory the caches keep the
other 28 for the next iterations, over a link or on a Jetson before Thor it may be fetched again each time,
up to 8 times, which is what is declared; 1 with coalesced=true, where the records are stored field by field.
Question: how much does one pass over the data cost when it is read in the wrong order?
Must advise: against zero-copy (zero-copy-reread: copy once).
Must not: warn so with coalesced=true; blame the link, whose rate is the same for both; warn over a coherent
link, where no published figure gives a penalty.
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, kernel, workload

KERNEL = r"""
extern "C" __global__ void sum_fields(const float* data, float* sums,
                                  int records, int fields, int next, int step) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= records) return;
    float sum = 0.0f;
    for (int k = 0; k < fields; ++k) sum += data[(size_t)i * next + (size_t)k * step];
    sums[i] = sum;
}
"""
sum_fields = kernel(KERNEL, "sum_fields")
SECTOR = 32
"""Bytes a load fetches at least: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"."""


@workload
def strided_reads(records: int = 1 << 16, fields: int = 64, coalesced: bool = False) -> Workload:
    """Sums the fields of each of many float32 records that are new every frame."""
    shape, steps = ((fields, records), (1, records)) if coalesced else ((records, fields), (fields, 1))

    def produce(data: Out, frame: int) -> None:
        data.fill(frame % 16)

    def add_up(data: In, sums: Out) -> None:
        sum_fields(data, sums, records, fields, *steps, size=records)

    def add_up_on_cpu(data: In, sums: Out) -> None:
        data.sum(axis=0 if coalesced else 1, out=sums)

    def consume(sums: In) -> None:
        sums.max()

    def check(sums: In, frame: int) -> None:
        np.testing.assert_array_equal(sums, np.float32(frame % 16 * fields))

    passes = {"data": 1 if coalesced else SECTOR / np.dtype(np.float32).itemsize}
    work = float(records) * fields
    return Workload(
        buffers={"data": Buffer(shape, np.float32), "sums": Buffer(records, np.float32)},
        frame=[host(produce), device(add_up, cpu=add_up_on_cpu, passes=passes, flops=work), host(consume)],
        check=check,
    )
