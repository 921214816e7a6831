"""SAXPY with Numba: host arrays given to a kernel cross twice in each call."""

import numpy as np
from numba import cuda


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


x = np.arange(256, dtype=np.float32)
y = np.zeros_like(x)
for _ in range(4):
    saxpy[4, 64](2.0, x, y)
print("implicit", y[-1])

device_x = cuda.to_device(x)
device_y = cuda.device_array_like(x)
device_y.copy_to_device(y)
for _ in range(4):
    saxpy[4, 64](2.0, device_x, device_y)
cuda.synchronize()
print("explicit", device_y.copy_to_host()[-1])
