"""Where stages run: the CPU, or a CUDA GPU through CuPy. Only this package makes CUDA calls."""

from __future__ import annotations

from typing import Literal

from advisor.backends.base import Backend

BackendName = Literal["cpu", "cuda"]


def open_backend(name: BackendName, gpu: int = 0) -> Backend:
    """The backend of that name on that GPU. Raises `advisor.errors.NothingMeasured` without CuPy or GPU."""
    if name == "cpu":
        from advisor.backends.cpu import CpuBackend

        return CpuBackend()
    from advisor.backends.cuda import CudaBackend

    return CudaBackend(gpu)
