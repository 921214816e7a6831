"""Two GPUs add a half each; the second half crosses to the first GPU, which squares the whole."""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


@workload
def halves_joined(n: int = 64) -> Workload:
    half = n // 2

    def produce(a: Out, b: Out, frame: int) -> None:
        a.fill(frame)
        b.fill(frame + 1)

    def first(xp, a: In[:half], b: In[:half], c: Out[:half]) -> None:
        xp.add(a[:half], b[:half], out=c[:half])

    def second(xp, a: In[half:], b: In[half:], c: Out[half:]) -> None:
        xp.add(a[half:], b[half:], out=c[half:])

    def join(xp, c: In, total: Out) -> None:
        xp.multiply(c, c, out=total)

    def consume(total: In) -> None:
        total.sum()

    return Workload(
        buffers={name: Buffer(n, np.float32) for name in ("a", "b", "c", "total")},
        frame=[host(produce), device(first), device(second, gpu=1), device(join), host(consume)],
    )
