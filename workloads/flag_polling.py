"""A kernel polls a flag and counts with atomics: the cost of flag and counter in mapped host memory.

Source: CUDA C++ Programming Guide, "Mapped Memory": atomic functions on mapped memory are not atomic from the
host's or another device's point of view; CUDA C++ Best Practices Guide, "Zero Copy": mapped memory is not
cached, so each poll is a round trip over the link, and an L2 round trip in device memory. Measured safely:
the flag is never raised while the kernel runs, the worst case of a wait, and the kernel gives up after
`polls` tries. It cannot hang on any device and does not depend on the order of blocks.
Question: what do one poll and one atomic cost in each kind of memory? Divide the kernel's time.
Must advise: keep flags and counters that kernels work on in device memory, or managed memory on a Jetson
before Thor.
Must not: conclude from the tiny buffers that zero-copy is best since there is nothing to copy; use a counter
in mapped memory to synchronize with the CPU. A prediction does conclude the former, since the model counts
bytes, not round trips: measure.
"""

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host, kernel, workload
from advisor.errors import WorkloadError

KERNEL = r"""
extern "C" __global__ void wait_and_count(const unsigned* flag, unsigned* tally,
                                          unsigned polls, unsigned adds) {
    // Each block's first thread polls, one load after the other; volatile, so that each is a real one.
    if (threadIdx.x == 0) {
        unsigned tries = 0;
        while (tries < polls && *(const volatile unsigned*)flag == 0u) ++tries;
        atomicAdd(&tally[0], tries);
    }
    for (unsigned k = 0; k < adds; ++k) atomicAdd(&tally[1], 1u);
}
"""
BLOCKS, THREADS = 4, 32
MOST_POLLS, MOST_ADDS = 1 << 18, 1 << 11
"""At 2 µs each, the time over PCIe and back, a kernel ends in a second; displays reset a GPU after two."""
wait_and_count = kernel(KERNEL, "wait_and_count")


@workload
def flag_polling(polls: int = 1000, adds: int = 16) -> Workload:
    """Polls a flag `polls` times in each of 4 blocks; each of their 128 threads adds `adds` times."""
    for name, value, most in (("polls", polls, MOST_POLLS), ("adds", adds, MOST_ADDS)):
        if not 1 <= value <= most:
            raise WorkloadError(f"{name} is {value}", next_step=f"Choose 1 to {most}.")
    expected = np.array([BLOCKS * polls, BLOCKS * THREADS * adds], np.uint32)

    def lower(flag: Out, tally: Out) -> None:
        flag.fill(0)
        tally.fill(0)

    def wait(flag: In, tally: InOut) -> None:
        wait_and_count(flag, tally, polls, adds, grid=BLOCKS, block=THREADS)

    def wait_on_cpu(flag: In, tally: InOut) -> None:
        if flag[0] == 0:
            np.add(tally, expected, out=tally)

    def read(tally: In) -> None:
        int(tally.sum())

    def check(tally: In) -> None:
        np.testing.assert_array_equal(tally, expected)

    passes = {"flag": BLOCKS * polls, "tally": BLOCKS * THREADS * adds}
    return Workload(
        buffers={"flag": Buffer(1, np.uint32), "tally": Buffer(2, np.uint32)},
        frame=[host(lower), device(wait, cpu=wait_on_cpu, passes=passes), host(read)],
        check=check,
    )
