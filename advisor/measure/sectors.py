"""What scattered reads fetch of memory that the GPU does not cache: whole sectors, a line at most at once.

A load of 4 bytes fetches a sector of 32 (CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"),
and the loads of a warp are merged by line. Bytes that lie together and fill whole sectors cross once. Over a
link a request for one sector alone takes longer than its bytes, as measured on random elements
(routines.toml).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.measure import routines

Array = npt.NDArray[Any]
SECTOR, LINE, WARP = 32, 128, 32
_MOST = 1 << 20
"""Places of a gather that are looked at; those of a larger one are taken to be like its first."""


def gathered_beyond(array: Array, key: Any) -> float:
    """Bytes that `array[key]` fetches beyond those it gathers."""
    if not array.size:
        return 0.0
    lead, key, run = _runs(array, key if isinstance(key, tuple) else (key,))
    at, share = _offsets(lead, key)
    if not at.size:
        return 0.0
    fetched = _whole(at, run) if run >= SECTOR else _merged(at)
    return max(fetched - at.size * run, 0.0) * share * routines.past_the_l1(array)


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
    """Bytes that a reduction over these axes (None: all) fetches beyond its own.

    Where neighbours in memory are reduced, CuPy's kernels take the elements of one result after another, so
    that pieces shorter than a line come from places that lie apart. Other reductions read whole lines.
    """
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
    return max(fetched - at.size * array.itemsize, 0.0) * share * routines.past_the_l1(array)


def _alone() -> float:
    """Bytes in whose time a request for one sector crosses."""
    kind = np.dtype(np.float32)
    return routines.passes(routines.TAKE, kind) * kind.itemsize


def _runs(array: Array, key: tuple[Any, ...]) -> tuple[Array, tuple[Any, ...], int]:
    """The array without the last axes that the key takes whole, the key, and the bytes that lie together."""
    while key and isinstance(key[-1], slice) and key[-1] == slice(None):
        key = key[:-1]
    if any(part is Ellipsis for part in key):
        return array, key, array.itemsize
    taken = sum(part.ndim if _is_mask(part) else part is not None for part in map(_array, key))
    inner = array[(0,) * taken]
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
