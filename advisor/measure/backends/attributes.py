"""The attributes of a GPU that everything keys on."""

ATTRIBUTES = {
    "integrated": "Integrated",
    "can_map_host_memory": "CanMapHostMemory",
    "managed_memory": "ManagedMemory",
    "concurrent_managed_access": "ConcurrentManagedAccess",
    "pageable_memory_access": "PageableMemoryAccess",
    "pageable_memory_access_uses_host_page_tables": "PageableMemoryAccessUsesHostPageTables",
    "direct_managed_mem_access_from_host": "DirectManagedMemAccessFromHost",
    "host_register_supported": "HostRegisterSupported",
    "host_native_atomic_supported": "HostNativeAtomicSupported",
    "multiprocessor_count": "MultiProcessorCount",
    "l2_cache_size": "L2CacheSize",
    "async_engine_count": "AsyncEngineCount",
    "memory_pools_supported": "MemoryPoolsSupported",
}
"""Our names, which are CUDA's in snake case, and CuPy's."""
