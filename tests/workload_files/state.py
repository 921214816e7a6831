"""Programs with a state: what a frame gives depends on all frames before it. Right, with nothing declared.

Each of them fails where a frame is left out, comes twice or comes in another order.
"""

import numpy as np

from advisor import Buffer, In, InOut, Out, Workload, device, host, workload


@workload
def background(height: int = 36, width: int = 64) -> Workload:
    """A running average kept on the device, and a mask of what differs from it."""

    def start(bg: Out) -> None:
        bg.fill(0)

    def capture(image: Out, rng) -> None:
        image[...] = rng.integers(0, 256, image.shape, np.uint8)

    def subtract(xp, image: In, bg: InOut, change: Out, mask: Out) -> None:
        xp.subtract(image, bg, out=change)
        xp.multiply(change, 0.05, out=change)
        xp.add(bg, change, out=bg)
        xp.greater(change, 2, out=mask)

    def use(mask: In) -> None:
        mask.sum()

    kinds = {"image": np.uint8, "bg": np.float32, "change": np.float32, "mask": np.bool_}
    return Workload(
        {name: Buffer((height, width), kind) for name, kind in kinds.items()},
        setup=[host(start)],
        frame=[host(capture), device(subtract), host(use)],
    )


@workload
def alarm(n: int = 64) -> Workload:
    """A counter whose effect shows after ten frames."""

    def start(s: Out) -> None:
        s.fill(0)

    def count(xp, s: InOut, alarm: Out) -> None:
        xp.add(s, 1, out=s)
        xp.greater(s, 10, out=alarm)

    def use(alarm: In) -> None:
        alarm.any()

    def check(alarm: In, frame: int) -> None:
        assert (alarm == (frame >= 10)).all(), frame

    buffers = {"s": Buffer(n, np.int32), "alarm": Buffer(n, np.bool_)}
    return Workload(buffers, setup=[host(start)], frame=[device(count), host(use)], check=check)
