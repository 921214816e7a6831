"""The kernels that calibration times, as CUDA source, and their launches.

Each reads or writes an amount that follows from its arguments alone. A sum that no data can have guards a
store, so that no compiler drops the reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.strategies.backend import Backend

SOURCE = r"""
#define THREAD ((unsigned long long)blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS ((unsigned long long)gridDim.x * blockDim.x)
#define KEEP(sum, out) if ((sum) == 1.2345e30f) (out)[0] = (sum)

extern "C" {

__global__ void nothing() {}

__global__ void read_once(const float4* data, unsigned long long count, float* out) {
    float sum = 0;
    for (unsigned long long i = THREAD; i < count; i += THREADS) {
        float4 v = data[i];
        sum += v.x + v.y + v.z + v.w;
    }
    KEEP(sum, out);
}

__global__ void read_again(const float4* data, unsigned mask, unsigned loads, float* out) {
    float sum = 0;
    unsigned at = (unsigned)THREAD, step = (unsigned)THREADS + 32;
    for (unsigned n = 0; n < loads; ++n, at += step) {
        float4 v = data[at & mask];
        sum += v.x + v.y + v.z + v.w;
    }
    KEEP(sum, out);
}

__global__ void read_again_l2(const float4* data, unsigned mask, unsigned loads, float* out) {
    float sum = 0;
    unsigned at = (unsigned)THREAD, step = (unsigned)THREADS + 32;
    for (unsigned n = 0; n < loads; ++n, at += step) {
        float4 v;  // .cg: not from L1
        asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(data + (at & mask)));
        sum += v.x + v.y + v.z + v.w;
    }
    KEEP(sum, out);
}

__global__ void read_strided(const float* data, unsigned long long count, unsigned stride, float* out) {
    float sum = 0;
    for (unsigned long long i = THREAD; i < count; i += THREADS) sum += data[i * stride];
    KEEP(sum, out);
}

__global__ void read_random(const float* data, unsigned long long count, unsigned mask, float* out) {
    float sum = 0;
    for (unsigned long long i = THREAD; i < count; i += THREADS) {
        unsigned x = (unsigned)i;  // an integer hash with good avalanche: lowbias32
        x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
        sum += data[x & mask];
    }
    KEEP(sum, out);
}

__global__ void write_once(float4* data, unsigned long long count, float value) {
    for (unsigned long long i = THREAD; i < count; i += THREADS)
        data[i] = make_float4(value, value, value, value);
}

__global__ void copy_once(const float4* source, float4* target, unsigned long long count) {
    for (unsigned long long i = THREAD; i < count; i += THREADS) target[i] = source[i];
}

__global__ void multiply_add(unsigned rounds, float factor, float* out) {
    float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5, g = a + 6, h = a + 7;
    for (unsigned n = 0; n < rounds; ++n) {
        a = fmaf(a, factor, 1.f); b = fmaf(b, factor, 1.f);
        c = fmaf(c, factor, 1.f); d = fmaf(d, factor, 1.f);
        e = fmaf(e, factor, 1.f); f = fmaf(f, factor, 1.f);
        g = fmaf(g, factor, 1.f); h = fmaf(h, factor, 1.f);
    }
    KEEP(a + b + c + d + e + f + g + h, out);
}

__global__ void touch_in_turn(const unsigned* data, unsigned long long step, unsigned count, float* out) {
    unsigned long long at = 0;
    for (unsigned n = 0; n < count; ++n) at += step + data[at];  // data is 0: each waits for the one before
    if (at == 1) out[0] = 1;
}

}
"""
NAMES = (
    "nothing",
    "read_once",
    "read_again",
    "read_again_l2",
    "read_strided",
    "read_random",
    "write_once",
    "copy_once",
    "multiply_add",
    "touch_in_turn",
)

THREADS_PER_BLOCK = 256
_BLOCKS_PER_MULTIPROCESSOR = 8  # 2048 threads: as many as one holds at most, since Kepler
_FLOAT4 = 16
_FLOAT = 4
LOADS = 256
"""Of 16 bytes, by each thread of `read_again`."""
STRIDE = 32
"""In floats: 128 bytes, so that no two reads of `read_strided` share a sector or a line."""
FLOPS_PER_ROUND = 16
"""Of each thread of `multiply_add`: eight fused multiply-adds count two each."""


class Kernels:
    """Launches on the backend's stream. Arrays are float32 of `xp`; each method tells the bytes (or flops)
    it moves or does, as a program would count them."""

    def __init__(self, backend: Backend) -> None:
        # Without cached_property: a missing compiler is an error of the group, once.
        self._kernels: dict[str, Any] = {name: backend.xp.RawKernel(SOURCE, name) for name in NAMES}
        processors = int(backend.device().attributes.get("multiprocessor_count", 16))
        self.blocks = processors * _BLOCKS_PER_MULTIPROCESSOR
        self.threads = self.blocks * THREADS_PER_BLOCK

    def nothing(self) -> None:
        """Starts one thread that ends."""
        self._kernels["nothing"]((1,), (1,), ())

    def read_once(self, data: Any, out: Any) -> int:
        """All of it, once, in order."""
        self._launch("read_once", data, np.uint64(_bytes(data) // _FLOAT4), out)
        return _bytes(data)

    def read_again(self, data: Any, out: Any, *, only_l2: bool = False) -> int:
        """Again and again; the array's length is a power of two."""
        name = "read_again_l2" if only_l2 else "read_again"
        self._launch(name, data, np.uint32(_bytes(data) // _FLOAT4 - 1), np.uint32(LOADS), out)
        return self.threads * LOADS * _FLOAT4

    def read_strided(self, data: Any, out: Any) -> int:
        """One float of every 128 bytes."""
        count = _bytes(data) // _FLOAT // STRIDE
        self._launch("read_strided", data, np.uint64(count), np.uint32(STRIDE), out)
        return count * _FLOAT

    def read_random(self, data: Any, out: Any) -> int:
        """As many floats as `read_strided`, anywhere; the array's length is a power of two."""
        floats = _bytes(data) // _FLOAT
        self._launch("read_random", data, np.uint64(floats // STRIDE), np.uint32(floats - 1), out)
        return floats // STRIDE * _FLOAT

    def write_once(self, data: Any) -> int:
        """All of it, once."""
        self._launch("write_once", data, np.uint64(_bytes(data) // _FLOAT4), np.float32(0.0))
        return _bytes(data)

    def copy_once(self, source: Any, target: Any) -> int:
        """All of it; what is read and what is written both count."""
        self._launch("copy_once", source, target, np.uint64(_bytes(source) // _FLOAT4))
        return 2 * _bytes(source)

    def multiply_add(self, rounds: int, out: Any) -> int:
        """Floating-point operations of 32 bit."""
        self._launch("multiply_add", np.uint32(rounds), np.float32(0.5), out)
        return self.threads * rounds * FLOPS_PER_ROUND

    def touch_in_turn(self, data: Any, step: int, out: Any) -> int:
        """One thread reads one word of every `step` bytes, each after the one before; how many. Data is 0."""
        count = _bytes(data) // step
        words = np.uint64(step // _FLOAT)
        self._kernels["touch_in_turn"]((1,), (1,), (data, words, np.uint32(count), out))
        return count

    def _launch(self, name: str, *arguments: Any) -> None:
        self._kernels[name]((self.blocks,), (THREADS_PER_BLOCK,), arguments)


def _bytes(array: Any) -> int:
    return int(array.shape[0]) * _FLOAT
