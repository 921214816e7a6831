"""Page-locked arrays, as `cupyx` makes them."""

import math

import cupy
import numpy as np


def empty_pinned(shape, dtype=float):
    dtype = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(math.prod(shape) * dtype.itemsize), dtype).reshape(
        shape
    )


def zeros_pinned(shape, dtype=float):
    return empty_pinned(shape, dtype)
