"""The texture of texture_sampling.py, its kernel, and the same in NumPy."""

import math
from typing import Any

import numpy as np

ROTATE = r"""
extern "C" __global__ void rotate(cudaTextureObject_t image, float* result,
                                  int width, int height, float c, float s, int linear) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float dx = x - 0.5f * (width - 1), dy = y - 0.5f * (height - 1);
    float u = c * dx - s * dy + 0.5f * (width - 1), v = s * dx + c * dy + 0.5f * (height - 1);
    if (linear) {
        int column = min(max((int)rintf(u), 0), width - 1), row = min(max((int)rintf(v), 0), height - 1);
        result[(size_t)y * width + x] = tex1Dfetch<float>(image, row * width + column);
    } else {
        result[(size_t)y * width + x] = tex2D<float>(image, u + 0.5f, v + 0.5f);
    }
}
"""


def texture_over(cupy: Any, image: Any, layout: str) -> tuple[Any, Any]:
    """A texture over the buffer itself, or over a CUDA array of its size, which is given too."""
    runtime, texture = cupy.cuda.runtime, cupy.cuda.texture
    height, width = image.shape
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    array = texture.CUDAarray(channel, width, height) if layout == "array" else None
    if layout == "array":
        resource = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array)
    elif layout == "pitch":
        resource = texture.ResourceDescriptor(
            runtime.cudaResourceTypePitch2D, arr=image, chDesc=channel,
            width=width, height=height, pitchInBytes=image.strides[0],
        )  # fmt: skip
    else:
        resource = texture.ResourceDescriptor(
            runtime.cudaResourceTypeLinear, arr=image, chDesc=channel, sizeInBytes=image.nbytes
        )
    interpolate = runtime.cudaFilterModePoint if layout == "linear" else runtime.cudaFilterModeLinear
    sampling = texture.TextureDescriptor(
        (runtime.cudaAddressModeClamp,) * 2, interpolate, runtime.cudaReadModeElementType
    )
    return texture.TextureObject(resource, sampling), array


def rotated(image: Any, turn: float, *, nearest: bool) -> Any:
    """The image turned about its centre by NumPy; beyond its edges is what lies at them."""
    height, width = image.shape
    y, x = np.mgrid[:height, :width].astype(np.float32)
    dx, dy = x - (width - 1) / 2, y - (height - 1) / 2
    u = np.float32(math.cos(turn)) * dx - np.float32(math.sin(turn)) * dy + (width - 1) / 2
    v = np.float32(math.sin(turn)) * dx + np.float32(math.cos(turn)) * dy + (height - 1) / 2
    if nearest:
        return image[_inside(np.rint(v), height), _inside(np.rint(u), width)]
    left, top = np.floor(u), np.floor(v)
    right, below = (u - left).astype(np.float32), (v - top).astype(np.float32)
    columns = _inside(left, width), _inside(left + 1, width)
    rows = _inside(top, height), _inside(top + 1, height)
    upper, lower = (image[row, columns[0]] * (1 - right) + image[row, columns[1]] * right for row in rows)
    return upper * (1 - below) + lower * below


def _inside(places: Any, size: int) -> Any:
    return np.clip(places, 0, size - 1).astype(np.intp)
