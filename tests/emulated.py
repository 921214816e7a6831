"""CUDA kernels compiled as C++ and run on the CPU, thread after thread: what they compute, without a GPU.

For kernels whose threads do not wait for one another.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from advisor.workloads.kernels import BLOCK, Kernel, as_scalar

_PRELUDE = """
#include <algorithm>
#include <cmath>
#include <cstddef>
#define __global__
using std::min; using std::max;
struct Dim3 { unsigned x, y, z; };
static Dim3 gridDim, blockDim, blockIdx, threadIdx;
template <class T> T atomicAdd(T* at, T value) { T before = *at; *at += value; return before; }
"""
_RUN = """
extern "C" void run_PLACE(const unsigned* grid, const unsigned* block, PARAMETERS) {
    gridDim = {grid[0], grid[1], grid[2]}; blockDim = {block[0], block[1], block[2]};
    for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x)
    for (threadIdx.z = 0; threadIdx.z < block[2]; ++threadIdx.z)
    for (threadIdx.y = 0; threadIdx.y < block[1]; ++threadIdx.y)
    for (threadIdx.x = 0; threadIdx.x < block[0]; ++threadIdx.x)
        NAME(ARGUMENTS);
}
"""


class Emulator:
    """Stands in for `Kernel.__call__`: takes NumPy arrays; `launches` counts by kernel."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._libraries: dict[int, ctypes.CDLL] = {}
        self.launches: dict[str, int] = {}

    def __call__(
        self, kernel: Kernel, *arguments: Any, size: Any = None, grid: Any = None, block: Any = BLOCK
    ) -> None:
        signature = kernel._signature
        assert signature is not None
        assert len(arguments) == len(signature.parameters)
        threads = kernel._extent("block", block)
        blocks = kernel._extent("grid", grid) if grid else kernel._blocks(arguments, size, threads)
        given: list[Any] = [_three(blocks), _three(threads)]
        for index, argument in enumerate(arguments):
            if signature.parameters[index].pointer:
                pointee = signature.parameters[index].dtype
                assert pointee in (None, argument.dtype) or pointee.itemsize == argument.itemsize == 1
                given.append(ctypes.c_void_p(argument.ctypes.data))
            else:
                number = as_scalar(signature, index, argument)
                given.append(np.ctypeslib.as_ctypes_type(number.dtype)(number.item()))
        self._library(kernel).run_PLACE(*given)
        self.launches[kernel.name] = self.launches.get(kernel.name, 0) + 1

    def _library(self, kernel: Kernel) -> ctypes.CDLL:
        if id(kernel) not in self._libraries:
            path = self._directory / f"{kernel.name}-{id(kernel)}"
            path.with_suffix(".cpp").write_text(_program(kernel), encoding="utf-8")
            command = ["g++", "-O1", "-shared", "-fPIC", "-fwrapv", "-o", f"{path}.so", f"{path}.cpp"]
            subprocess.run(command, check=True)
            self._libraries[id(kernel)] = ctypes.CDLL(f"{path}.so")
        return self._libraries[id(kernel)]


def _program(kernel: Kernel) -> str:
    signature = kernel._signature
    assert signature is not None
    names = ", ".join(parameter.name for parameter in signature.parameters)
    parameters = ", ".join(parameter.text for parameter in signature.parameters)
    run = _RUN.replace("PARAMETERS", parameters).replace("ARGUMENTS", names).replace("NAME", kernel.name)
    return _PRELUDE + kernel._source.text + run


def _three(extents: tuple[int, ...]) -> Any:
    padded = (*extents, 1, 1)[:3]
    return (ctypes.c_uint * 3)(*padded)
