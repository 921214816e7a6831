"""An ndarray whose NumPy traffic is counted: the same memory, the same values, the same errors.

Every operation strips the tracing, lets NumPy work on plain arrays, and counts afterwards:
__array_ufunc__ sees operators, ufuncs and the methods made of them (sum, mean, var, clip, cumsum ...),
__array_function__ sees NumPy's functions, and the methods that reach neither are overridden below.
A view costs nothing; a broadcast operand counts the bytes it has in memory, not those it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from advisor.measure import numpy_calls, routines
from advisor.measure.sectors import gathered_beyond, reduced_beyond

Array = npt.NDArray[Any]


def extent(array: Array) -> tuple[int, int]:
    """First address and one past the last of the memory an array spans."""
    low: int = array.__array_interface__["data"][0]
    high = low
    for length, stride in zip(array.shape, array.strides, strict=True):
        if length == 0:
            return low, low
        low += min(0, (length - 1) * stride)
        high += max(0, (length - 1) * stride)
    return low, high + int(array.itemsize)


def unique_bytes(array: Array) -> int:
    """Bytes an operand has in memory: repetition by broadcasting (stride 0) is not counted."""
    lengths = (n for n, s in zip(array.shape, array.strides, strict=True) if s != 0 or n == 0)
    count: int = math.prod(lengths)
    return count * int(array.itemsize)


class Recorder(Protocol):
    """Hears what is done to traced arrays; `advisor.measure.traffic.TrafficRecorder` counts it."""

    @property
    def counting(self) -> bool:
        """Whether a stage is running."""

    def read(self, array: Array, count: float, key: Any = None) -> None:
        """`count` bytes were read from the memory of `array`, where the key selects."""

    def wrote(self, array: Array, count: float, key: Any = None) -> None:
        """`count` bytes were written to the memory of `array`, where the key selects."""

    def again(
        self, array: Array, call: str, count: float, shared_bytes: float = 0.0, readers: float = 1.0
    ) -> None:
        """CuPy's routine of that name reads `count` bytes of `array` again where no cache serves them, and
        `shared_bytes` on each multiprocessor that one of its `readers` runs on."""

    def called(self) -> None:
        """NumPy was called to do work."""

    def computed(self, flops: float) -> None:
        """Arithmetic was done."""


class TracedArray(np.ndarray[Any, Any]):
    """A view that counts. What is computed from it is traced too, as memory of the stage's own."""

    _recorder: Recorder | None = None

    @classmethod
    def of(cls, array: Array, recorder: Recorder) -> TracedArray:
        """A traced view of the memory of `array`."""
        traced = array.view(cls)
        traced._recorder = recorder
        return traced

    def __array_finalize__(self, source: Array | None) -> None:
        self._recorder = getattr(source, "_recorder", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        recorder = _recorder_among((*inputs, *_outs(kwargs)))
        plain, options = _plain(inputs), _plain(kwargs)
        result = getattr(ufunc, method)(*plain, **options)
        if recorder is None:
            return result
        if recorder.counting:
            _count_ufunc(recorder, ufunc, method, plain, options, result)
        return _traced(result, recorder, _outs(kwargs))

    def __array_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any, kwargs: Any
    ) -> Any:
        recorder = _recorder_among((args, kwargs))
        plain, options = _plain(args), _plain(kwargs)
        result = func(*plain, **options)
        if recorder is None:
            return result
        if recorder.counting:
            _count_call(recorder, func.__name__, numpy_calls.of_function(func), plain, options, result)
        return _given(args, plain, result, _traced(result, recorder, _outs(kwargs)))

    def __getitem__(self, key: Any) -> Any:
        recorder, array = self._recorder, _plain(self)
        result = array[_plain(key)]
        if recorder is None:
            return result
        if recorder.counting and not (isinstance(result, np.ndarray) and np.may_share_memory(result, array)):
            gathered = int(np.size(result)) * self.itemsize
            recorder.called()
            recorder.read(array, gathered, _plain(key))
            recorder.again(array, routines.TAKE, gathered_beyond(array, _plain(key)))
            _count_index(recorder, key)
            if isinstance(result, np.ndarray):
                recorder.wrote(result, gathered)
        return _traced(result, recorder, ())

    def __setitem__(self, key: Any, value: Any) -> None:
        recorder, array, plain_key, source = self._recorder, _plain(self), _plain(key), _plain(value)
        array[plain_key] = source
        if recorder is None or not recorder.counting:
            return
        target = array[plain_key] if _is_basic(plain_key) else None
        if isinstance(target, np.ndarray) and _same_memory(target, source):
            return  # the end of `a[1:9] += b`: NumPy, too, does nothing here
        recorder.called()
        if target is not None:
            size = target.nbytes if isinstance(target, np.ndarray) else self.itemsize
            recorder.wrote(array, size, plain_key)
        else:
            covered = np.broadcast_to(np.int8(0), array.shape)[plain_key]
            recorder.wrote(array, covered.size * self.itemsize, plain_key)
            _count_index(recorder, key)
        if isinstance(source, np.ndarray):
            recorder.read(source, unique_bytes(source))

    def __repr__(self) -> str:
        return repr(_plain(self))

    def __str__(self) -> str:
        return str(_plain(self))

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()


def _method(name: str) -> Callable[..., Any]:
    """The ndarray method of that name, counted: it reaches neither of NumPy's two protocols."""

    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        recorder, array = self._recorder, _plain(self)
        plain, options = _plain(args), _plain(kwargs)
        result = getattr(array, name)(*plain, **options)
        if recorder is None:
            return result
        if recorder.counting:
            _count_call(recorder, name, numpy_calls.METHODS[name], (array, *plain), options, result)
        traced = _traced(result, recorder, _outs(kwargs))
        return _given((self, *args), (array, *plain), result, traced)

    method.__name__ = name
    method.__doc__ = getattr(np.ndarray, name).__doc__
    return method


for _name in numpy_calls.METHODS:
    setattr(TracedArray, _name, _method(_name))


def _count_ufunc(
    recorder: Recorder, ufunc: np.ufunc, method: str, inputs: Any, kwargs: Any, result: Any
) -> None:
    """Inputs are read and outputs written once; `where` says which share of both."""
    recorder.called()
    operands = [x for x in inputs if isinstance(x, np.ndarray)]
    if method == "at":
        touched = int(np.broadcast_to(np.int8(0), inputs[0].shape)[inputs[1]].size)
        recorder.read(inputs[0], touched * inputs[0].itemsize)
        recorder.wrote(inputs[0], touched * inputs[0].itemsize)
        for operand in operands[1:]:
            recorder.read(operand, unique_bytes(operand))
        recorder.computed(touched)
        return
    mask = kwargs.get("where", True)
    share = 1.0 if mask is True else float(np.count_nonzero(mask)) / max(np.size(mask), 1)
    if isinstance(mask, np.ndarray):
        recorder.read(mask, unique_bytes(mask))
    for operand in operands:
        recorder.read(operand, share * unique_bytes(operand))
    outputs = result if isinstance(result, tuple) else (result,)
    for output in outputs:
        if isinstance(output, np.ndarray):
            recorder.wrote(output, share * unique_bytes(output))
    flops = share * numpy_calls.ufunc_flops(ufunc, method, inputs, outputs)
    recorder.computed(flops)
    largest = max((operand.size for operand in operands), default=0)
    shape = np.shape(outputs[0])
    for operand in operands:
        found = routines.beyond(ufunc.__name__, operand, 1, flops / 2, largest)
        if ufunc.signature is None and method == "__call__":
            found = routines.broadcast(operand, shape)
        recorder.again(operand, ufunc.__name__, *found)
        if method == "reduce":
            recorder.again(operand, ufunc.__name__, reduced_beyond(operand, kwargs.get("axis", 0)))


def _count_call(
    recorder: Recorder, name: str, call: numpy_calls.Call, args: Any, kwargs: Any, result: Any
) -> None:
    """A function or method: its array arguments are read, what is new in the result is written."""
    arguments = list(_arrays((args, kwargs)))
    # A positional `out` comes back as the result; the first argument does so where nothing was to do.
    outs = _outs(kwargs) or tuple(a for a in arguments[1:] if a is result)
    new = [x for x in _arrays(result) if not any(np.may_share_memory(x, a) for a in arguments)]
    sources = [a for a in arguments if not any(a is o for o in outs)]
    if call.changed is not None:
        sources = [a for a in arguments if a is not args[0]]
        _count_change(recorder, call, args[0], call.changed(args, kwargs))
    elif not new and not outs and any(True for _ in _arrays(result)):
        return  # views of the arguments: nothing was touched
    recorder.called()
    flops = call.flops(args, result) if call.flops is not None else 0.0
    if call.reads:
        _count_reads(recorder, call, sources, result)
        largest = max((array.size for array in sources), default=0)
        for array in () if call.gathers else sources:
            recorder.again(array, name, *routines.beyond(name, array, call.passes, flops / 2, largest))
        if (axes := numpy_calls.reduced_axes(name, args, kwargs)) != ():
            recorder.again(args[0], name, call.passes * reduced_beyond(args[0], axes))
    place = numpy_calls.gathered(name, call, args, kwargs)
    if place is not None:
        recorder.again(args[call.table], routines.TAKE, gathered_beyond(*place))
    if call.fills:
        for array in (*new, *(x for x in outs if isinstance(x, np.ndarray))):
            recorder.wrote(array, unique_bytes(array))
    recorder.computed(flops)


def _count_change(recorder: Recorder, call: numpy_calls.Call, target: Array, count: float) -> None:
    recorder.wrote(target, count)
    if call.reads_target:
        recorder.read(target, count)


def _count_reads(recorder: Recorder, call: numpy_calls.Call, sources: list[Array], result: Any) -> None:
    for position, array in enumerate(sources):
        if call.gathers and position == call.table:
            recorder.read(array, int(np.size(result)) * array.itemsize)
        else:
            recorder.read(array, call.passes * unique_bytes(array))


def _given(args: Any, plain: Any, result: Any, traced: Any) -> Any:
    """The very argument that NumPy returned (a positional `out`, or itself), else the traced result."""
    return next((a for a, p in zip(args, plain, strict=True) if p is result), traced)


def _count_index(recorder: Recorder, key: Any) -> None:
    for index in _arrays(_plain(key)):
        recorder.read(index, unique_bytes(index))


def _outs(kwargs: Any) -> tuple[Any, ...]:
    out = kwargs.get("out")
    return out if isinstance(out, tuple) else () if out is None else (out,)


def _plain(value: Any) -> Any:
    """The same without tracing, in arrays and in lists, tuples and dicts of them."""
    if isinstance(value, TracedArray):
        return value.view(np.ndarray)
    if type(value) is tuple:
        return tuple(_plain(x) for x in value)
    if type(value) is list:
        return [_plain(x) for x in value]
    if type(value) is dict:
        return {k: _plain(x) for k, x in value.items()}
    return value


def _arrays(value: Any) -> Iterable[Array]:
    """The arrays in a value of lists, tuples and dicts."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, tuple)):
        for x in value:
            yield from _arrays(x)
    elif isinstance(value, dict):
        yield from _arrays(list(value.values()))


def _recorder_among(value: Any) -> Recorder | None:
    for array in _arrays(value):
        if isinstance(array, TracedArray) and array._recorder is not None:
            return array._recorder
    return None


def _traced(result: Any, recorder: Recorder, outs: tuple[Any, ...]) -> Any:
    """Traces the arrays of a result; an `out=` comes back as the very object that was given."""
    if isinstance(result, np.ndarray):
        for out in outs:
            if isinstance(out, np.ndarray) and _same_memory(_plain(out), result):
                return out
        return TracedArray.of(result, recorder) if result.ndim and type(result) is np.ndarray else result
    if isinstance(result, list):
        return [_traced(x, recorder, outs) for x in result]
    if isinstance(result, tuple):
        parts = [_traced(x, recorder, outs) for x in result]
        return cast(Any, type(result))._make(parts) if hasattr(result, "_make") else tuple(parts)
    return result


def _same_memory(one: Array, other: Any) -> bool:
    return (
        isinstance(other, np.ndarray)
        and one.__array_interface__["data"][0] == other.__array_interface__["data"][0]
        and (one.shape, one.strides, one.dtype) == (other.shape, other.strides, other.dtype)
    )


def _is_basic(key: Any) -> bool:
    """Whether an index makes a view (integers, slices, None, Ellipsis, names of fields), not a gather."""
    if isinstance(key, str) or (isinstance(key, list) and key and all(isinstance(k, str) for k in key)):
        return True
    parts = key if isinstance(key, tuple) else (key,)
    return all(
        part is None
        or part is Ellipsis
        or isinstance(part, slice)
        or (isinstance(part, (int, np.integer)) and not isinstance(part, bool))
        for part in parts
    )
