"""A raw kernel without a CPU twin, whose passes are declared: nothing can run here, all can be predicted."""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload

SOURCE = 'extern "C" __global__ void twice(const float* a, float* b) { b[threadIdx.x] = 2 * a[threadIdx.x]; }'


@workload
def raw_kernel(n: int = 1024, declared: bool = True) -> Workload:
    def produce(a: Out, frame: int) -> None:
        a.fill(frame)

    def twice(xp, a: In, b: Out) -> None:
        xp.RawKernel(SOURCE, "twice")((1,), (n,), (a, b))

    def consume(b: In) -> None:
        b.sum()

    passes = {"a": 1} if declared else None
    return Workload(
        buffers={"a": Buffer(n, np.float32), "b": Buffer(n, np.float32)},
        frame=[host(produce), device(twice, passes=passes), host(consume)],
    )
