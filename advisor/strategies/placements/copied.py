"""Two memories: host memory of some kind, a twin on the device, and copies between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from advisor.profiles.schema import BufferRecord, WorkloadRecord
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout, Placed, Placement, host_only_writes


class Pageable(Placement):
    """malloc on the host, cudaMalloc on the device, synchronous copies between them."""

    host_kind = "pageable"
    device_kind = "device"
    takes_foreign_memory = True
    not_on_cpu = None


class Staged(Placement):
    """malloc on the host, cudaMalloc on the device; to the device as cupy.asarray does it: a CPU copy into
    CuPy's pinned pool, then an asynchronous copy; to the host as cupy.asnumpy does it: from pageable memory.
    """

    host_kind = "pageable"
    device_kind = "device"
    takes_foreign_memory = True
    staged = True

    def place(self, arena: Arena, layout: Layout) -> Placed:
        """A host array and a device array of CuPy's pool; every move makes a new one, as the calls do."""
        backend = arena.backend
        arena.staging(layout.nbytes)
        begun = layout.at(backend, arena.pageable(layout.nbytes), None)
        arrays = {"host": begun.host, "device": arena.pool_array(layout.shape, layout.dtype)}

        def to_device(stream: Any) -> Any:
            del stream
            arrays["device"] = backend.upload(arrays["host"])
            return arrays["device"]

        def to_host(stream: Any) -> Any:
            del stream
            arrays["host"] = backend.download(arrays["device"])
            return arrays["host"]

        moved = replace(begun, to_device=to_device, to_host=to_host, by_host=True, remade=True)
        return replace(moved, device=arrays["device"])


class Pinned(Placement):
    """cudaHostAlloc with default flags on the host, cudaMalloc on the device, asynchronous copies."""

    host_kind = "pinned"
    device_kind = "device"


class WriteCombined(Pinned):
    """cudaHostAlloc with cudaHostAllocWriteCombined on the host, cudaMalloc on the device, asynchronous
    copies. Buffers that the host reads are plain pinned memory.
    """

    host_flags = ("write-combined",)

    def adapted(self, buffer: BufferRecord, workload: WorkloadRecord) -> Placement:
        """Only for buffers that the host never reads."""
        return self if host_only_writes(buffer, workload) else Pinned()


class Registered(Pinned):
    """malloc and cudaHostRegister on the host, cudaMalloc on the device, asynchronous copies between them."""

    takes_foreign_memory = True
    registered = True
