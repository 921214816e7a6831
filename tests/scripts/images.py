"""An image pipeline: get() brings back each frame, and each one is sent from new page-locked memory."""

import cupy as cp
import numpy as np

height, width = 90, 160
weights = cp.array([0.299, 0.587, 0.114], dtype=cp.float32)  # upload cupy.array, 1, 3 * 4
rng = np.random.default_rng(3)
written = 0
for _ in range(5):
    image = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    memory = cp.cuda.alloc_pinned_memory(image.nbytes)  # lock alloc_pinned_memory, 5, 5 * 90 * 160 * 3
    pinned = np.frombuffer(memory, np.uint8, image.size).reshape(image.shape)
    pinned[...] = image
    gray = cp.asarray(pinned).astype(cp.float32) @ weights  # upload cupy.asarray, 5, 5 * 90 * 160 * 3, pinned
    small = gray[::2, ::2]
    bright = small[small > 128]  # wait ndarray.__getitem__, 5
    frame = cp.clip(small * 1.2, 0, 255).astype(cp.uint8).get()  # download ndarray.get, 5, 5 * 45 * 80
    written += frame.nbytes + bright.size * 0
print(f"written {written}")
print(weights[:2], weights[0].item())  # wait ndarray.item, 1, 4; download ndarray.__str__, 1, 2 * 4
