"""A kernel in a file of its own, which includes another; `twin=False` leaves it without one for the CPU."""

import numpy as np

import advisor
from advisor import Buffer, In, Out, Workload, device, host, workload

scale_kernel = advisor.kernel("scale.cu", "scale")


@workload
def cuda_file(n: int = 1000, twin: bool = True) -> Workload:
    """Three times a vector."""

    def produce(a: Out, frame: int) -> None:
        a.fill(frame)

    def scale(a: In, b: Out) -> None:
        scale_kernel(a, b, 3, n)

    def on_cpu(a: In, b: Out) -> None:
        np.multiply(a, 3, out=b)

    def consume(b: In) -> None:
        b.sum()

    return Workload(
        buffers={name: Buffer(n, np.float32) for name in "ab"},
        frame=[host(produce), device(scale, cpu=on_cpu if twin else None), host(consume)],
    )
