"""CuPy's array mocked on a NumPy array in host memory, which may be traced.

It works as `cupy.ndarray` where that works, raises where that raises, and notes where that waits for the GPU.
Its rules are those of cupy/_core/core.pyx and _kernel.pyx: NumPy's two protocols call CuPy's function of the
same name, nothing becomes a NumPy array by itself, and kernels take CuPy arrays and numbers.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from advisor.measure.cupy_mock.checks import NotFilled, NotTaken, Unknowable, Watch, kind_of
from advisor.measure.cupy_mock.traced import mapped, same_argument

_KEEP = "Keep the value on the GPU: use xp.where(...) for a condition, the 0-dimensional array for a scale."
_SAME_SHAPE = "The size of the result depends on GPU data; xp.where(condition, a, 0) keeps the shape."
_CONVERT = (
    "Use xp.asarray instead of np.asarray and cupyx.scipy instead of scipy; a.get() copies to the host "
    "and waits for the GPU."
)
_REDUCTIONS = {
    *("sum", "prod", "max", "min", "mean", "std", "var", "cumsum", "cumprod", "argmax", "argmin"),
    *("sort", "argsort", "all", "any", "dot", "round", "clip"),
}
_JOINING = frozenset(("concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"))
_SCALARS = frozenset(("allclose", "array_equal", "count_nonzero"))
"""Functions that give arrays of no dimension, where NumPy's give numbers of Python's."""
_OF_ARRAYS = frozenset(("where", "matmul", "dot", "vdot", "inner", "tensordot", "cross", "copyto"))


def _converted(convert: Callable[[Any], Any], call: str) -> Any:
    return lambda array: convert(array._value(call))


class DeviceArray(NDArrayOperatorsMixin):
    """See the module; operators are calls of ufuncs. `plain` is the NumPy array that holds the values."""

    __array_priority__ = 100
    __slots__ = ("__weakref__", "_watch", "plain")

    def __init__(self, plain: npt.NDArray[Any], watch: Watch) -> None:
        self.plain = plain
        self._watch = watch

    # NumPy's protocols

    def __array__(self, *_: Any, **__: Any) -> Any:
        why = "CuPy does not convert its arrays to NumPy arrays implicitly (TypeError)"
        self._watch.refuse(NotTaken, why, _CONVERT, self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        if name not in self._watch.coverage.names:
            self._watch.lacks(name)
        out = options.get("out", (None,))
        options = {key: value for key, value in options.items() if key != "out"} | {"out": out[0]}
        if len(out) > 1 or method != "__call__":
            raise Unknowable
        return compute_ufunc(self._watch, ufunc, inputs, options)

    def __array_function__(self, function: Callable[..., Any], _: Any, args: Any, options: Any) -> Any:
        path = ".".join((*function.__module__.split(".")[1:], function.__name__))
        if path not in self._watch.coverage.names:
            self._watch.lacks(path)
        return compute(self._watch, path, function, args, options)

    # Indexing

    def __getitem__(self, key: Any) -> Any:
        plain_key = self._key(key)
        parts = plain_key if isinstance(plain_key, tuple) else (plain_key,)
        if not any(part is Ellipsis for part in parts):
            parts = (*parts, Ellipsis)  # a view of no dimension, where NumPy would give a number
        return wrapped(self.plain[parts], self._watch)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, (list, tuple, np.ndarray)) and np.ndim(value):
            if isinstance(value, np.ndarray) and isinstance(key, slice) and key == slice(None):
                raise Unknowable  # an experimental setting of CuPy's allows it
            why = f"{kind_of(value)} is assigned to a CuPy array, which CuPy refuses"
            step = "Convert it with xp.asarray(...) once, or make it a buffer that a host stage writes."
            self._watch.refuse(NotFilled, why, step, self)
        if getattr(value, "dtype", self.plain.dtype) != self.plain.dtype:
            self._watch.require_dtype(self, value)
        self.plain[self._key(key)] = stripped(value)

    def _key(self, key: Any) -> Any:
        if self.plain.dtype.names:
            raise Unknowable
        parts = key if isinstance(key, tuple) else (key,)
        if any(getattr(part, "dtype", None) == np.bool_ and np.ndim(stripped(part)) for part in parts):
            self._watch.wait("indexing with a mask", _SAME_SHAPE)
        return stripped(key)

    def __len__(self) -> int:
        return len(self.plain)

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self.plain)):
            yield self[number]

    # Values for the host

    def _value(self, call: str) -> Any:
        self._watch.wait(call, _KEEP)
        return self.plain

    __bool__ = _converted(bool, "the truth value of an array (if, while, and, or)")
    __int__ = _converted(int, "int()")
    __float__ = _converted(float, "float()")
    __complex__ = _converted(complex, "complex()")
    __index__ = _converted(lambda value: operator.index(value[()]), "the use as an index or count")
    __repr__ = _converted(repr, "repr()")
    __str__ = _converted(str, "str() or print()")

    def __format__(self, how: str) -> str:
        return format(self._value("format()")[()], how)

    def item(self, *args: Any) -> Any:
        return self._value(".item()").item(*args)

    def tolist(self) -> Any:
        return self._value(".tolist()").tolist()

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        del stream, blocking
        values = self._value(".get()")
        if out is None:
            return np.array(values, order=cast(Any, order))
        out[...] = values
        return out

    def set(self, values: npt.NDArray[Any], stream: Any = None) -> None:
        del stream
        self.plain[...] = values

    def fill(self, value: Any) -> None:
        self[...] = value

    # The rest

    def __array_namespace__(self, **_: Any) -> Any:
        raise Unknowable

    def __copy__(self, *_: Any) -> DeviceArray:
        return DeviceArray(self.plain.copy(), self._watch)

    __deepcopy__ = __copy__

    def __getattr__(self, name: str) -> Any:
        if name in ("__cuda_array_interface__", "__dlpack__", "data", "flat"):
            raise Unknowable
        if name.startswith("__"):
            raise AttributeError(name)
        known = self._watch.coverage.ndarray
        if name not in known:
            if hasattr(np.ndarray, name):
                self._watch.lacks(f"ndarray.{name}")
            raise AttributeError(f"'ndarray' object has no attribute {name!r}")
        if not hasattr(self.plain, name):
            raise Unknowable
        value = getattr(self.plain, name)
        return self._method(name, value) if callable(value) else wrapped(value, self._watch)

    def _method(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            watch = self._watch
            watch.require_parameters(f"ndarray.{name}", watch.coverage.ndarray[name], args, options, self)
            watch.require_on_gpu(f"ndarray.{name}", (), options.get("out"))
            if name in _REDUCTIONS or name == "astype":
                watch.require_dtype(self)
            if name in watch.coverage.waits:
                watch.wait(f".{name}()", _SAME_SHAPE)
            result = method(*stripped(args), **stripped(options))
            return given(result, (self, *args, *options.values()), watch)

        return call

    def __setattr__(self, name: str, value: Any) -> None:
        if name in DeviceArray.__slots__:
            object.__setattr__(self, name, value)
        elif name == "shape":
            self.plain.shape = value
        else:
            raise Unknowable


def compute_ufunc(watch: Watch, ufunc: np.ufunc, inputs: Any, options: Any) -> Any:
    name, out = ufunc.__name__, options.pop("out", None)
    inputs, outs = inputs[: ufunc.nin], (*inputs[ufunc.nin :], *(() if out is None else (out,)))
    watch.require_parameters(name, watch.coverage.names.get(name), inputs, options)
    watch.require_on_gpu(name, inputs, next((o for o in outs if isinstance(o, np.ndarray)), None))
    watch.require_dtype(*inputs)
    into = {"out": tuple(map(stripped, outs))} if outs else {}
    with np.errstate(all="ignore"):  # a GPU does not tell of a division by zero
        result = ufunc(*stripped(inputs), **stripped(options), **into)
    watch.require_dtype(result)
    return given(result, outs, watch)


def compute(watch: Watch, path: str, function: Callable[..., Any], args: Any, options: Any) -> Any:
    watch.require_parameters(path, watch.coverage.names[path], args, options)
    watch.require_on_gpu(path, (), options.get("out"))
    joined = args[0] if path in _JOINING and args and isinstance(args[0], (list, tuple)) else ()
    operands = [*joined, *(args if path in _OF_ARRAYS else ())]
    if any(isinstance(operand, DeviceArray) for operand in operands):
        watch.require_on_gpu(path, operands)
    if path in watch.coverage.waits and (path != "where" or len(args) == 1):
        watch.wait(f"{path}()", _SAME_SHAPE)
    result = function(*stripped(args), **stripped(options))
    if path in _SCALARS:
        result = np.asarray(result)
    return given(result, (*args, *options.values()), watch)


def stripped(value: Any) -> Any:
    """The same with NumPy's arrays in place of these, in lists, tuples, dicts and slices too."""

    def plain(each: Any) -> Any:
        if isinstance(each, slice):
            parts = (each.start, each.stop, each.step)
            return slice(*(operator.index(p) if isinstance(p, DeviceArray) else p for p in parts))
        return each.plain if isinstance(each, DeviceArray) else each

    return mapped(value, plain)


def wrapped(value: Any, watch: Watch) -> Any:
    """A result of NumPy's as CuPy has it: numbers are arrays of no dimension."""
    kinds = (np.ndarray, np.generic)
    return mapped(value, lambda v: DeviceArray(np.asanyarray(v), watch) if isinstance(v, kinds) else v)


def lifted(function: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    """A function of NumPy's arrays for these."""
    return lambda *args, **options: wrapped(function(*stripped(args), **stripped(options)), watch)


def given(result: Any, arguments: Any, watch: Watch) -> Any:
    """The very argument that NumPy gave back, as out=, else the result."""
    own = [argument for argument in arguments if isinstance(argument, DeviceArray)]
    return same_argument(own, [each.plain for each in own], result, wrapped(result, watch))


DeviceArray.__module__, DeviceArray.__name__, DeviceArray.__qualname__ = "cupy", "ndarray", "ndarray"
for _name, _member in vars(DeviceArray).items():
    if isinstance(_member, types.FunctionType):
        _member.__qualname__ = f"ndarray.{_name}"


MAKING = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")
_PLAIN = (bool, int, float, complex, str, type(None))
_TYPES = (np.generic, np.dtype, np.finfo, np.iinfo, Exception, bool, int, float, complex, str)
_MISSING = object()
_ARITHMETIC = "biufcV?"
"""Kinds of dtypes that `cupy.array` takes: cupy/_core/core.pyx raises ValueError for any other."""


def by_position(args: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments of a function of `MAKING`, which call the first one `a` or `obj`."""
    return args or tuple(options.pop(name) for name in ("a", "obj") if name in options)


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
        return _OWN[path](self) if path in _OWN else self._member(path, member)

    def _member(self, path: str, member: Any) -> Any:
        watch = self._watch
        if isinstance(member, types.ModuleType):
            return MockModule(watch, member, f"{path}.")
        if isinstance(member, np.ufunc):
            return Ufunc(watch, member)
        if isinstance(member, _PLAIN) or path in ("s_", "index_exp"):
            return member
        if isinstance(member, type) and issubclass(member, _TYPES):
            return member
        if member is _MISSING or isinstance(member, type) or not callable(member):
            raise Unknowable

        def call(*args: Any, **options: Any) -> Any:
            arrays = [a for a in (*args, *options.values()) if isinstance(a, (np.ndarray, DeviceArray))]
            if arrays and not any(isinstance(a, DeviceArray) for a in arrays):
                raise Unknowable  # some of CuPy's functions refuse NumPy's arrays, some compute on the CPU
            return compute(watch, path, member, args, options)

        return call

    def _making(self, name: str) -> Callable[..., Any]:
        """cupy.asarray and its kin: the one way from the host's memory to the GPU's."""

        def make(*arguments: Any, **options: Any) -> Any:
            watch, parameters = self._watch, self._watch.coverage.names[name]
            values, args = by_position(arguments, options), arguments[1:]
            watch.require_parameters(name, parameters, values, options)
            options |= zip(str(parameters).split()[1:], args, strict=False)
            own = isinstance(next(iter(values), None), DeviceArray)
            if own and name == "asarray" and not options:
                return values[0]
            options.pop("blocking", None)
            array = getattr(np, name)(*stripped(values[:1]), **options)
            if array.dtype.kind not in _ARITHMETIC:
                step = "Use bool, integers, float16 to float64 or complex numbers."
                watch.refuse(NotTaken, f"CuPy does not support arrays of {array.dtype}", step)
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
        return lifted(member, self._watch) if callable(member) else member


def asnumpy(a: Any, *args: Any, **more: Any) -> Any:
    return a.get(*args, **more) if isinstance(a, DeviceArray) else np.asarray(a)


_OWN: dict[str, Callable[[MockModule], Any]] = {
    **{name: lambda xp, name=name: xp._making(name) for name in MAKING},  # type: ignore[misc]
    "asnumpy": lambda _: asnumpy,
    "get_array_module": lambda xp: (
        lambda *values: xp if any(isinstance(v, DeviceArray) for v in values) else np
    ),
    "ndarray": lambda _: DeviceArray,
}
