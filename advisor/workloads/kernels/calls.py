"""`advisor.kernel`: a CUDA kernel that stages call with their buffers; compiled at its first call."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from advisor.errors import WorkloadError
from advisor.workloads.kernels import signatures, sources
from advisor.workloads.kernels.sources import Source

BLOCK = 256
"""Threads of a block where the caller names none: a whole number of warps that every GPU takes."""
MOST_THREADS = 1024
"""Of one block, on every GPU (CUDA C++ Programming Guide, technical specifications)."""
Extent = int | Sequence[int]


class KernelNeedsGpu(RuntimeError):
    """A kernel was called where there is no GPU."""


class Kernel:
    """A `__global__` function. Calling it launches it on the stream of the stage.

    kernel(a, b, n): one thread for each element of the first array, in blocks of 256; `size=` gives another
    number of threads, `grid=` and `block=` the shape itself (an int, or up to three), `shared=` dynamic
    shared memory in bytes. Numbers become what the signature says, arrays must point to what it says.
    Raises `WorkloadError` where count, type or launch shape do not fit, or the source does not compile.
    """

    def __init__(self, source: Source, name: str, options: tuple[str, ...]) -> None:
        self.name = name
        self._source = source
        self._options = options
        where = "the source" if source.file is None else source.file.name
        self._signature = signatures.pick(signatures.read(source.text), name, where)
        self._compiled: dict[int, Any] = {}

    @property
    def source(self) -> str:
        """Its CUDA C++."""
        return self._source.text

    def __call__(
        self,
        *arguments: Any,
        size: int | None = None,
        grid: Extent | None = None,
        block: Extent = BLOCK,
        shared: int = 0,
    ) -> None:
        """Launches the kernel; returns before it has run."""
        if any(map(_on_host, arguments)):
            raise KernelNeedsGpu(f"kernel {self.name!r} runs only on a GPU")
        device = self._device()
        if self._signature:
            signatures.require_count(self._signature, arguments)
        given = tuple(self._argument(index, argument) for index, argument in enumerate(arguments))
        threads = self._extent("block", block)
        if math.prod(threads) > MOST_THREADS:
            raise self._wrong_shape(
                f"block={block!r} has {math.prod(threads)} threads", "At most 1024 are allowed."
            )
        blocks = self._extent("grid", grid) if grid is not None else self._blocks(arguments, size, threads)
        if device not in self._compiled:  # CuPy keeps it on disk for the next process
            self._compiled[device] = self._compile()
        self._compiled[device](blocks, threads, given, shared_mem=shared)

    def _blocks(
        self, arguments: Sequence[Any], size: int | None, threads: tuple[int, ...]
    ) -> tuple[int, ...]:
        if size is None:
            size = next((math.prod(map(int, a.shape)) for a in arguments if hasattr(a, "shape")), None)
        if size is None:
            raise self._wrong_shape("none of its arguments is an array", "Give size= or grid=.")
        if size <= 0:
            raise self._wrong_shape(f"size={size}", "Give a positive number of threads.")
        return (-(-size // math.prod(threads)),)

    def _extent(self, what: str, given: Extent) -> tuple[int, ...]:
        parts = (given,) if isinstance(given, (int, np.integer)) else tuple(given)
        if not 1 <= len(parts) <= 3 or not all(isinstance(n, (int, np.integer)) and n > 0 for n in parts):
            raise self._wrong_shape(f"{what}={given!r}", "Give one to three positive integers.")
        return tuple(int(n) for n in parts)

    def _wrong_shape(self, what: str, next_step: str) -> WorkloadError:
        return WorkloadError(f"kernel {self.name!r} cannot be launched: {what}", next_step=next_step)

    def _argument(self, index: int, value: Any) -> Any:
        """What CuPy's launch takes: an array, a NumPy scalar, or an address as one."""
        signature = self._signature
        foreign = getattr(value, "__cuda_array_interface__", None)
        if signature is None:
            return value if foreign is None else np.uint64(foreign["data"][0])
        if not signature.parameters[index].pointer:
            if foreign is not None:
                raise signature.refused(index, "is an array", signatures.LOOK)
            return signatures.as_scalar(signature, index, value)
        if foreign is not None:
            signatures.require_pointee(signature, index, np.dtype(foreign["typestr"]))
            return np.uint64(foreign["data"][0])
        if type(value) is not int:
            raise signature.refused(index, f"is {value!r}, which is not an array on the GPU", signatures.LOOK)
        return np.uint64(value)

    def _device(self) -> int:
        """The present GPU."""
        try:
            import cupy

            return int(cupy.cuda.runtime.getDevice())
        except (ImportError, RuntimeError) as problem:
            raise KernelNeedsGpu(f"kernel {self.name!r} runs only on a GPU: {problem}") from None

    def _compile(self) -> Any:
        """By CuPy with NVRTC, for the current device."""
        import cupy

        directory = self._source.include_directory
        options = (*self._options, *([f"-I{directory}"] if directory else ()))
        mangled = "<" in self.name or (self._signature is not None and self._signature.mangled)
        # A name that is a C++ expression, such as scale<float>, is given to the compiler.
        names = (self.name,) if mangled else None
        module = cupy.RawModule(code=self._source.text, options=options, name_expressions=names)
        try:
            module.compile()
        except cupy.cuda.compiler.CompileException as problem:
            raise sources.does_not_compile(self._source, self.name, str(problem)) from None
        return module.get_function(self.name)


def kernel(source: str, name: str, *, options: Sequence[str] = ()) -> Kernel:
    """A kernel of a CUDA source: text, or the path of a .cu file beside the file that calls this.

    options: of NVRTC, as "-DTILE=32". Compiled at the first call, for the GPU that is present. Raises
    `FileProblem` for a file that cannot be read, `WorkloadError` for a name that the source does not have.
    """
    caller = sys._getframe(1).f_code.co_filename
    return Kernel(sources.find(source, caller), name, tuple(options))


def _on_host(argument: Any) -> bool:
    """A NumPy array, or a tensor of the CPU."""
    return isinstance(argument, np.ndarray) or getattr(getattr(argument, "device", None), "type", "") == "cpu"
