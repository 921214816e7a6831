"""The mock that a stage gets as `xp`: CuPy's names, which work on `DeviceArray`."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from advisor.measure.cupy_mock.arrays import DeviceArray, compute, compute_ufunc, stripped, wrapped
from advisor.measure.cupy_mock.checks import NotTaken, Unknowable, Watch

_MAKING = frozenset(("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"))
_PLAIN = (bool, int, float, complex, str, type(None))
_MISSING = object()
_ARITHMETIC = "biufcV?"
"""Kinds of dtypes that `cupy.array` takes: cupy/_core/core.pyx raises ValueError for any other."""


class MockModule:
    """`cupy`, or one of its submodules. A name that only CuPy has is `Unknowable`."""

    def __init__(self, watch: Watch, numpy: Any = np, path: str = "") -> None:
        self.__name__ = f"cupy.{path}".rstrip(".")
        self._watch = watch
        self._numpy = numpy
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path, known = self._path + name, self._watch.coverage.names
        member = getattr(self._numpy, name, _MISSING)
        if path not in known:
            if member is not _MISSING:
                self._watch.lacks(path)
            raise AttributeError(f"module 'cupy' has no attribute {path!r}")
        if path in _OWN:
            return _OWN[path](self)
        if member is _MISSING:
            raise Unknowable
        return self._member(path, member)

    def _member(self, path: str, member: Any) -> Any:
        watch = self._watch
        if isinstance(member, types.ModuleType):
            return MockModule(watch, member, f"{path}.")
        if isinstance(member, np.ufunc):
            return Ufunc(watch, member)
        if isinstance(member, type):
            if issubclass(member, (np.generic, np.dtype, np.finfo, np.iinfo, Exception, *_PLAIN[:5])):
                return member
            raise Unknowable
        if isinstance(member, _PLAIN) or path in ("s_", "index_exp"):
            return member
        if not callable(member):
            raise Unknowable

        def call(*args: Any, **options: Any) -> Any:
            arrays = [a for a in (*args, *options.values()) if isinstance(a, (np.ndarray, DeviceArray))]
            if arrays and not any(isinstance(a, DeviceArray) for a in arrays):
                raise Unknowable  # some of CuPy's functions refuse NumPy's arrays, some compute on the CPU
            return compute(watch, path, member, args, options)

        return call

    def _making(self, name: str) -> Callable[..., Any]:
        """cupy.asarray and its kin: the one way from the host's memory to the GPU's."""

        def make(values: Any, *args: Any, **options: Any) -> Any:
            watch = self._watch
            watch.require_parameters(name, watch.coverage.names[name], (values, *args), options)
            if isinstance(values, DeviceArray) and name == "asarray" and not args and not options:
                return values
            options.pop("blocking", None)
            array = getattr(np, name)(stripped(values), *args, **options)
            if array.dtype.kind not in _ARITHMETIC:
                watch.refuse(
                    NotTaken,
                    f"CuPy does not support arrays of {array.dtype}",
                    "Use bool, integers, float16 to float64 or complex numbers.",
                )
            own = isinstance(values, DeviceArray)
            return DeviceArray(array if own else array.copy(order="K"), watch)

        return make


class Ufunc:
    def __init__(self, watch: Watch, ufunc: np.ufunc) -> None:
        self._watch = watch
        self._ufunc = ufunc

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        out = options.get("out")
        if isinstance(out, tuple):
            options["out"] = out[0] if len(out) == 1 else out
        if self._ufunc.nout > 1 and out is not None:
            raise Unknowable
        return compute_ufunc(self._watch, self._ufunc, inputs, options)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._ufunc, name)
        if not callable(member):
            return member
        return lambda *args, **options: wrapped(member(*stripped(args), **stripped(options)), self._watch)


def _asnumpy(values: Any, *args: Any, **options: Any) -> Any:
    return values.get(*args, **options) if isinstance(values, DeviceArray) else np.asarray(values)


_OWN: dict[str, Callable[[MockModule], Any]] = {
    **{name: lambda xp, name=name: xp._making(name) for name in _MAKING},  # type: ignore[misc]
    "asnumpy": lambda _: _asnumpy,
    "get_array_module": lambda xp: (
        lambda *values: xp if any(isinstance(v, DeviceArray) for v in values) else np
    ),
    "ndarray": lambda _: DeviceArray,
}
