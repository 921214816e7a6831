"""Launches of the kernels that calibration times (kernels.cu)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from advisor.strategies.backend import Backend

SOURCE = (Path(__file__).parent / "kernels.cu").read_text(encoding="utf-8")
NAMES = tuple(re.findall(r"__global__ void (\w+)", SOURCE))

THREADS_PER_BLOCK = 256
_BLOCKS_PER_MULTIPROCESSOR = 8  # 2048 threads: as many as one holds at most, since Kepler
_FLOAT4 = 16
_FLOAT = 4
LOADS = 256
"""Loads of 16 bytes by each thread of `read_again`."""
STRIDE = 32
"""In floats: 128 bytes, so that no two reads of `read_strided` share a sector or a line."""
TILE = 32
"""Rows and columns of a tile of `multiply_tiles`, as of CUDA's sample matrixMul."""
_RECORD = 16
"""Reads of 16 bytes in a record of `read_near`."""
FLOPS_PER_ROUND = 16
"""Operations of each thread of `multiply_add`: eight fused multiply-adds count two each."""


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
        self._launch("read_once", data, np.uint64(_bytes(data) // _FLOAT4), out)
        return _bytes(data)

    def read_again(self, data: Any, out: Any, *, only_l2: bool = False) -> int:
        """Again and again; the array's length is a power of two."""
        name = "read_again_l2" if only_l2 else "read_again"
        self._launch(name, data, np.uint32(_bytes(data) // _FLOAT4 - 1), np.uint32(LOADS), out)
        return self.threads * LOADS * _FLOAT4

    def read_near(self, data: Any, passes: int, out: Any) -> int:
        """Each thread reads its record of 256 bytes, `passes` times."""
        records = _bytes(data) // (_RECORD * _FLOAT4)
        self._launch("read_near", data, np.uint64(records), np.uint32(passes * _RECORD), out)
        return passes * records * _RECORD * _FLOAT4

    def multiply_tiles(self, a: Any, b: Any, c: Any) -> int:
        """A product of square matrices in tiles; the side is a multiple of `TILE`. What tiles read counts."""
        side = int(a.shape[0])
        grid = side // TILE, side // TILE
        self._kernels["multiply_tiles"](grid, (TILE, TILE), (a, b, c, np.uint32(side)))
        return 2 * side * side * _FLOAT * (side // TILE)

    def read_strided(self, data: Any, out: Any) -> int:
        """One float of every 128 bytes."""
        count = _bytes(data) // _FLOAT // STRIDE
        self._launch("read_strided", data, np.uint64(count), np.uint32(STRIDE), out)
        return count * _FLOAT

    def read_random(self, data: Any, out: Any) -> int:
        """Reads as many floats as `read_strided`, at random places; the array's length is a power of two."""
        floats = _bytes(data) // _FLOAT
        self._launch("read_random", data, np.uint64(floats // STRIDE), np.uint32(floats - 1), out)
        return floats // STRIDE * _FLOAT

    def write_once(self, data: Any) -> int:
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
