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
    saxpy[4, 64](2.0, x, y)  # upload kernel argument, 8, 8 * 1024; download kernel argument, 8, 8 * 1024
print("implicit", y[-1])

device_x = cuda.to_device(x)  # upload cuda.to_device, 1, 1024
device_y = cuda.device_array_like(x)
device_y.copy_to_device(y)  # upload DeviceNDArray.copy_to_device, 1, 1024
for _ in range(4):
    saxpy[4, 64](2.0, device_x, device_y)
cuda.synchronize()  # wait cuda.synchronize, 1
print("explicit", device_y.copy_to_host()[-1])  # download DeviceNDArray.copy_to_host, 1, 1024
