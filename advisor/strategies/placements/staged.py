"""Ordinary host memory, copied by way of CuPy's pinned pool: what CuPy's own functions do."""

from __future__ import annotations

import ctypes
from typing import Any

from advisor.profiles.schema import Device
from advisor.strategies.backend import host_array
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement
from advisor.strategies.schedule import Traits


class Staged(Placement):
    """malloc on the host, cudaMalloc on the device; to the device as cupy.asarray does it: a CPU copy into
    CuPy's pinned pool, then an asynchronous copy; to the host as cupy.asnumpy does it: from pageable memory.
    """

    host_kind = "pageable"
    device_kind = "device"
    takes_foreign_memory = True
    staged = True

    def traits(self, device: Device) -> Traits:
        """Uploads from the staging memory, synchronous downloads."""
        return Traits(moves="copies", blocking=True, staged_uploads=True)

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """Three memories: host, staging, device."""
        backend, nbytes = arena.backend, layout.nbytes
        host, staging, device = arena.pageable(nbytes), arena.staging(nbytes), arena.device(nbytes)
        last_upload: list[Any] = []

        def to_device(stream: Any) -> None:
            while last_upload:
                backend.wait(last_upload.pop())
            ctypes.memmove(staging, host, nbytes)
            backend.copy_to_device(device, staging, nbytes, stream)
            last_upload.append(backend.timestamp(stream))

        def to_host(stream: Any) -> None:
            backend.copy_to_host(host, device, nbytes, stream)
            backend.synchronize()

        return Placed(
            host_array(host, nbytes, layout.shape, layout.dtype),
            backend.device_array(device, nbytes, layout.shape, layout.dtype),
            to_device,
            to_host,
        )
