"""The host writes one row of a state in each frame, the device sums all of it: no part is annotated."""

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host, workload


@workload
def row_of_state(rows: int = 1024, columns: int = 1024) -> Workload:
    def load(state: Out) -> None:
        state.fill(0)

    def write(state: InOut, frame: int) -> None:
        state[frame % rows] = frame % 100

    def add_up(xp, state: In, total: Out) -> None:
        xp.sum(state, axis=1, out=total)

    def consume(total: In) -> None:
        total.max()

    return Workload(
        buffers={"state": Buffer((rows, columns), np.float32), "total": Buffer(rows, np.float32)},
        setup=[host(load)],
        frame=[host(write), device(add_up), host(consume)],
    )
