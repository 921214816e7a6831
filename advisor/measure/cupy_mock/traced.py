"""An ndarray whose NumPy traffic is counted: the same memory, the same values, the same errors.

Every operation strips the tracing, lets NumPy work on plain arrays, and counts afterwards:
__array_ufunc__ sees operators, ufuncs and the methods made of them (sum, mean, var, clip, cumsum ...),
__array_function__ sees NumPy's functions, and the methods that reach neither are overridden below.
A view costs nothing; a broadcast operand counts the bytes it has in memory, not those it stands for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from advisor.measure import routines
from advisor.measure.cupy_mock.counting import (
    DEFAULT,
    FUNCTIONS,
    METHODS,
    arrays_in,
    count_call,
    count_index,
    count_ufunc,
    outs_of,
)
from advisor.measure.cupy_mock.traffic import TrafficRecorder, unique_bytes

Array = npt.NDArray[Any]


class TracedArray(np.ndarray[Any, Any]):
    """A view that counts. What is computed from it is traced too, as memory of the stage's own."""

    _recorder: TrafficRecorder | None = None

    @classmethod
    def of(cls, array: Array, recorder: TrafficRecorder) -> TracedArray:
        traced = array.view(cls)
        traced._recorder = recorder
        return traced

    def __array_finalize__(self, source: Array | None) -> None:
        self._recorder = getattr(source, "_recorder", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        recorder = _recorder_among((*inputs, *outs_of(kwargs)))
        plain, options = _plain(inputs), _plain(kwargs)
        result = getattr(ufunc, method)(*plain, **options)
        if recorder is None:
            return result
        if recorder.counting:
            count_ufunc(recorder, ufunc, method, plain, options, result)
        return _traced(result, recorder, outs_of(kwargs))

    def __array_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any, kwargs: Any
    ) -> Any:
        recorder = _recorder_among((args, kwargs))
        plain, options = _plain(args), _plain(kwargs)
        result = func(*plain, **options)
        if recorder is None:
            return result
        if recorder.counting:
            count_call(recorder, func.__name__, FUNCTIONS.get(func, DEFAULT), plain, options, result)
        return same_argument(args, plain, result, _traced(result, recorder, outs_of(kwargs)))

    def __getitem__(self, key: Any) -> Any:
        recorder, array = self._recorder, _plain(self)
        result = array[_plain(key)]
        if recorder is None:
            return result
        if not recorder.counting:
            return _traced(result, recorder, ())
        if isinstance(result, np.ndarray) and np.may_share_memory(result, array):
            recorder.called(routines.call_seconds(routines.VIEW), launches=False)
        else:
            gathered = int(np.size(result)) * self.itemsize
            recorder.called(routines.call_seconds(routines.INDEX))
            recorder.read(array, gathered, _plain(key))
            recorder.again(array, routines.TAKE, routines.gathered_beyond(array, _plain(key)))
            count_index(recorder, _plain(key))
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
        recorder.called(routines.call_seconds(routines.SCATTER if target is None else routines.WRITE))
        if target is not None:
            size = target.nbytes if isinstance(target, np.ndarray) else self.itemsize
            recorder.wrote(array, size, plain_key)
        else:
            covered = np.broadcast_to(np.int8(0), array.shape)[plain_key]
            recorder.wrote(array, covered.size * self.itemsize, plain_key)
            count_index(recorder, _plain(key))
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


def trace_buffer(recorder: TrafficRecorder, name: str, array: Array) -> TracedArray:
    """A traced view of the memory, as writeable as `array`; buffer `name` owns it from now on."""
    recorder.own(name, array)
    return TracedArray.of(array, recorder)


def _method(name: str) -> Callable[..., Any]:
    """The ndarray method of that name, counted: it reaches neither of NumPy's two protocols."""

    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        recorder, array = self._recorder, _plain(self)
        plain, options = _plain(args), _plain(kwargs)
        result = getattr(array, name)(*plain, **options)
        if recorder is None:
            return result
        if recorder.counting:
            count_call(recorder, name, METHODS[name], (array, *plain), options, result)
        traced = _traced(result, recorder, outs_of(kwargs))
        return same_argument((self, *args), (array, *plain), result, traced)

    method.__name__ = name
    method.__doc__ = getattr(np.ndarray, name).__doc__
    return method


for _name in METHODS:
    setattr(TracedArray, _name, _method(_name))


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with `change` of all that is in its lists, deques, tuples and dicts."""
    if isinstance(value, (list, deque)):
        return [mapped(each, change) for each in value]
    if isinstance(value, tuple):
        parts = [mapped(each, change) for each in value]
        return cast(Any, type(value))._make(parts) if hasattr(value, "_make") else tuple(parts)
    if type(value) is dict:
        return {key: mapped(each, change) for key, each in value.items()}
    return change(value)


def same_argument(arguments: Any, plain: Any, result: Any, other: Any) -> Any:
    """The very argument that NumPy returned (a positional `out`, or itself); else `other`."""
    return next((a for a, p in zip(arguments, plain, strict=True) if p is result), other)


def _plain(value: Any) -> Any:
    return mapped(value, lambda each: each.view(np.ndarray) if isinstance(each, TracedArray) else each)


def _recorder_among(value: Any) -> TrafficRecorder | None:
    for array in arrays_in(value):
        if isinstance(array, TracedArray) and array._recorder is not None:
            return array._recorder
    return None


def _traced(result: Any, recorder: TrafficRecorder, outs: tuple[Any, ...]) -> Any:
    """Traces the arrays of a result; an `out=` comes back as the very object that was given."""

    def traced(each: Any) -> Any:
        if not isinstance(each, np.ndarray):
            return each
        for out in outs:
            if isinstance(out, np.ndarray) and _same_memory(_plain(out), each):
                return out
        return TracedArray.of(each, recorder) if each.ndim and type(each) is np.ndarray else each

    return mapped(result, traced)


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
