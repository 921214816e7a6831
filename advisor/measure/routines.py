"""What library calls take: reads of memory beyond one pass that the GPU does not cache, and the host's time.

routines.toml has what was measured. What it means for a device is the model's affair. A load of 4 bytes
fetches a sector of 32 (CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"), and the loads of
a warp are merged by line. Bytes that lie together and fill whole sectors cross once. Over a link a request
for one sector alone takes longer than its bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.profiles.base import Record
from advisor.profiles.files import parse_toml

PATH = Path(__file__).parent / "routines.toml"

Array = npt.NDArray[Any]
TRANSPOSE, TAKE = "transpose", "take"
L1_BYTES = 1 << 16
"""Every GPU's L1 holds so much of an operand until it is read again; nothing of twice as much."""
SECTOR, LINE, WARP = 32, 128, 32
_MOST = 1 << 20
"""Places of a gather that are looked at; those of a larger one are taken to be like its first."""
_COPIES = frozenset(("copy", "ascontiguousarray", "array", "astype", "flatten", "ravel"))


class Reread(NamedTuple):
    """Repeated reads of a call: bytes that no L1 holds, and those that each multiprocessor reads for itself,
    with the number of blocks that do."""

    bytes: float = 0.0
    shared_bytes: float = 0.0
    readers: float = 1.0


class Routine(Record):
    calls: tuple[str, ...]
    dtypes: tuple[str, ...] = ()
    points: tuple[tuple[float, float], ...]

    def passes(self, uses: float) -> float:
        """How often the operand crosses the link where each of its values is used so often; beyond the last
        point a block's tile grows no further, so that passes grow with the uses."""
        known, passes = np.log(self.points).T
        measured = float(np.exp(np.interp(np.log(max(uses, 1.0)), known, passes)))
        last = self.points[-1][0]
        return measured * uses / last if uses > last > 1 else measured


class _Measured(Record):
    routines: tuple[Routine, ...]
    host_microseconds: dict[str, dict[str, float]]


@cache
def _measured() -> _Measured:
    return _Measured.model_validate(parse_toml(PATH.read_text(encoding="utf-8")), strict=False)


def passes(call: str, dtype: np.dtype[Any], uses: float = 1.0) -> float:
    """How often the routine of that name reads its operand; once where nothing was measured."""
    routine = _routine(call, dtype)
    return 1.0 if routine is None else routine.passes(uses)


def _routine(call: str, dtype: np.dtype[Any]) -> Routine | None:
    candidates = [r for r in _measured().routines if call in r.calls]
    own = [r for r in candidates if dtype.name in r.dtypes]
    return next(iter(own or [r for r in candidates if not r.dtypes]), None)


def beyond(
    call: str, operand: Array, counted: float, multiplications: float = 0.0, largest: int = 0
) -> Reread:
    """Reads of an operand beyond `counted` passes of the routine. `multiplications`: of a contraction, in
    all; `largest`: elements of its largest operand."""
    if call in _COPIES:
        axes = [(abs(s), n) for s, n in zip(operand.strides, operand.shape, strict=True) if n > 1]
        transposed = len(axes) > 1 and axes[-1][0] > min(stride for stride, _ in axes)
        call = TRANSPOSE if transposed else call
    uses = multiplications / operand.size if operand.size else 1.0
    routine = _routine(call, operand.dtype)
    if routine is None:
        return Reread()
    again = max(routine.passes(uses) - counted, 0.0) * operand.nbytes * past_the_l1(operand)
    if uses <= 1:
        return Reread(again)
    # Of a matrix and a vector each value of the matrix is used once, and every block, down to one for each
    # row, reads all of the vector.
    vector = operand.size < largest and multiplications <= largest
    return Reread(again, operand.nbytes, uses if vector else routine.passes(uses))


def broadcast(operand: Array, result: tuple[int, ...]) -> Reread:
    """Repeated reads of an elementwise call's operand that it repeats along leading axes: every
    multiprocessor runs blocks that read all of it."""
    own = (1,) * (len(result) - operand.ndim) + operand.shape
    along = next((axis for axis, n in enumerate(own) if n > 1), len(own))
    readers = float(np.prod(result[:along], dtype=np.float64))
    return Reread(0.0, operand.nbytes, readers) if readers > 1 and operand.size > 1 else Reread()


def past_the_l1(operand: Array) -> float:
    """How much of an operand an L1 does not hold until it is read again."""
    return min(max(operand.nbytes / L1_BYTES - 1, 0.0), 1.0)


def gathered_beyond(array: Array, key: Any) -> float:
    """Bytes that `array[key]` fetches beyond those it gathers."""
    if not array.size:
        return 0.0
    lead, key, run = _runs(array, key if isinstance(key, tuple) else (key,))
    at, share = _offsets(lead, key)
    if not at.size:
        return 0.0
    fetched = _whole(at, run) if run >= SECTOR else _merged(at)
    return max(fetched - at.size * run, 0.0) * share * past_the_l1(array)


def strided_beyond(array: Array) -> float:
    """Bytes that one pass over a view with gaps fetches beyond its own."""
    run, step = int(array.itemsize), 0
    for stride, length in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if s):
        if length > 1 and stride > run:
            step = stride
            break
        run = max(run, stride * length)
    if not step or not array.size:
        return 0.0
    sectors = SECTOR * math.ceil(run / SECTOR) + (SECTOR if step % SECTOR and run >= SECTOR else 0)
    alone = run < SECTOR and step > LINE / 2
    fetched = _alone() if alone else min(step, sectors)
    elements = math.prod(n for n, s in zip(array.shape, array.strides, strict=True) if s)
    return float(max(fetched - run, 0.0) * elements * array.itemsize / run)


def reduced_beyond(array: Array, axis: Any) -> float:
    """Bytes that a reduction over these axes (None: all) fetches beyond its own. Where neighbours in memory
    are reduced, CuPy's kernels take the elements of one result after another, so that pieces shorter than a
    line come from places that lie apart. Other reductions read whole lines."""
    axes = range(array.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    reduced = sorted({one % array.ndim for one in axes}) if array.ndim else []
    by_result = array.transpose([*(k for k in range(array.ndim) if k not in reduced), *reduced])
    steps = [(abs(s), k) for k, (s, n) in enumerate(zip(array.strides, array.shape, strict=True)) if n > 1]
    if by_result.flags.c_contiguous or not steps or min(steps)[1] not in reduced or strided_beyond(array):
        return 0.0
    places = np.unravel_index(np.arange(min(array.size, _MOST)), by_result.shape)
    at = np.tensordot(by_result.strides, places, 1)
    fetched = _merged(at - np.min(at))
    share = array.size / at.size
    return max(fetched - at.size * array.itemsize, 0.0) * share * past_the_l1(array)


def _alone() -> float:
    """Bytes in whose time a request for one sector crosses."""
    kind = np.dtype(np.float32)
    return passes(TAKE, kind) * kind.itemsize


def _runs(array: Array, key: tuple[Any, ...]) -> tuple[Array, tuple[Any, ...], int]:
    """The array without the last axes that the key takes whole, the key, and the bytes that lie together."""
    while key and (key[-1] is Ellipsis or (isinstance(key[-1], slice) and key[-1] == slice(None))):
        key = key[:-1]
    if any(part is Ellipsis for part in key):
        return array, key, array.itemsize
    axes = sum(part.ndim if _is_mask(part) else part is not None for part in map(_array, key))
    inner = array[(0,) * axes]
    if not isinstance(inner, np.ndarray) or not inner.flags.c_contiguous:
        return array, key, array.itemsize
    first: tuple[Any, ...] = (..., *(0,) * inner.ndim)
    return array[first], key, inner.nbytes


def _array(part: Any) -> Any:
    return np.asarray(part) if isinstance(part, (list, np.ndarray)) else part


def _is_mask(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype == bool


def _offsets(array: Array, key: tuple[Any, ...]) -> tuple[npt.NDArray[np.int64], float]:
    """Where in memory each place lies, in the order of the result, and how many such there are for each."""
    share = 1.0
    first: Any = _array(key[0]) if len(key) == 1 else None
    if _is_mask(first) and first.ndim == array.ndim and first.size > _MOST:
        rows = max(_MOST * len(first) // first.size, 1)
        share = np.count_nonzero(first) / (int(np.count_nonzero(first[:rows])) or 1)
        array, key = array[:rows], (first[:rows],)
    elif isinstance(first, np.ndarray) and first.ndim == 1 and array.ndim == 1 and first.size > _MOST:
        share, key = first.size / _MOST, (first[:_MOST],)
    at: Any = np.zeros((), np.int64)
    for axis, (length, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        places = np.arange(length, dtype=np.int64) * stride
        shape = [length if other == axis else 1 for other in range(array.ndim)]
        at = at + np.broadcast_to(places.reshape(shape), array.shape)[key]
    return np.ravel(at), float(share)


def _whole(at: npt.NDArray[np.int64], run: int) -> float:
    """Bytes of the sectors of runs of at least one; runs that follow one another share the one between."""
    first, last = at // SECTOR, (at + run - 1) // SECTOR
    shared = np.count_nonzero(first[1:] == last[:-1])
    return float(SECTOR * (np.sum(last - first + 1) - shared))


def _merged(at: npt.NDArray[np.int64]) -> float:
    """Bytes of the sectors that each warp asks for; a line that it needs one sector of takes longer."""
    padded = np.concatenate((at, np.full(-at.size % WARP, at[-1])))
    sectors = np.sort(padded.reshape(-1, WARP) // SECTOR, axis=1)
    new = np.diff(sectors, axis=1, prepend=-1 - LINE) != 0
    warps = np.broadcast_to(np.arange(len(sectors))[:, None], sectors.shape)[new]
    lines = np.stack((warps, sectors[new] // (LINE // SECTOR)))
    begins = np.flatnonzero(np.r_[True, np.any(np.diff(lines, axis=1) != 0, axis=0)])
    alone = np.count_nonzero(np.diff(np.r_[begins, lines.shape[1]]) == 1)
    return float(SECTOR * (lines.shape[1] - alone) + _alone() * alone)


INDEX, SCATTER, WRITE, VIEW, REPEATED = "index", "scatter", "write", "view", "repeated"
"""REPEATED: a batched product that repeats an operand."""
_JOINING = ("concatenate", "stack", "vstack", "hstack")


def ufunc_seconds(name: str, method: str) -> float:
    return _host_seconds("cupy", name, "ufunc" if method == "__call__" else "reduction")


def call_seconds(name: str, arrays: int = 1) -> float:
    joining = _host_seconds("other", "joined_array") * arrays if name in _JOINING else 0.0
    return _host_seconds("cupy", name, "function") + joining


def torch_seconds(name: str) -> float:
    return _host_seconds("torch", name, "operator")


def _host_seconds(library: str, name: str, kind: str = "") -> float:
    """Host time of a call; of its kind if the call itself was not measured."""
    micros = _measured().host_microseconds
    return (micros[library].get(name) or micros["other"][kind]) * 1e-6


def ufunc_flops(ufunc: np.ufunc, method: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> float:
    """One operation per element; 2mnk for matmul and its kin; none for comparisons and bit operations."""
    size = float(max((np.size(x) for x in outputs), default=0))
    if ufunc.signature is not None:
        return 2 * size * np.shape(inputs[0])[-1] if ufunc.__name__ in _CONTRACTIONS else 0.0
    if ufunc.__name__ in _NO_ARITHMETIC or all(getattr(x, "dtype", None) == np.bool_ for x in outputs):
        return 0.0
    return float(np.size(inputs[0])) if method in ("reduce", "reduceat") else size


_CONTRACTIONS = ("matmul", "vecdot", "matvec", "vecmat")
_NO_ARITHMETIC = {
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_count", "invert", "left_shift", "right_shift"),
    *("positive", "conjugate", "signbit", "copysign", "isnan", "isinf", "isfinite"),
}
