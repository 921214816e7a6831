"""Code to copy: how each strategy is written for the buffers of this workload.

Memory is taken exactly (CuPy's pinned pool rounds up to a power of two), once, before the frames. The steps
of a frame come from the same plan that the measured frames ran, so that no copy or wait is forgotten.
For CuPy 13 and later, on CUDA 12 and 13; `variants` has the same for PyTorch and Numba where those differ.
Its calls were run on an H200 with CUDA 13.0, CuPy 14.2, PyTorch 2.11 and Numba 0.68.
"""

from __future__ import annotations

from advisor.profiles.schema import Device, WorkloadRecord
from advisor.rules import placed
from advisor.rules.snippets.cupy_code import dialect
from advisor.rules.snippets.numba_code import numba_dialect
from advisor.rules.snippets.overlapping import overlapping
from advisor.rules.snippets.serial import serial
from advisor.rules.snippets.torch_code import torch_dialect
from advisor.strategies.registry import Strategy


def snippet(strategy: str, workload: WorkloadRecord, device: Device) -> str | None:
    """Python with CuPy for that strategy, these buffers and this device; None where nothing is to change."""
    known = _known(strategy, device)
    if known is None:
        return None
    if known.pipelined:
        return None if known.unsuited(workload) else overlapping(known, workload, device)
    written = dialect(known, workload, device)
    return serial(written, known, workload, device) if written else None


def variants(strategy: str, workload: WorkloadRecord, device: Device) -> dict[str, str]:
    """The same for other libraries that have a way of their own to it, by the library's name."""
    known = _known(strategy, device)
    if known is None or known.pipelined:
        return {}
    dialects = {
        "PyTorch": torch_dialect(known, workload, device),
        "Numba": numba_dialect(known, workload),
    }
    return {name: serial(d, known, workload, device) for name, d in dialects.items() if d}


def _known(name: str, device: Device) -> Strategy | None:
    """The strategy of that name, if the device can use it."""
    found = placed.strategy(name)
    return None if found is None or found.unavailable(device) else found
