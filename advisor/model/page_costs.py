"""What the driver's work for single pages of managed memory costs on a PCIe card, where nobody measured it.

Both figures are from one H200 in a virtual machine: prefetches to the CPU and passes of the CPU over buffers
of 1 to 256 MiB. On other cards they close a part of the gap between the model and the published times of
prefetched memory (docs/accuracy.md).
"""

from __future__ import annotations

from advisor.devices.catalogue import Figure

_HERE = "prefetches and host passes of 1 to 256 MiB on an H200 in a virtual machine, measured by us"

PAGE_COSTS = {
    # A prefetch of 64 MiB to the CPU took 2.9 ms, all of it in the call, where the link needs 1.2 ms. The
    # driver maps the pages (block_migrate_add_mappings in NVIDIA/open-gpu-kernel-modules, uvm_migrate.c).
    "map_page_seconds": Figure(
        value=0.1e-6,
        low=0.03e-6,
        high=0.2e-6,
        source=f"0.10 to 0.12 µs for 4 KiB beyond the link's time: {_HERE}",
    ),
    # A first pass of writes over 64 MiB that a prefetch brought back took 7.7 ms and a second one 3.6, of
    # reads both took 2.1. The driver asks to be told of first writes (page_mkwrite in uvm.c there), so each
    # page faults once. Where a write fault itself fetched the page, 0 to 0.18 µs were left: not counted.
    "write_fault_seconds": Figure(
        value=0.25e-6, low=0.1e-6, high=0.4e-6, source=f"0.23 to 0.26 µs for 4 KiB: {_HERE}"
    ),
}
"""Seconds for each page that comes back to the CPU, and for the CPU's first write to it."""
