"""Batched FFT: lists of host arrays and an index on the host are uploaded too."""

import cupy as cp
import numpy as np

rng = np.random.default_rng(4)
window = cp.hanning(256)
peaks = []
for _ in range(4):
    signals = [rng.standard_normal(256).astype(np.float32) for _ in range(16)]
    x = cp.asarray(signals)  # upload cupy.asarray, 4, 4 * 16 * 256 * 4
    spectrum = cp.abs(cp.fft.rfft(x * window.astype(cp.float32), axis=1))
    chosen = spectrum[np.array([0, 5, 10])]  # upload ndarray.__getitem__, 4, 4 * 3 * 8
    peaks.append(cp.asnumpy(chosen.argmax(axis=1)))  # download cupy.asnumpy, 4, 4 * 3 * 8
    if cp.any(cp.isnan(spectrum)):  # wait ndarray.__bool__, 4, 4
        raise SystemExit("not a number")
print(len(peaks), peaks[0].shape)
