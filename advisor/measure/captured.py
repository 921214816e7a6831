"""What a stage reaches past its parameters: arrays of a closure or of the module, and the module's state."""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from advisor.measure.kept_results import some
from advisor.strategies.backend import Array
from advisor.workloads.definition import Definition
from advisor.workloads.stage_code import referred_to

_INSTALLED = ("site-packages", "dist-packages", "/lib/python")
_WHOLE_BYTES = 64 << 20
"""Size of an array up to which all elements are looked at."""
_DEPTH = 4
"""Containers, objects and functions that are looked into, one in the other."""
_MOST = 1000
"""Elements of a container that are looked at."""


def host_arrays(function: Callable[..., object]) -> dict[str, Array]:
    """The NumPy arrays that a function can write without taking them, by what it calls them."""
    arrays: dict[int, tuple[str, Array]] = {}
    for name, value in _reached(function, "", _DEPTH, set()):
        if isinstance(value, np.ndarray) and value.flags.writeable and not value.dtype.hasobject:
            arrays.setdefault(id(value), (name, value))
    return dict(arrays.values())


def sums(arrays: Mapping[str, Array]) -> dict[str, int]:
    looked = {name: a if a.nbytes <= _WHOLE_BYTES else some(a) for name, a in arrays.items()}
    return {name: zlib.crc32(array.tobytes()) for name, array in looked.items()}


def _reached(value: Any, name: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if not depth or id(value) in seen:
        return
    seen.add(id(value))
    yield name, value
    for inner, each in _inside(value, name):
        yield from _reached(each, inner, depth - 1, seen)


def _inside(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", each) for key, each in list(value.items())[:_MOST])
    elif isinstance(value, (list, tuple)):
        yield from ((f"{name}[{index}]", each) for index, each in enumerate(value[:_MOST]))
    elif isinstance(value, functools.partial):
        yield from ((key, each) for key, each in value.keywords.items())
        yield "", value.func
    elif isinstance(value, MethodType):
        yield from (("self", value.__self__), ("", value.__func__))
    elif isinstance(value, FunctionType):
        yield from _outside(value)
    elif _is_users(type(value)):
        yield from ((f"{name}.{key}".lstrip("."), each) for key, each in _own(value).items())
        yield "", _own(type(value)).get("__call__")


def _outside(function: FunctionType) -> Iterator[tuple[str, Any]]:
    plain = inspect.unwrap(function)
    yield from (pair for pair in referred_to(plain) if not isinstance(pair[1], (ModuleType, type)))
    yield from (plain.__kwdefaults__ or {}).items()
    yield from ((f"default {index}", each) for index, each in enumerate(plain.__defaults__ or ()))


def _is_users(kind: type) -> bool:
    """Whether the class is of a module beside the workload: libraries keep state of their own."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return bool(file) and not any(part in str(file) for part in _INSTALLED)


def _own(value: Any) -> Mapping[str, Any]:
    return dict(getattr(value, "__dict__", {}))


def state_of(folder: Path) -> dict[str, bytes]:
    """A digest of each global of the modules in a folder, of their functions' and classes' attributes too."""
    digests: dict[str, bytes] = {}
    for module in neighbours(folder):
        for name, value in list(vars(module).items()):
            if name.startswith("__") or isinstance(value, ModuleType):
                continue
            value = value.function if isinstance(value, Definition) else value
            if callable(value) and hasattr(value, "__dict__"):
                digests |= {f"{name}.{key}": _digest(each) for key, each in _attributes(value)}
            else:
                digests[name] = _digest(value)
    return digests


def neighbours(folder: Path) -> list[ModuleType]:
    loaded = [(each, getattr(each, "__file__", None)) for each in list(sys.modules.values())]
    return [
        each for each, file in loaded if file and str(file).endswith(".py") and Path(file).parent == folder
    ]


def forget_neighbours(folder: Path) -> None:
    for module in neighbours(folder):
        sys.modules.pop(module.__name__, None)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    for key, each in list(vars(value).items()):
        if not key.startswith("__") and not callable(each):
            yield key, each


def _digest(value: Any) -> bytes:
    """Its contents; what cannot be pickled is taken for unchanged."""
    try:
        return zlib.crc32(pickle.dumps(value)).to_bytes(4, "big")
    except Exception:
        return b""
