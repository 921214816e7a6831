"""A large constant table and a small changing vector: each buffer needs its own placement.

Source: CUDA C++ Best Practices Guide, "Zero Copy" (mapped memory for what is read once) and "Data Transfer
Between Host and Device" (keep data on the device); docs/rules.md, zero-copy-reread. Weights that set-up
writes cross to the device once where there are copies; in zero-copy memory a card fetches them again in
every frame.
Question: which placement is best for the weights and for the vectors, and what does using one for both cost?
Must advise: on a card, keep `weights` out of zero-copy memory (zero-copy-reread: the same data in each
frame).
Must not: say the same of `x` and `y`, a few KB (`y` suits mapped memory; `x` does not on a large card, where
each multiprocessor reads it over the link: 64 % of a frame on an H200); count the upload of the weights
into a steady frame; warn on a Jetson, where one pass over mapped memory costs no more than one over any other
(Thor apart, which caches device memory).
"""

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


@workload
def weights_reuse(outputs: int = 4096, inputs: int = 4096) -> Workload:
    """Multiplies a constant float32 matrix with a vector that is new every frame."""

    def load(weights: Out) -> None:
        weights[...] = (np.arange(outputs, dtype=np.float32) % 7)[:, None]

    def produce(x: Out, frame: int) -> None:
        x.fill(frame % 5)

    def multiply(xp, weights: In, x: In, y: Out) -> None:
        xp.matmul(weights, x, out=y)

    def consume(y: In) -> None:
        y.argmax()

    def check(y: In, frame: int) -> None:
        expected = np.arange(outputs, dtype=np.float32) % 7 * np.float32(frame % 5 * inputs)
        np.testing.assert_allclose(y, expected, rtol=1e-5)

    return Workload(
        buffers={
            "weights": Buffer((outputs, inputs), np.float32),
            "x": Buffer(inputs, np.float32),
            "y": Buffer(outputs, np.float32),
        },
        setup=[host(load)],
        frame=[host(produce), device(multiply), host(consume)],
        check=check,
    )
