"""Converts a Bayer mosaic to RGB and then to a small image: large input, small output, a re-reading stencil.

Source: "Zero Copy and Pinned Memory on NVIDIA TX-1", whose OpenCV pipeline turns 4608 by 3288 pixels into
800 by 600: one pass over mapped memory is as fast as over device memory there, further passes are not. Here
as two kernels; where OpenCV is installed (extra `opencv`) its own code is the CPU twin and what results are
checked against.
Question: can the camera image stay in mapped memory if the 3 by 3 stencil reads each byte 7 times?
Must advise: on a Jetson, drop the copies, and read the mosaic through memory that the GPU caches
(zero-copy-reread); on a card, leave pageable memory.
Must not: count `rgb`, which never leaves the device; warn of the small output.
"""

import numpy as np
from parts import bayer

from advisor import Buffer, In, Out, Workload, device, host, kernel, workload
from advisor.errors import WorkloadError

debayer_kernel = kernel("parts/bayer.cu", "debayer")
resize_kernel = kernel("parts/bayer.cu", "resize")
TILE = (16, 16)


@workload
def debayer_resize(
    width: int = 4608, height: int = 3288, small_width: int = 800, small_height: int = 600
) -> Workload:
    """Turns an 8 bit RGGB mosaic into RGB, and that into a smaller image, both bilinear."""
    if min(width, height) < 3:
        raise WorkloadError(
            f"a mosaic of {width} by {height} has no inner pixel", next_step="Give 3 by 3 at least."
        )
    mosaics = np.random.default_rng(0).integers(0, 256, (1, height, width), np.uint8)
    mosaics = np.concatenate([mosaics, 255 - mosaics])

    def capture(raw: Out, frame: int) -> None:
        np.copyto(raw, mosaics[frame % 2])

    def debayer(raw: In, rgb: Out) -> None:
        debayer_kernel(raw, rgb, width, height, grid=tiles(width, height), block=TILE)

    def debayer_on_cpu(raw: In, rgb: Out) -> None:
        bayer.debayer(raw, rgb)

    def resize(rgb: In, small: Out) -> None:
        shape = (width, height, small_width, small_height)
        resize_kernel(rgb, small, *shape, grid=tiles(small_width, small_height), block=TILE)

    def resize_on_cpu(rgb: In, small: Out) -> None:
        bayer.resize(rgb, small)

    def show(small: In) -> None:
        small.max()

    def check(small: In, frame: int) -> None:
        rgb, expected = np.empty((height, width, 3), np.uint8), np.empty_like(small)
        bayer.debayer(mosaics[frame % 2], rgb)
        bayer.resize(rgb, expected)
        np.testing.assert_allclose(small.astype(np.int16), expected, atol=1, rtol=0)

    taps, samples = {"raw": 7}, {"rgb": 4 * small_width * small_height / (width * height)}
    return Workload(
        buffers={
            "raw": Buffer((height, width), np.uint8),
            "rgb": Buffer((height, width, 3), np.uint8, scratch=True),
            "small": Buffer((small_height, small_width, 3), np.uint8),
        },
        frame=[
            host(capture),
            device(debayer, cpu=debayer_on_cpu, passes=taps, flops=10.0 * width * height),
            device(resize, cpu=resize_on_cpu, passes=samples, flops=30.0 * small_width * small_height),
            host(show),
        ],
        check=check,
    )


def tiles(width: int, height: int) -> tuple[int, int]:
    return -(-width // TILE[0]), -(-height // TILE[1])
