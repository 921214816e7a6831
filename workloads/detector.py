"""A camera's detector: an image in the driver's memory, weights, small results and a mask for the CPU.

Source: CUDA for Tegra, "Memory Types" (which memory suits which use); CUDA C++ Best Practices Guide, "Zero
Copy" (what is read or written once).
Question: which placement does each buffer need, on a card and on a Jetson?
Must advise: on a card, weights in the card's own memory; on a Jetson, no copies of the image.
Must not: count the upload of the weights into a steady frame; leave the weights in zero-copy memory on a
card.
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload

POOL = 20


@workload
def detector(height: int = 1080, width: int = 1920, boxes: int = 256) -> Workload:
    """Shrinks an image, multiplies it with weights for boxes, and marks bright pixels in a mask."""
    rows, columns = height // POOL, width // POOL
    inputs = rows * columns

    def load(weights: Out) -> None:
        weights.fill(1 / inputs)

    def capture(image: Out, frame: int) -> None:
        image.fill(frame * 37 % 251)

    def segment(xp, image: In, mask: Out) -> None:
        xp.greater(image, 100, out=mask)

    def detect(xp, image: In, weights: In, found: Out) -> None:
        cut = image[: rows * POOL, : columns * POOL].reshape(rows, POOL, columns, POOL)
        small = cut.mean(axis=(1, 3), dtype=np.float32).reshape(inputs)
        xp.matmul(small, weights, out=found)

    def follow(found: In, mask: In) -> None:
        found.reshape(boxes, 4).max(axis=1)
        np.count_nonzero(mask)

    def check(found: In, mask: In, frame: int) -> None:
        value = frame * 37 % 251
        np.testing.assert_allclose(found, value, rtol=1e-3)
        assert bool(mask[0, 0]) == bool(mask[-1, -1]) == (value > 100)

    return Workload(
        buffers={
            "image": Buffer((height, width), np.uint8, external=True),
            "weights": Buffer((inputs, 4 * boxes), np.float32),
            "found": Buffer(4 * boxes, np.float32),
            "mask": Buffer((height, width), np.bool_),
        },
        setup=[host(load)],
        frame=[host(capture), device(segment), device(detect), host(follow)],
        check=check,
    )
