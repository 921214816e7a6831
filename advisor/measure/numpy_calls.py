"""What NumPy's functions and methods do to their arguments, where it is not "read each once".

The default is one pass over every array argument and one over what is new in the result. The tables
hold the exceptions; arithmetic is counted for sums, products and contractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Call:
    """How a call treats memory."""

    reads: bool = True
    passes: int = 1
    """Passes over each argument."""
    gathers: bool = False
    """Reads of its table only as much as it returns."""
    table: int = 0
    """Which argument that is."""
    fills: bool = True
    """Writes all of its result."""
    changed: Callable[[Any, Any], float] | None = None
    """Bytes it writes in its first argument, from the call's arguments."""
    reads_target: bool = False
    """Reads what it changes."""
    flops: Callable[[Any, Any], float] | None = None
    """Arithmetic, from arguments and result."""


def of_function(function: Callable[..., Any]) -> Call:
    """How a NumPy function treats memory."""
    return _FUNCTIONS.get(function, _DEFAULT)


def ufunc_flops(ufunc: np.ufunc, method: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> float:
    """One operation per element; 2mnk for matmul and its kin; none for comparisons and bit operations."""
    size = float(max((np.size(x) for x in outputs), default=0))
    if ufunc.signature is not None:
        return 2 * size * np.shape(inputs[0])[-1] if ufunc.__name__ in _CONTRACTIONS else 0.0
    if ufunc.__name__ in _NO_ARITHMETIC or all(getattr(x, "dtype", None) == np.bool_ for x in outputs):
        return 0.0
    return float(np.size(inputs[0])) if method in ("reduce", "reduceat") else size


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


def reduced_axes(name: str, args: Any, kwargs: Any) -> Any:
    """The argument `axis` of a function that reduces its first argument; () of any other function."""
    return _argument(args, kwargs, 1, "axis") if name in _REDUCTIONS else ()


def _contraction(args: Any, result: Any) -> float:
    """2mnk of a product without batch dimensions: a has mk elements, b kn, the result mn."""
    return 2 * math.sqrt(float(np.size(args[0])) * np.size(args[1]) * np.size(result))


def _einsum(args: Any, result: Any) -> float:
    """Two operations for each combination of all indices."""
    if not isinstance(args[0], str) or "." in args[0]:
        return 2.0 * float(np.size(result))
    labels = args[0].replace(" ", "").split("->")[0].split(",")
    sizes = {
        x: n
        for part, a in zip(labels, args[1:], strict=False)
        for x, n in zip(part, np.shape(a), strict=False)
    }
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


def _indexed(args: Any, kwargs: Any) -> float:
    return float(np.size(_argument(args, kwargs, 1, "ind", kwargs.get("indices", ()))) * args[0].itemsize)


def _masked(args: Any, kwargs: Any) -> float:
    return float(np.count_nonzero(_argument(args, kwargs, 1, "mask")) * args[0].itemsize)


def _diagonal(args: Any, _kwargs: Any) -> float:
    return float(min(args[0].shape) * args[0].itemsize)


def _swapped(args: Any, kwargs: Any) -> float:
    return _whole(args, kwargs) if _argument(args, kwargs, 1, "inplace", False) else 0.0


_DEFAULT = Call()
_NOTHING = Call(reads=False, fills=False)
_SUM = Call(flops=_elements)
# The mean first, then the deviations from it.
_DEVIATION = Call(passes=2, flops=_elements)
_PRODUCT = Call(flops=_contraction)
_GATHER = Call(gathers=True)
_IN_PLACE = Call(changed=_whole, reads_target=True)
_PUT = Call(changed=_indexed)

_REDUCTIONS = frozenset(
    ("sum", "prod", "mean", "nansum", "nanmean", "var", "std", "nanvar", "nanstd", "max", "min", "any", "all")
)
_CONTRACTIONS = ("matmul", "vecdot", "matvec", "vecmat")
_NO_ARITHMETIC = frozenset(
    (
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_count", "invert", "left_shift", "right_shift"),
        *("positive", "conjugate", "signbit", "copysign", "isnan", "isinf", "isfinite"),
    )
)

_FUNCTIONS: dict[Callable[..., Any], Call] = {
    **dict.fromkeys(
        (np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.shares_memory, np.may_share_memory),
        _NOTHING,
    ),
    **dict.fromkeys((np.iscomplexobj, np.isrealobj, np.common_type, np.min_scalar_type), _NOTHING),
    np.empty_like: _NOTHING,
    **dict.fromkeys((np.zeros_like, np.ones_like, np.full_like), Call(reads=False)),
    **dict.fromkeys((np.take, np.take_along_axis), _GATHER),
    **dict.fromkeys((np.compress, np.extract), Call(gathers=True, table=1)),
    **dict.fromkeys((np.sum, np.prod, np.mean, np.cumsum, np.cumprod, np.nansum, np.nanmean), _SUM),
    **dict.fromkeys((np.var, np.std, np.nanvar, np.nanstd), _DEVIATION),
    **dict.fromkeys((np.dot, np.vdot, np.inner, np.outer, np.tensordot), _PRODUCT),
    np.einsum: Call(flops=_einsum),
    np.copyto: Call(changed=_copied),
    **dict.fromkeys((np.put, np.put_along_axis), _PUT),
    **dict.fromkeys((np.place, np.putmask), Call(changed=_masked)),
    np.fill_diagonal: Call(changed=_diagonal),
}

METHODS: dict[str, Call] = {
    **dict.fromkeys(("copy", "astype", "flatten", "ravel", "reshape", "repeat", "choose"), _DEFAULT),
    **dict.fromkeys(("argmax", "argmin", "argsort", "argpartition", "nonzero", "searchsorted"), _DEFAULT),
    **dict.fromkeys(("tobytes", "tolist", "tofile", "dump", "dumps"), _DEFAULT),
    **dict.fromkeys(("take", "compress", "item"), _GATHER),
    **dict.fromkeys(("var", "std"), _DEVIATION),
    "dot": _PRODUCT,
    "fill": Call(changed=_whole),
    "put": _PUT,
    **dict.fromkeys(("sort", "partition"), _IN_PLACE),
    "byteswap": Call(changed=_swapped, reads_target=True),
}
"""The ndarray methods that reach neither of NumPy's two protocols."""
