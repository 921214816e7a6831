"""The parameters of a `__global__` function, read from its source, and arguments checked against them.

CUDA takes whatever bytes it is given: an argument too many, or an int64 where the kernel has an int, gives
wrong results without a word. What cannot be read for sure (templates, typedefs, structs) is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.errors import WorkloadError, nearest

_SCALARS = {
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "signed int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
    "half": "float16",
    "__half": "float16",
    "float": "float32",
    "double": "float64",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""CUDA C++'s types on 64-bit Linux, where long has 64 bits, and NumPy's."""
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b")
_KERNEL = re.compile(r"\b__global__\b")
_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*(\(?)")


@dataclass(frozen=True)
class Parameter:
    """One parameter. `dtype` is None where the type is not one of C's own."""

    text: str
    name: str
    pointer: bool
    dtype: np.dtype[Any] | None


@dataclass(frozen=True)
class Signature:
    """A kernel's name and parameters; `mangled` where it has C++ linkage."""

    name: str
    parameters: tuple[Parameter, ...]
    mangled: bool

    def __str__(self) -> str:
        return f"{self.name}({', '.join(p.text for p in self.parameters)})"

    def refused(self, index: int, what: str, next_step: str) -> WorkloadError:
        """The error of an argument that does not fit its parameter."""
        text = self.parameters[index].text
        return WorkloadError(
            f"argument {index + 1} of kernel {self.name!r} {what}; the signature has {text!r}",
            next_step=next_step,
        )


def read(source: str) -> dict[str, Signature]:
    """All `__global__` functions of a source, by name."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
    found = {}
    for start in _KERNEL.finditer(plain):
        named = _named(plain, start.end())
        if named is None:
            continue
        name, end = named
        inside = plain[end : _closing(plain, end)]
        parameters = tuple(_parameter(text) for text in _split(inside))
        if [p.text for p in parameters] == ["void"]:
            parameters = ()
        found[name] = Signature(name, parameters, not _has_c_linkage(plain, start.start()))
    return found


def pick(found: dict[str, Signature], name: str, where: str) -> Signature | None:
    """The kernel of that name (`scale<float>` is `scale`); None where no kernel could be read at all.

    Raises `WorkloadError` with the nearest name.
    """
    plain = name.partition("<")[0].rpartition("::")[2].strip()
    if not found or plain in found:
        return found.get(plain)
    raise WorkloadError(
        f"{where} has no kernel {name!r}{nearest(plain, found)}",
        next_step=f"Its __global__ functions: {', '.join(found)}.",
    )


def require_count(signature: Signature, arguments: Sequence[Any]) -> None:
    """Raises `WorkloadError` for an argument too few or too many."""
    if len(arguments) != len(signature.parameters):
        raise WorkloadError(
            f"kernel {signature.name!r} was given {len(arguments)} arguments; its signature has "
            f"{len(signature.parameters)}",
            next_step=f"Call it as {signature}.",
        )


def as_scalar(signature: Signature, index: int, value: Any) -> np.generic:
    """A number as the parameter's own type. Raises `WorkloadError` where it does not fit."""
    parameter = signature.parameters[index]
    if parameter.dtype is None:
        if isinstance(value, np.generic):
            return value
        raise signature.refused(
            index, f"is {value!r}, whose size is not known", "Give a NumPy scalar: np.int32(n)."
        )
    if not isinstance(value, (bool, int, float, complex, np.generic)):
        raise signature.refused(index, f"is a {type(value).__name__}, not a number", LOOK)
    kind = parameter.dtype.kind
    whole = isinstance(value, (bool, int, np.bool_, np.integer))
    if isinstance(value, (complex, np.complexfloating)) or (kind in "biu" and not whole):
        raise signature.refused(index, f"is {value!r}", "Round it: int(x).")
    if kind in "iu":
        limits = np.iinfo(parameter.dtype)
        if not limits.min <= int(value) <= limits.max:
            raise signature.refused(
                index,
                f"is {int(value)}, and the type holds {limits.min} to {limits.max}",
                "Use a wider type in the kernel.",
            )
    number: np.generic = parameter.dtype.type(value)
    return number


def require_pointee(signature: Signature, index: int, dtype: np.dtype[Any]) -> None:
    """Raises `WorkloadError` for an array of another type than the kernel's pointer points to."""
    wanted = signature.parameters[index].dtype
    if wanted is None or wanted == dtype or {wanted.itemsize, dtype.itemsize} == {1}:
        return
    raise signature.refused(
        index,
        f"is an array of {dtype}",
        f"The kernel reads {wanted}: pass such a buffer, or change the kernel.",
    )


def _named(text: str, position: int) -> tuple[str, int] | None:
    """The function's name and where its parameters begin; attributes with parentheses come before it."""
    while True:
        found = _NAME.search(text, position)
        if not found or ";" in text[position : found.start()]:
            return None
        position = found.end()
        if found[2]:
            if not found[1].startswith("__"):
                return found[1], position
            position = _closing(text, position) + 1


def _closing(text: str, position: int) -> int:
    """Where the parenthesis that is open at `position` is closed."""
    depth = 1
    for index in range(position, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if not depth:
            return index
    return len(text)


def _split(text: str) -> list[str]:
    """At the commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<([{") - (letter in ">)]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [" ".join(part.split()) for part in parts if part.strip()]


def _parameter(text: str) -> Parameter:
    plain = " ".join(_QUALIFIERS.sub(" ", text).split())
    pointer = "*" in plain or "[" in plain
    kind, _, name = re.sub(r"[*&\[\]\d]*\]|[*&]", " ", plain).strip().rpartition(" ")
    dtype = _SCALARS.get(" ".join(kind.split()).removesuffix(" int") or kind, _SCALARS.get(kind.strip()))
    return Parameter(text, name, pointer, None if dtype is None else np.dtype(dtype))


def _has_c_linkage(plain: str, start: int) -> bool:
    """extern "C" before the very function, or a block of it that begins before."""
    if re.search(r'extern\s+"C"[^;{}]*$', plain[:start]):
        return True
    blocks = [block.end() for block in re.finditer(r'extern\s+"C"\s*\{', plain[:start])]
    return any(plain.count("{", end, start) >= plain.count("}", end, start) for end in blocks)


LOOK = "Check the order of the arguments against the kernel's parameters."
"""What to do about an argument of a wrong type."""
