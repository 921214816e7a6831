"""An image from a camera, weights of set-up, scratch memory of the device, a CPU twin, and a random mask."""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


@workload
def camera(width: int = 64, height: int = 48) -> Workload:
    """Weighs an image and sums its rows."""
    shape = (height, width)

    def load(weights: Out, rng) -> None:
        weights[...] = rng.random(shape)

    def capture(image: Out, mask: Out, rng, frame: int) -> None:
        image.fill(frame % 250 + 1)
        mask[...] = rng.integers(0, 2, shape, np.uint8)

    def weigh(xp, image: In, mask: In, weights: In, weighted: Out, stream) -> None:
        stream.synchronize()
        xp.multiply(image, weights, out=weighted)
        xp.multiply(weighted, mask, out=weighted)

    def add_rows(xp, weighted: In, sums: Out) -> None:
        assert xp is not np, "only a GPU runs this"
        xp.sum(weighted, axis=1, out=sums)

    def add_rows_on_cpu(weighted: In, sums: Out) -> None:
        weighted.sum(axis=1, out=sums)

    def show(sums: In) -> None:
        sums.max()

    def check(image, mask, weights, sums) -> bool:
        return np.allclose(sums, (image * weights * mask).sum(axis=1), rtol=1e-4)

    return Workload(
        buffers={
            "image": Buffer(shape, np.uint8, external=True),
            "mask": Buffer(shape, np.uint8),
            "weights": Buffer(shape, np.float32),
            "weighted": Buffer(shape, np.float32, scratch=True),
            "sums": Buffer(height, np.float32),
        },
        setup=[host(load)],
        frame=[host(capture), device(weigh), device(add_rows, cpu=add_rows_on_cpu), host(show)],
        check=check,
    )
