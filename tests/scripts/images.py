"""An image pipeline: get() brings back each frame, and each one is sent from new page-locked memory."""

import cupy as cp
import numpy as np

height, width = 90, 160
weights = cp.array([0.299, 0.587, 0.114], dtype=cp.float32)
rng = np.random.default_rng(3)
written = 0
for _ in range(5):
    image = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    memory = cp.cuda.alloc_pinned_memory(image.nbytes)
    pinned = np.frombuffer(memory, np.uint8, image.size).reshape(image.shape)
    pinned[...] = image
    gray = cp.asarray(pinned).astype(cp.float32) @ weights
    small = gray[::2, ::2]
    bright = small[small > 128]
    frame = cp.clip(small * 1.2, 0, 255).astype(cp.uint8).get()
    written += frame.nbytes + bright.size * 0
print(f"written {written}")
