"""Kernels that read and write mapped host memory: once, again where caches could help, strided, at random."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from advisor import units
from advisor.calibration.bench import Bench
from advisor.calibration.kernels import Kernels
from advisor.strategies.backend import host_array
from advisor.strategies.placements.arena import Arena

KEYS = (
    "zero_copy_read_bytes_per_second",
    "zero_copy_reread_bytes_per_second",
    "zero_copy_strided_read_bytes_per_second",
    "zero_copy_random_read_bytes_per_second",
    "zero_copy_write_bytes_per_second",
)
WINDOW = 1 << 16
"""Bytes read again and again: the L2 of every GPU holds them, and the L1 of most."""


def measure(bench: Bench) -> None:
    """All, where the device can map host memory at all."""
    if not bench.backend.device().attributes.get("can_map_host_memory", 0):
        bench.leave_out(KEYS, "the device cannot map host memory")
        return
    bench.attempt(KEYS, lambda: _measure(bench))


def _measure(bench: Bench) -> None:
    backend, size = bench.backend, bench.sizes.transfer
    read, again, strided, at_random, write = KEYS
    with Arena(backend) as arena:
        kernels = Kernels(backend)
        host = arena.pinned(size, "mapped")
        host_array(host, size, (size,), np.dtype(np.uint8)).fill(0)
        data = bench.floats(backend.host_device_pointer(host), size)
        out = bench.floats(arena.device(4), 4)
        window = data[: min(WINDOW, size) // 4]
        works: dict[str, Callable[[], int]] = {
            read: lambda: kernels.read_once(data, out),
            again: lambda: kernels.read_again(window, out),
            strided: lambda: kernels.read_strided(data, out),
            at_random: lambda: kernels.read_random(data, out),
            write: lambda: kernels.write_once(data),
        }
        over = f"over {units.size(size)}"
        said = {again: f"in {units.size(window.shape[0] * 4)}", strided: over, at_random: over}
        for key, work in works.items():
            amount = work()
            what = f"{units.size(amount)} {said.get(key, '')}".strip()
            bench.keep_rate(key, amount, bench.device_times(work), what)
