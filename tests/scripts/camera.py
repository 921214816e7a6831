"""A camera loop with work done twice: each frame goes up twice, and its mask comes back to be sent again."""

import cupy as cp
import numpy as np

rng = np.random.default_rng(1)
background = cp.asarray(rng.integers(0, 255, (120, 160), dtype=np.uint8))  # upload cupy.asarray, 1, 19_200
heat = 0.0
for _ in range(8):
    gray = rng.integers(0, 255, (120, 160), dtype=np.uint8)
    d = cp.asarray(gray)  # upload cupy.asarray, 8, 8 * 19_200
    edges = cp.abs(d.astype(cp.float32) - background)
    again = cp.array(gray, dtype=cp.float32)  # upload cupy.array, 8, 8 * 19_200 * 4
    mask = (edges > 40).get()  # download ndarray.get, 8, 8 * 19_200
    kept = again * cp.asarray(mask)  # upload cupy.asarray, 8, 8 * 19_200
    heat += float(kept.sum())  # wait ndarray.__float__, 8, 8 * 4
print(f"heat {heat:.0f}")
