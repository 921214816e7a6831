"""The tables of an export that are read, by the names that CUPTI gives their records."""

from __future__ import annotations

CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSETS = "CUPTI_ACTIVITY_KIND_MEMSET"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
WAITS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CPU_FAULTS = "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
GPU_FAULTS = "CUDA_UM_GPU_PAGE_FAULT_EVENTS"
MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"

NEEDED: dict[str, tuple[str, ...]] = {
    COPIES: ("start", "end", "bytes", "copyKind"),
    KERNELS: ("start", "end"),
    MEMSETS: ("start", "end"),
    WAITS: ("start", "end", "syncType"),
    CPU_FAULTS: ("start",),
    GPU_FAULTS: ("start", "numberOfPageFaults"),
    MEMORY: ("bytes", "memKind", "memoryOperationType"),
}
"""Columns without which a table that is read cannot be."""
