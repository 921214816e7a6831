"""Page-locked write-combined memory for what the host only writes, page-locked memory for the rest."""

from __future__ import annotations

from advisor.profiles.schema import BufferRecord, Device, WorkloadRecord
from advisor.strategies.placements.base import Placement, host_only_writes
from advisor.strategies.placements.pinned import Pinned
from advisor.strategies.placements.zero_copy import ZeroCopy


class WriteCombined(Pinned):
    """cudaHostAlloc with cudaHostAllocWriteCombined on the host, cudaMalloc on the device, asynchronous
    copies. Buffers that the host reads are plain pinned memory.
    """

    host_flags = ("write-combined",)

    def adapted(self, buffer: BufferRecord, workload: WorkloadRecord) -> Placement:
        """Only for buffers that the host never reads."""
        return self if host_only_writes(buffer, workload) else Pinned()


class ZeroCopyWriteCombined(ZeroCopy):
    """cudaHostAlloc with Mapped and WriteCombined; kernels use the same memory. Buffers that the host reads
    are plain mapped memory.
    """

    host_flags = ("mapped", "write-combined")

    def adapted(self, buffer: BufferRecord, workload: WorkloadRecord) -> Placement:
        """Only for buffers that the host never reads."""
        return self if host_only_writes(buffer, workload) else ZeroCopy()

    def unavailable(self, device: Device) -> str | None:
        """Needs canMapHostMemory."""
        if device.kind == "cpu":
            return "the CPU device has no write-combined memory"
        return super().unavailable(device)
