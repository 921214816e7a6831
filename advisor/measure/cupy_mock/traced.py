"""NumPy arrays whose traffic and arithmetic are counted: the same memory, the same values, the same errors.

Every operation strips the tracing, lets NumPy work on plain arrays, and counts afterwards: __array_ufunc__
sees operators, ufuncs and the methods made of them (sum, mean, var, clip, cumsum ...), __array_function__
sees NumPy's functions, and the methods that reach neither are overridden. A view costs nothing; a broadcast
operand counts the bytes it has in memory. Every array argument is read once, and what is new in the result
is written once; the tables hold the exceptions. Arithmetic is counted for sums, products and contractions.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, wraps
from itertools import chain
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from advisor.measure import routines
from advisor.measure.cupy_mock.traffic import TrafficRecorder, unique_bytes

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Call:
    reads: bool = True
    passes: int = 1
    gathers: bool = False
    """Reads of its table only as much as it returns."""
    table: int = 0
    fills: bool = True
    """Writes all of its result."""
    changed: Callable[[Any, Any], float] | None = None
    """Bytes it writes in its first argument, from the call's arguments."""
    reads_target: bool = False
    """Reads what it changes."""
    flops: Callable[[Any, Any], float] = lambda *_: 0.0
    counted: bool = True
    """Its arithmetic is known."""
    sorts: int = 0
    """How many of its arguments."""


def gathered(name: str, call: Call, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """The table of a call that gathers, and the key that selects the same of it; None of any other call."""
    if not call.gathers or len(args) < 2 or not isinstance(args[call.table], np.ndarray):
        return None
    table, index = args[call.table], np.asarray(args[1 - call.table])
    along = name == "take_along_axis"
    axis = _argument(args, kwargs, 2, "axis", -1 if along else None)
    if axis is None or name == "extract":
        return table.reshape(-1), index.ravel()
    axis %= table.ndim
    if not along:
        return table, (*(slice(None),) * axis, index)
    others = np.ogrid[tuple(map(slice, index.shape))]
    return table, tuple(index if k == axis else others[k] for k in range(table.ndim))


def _einsum(args: Any, result: Any) -> float:
    if not isinstance(args[0], str) or "." in args[0]:
        return 2.0 * float(np.size(result))
    labels = args[0].replace(" ", "").split("->")[0].split(",")
    pairs = (zip(part, np.shape(a), strict=False) for part, a in zip(labels, args[1:], strict=False))
    sizes = dict(chain.from_iterable(pairs))
    return 2.0 * float(math.prod(sizes.values()))


def _elements(args: Any, _result: Any) -> float:
    return float(np.size(args[0]))


def _argument(args: Any, kwargs: Any, position: int, name: str, default: Any = None) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def _whole(args: Any, _kwargs: Any) -> float:
    return float(args[0].nbytes)


def _copied(args: Any, kwargs: Any) -> float:
    where = kwargs.get("where", True)
    share = 1.0 if where is True else np.count_nonzero(where) / max(np.size(where), 1)
    return float(args[0].nbytes * share)


DEFAULT = Call()
_NOTHING = Call(reads=False, fills=False)
_SUM = Call(flops=_elements)
# The mean first, then the deviations from it.
_DEVIATION = Call(passes=2, flops=_elements)
# 2mnk of a product without batch dimensions: a has mk elements, b kn, the result mn.
_PRODUCT = Call(flops=lambda args, result: 2 * math.sqrt(math.prod(map(np.size, (*args[:2], result)))))
# Factorizations run far below the peak, step after step: no count of operations tells how long they take.
_FACTORIZATION = Call(counted=False)
_FACTORIZATIONS = (
    *("cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matrix_rank", "pinv"),
    *("qr", "slogdet", "solve", "svd", "tensorinv", "tensorsolve"),
)
_GATHER = Call(gathers=True)
_SORT, _SORT_IN_PLACE = Call(sorts=1), Call(changed=_whole, reads_target=True, sorts=1)
_MASKED = Call(changed=lambda a, more: a[0].itemsize * np.count_nonzero(_argument(a, more, 1, "mask")))
_PUT = Call(
    changed=lambda a, more: a[0].itemsize * np.size(_argument(a, more, 1, "ind", more.get("indices", ())))
)

_REDUCTIONS = frozenset(
    ("sum", "prod", "mean", "nansum", "nanmean", "var", "std", "nanvar", "nanstd", "max", "min", "any", "all")
)

CALLS: dict[str, Call] = {
    **dict.fromkeys(("shape", "ndim", "size", "result_type", "can_cast", "shares_memory"), _NOTHING),
    **dict.fromkeys(("may_share_memory", "iscomplexobj", "isrealobj", "common_type"), _NOTHING),
    **dict.fromkeys(("min_scalar_type", "empty_like"), _NOTHING),
    **dict.fromkeys(("zeros_like", "ones_like", "full_like"), Call(reads=False)),
    **dict.fromkeys(("take", "take_along_axis"), _GATHER),
    **dict.fromkeys(("compress", "extract"), Call(gathers=True, table=1)),
    **dict.fromkeys(("sum", "prod", "mean", "cumsum", "cumprod", "nansum", "nanmean"), _SUM),
    **dict.fromkeys(("var", "std", "nanvar", "nanstd"), _DEVIATION),
    **dict.fromkeys(("sort", "argsort", "partition", "argpartition", "unique"), _SORT),
    **dict.fromkeys(("median", "percentile", "quantile"), _SORT),
    **dict.fromkeys(("dot", "vdot", "inner", "outer", "tensordot"), _PRODUCT),
    **dict.fromkeys(_FACTORIZATIONS, _FACTORIZATION),
    **dict.fromkeys(("put", "put_along_axis"), _PUT),
    **dict.fromkeys(("place", "putmask"), _MASKED),
    "einsum": Call(flops=_einsum),
    "copyto": Call(changed=_copied),
    "fill_diagonal": Call(changed=lambda args, _: min(args[0].shape) * args[0].itemsize),
}
"""NumPy's functions by name."""
METHODS: dict[str, Call] = {
    **dict.fromkeys(("copy", "astype", "flatten", "ravel", "reshape", "repeat", "choose"), DEFAULT),
    **dict.fromkeys(("argmax", "argmin", "nonzero", "searchsorted"), DEFAULT),
    **dict.fromkeys(("tobytes", "tolist", "tofile", "dump", "dumps"), DEFAULT),
    **{name: CALLS[name] for name in ("argsort", "argpartition", "var", "std", "dot", "put")},
    **dict.fromkeys(("take", "compress", "item"), _GATHER),
    "fill": Call(changed=_whole),
    **dict.fromkeys(("sort", "partition"), _SORT_IN_PLACE),
    "byteswap": Call(
        changed=lambda args, kwargs: args[0].nbytes * bool(_argument(args, kwargs, 1, "inplace", False)),
        reads_target=True,
    ),
}
"""The ndarray methods that reach neither of NumPy's two protocols."""


def count_ufunc(
    ufunc: np.ufunc, method: str, recorder: TrafficRecorder, inputs: Any, kwargs: Any, result: Any
) -> None:
    """Inputs are read and outputs written once; `where` says which share of both."""
    operands = [x for x in inputs if isinstance(x, np.ndarray)]
    repeats = ufunc is np.matmul and len({x.shape[:-2] for x in operands}) > 1
    recorder.called(routines.ufunc_seconds(routines.REPEATED if repeats else ufunc.__name__, method))
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
    flops = share * routines.ufunc_flops(ufunc, method, inputs, outputs)
    recorder.computed(flops)
    largest = max((operand.size for operand in operands), default=0)
    shape = np.shape(outputs[0])
    for operand in operands:
        again = routines.beyond(ufunc.__name__, operand, 1, flops / 2, largest)
        if ufunc.signature is None and method == "__call__":
            again = routines.broadcast(operand, shape)
        recorder.again(operand, ufunc.__name__, *again)
        if method == "reduce":
            axes = kwargs.get("axis", 0)
            recorder.again(operand, ufunc.__name__, routines.reduced_beyond(operand, axes))


def count_call(name: str, call: Call, recorder: TrafficRecorder, args: Any, kwargs: Any, result: Any) -> None:
    """A function or method: its array arguments are read, what is new in the result is written."""
    arguments = list(arrays_in((args, kwargs)))
    # A positional `out` comes back as the result; the first argument does so where nothing was to do.
    outs = outs_of(kwargs) or tuple(a for a in arguments[1:] if a is result)
    new = [x for x in arrays_in(result) if not any(np.may_share_memory(x, a) for a in arguments)]
    sources = [a for a in arguments if not any(a is o for o in outs)]
    if call.changed is not None:
        sources = [a for a in arguments if a is not args[0]]
        count = call.changed(args, kwargs)
        recorder.wrote(args[0], count)
        if call.reads_target:
            recorder.read(args[0], count)
    elif not new and not outs and any(True for _ in arrays_in(result)):
        recorder.called(routines.call_seconds(routines.VIEW), launches=False)
        return  # views of the arguments: nothing was touched
    recorder.called(routines.call_seconds(name, len(arguments)))
    flops = call.flops(args, result)
    if call.reads:
        for position, array in enumerate(sources):
            gathers = call.gathers and position == call.table
            size = np.size(result) * array.itemsize if gathers else call.passes * unique_bytes(array)
            recorder.read(array, size)
        largest = max((array.size for array in sources), default=0)
        for array in () if call.gathers else sources:
            recorder.again(array, name, *routines.beyond(name, array, call.passes, flops / 2, largest))
        if name in _REDUCTIONS:
            axes = _argument(args, kwargs, 1, "axis")
            recorder.again(args[0], name, call.passes * routines.reduced_beyond(args[0], axes))
    place = gathered(name, call, args, kwargs)
    if place is not None:
        recorder.again(args[call.table], routines.TAKE, routines.gathered_beyond(*place))
    for array in (*new, *arrays_in(outs)) if call.fills else ():
        recorder.wrote(array, unique_bytes(array))
    recorder.computed(flops, "" if call.counted else name)
    recorder.merged(arrays_in(args[: call.sorts]))


def arrays_in(value: Any) -> Iterable[Array]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from arrays_in(each)


def outs_of(kwargs: Any) -> tuple[Any, ...]:
    out = kwargs.get("out")
    return out if isinstance(out, tuple) else () if out is None else (out,)


_SILENT = TrafficRecorder()
"""Counts nothing: that of an array made from no traced one, by unpickling for example."""


class TracedArray(np.ndarray[Any, Any]):
    """A view that counts. What is computed from it is traced too, as memory of the stage's own."""

    _recorder = _SILENT

    @classmethod
    def of(cls, array: Array, recorder: TrafficRecorder) -> TracedArray:
        traced = array.view(cls)
        traced._recorder = recorder
        return traced

    def __array_finalize__(self, source: Array | None) -> None:
        self._recorder = getattr(source, "_recorder", _SILENT)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _counted(getattr(ufunc, method), inputs, kwargs, partial(count_ufunc, ufunc, method))

    def __array_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Any, kwargs: Any
    ) -> Any:
        call = CALLS.get(func.__name__, DEFAULT)
        return _counted(func, args, kwargs, partial(count_call, func.__name__, call))

    def __getitem__(self, key: Any) -> Any:
        recorder, array, plain_key = self._recorder, _plain(self), _plain(key)
        result = array[plain_key]
        if not recorder.counting:
            return _traced(result, recorder, ())
        if isinstance(result, np.ndarray) and np.may_share_memory(result, array):
            recorder.called(routines.call_seconds(routines.VIEW), launches=False)
        else:
            gathered = int(np.size(result)) * self.itemsize
            recorder.called(routines.call_seconds(routines.INDEX))
            recorder.read(array, gathered, plain_key)
            recorder.again(array, routines.TAKE, routines.gathered_beyond(array, plain_key))
            for index in arrays_in(plain_key):
                recorder.read(index, unique_bytes(index))
            if isinstance(result, np.ndarray):
                recorder.wrote(result, gathered)
        return _traced(result, recorder, ())

    def __setitem__(self, key: Any, value: Any) -> None:
        recorder, array, plain_key, source = self._recorder, _plain(self), _plain(key), _plain(value)
        array[plain_key] = source
        if not recorder.counting:
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
            for index in arrays_in(plain_key):
                recorder.read(index, unique_bytes(index))
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


def _counted(call: Callable[..., Any], args: Any, kwargs: Any, count: Callable[..., None]) -> Any:
    """What the call gives for plain arrays, traced again. `count` is given the recorder and the call."""
    recorders = (array._recorder for array in arrays_in((args, kwargs)) if isinstance(array, TracedArray))
    recorder = next((each for each in recorders if each is not _SILENT), _SILENT)
    plain, options = _plain(args), _plain(kwargs)
    result = call(*plain, **options)
    if recorder.counting:
        count(recorder, plain, options, result)
    return same_argument(args, plain, result, _traced(result, recorder, outs_of(kwargs)))


def _method(name: str) -> Callable[..., Any]:
    call, count = getattr(np.ndarray, name), partial(count_call, name, METHODS[name])

    @wraps(call)
    def method(*args: Any, **kwargs: Any) -> Any:
        return _counted(call, args, kwargs, count)

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
    kinds = (type(None), type(Ellipsis), slice, int, np.integer)
    return all(isinstance(part, kinds) and not isinstance(part, bool) for part in parts)
