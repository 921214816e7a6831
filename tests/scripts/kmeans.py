"""K-means on the GPU: whole uploads before the loop, a condition that waits in each iteration."""

import cupy as cp
import numpy as np

rng = np.random.default_rng(0)
points = rng.standard_normal((4096, 16)).astype(np.float32)
x = cp.asarray(points)  # upload cupy.asarray, 1, 4096 * 16 * 4
centers = x[:8].copy()
labels = cp.zeros(len(x), dtype=cp.int64)
for _ in range(6):
    distances = ((x[:, None, :] - centers[None]) ** 2).sum(axis=2)
    new = cp.argmin(distances, axis=1)
    if (new == labels).all():  # wait ndarray.__bool__, 6, 6
        break
    labels = new
    for k in range(8):
        members = x[labels == k]  # wait ndarray.__getitem__, 48
        centers[k] = members.mean(axis=0)
inertia = float(((x - centers[labels]) ** 2).sum())  # wait ndarray.__float__, 1, 4
print(f"inertia {inertia:.1f}, sizes {cp.bincount(labels).tolist()}", cp.asnumpy(centers).shape)
# wait cupy.bincount, 1; download ndarray.tolist, 1, 8 * 8; download cupy.asnumpy, 1, 8 * 16 * 4
