import cupy as cp
import numpy as np

# a signal is filtered in chunks; results go into one array on the host
signal = np.random.default_rng(3).standard_normal(1 << 24).astype(np.float32)
taps = np.hanning(257).astype(np.float32)
out = np.empty_like(signal)
chunk = 1 << 20
for turn in range(7):
    for start in range(0, len(signal), chunk):
        part = cp.asarray(signal[start : start + chunk])
        spectrum = cp.fft.rfft(part) * cp.fft.rfft(cp.asarray(taps), chunk)
        out[start : start + chunk] = cp.asnumpy(cp.fft.irfft(spectrum, chunk))
print(float(np.abs(out).sum()))
