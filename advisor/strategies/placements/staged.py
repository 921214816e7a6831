"""Ordinary host memory, copied by way of CuPy's pinned pool: what CuPy's own functions do."""

from __future__ import annotations

from typing import Any

from advisor.profiles.schema import Device
from advisor.strategies.backend import host_array
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement
from advisor.strategies.schedule import Traits


class Staged(Placement):
    """malloc on the host, cudaMalloc on the device; to the device as cupy.asarray does it: a CPU copy into
    CuPy's pinned pool, then an asynchronous copy; to the host as cupy.asnumpy does it: from pageable memory.

    Good: nothing to change in code that uses CuPy. Bad: a pass over the data on the CPU for every upload,
    and a pool that rounds up to powers of two and keeps what it took (cupy issues 3625, 6360, 8090, 8111).
    """

    host_kind = "pageable"
    device_kind = "device"
    takes_foreign_memory = True
    staged = True

    def traits(self, device: Device) -> Traits:
        """Uploads from the staging memory, synchronous downloads."""
        return Traits(moves="copies", blocking=True, staged_uploads=True)

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """A host array and a device array of CuPy's pool; every move makes a new one, as the calls do."""
        backend, nbytes = arena.backend, layout.nbytes
        arena.staging(nbytes)
        host = host_array(arena.pageable(nbytes), nbytes, layout.shape, layout.dtype)
        arrays = {"host": host, "device": arena.pool_array(layout.shape, layout.dtype)}

        def to_device(stream: Any) -> Any:
            del stream
            arrays["device"] = backend.upload(arrays["host"])
            return arrays["device"]

        def to_host(stream: Any) -> Any:
            del stream
            arrays["host"] = backend.download(arrays["device"])
            return arrays["host"]

        return Placed(host, arrays["device"], to_device, to_host)
