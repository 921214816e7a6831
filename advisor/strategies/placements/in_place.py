"""One memory of the host's that kernels read and write in place."""

from __future__ import annotations

from advisor.profiles.schema import BufferRecord, Device, WorkloadRecord
from advisor.strategies.backend import HostFlag
from advisor.strategies.placements.base import Placement, flag_is_off, host_only_writes


class ZeroCopy(Placement):
    """cudaHostAlloc with cudaHostAllocMapped; kernels use the device's address of the same memory."""

    host_kind = "pinned"
    device_kind = "pinned"
    host_flags: tuple[HostFlag, ...] = ("mapped",)
    not_on_cpu: str | None = None


class ZeroCopyWriteCombined(ZeroCopy):
    """cudaHostAlloc with Mapped and WriteCombined; kernels use the same memory. Buffers that the host reads
    are plain mapped memory.
    """

    host_flags = ("mapped", "write-combined")
    not_on_cpu = "the CPU device has no write-combined memory"

    def adapted(self, buffer: BufferRecord, workload: WorkloadRecord) -> Placement:
        """Only for buffers that the host never reads."""
        return self if host_only_writes(buffer, workload) else ZeroCopy()


class ZeroCopyRegistered(ZeroCopy):
    """malloc and cudaHostRegister with cudaHostRegisterMapped; kernels use the same memory in place."""

    takes_foreign_memory = True
    registered = True
    not_on_cpu = "the CPU device has nothing to register: its zero-copy is one ordinary buffer"


class System(Placement):
    """malloc, and nothing else: kernels use the host's address."""

    host_kind = "pageable"
    device_kind = "pageable"
    takes_foreign_memory = True

    def unavailable(self, device: Device) -> str | None:
        """Needs pageableMemoryAccess, which has to be known to be 1."""
        if device.kind != "cpu" and not device.attributes.get("pageable_memory_access"):
            if device.kind == "catalogue" and device.memory_class == "discrete":
                return f"{device.name} is taken to be without HMM (with it: docs/devices.md)"
            told = "0" if flag_is_off(device, "pageable_memory_access") else "not known"
            return f"kernels on {device.name} cannot reach ordinary memory (pageableMemoryAccess is {told})"
        return super().unavailable(device)
