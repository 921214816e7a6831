"""Rotates an image through a texture: from the buffer itself, wherever it lies, or from a CUDA array.

Source: N. Wilt, The CUDA Handbook, chapter 10: a texture reads device memory, mapped host memory or a CUDA
array; the texture cache serves neighbours in two dimensions, and what it does not hold is fetched from where
the texture lies, over the link too; it is not kept coherent with writes while a kernel runs.
Question: what does sampling through a texture cost in device, pitched and mapped memory? layout=linear
fetches elements of plain memory, layout=pitch samples rows with hardware interpolation, layout=array copies
the image into a CUDA array first, which no strategy places.
Must advise: to measure before zero-copy is chosen (texture-in-mapped-memory).
Must not: say so of other workloads; claim a gain where none was measured.
"""

import math
from typing import Any

import numpy as np
from parts.textures import ROTATE, rotated, texture_over

from advisor import Buffer, In, Out, Workload, device, host, workload

BLOCK = 16
ROW_BYTES = 32
"""A pitched texture's rows start at multiples of this: `texturePitchAlignment` of all GPUs so far."""
LAYOUTS = ("linear", "pitch", "array")


@workload
def texture_sampling(
    width: int = 2048, height: int = 2048, degrees: float = 30.0, layout: str = "pitch"
) -> Workload:
    """Rotates a float32 image that is new in every frame, sampled through a texture."""
    if layout not in LAYOUTS or width * 4 % ROW_BYTES:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, and width a multiple of 8")
    turn = math.radians(degrees)
    textures: dict[int, tuple[Any, Any]] = {}  # by address: buffers keep theirs

    def produce(image: Out, frame: int) -> None:
        image[...] = np.arange(width, dtype=np.float32) % 256 + frame % 16

    def rotate(image: In, result: Out) -> None:
        import cupy

        if image.data.ptr not in textures:
            textures[image.data.ptr] = texture_over(cupy, image, layout)
        texture, array = textures[image.data.ptr]
        if array is not None:
            array.copy_from(image, cupy.cuda.get_current_stream())
        grid = (-(-width // BLOCK), -(-height // BLOCK))
        sizes = (np.int32(width), np.int32(height), np.float32(math.cos(turn)), np.float32(math.sin(turn)))
        kernel = cupy.RawKernel(ROTATE, "rotate")
        kernel(grid, (BLOCK, BLOCK), (texture, result, *sizes, np.int32(layout == "linear")))

    def rotate_on_cpu(image: In, result: Out) -> None:
        result[...] = rotated(image, turn, nearest=layout == "linear")

    def consume(result: In) -> None:
        result[::64, ::64].sum()

    def check(image: In, result: In) -> None:
        """Hardware interpolates with weights of 8 bits: an error of 1/256 of neighbours' difference at most.

        Where a sample lies halfway between two elements, the nearest may be either.
        """
        expected = rotated(image, turn, nearest=layout == "linear")
        wrong = np.abs(result - expected) > (256 + 16) / 128
        assert wrong.mean() < 0.001, f"{wrong.sum()} of {wrong.size} samples are wrong"

    return Workload(
        buffers={"image": Buffer((height, width), np.float32), "result": Buffer((height, width), np.float32)},
        frame=[host(produce), device(rotate, cpu=rotate_on_cpu, passes={"image": 1}), host(consume)],
        check=check,
    )
