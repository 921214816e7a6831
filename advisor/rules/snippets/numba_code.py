"""Placements as Numba has them: arrays that its kernels take as they are."""

from __future__ import annotations

from advisor.profiles.schema import BufferRecord, Device
from advisor.rules.snippets.base import Library, Way
from advisor.strategies.placements.base import Placement


def way(placement: Placement, buffer: BufferRecord, device: Device) -> Way | None:
    """How Numba says it; None for what it has no call for."""
    del buffer, device
    if placement.registered or placement.prefetched:
        return None
    if placement.host_kind != placement.device_kind:
        return _PINNED if placement.locks and not placement.host_flags else None
    if placement.managed:
        return _one_memory("managed_array", "")
    return _one_memory("mapped_array", f", wc={placement.write_combined}") if placement.locks else None


NUMBA = Library(
    ("import numpy as np", "from numba import cuda"),
    "stream = cuda.stream()  # launch kernels on it: kernel[blocks, threads, stream](...)",
    way,
)

_PINNED = Way(
    (
        "{host} = cuda.pinned_array({shape}, np.dtype({dtype}))",
        "{device} = cuda.device_array({shape}, np.dtype({dtype}))",
    ),
    to_device="{device}.copy_to_device({host}, stream={stream})",
    to_host="{device}.copy_to_host({host}, stream={stream})",
)


def _one_memory(call: str, options: str) -> Way:
    return Way(
        (f"{{host}} = {{device}} = cuda.{call}({{shape}}, np.dtype({{dtype}}){options})  # for both sides",)
    )
