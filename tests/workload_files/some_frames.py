"""Stages that run in some frames only: a look at the result, a new set of weights."""

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host, workload


@workload
def some_frames(n: int = 64, look_every: int = 5, weigh_every: int = 1) -> Workload:
    """Sums weighted frames on the device; the host looks at it, and renews the weights, in some."""
    looked = []

    def start(total: Out) -> None:
        total.fill(0)

    def produce(a: Out, frame: int) -> None:
        a.fill(frame)

    def weigh(w: Out, frame: int) -> None:
        w.fill(frame + 1)

    def add(xp, a: In, w: In, product: Out, total: InOut) -> None:
        xp.multiply(a, w, out=product)
        xp.add(total, product, out=total)

    def publish(xp, total: In, shown: Out) -> None:
        xp.copyto(shown, total)

    def look(shown: In, frame: int) -> None:
        looked.append((frame, float(shown[0])))

    def check(frame: int, total: In, shown: In) -> None:
        terms = [i * (i // weigh_every * weigh_every + 1) for i in range(frame + 1)]
        assert total[0] == sum(terms), (frame, total[0])
        last = frame // look_every * look_every
        assert shown[0] == sum(terms[: last + 1]), (frame, shown[0])
        assert looked[-1] == (last, shown[0]), looked[-1]
        assert [frame for frame, _ in looked] == list(range(0, frame + 1, look_every))

    return Workload(
        {name: Buffer(n, np.float64) for name in ("a", "w", "product", "total", "shown")},
        setup=[host(start)],
        frame=[
            host(produce),
            host(weigh, every=weigh_every),
            device(add),
            device(publish, every=look_every),
            host(look, every=look_every),
        ],
        check=check,
    )
