"""What this workload is: one sentence on the program that it stands for.

Run it with `advisor profile starter.py`. It runs unchanged; put your own buffers and functions in.
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


# Parameters have a type and a default; --set height=720 gives another value, --sweep height=240..1920 many.
@workload
def starter(height: int = 480, width: int = 640) -> Workload:
    """Scales an image by weights and adds its rows up."""

    # A stage is a plain function. It gets each buffer that a parameter names, and says what it does to it:
    #   In: reads it.   Out: overwrites all of it.   InOut: changes it, or a part of it.
    # Also by name: frame (the index), rng (seeded per frame), xp (cupy or numpy), stream.

    def load(weights: Out) -> None:
        # Set-up stages run once, before the frames.
        weights[...] = np.linspace(0, 1, width, dtype=np.float32)

    def capture(image: Out, frame: int) -> None:
        # Produce data at the speed of memory, as a camera would: a slow generator would be all you time.
        image.fill(frame % 256)

    def process(xp, image: In, weights: In, sums: Out) -> None:
        # On a GPU the arrays are CuPy's and xp is cupy; without one NumPy's. Write into the outputs given.
        xp.sum(image * weights, axis=1, out=sums)

    def use(sums: In) -> None:
        # What the CPU does with the result. Where it reads decides on many devices.
        sums.max()

    def check(sums, frame: int) -> None:
        # Runs after some frames; raise where the result is wrong.
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
        # One frame: what repeats. Copies and waits are put in by each strategy; you write none.
        # device(f, cpu=g): g runs without a GPU. device(f, arrays="torch"): f gets tensors (also "numba",
        # "pointer", "dlpack"). A raw kernel: advisor.kernel("file.cu", "name"), called in a device stage.
        frame=[host(capture), device(process), host(use)],
        check=check,
    )
