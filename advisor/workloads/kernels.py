"""`advisor.kernel`: a CUDA kernel that stages call with their buffers; compiled at its first call.

Its parameters are read from its source and arguments checked against them. CUDA takes whatever bytes it is
given: an argument too many, or an int64 where the kernel has an int, gives wrong results without a word. What
cannot be read for sure (templates, typedefs, structs) is not checked.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from advisor.errors import FileProblem, WorkloadError, nearest

_ERROR = re.compile(r"^(.*?)\((\d+)\): (?:catastrophic )?error(?: #[\w-]+)?:? *(.*)$", re.MULTILINE)
"""NVRTC's format: default_program(3): error: identifier "x" is undefined."""
_AROUND = 2


@dataclass(frozen=True)
class Source:
    """CUDA source. `file` and `first_line` are where its first line stands; file is None for unknown."""

    text: str
    file: Path | None
    first_line: int = 1


def _found(source: str, asking: Path) -> Source:
    """CUDA text, or the path of a file beside the one that asks."""
    if "\n" in source or "__global__" in source:
        with suppress(OSError, UnicodeDecodeError):
            before, inside, _ = asking.read_text(encoding="utf-8").partition(source)
            if inside:
                return Source(source, asking, before.count("\n") + 1)
        return Source(source, None)
    path = asking.parent / source
    try:
        return Source(path.read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        beside = (p.name for p in path.parent.glob("*.cu*"))
        raise FileProblem(
            f"advisor.kernel: {path} does not exist{nearest(path.name, beside)}",
            next_step="Give CUDA source, or the path of a .cu file relative to the file that uses it.",
        ) from None
    except (OSError, UnicodeDecodeError) as problem:
        step, why = "Give a CUDA source file.", getattr(problem, "strerror", problem)
        raise FileProblem(f"advisor.kernel: {path} cannot be read: {why}", next_step=step) from None


_BITS = {"char": 8, "short": 16, "int": 32, "long": 64, "long long": 64}
_SIGNS = {"": "", "signed ": "", "unsigned ": "u"}
_SCALARS = {
    **{f"{sign}{c_type}": f"{u}int{bits}" for sign, u in _SIGNS.items() for c_type, bits in _BITS.items()},
    **{f"{u}int{bits}_t": f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)},
} | {"bool": "bool", "unsigned": "uint32", "size_t": "uint64"}
_SCALARS |= {"half": "float16", "__half": "float16", "float": "float32", "double": "float64"}
"""CUDA C++'s types on 64-bit Linux, where long has 64 bits, and NumPy's."""
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b")
_KERNEL = re.compile(
    r"\b__global__\b(?:__\w+__\s*\([^()]*\)|[^(){};])*?\b(?!__)(?P<name>[A-Za-z_]\w*)\s*"
    r"\((?P<parameters>(?:[^()]|\([^()]*\))*)\)"
)
"""A kernel in CUDA C, with its name and parameters; attributes in parentheses may precede the name."""


@dataclass(frozen=True)
class Parameter:
    """One parameter. `dtype` is None where the type is not one of C's own."""

    text: str
    name: str
    pointer: bool
    dtype: np.dtype[Any] | None


@dataclass(frozen=True)
class Signature:
    name: str
    parameters: tuple[Parameter, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(p.text for p in self.parameters)})"

    def refused(self, index: int, what: str, next_step: str) -> WorkloadError:
        text = self.parameters[index].text
        return WorkloadError(
            f"argument {index + 1} of kernel {self.name!r} {what}; the signature has {text!r}",
            next_step=next_step,
        )


def read_signatures(source: str) -> dict[str, Signature]:
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
    signatures = {}
    for kernel in _KERNEL.finditer(plain):
        texts = (" ".join(text.split()) for text in re.split(r",(?![^<(]*[>)])", kernel["parameters"]))
        parameters = tuple(_parameter(text) for text in texts if text not in ("", "void"))
        signatures[kernel["name"]] = Signature(kernel["name"], parameters)
    return signatures


def as_scalar(signature: Signature, index: int, value: Any) -> np.generic:
    """A number as the parameter's own type. Raises `WorkloadError` where it does not fit."""
    parameter = signature.parameters[index]
    if parameter.dtype is None:
        if isinstance(value, np.generic):
            return value
        step = "Give a NumPy scalar: np.int32(n)."
        raise signature.refused(index, f"is {value!r}, whose size is not known", step)
    if not isinstance(value, (bool, int, float, complex, np.generic)):
        raise signature.refused(index, f"is a {type(value).__name__}, not a number", LOOK)
    kind = parameter.dtype.kind
    whole = isinstance(value, (bool, int, np.bool_, np.integer))
    if isinstance(value, (complex, np.complexfloating)) or (kind in "biu" and not whole):
        raise signature.refused(index, f"is {value!r}", "Round it: int(x).")
    if kind in "iu":
        limits = np.iinfo(parameter.dtype)
        if not limits.min <= int(value) <= limits.max:
            wrong = f"is {int(value)}, and the type holds {limits.min} to {limits.max}"
            raise signature.refused(index, wrong, "Use a wider type in the kernel.")
    number: np.generic = parameter.dtype.type(value)
    return number


def _parameter(text: str) -> Parameter:
    plain = " ".join(_QUALIFIERS.sub(" ", text).split())
    pointer = "*" in plain or "[" in plain
    kind, _, name = re.sub(r"[*&\[\]\d]*\]|[*&]", " ", plain).strip().rpartition(" ")
    dtype = _SCALARS.get(" ".join(kind.split()).removesuffix(" int") or kind, _SCALARS.get(kind.strip()))
    return Parameter(text, name, pointer, None if dtype is None else np.dtype(dtype))


LOOK = "Check the order of the arguments against the kernel's parameters."
"""Next step after an argument of a wrong type."""


BLOCK = 256
"""Threads of a block where the caller names none: a whole number of warps that every GPU takes."""
MOST_THREADS = 1024
"""Threads of one block, on every GPU (CUDA C++ Programming Guide, technical specifications)."""
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
        signatures = read_signatures(source.text)
        plain = name.partition("<")[0].rpartition("::")[2].strip()  # scale<float> is scale
        if signatures and plain not in signatures:
            where = "the source" if source.file is None else source.file.name
            step = f"Its __global__ functions: {', '.join(signatures)}."
            raise WorkloadError(f"{where} has no kernel {name!r}{nearest(plain, signatures)}", next_step=step)
        self._signature = signatures.get(plain)
        self._compiled: dict[int, Any] = {}

    @property
    def source(self) -> str:
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
        kinds = [getattr(getattr(each, "device", None), "type", "") for each in arguments]
        if "cpu" in kinds or any(isinstance(each, np.ndarray) for each in arguments):
            raise KernelNeedsGpu(f"kernel {self.name!r} runs only on a GPU")
        device = self._device()
        signature = self._signature
        if signature and len(arguments) != len(signature.parameters):
            wrong = f"was given {len(arguments)} arguments; its signature has {len(signature.parameters)}"
            raise WorkloadError(f"kernel {self.name!r} {wrong}", next_step=f"Call it as {signature}.")
        values = tuple(self._argument(index, argument) for index, argument in enumerate(arguments))
        threads = self._extent("block", block)
        if (count := math.prod(threads)) > MOST_THREADS:
            raise self._wrong_shape(f"block={block!r} has {count} threads", "At most 1024 are allowed.")
        blocks = self._extent("grid", grid) if grid is not None else self._blocks(arguments, size, threads)
        if device not in self._compiled:  # CuPy keeps it on disk for the next process
            self._compiled[device] = self._compile()
        self._compiled[device](blocks, threads, values, shared_mem=shared)

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

    def _extent(self, what: str, extent: Extent) -> tuple[int, ...]:
        parts = (extent,) if isinstance(extent, (int, np.integer)) else tuple(extent)
        if not 1 <= len(parts) <= 3 or not all(isinstance(n, (int, np.integer)) and n > 0 for n in parts):
            raise self._wrong_shape(f"{what}={extent!r}", "Give one to three positive integers.")
        return tuple(int(n) for n in parts)

    def _wrong_shape(self, what: str, next_step: str) -> WorkloadError:
        return WorkloadError(f"kernel {self.name!r} cannot be launched: {what}", next_step=next_step)

    def _argument(self, index: int, value: Any) -> Any:
        """The argument for CuPy's launch: an array, a NumPy scalar, or an address as one."""
        signature = self._signature
        foreign = getattr(value, "__cuda_array_interface__", None)
        if signature is None:
            return value if foreign is None else np.uint64(foreign["data"][0])
        if not signature.parameters[index].pointer:
            if foreign is not None:
                raise signature.refused(index, "is an array", LOOK)
            return as_scalar(signature, index, value)
        if foreign is not None:
            wanted, dtype = signature.parameters[index].dtype, np.dtype(foreign["typestr"])
            bytewise = wanted is not None and wanted.itemsize == dtype.itemsize == 1
            if wanted is not None and wanted != dtype and not bytewise:
                step = f"The kernel reads {wanted}: pass such a buffer, or change the kernel."
                raise signature.refused(index, f"is an array of {dtype}", step)
            return np.uint64(foreign["data"][0])
        if type(value) is not int:
            raise signature.refused(index, f"is {value!r}, which is not an array on the GPU", LOOK)
        return np.uint64(value)

    def _device(self) -> int:
        try:
            import cupy

            return int(cupy.cuda.runtime.getDevice())
        except (ImportError, RuntimeError) as problem:
            raise KernelNeedsGpu(f"kernel {self.name!r} runs only on a GPU: {problem}") from None

    def _compile(self) -> Any:
        import cupy

        file = self._source.file
        options = (*self._options, *([f"-I{file.resolve().parent}"] if file else ()))
        # The compiler is asked for the name, which may be a C++ expression, such as scale<float>.
        module = cupy.RawModule(code=self._source.text, options=options, name_expressions=(self.name,))
        try:
            module.compile()
        except cupy.cuda.compiler.CompileException as problem:
            raise self._not_compiled(str(problem)) from None
        return module.get_function(self.name)

    def _not_compiled(self, log: str) -> WorkloadError:
        """The compiler's first error in the user's terms: file, line, what is wrong; the whole log below."""
        wrong, first = f"kernel {self.name!r} does not compile", _ERROR.search(log)
        if not first:
            return WorkloadError(wrong, next_step="The compiler's log is below.", detail=log)
        file, line, source = Path(first[1]), int(first[2]), self._source
        # The line between its neighbours, numbered as in the file, marked.
        number, begin = source.first_line + line - 1, max(line - 1 - _AROUND, 0)
        lines = [*enumerate(source.text.splitlines(), source.first_line)][begin : line + _AROUND]
        excerpt = "\n".join(f"{'>' if at == number else ' '} {at:4d} | {text}" for at, text in lines)
        where = f"{source.file.name}, line {number}" if source.file else f"line {line} of its source"
        if file.suffix in (".h", ".hpp", ".cuh", ".inl"):
            where, excerpt = f"{file.name}, line {line}", ""
        return WorkloadError(
            f"{wrong}: {where}: {first[3]}",
            next_step="Fix the source. Line numbers in the compiler's log start at its first line.",
            detail=f"{excerpt}\n\n{log.strip()}".strip(),
        )


def kernel(source: str, name: str, *, options: Sequence[str] = ()) -> Kernel:
    """A kernel of a CUDA source: text, or the path of a .cu file beside the file that calls this.

    options: of NVRTC, as "-DTILE=32". Compiled at the first call, for the GPU that is present. Raises
    `FileProblem` for a file that cannot be read, `WorkloadError` for a name that the source does not have.
    """
    asking = Path(sys._getframe(1).f_code.co_filename)
    return Kernel(_found(source, asking), name, tuple(options))
