"""Code to copy: how each strategy is written for the buffers of this workload.

Memory is taken exactly (CuPy's pinned pool rounds up to a power of two), once, before the frames. The steps
of a frame come from the same plan that the measured frames ran, so that no copy or wait is forgotten.
For CuPy 13 and later, on CUDA 12 and 13; `variants` has the same for PyTorch and Numba where those differ.
What is written follows from each buffer's placement, so that a mix of placements needs nothing more.
Its calls were run on an H200 with CUDA 13.0, CuPy 14.2, PyTorch 2.11 and Numba 0.68.
"""

from __future__ import annotations

from advisor.profiles.schema import Device, WorkloadRecord
from advisor.rules import placed
from advisor.rules.snippets.base import code
from advisor.rules.snippets.cupy_code import CUPY
from advisor.rules.snippets.numba_code import NUMBA
from advisor.rules.snippets.overlapping import overlapping
from advisor.rules.snippets.serial import serial
from advisor.rules.snippets.torch_code import TORCH
from advisor.strategies.registry import BASELINE, Strategy


def snippet(strategy: str, workload: WorkloadRecord, device: Device) -> str | None:
    """Python with CuPy for that strategy, these buffers and this device; None where nothing is to change."""
    known = _known(strategy, device)
    if known is None or known.unsuited(workload):
        return None
    written = code(CUPY, known, workload, device)
    if written is None:
        return None
    return overlapping(written) if known.pipelined else serial(written)


def variants(strategy: str, workload: WorkloadRecord, device: Device) -> dict[str, str]:
    """The same for other libraries that have a way of their own to it, by the library's name."""
    known = _known(strategy, device)
    if known is None or known.pipelined:
        return {}
    libraries = {"PyTorch": TORCH, "Numba": NUMBA}
    found = {name: code(library, known, workload, device) for name, library in libraries.items()}
    return {name: serial(written) for name, written in found.items() if written}


def _known(name: str, device: Device) -> Strategy | None:
    """The strategy of that name, if it is a change and the device can use it."""
    found = placed.strategy(name)
    return None if found is None or name == BASELINE or found.unavailable(device) else found
