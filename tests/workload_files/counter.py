"""State that stays on the device from frame to frame, with annotations that are strings."""

from __future__ import annotations

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host, workload


@workload
def counter(n: int = 64, step: float = 2.0) -> Workload:
    """Adds a step to a total in every frame and shows it."""

    def start(total: Out) -> None:
        total.fill(10)

    def count(total: InOut) -> None:
        total += step

    def publish(xp, total: In, shown: Out) -> None:
        xp.copyto(shown, total)

    def show(shown: In) -> None:
        shown.sum()

    def check(shown: In, frame: int) -> None:
        np.testing.assert_array_equal(shown, 10 + step * (frame + 1))

    return Workload(
        buffers={"total": Buffer(n, np.float64), "shown": Buffer(n, np.float64)},
        setup=[host(start)],
        frame=[device(count), device(publish), host(show)],
        check=check,
    )
