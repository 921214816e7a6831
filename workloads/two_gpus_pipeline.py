"""A pipeline over two GPUs: the output of the first is the input of the second.

Source: The CUDA Handbook, chapter 9 (multiple GPUs, peer-to-peer). On two H200s joined by NVLink a copy
between them runs at 38 GB/s without peer access and at 387 GB/s with it.
Question: what does it save to copy from GPU to GPU instead of through the host?
Must advise: where the GPUs can reach each other, the strategy peer (peer-access-off); where they cannot,
that the driver stages the copies in host memory (host-staged-peer-copy).
Must not: advise a copy for what stays on one GPU.
"""

from __future__ import annotations

import numpy as np

from advisor import Buffer, In, Out, Workload, device, host, workload


@workload
def two_gpus_pipeline(n: int = 1 << 24) -> Workload:
    """Scales n float32 values on one GPU and takes their square root on another."""

    def produce(image: Out, frame: int) -> None:
        image.fill(frame + 1)

    def scale(xp, image: In, features: Out) -> None:
        xp.multiply(image, image, out=features)

    def root(xp, features: In, result: Out) -> None:
        xp.sqrt(features, out=result)

    def consume(result: In) -> None:
        result.sum()

    def check(result: In, frame: int) -> None:
        assert (result == frame + 1).all(), "result is not the root of the square"

    return Workload(
        buffers={name: Buffer(n, np.float32) for name in ("image", "features", "result")},
        frame=[host(produce), device(scale), device(root, gpu=1), host(consume)],
        check=check,
    )
