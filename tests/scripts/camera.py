"""A camera loop with work done twice: each frame goes up twice, and its mask comes back to be sent again."""

import cupy as cp
import numpy as np

rng = np.random.default_rng(1)
background = cp.asarray(rng.integers(0, 255, (120, 160), dtype=np.uint8))
heat = 0.0
for _ in range(8):
    gray = rng.integers(0, 255, (120, 160), dtype=np.uint8)
    d = cp.asarray(gray)
    edges = cp.abs(d.astype(cp.float32) - background)
    again = cp.array(gray, dtype=cp.float32)
    mask = (edges > 40).get()
    kept = again * cp.asarray(mask)
    heat += float(kept.sum())
print(f"heat {heat:.0f}")
