"""Placements as PyTorch has them: pinned tensors of its own, and views of memory that CuPy allocates."""

from __future__ import annotations

from dataclasses import replace

from advisor.profiles.schema import BufferRecord, Device
from advisor.rules.snippets import cupy_code
from advisor.rules.snippets.base import Library, Way
from advisor.strategies.placements.base import Placement

_DTYPES = frozenset(("float16", "float32", "float64", "complex64", "complex128", "bool"))
_DTYPES |= frozenset(("uint8", "int8", "int16", "int32", "int64"))
"""NumPy's names that PyTorch has too, in every version."""


def way(placement: Placement, buffer: BufferRecord, device: Device) -> Way | None:
    """How PyTorch says it; None where it cannot, or where the dtype is not one of its own."""
    if buffer.dtype not in _DTYPES or placement.prefetched:
        return None
    if placement.host_kind == placement.device_kind:
        return _viewed(placement, buffer, device) if placement.locks or placement.managed else None
    plain = placement.locks and not placement.registered and not placement.host_flags
    return _pinned(buffer.dtype) if plain else None


TORCH = Library(("import torch",), "stream = torch.cuda.current_stream()  # the one your kernels run on", way)


def _viewed(placement: Placement, buffer: BufferRecord, device: Device) -> Way:
    """PyTorch allocates no such memory, but takes a view of it."""
    made = cupy_code.way(placement, buffer, device)
    view = '{device} = torch.as_tensor({device}, device="cuda")  # no copy'
    return replace(made, allocate=(*made.allocate, view))


def _pinned(dtype: str) -> Way:
    return Way(
        (
            f"{{host}} = torch.empty({{shape}}, dtype=torch.{dtype}, pin_memory=True)"
            "  # .numpy() is the same memory",
            f'{{device}} = torch.empty({{shape}}, dtype=torch.{dtype}, device="cuda")',
        ),
        to_device="{device}.copy_({host}, non_blocking=True)  # in place of {host}.to('cuda')",
        to_host="{host}.copy_({device}, non_blocking=True)  # not {device}.cpu()",
    )
