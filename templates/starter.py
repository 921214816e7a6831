"""What this workload is: one sentence about the program it represents.

Run it with `advisor profile starter.py`. It runs unchanged; replace the buffers and functions with your own.
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


# Parameters have a type and a default; --set height=720 sets one, --sweep height=240..1920 varies it.
@workload
def starter(height: int = 480, width: int = 640) -> Workload:
    """Scales an image by weights and sums its rows."""

    # A stage is a plain function. It gets the buffers its parameters name; annotations declare the access:
    #   In: reads it.   Out: overwrites all of it.   InOut: modifies it, or a part of it.
    # Also by name: frame (the index), rng (seeded per frame), xp (cupy or numpy), stream.

    def load(weights: Out) -> None:
        # Set-up stages run once, before the frames.
        weights[...] = np.linspace(0, 1, width, dtype=np.float32)

    def capture(image: Out, frame: int) -> None:
        # Produce data at memory speed, as a camera would: a slow generator would dominate the time.
        image.fill(frame % 256)

    def process(xp, image: In, weights: In, sums: Out) -> None:
        # On a GPU, CuPy arrays and xp is cupy; without one, NumPy's. Write into the given outputs.
        xp.sum(image * weights, axis=1, out=sums)

    def use(sums: In) -> None:
        # What the CPU does with the result. On many devices these reads decide which strategy wins.
        sums.max()

    def check(sums, frame: int) -> None:
        # Runs after some frames; raises if the result is wrong.
        expected = frame % 256 * np.linspace(0, 1, width, dtype=np.float32).sum()
        np.testing.assert_allclose(sums, expected, rtol=1e-3)

    return Workload(
        # Every array that stages share. external=True: its data arrives in memory you do not choose (a
        # camera's, a library's). scratch=True: it never leaves the device.
        buffers={
            "image": Buffer((height, width), np.uint8),
            "weights": Buffer(width, np.float32),
            "sums": Buffer(height, np.float32),
        },
        setup=[host(load)],
        # One frame: what repeats. Each strategy inserts its copies and synchronization; you write none.
        # device(f, cpu=g): g runs without a GPU. device(f, arrays="torch"): f gets tensors (also "numba",
        # "pointer", "dlpack"). A raw kernel: advisor.kernel("file.cu", "name"), called in a device stage.
        frame=[host(capture), device(process), host(use)],
        check=check,
    )
