"""Expressions of device stages, and whether CuPy runs them: `tests/gpu/test_imitations_on_gpu.py` asks CuPy.

Each takes `xp` and two arrays on the GPU, `a` of 64 and `m` of 8 by 8 float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[[Any, Any, Any], object]
HOST = np.arange(64, dtype=np.float32)
CACHE: dict[str, Any] = {}


def in_place(xp: Any, a: Any, m: Any) -> object:
    a += 1
    a[:4] *= 2
    m[0, 0] = 3
    m[1] = a[:8]
    a[a > 5] = 0
    a[xp.arange(3)] = 7
    return m


def view_of_one(xp: Any, a: Any, m: Any) -> object:
    one = a[0]
    one += 5
    return a


def writes_out(xp: Any, a: Any, m: Any) -> object:
    out = xp.empty_like(a)
    xp.multiply(a, 2, out=out)
    xp.multiply(a, 2, out)
    np.add(a, 1, out=out)
    a.sum(out=out[0])
    xp.sum(m, axis=1, out=out[:8])
    return xp.copyto(out, a)


def branch(xp: Any, a: Any, m: Any) -> object:
    total = 0
    for row in m:
        if row.max() > 0 and not (row < -1).any():
            total += float(row.sum()) + row[0].item() + int(row[1])
    return total, len(m), range(int(a[1])), [0] * 3, f"{float(a[0]):.3f}"


def both_kinds(xp: Any, a: Any, m: Any) -> object:
    host = xp.asnumpy(a)
    host[0] = 1
    return (
        np.dot(host, host),
        a.get().sum(),
        xp.get_array_module(a).sqrt(a),
        xp.get_array_module(host).sqrt(host),
    )


def caught(xp: Any, a: Any, m: Any) -> object:
    try:
        return np.asarray(a)
    except TypeError:
        return a.get()


def written(table: str) -> dict[str, Case]:
    """By name, the cases of a table of `name: expression`; lines that are indented go on."""
    lines = table.replace("\n    ", " ").splitlines()
    cases = (line.partition(": ")[::2] for line in lines)
    return {
        name: eval(compile(f"lambda xp, a, m: ({text})", __file__, "eval"), globals()) for name, text in cases
    }


RUNS: dict[str, Case] = {
    "in place": in_place,
    "a view of one element": view_of_one,
    "out=": writes_out,
    "values on the host": branch,
    "both kinds of array": both_kinds,
    "a refusal that is caught": caught,
    **written(
        """\
operators: -a + 2 * a - a / 3 + a ** 2 // 2 % 5, ~(a > 3), abs(a), (a > 1) & (a < 9), 1 - a
matrix product: m @ m, xp.dot(m, m), xp.matmul(m, m[0]), xp.einsum('ij,jk->ik', m, m)
numbers of numpy: a * np.float32(2), np.float64(2) * a, a + np.int32(3), a * np.pi
numpy's functions on its arrays: np.sum(a), np.sqrt(a), np.maximum(a, 0), np.linalg.norm(a)
numpy's concatenate: np.concatenate([a, a]), np.where(a > 0, a, 0), np.clip(a, 0, 1)
upload: a + xp.asarray(HOST) + xp.array([1, 2])[0] + xp.asarray(np.arange(64))
kept uploads: a * CACHE.setdefault(xp.__name__, xp.asarray(HOST))
an index of numpy's: a[np.arange(3)], a[[1, 2]], m[:, np.array([0, 1])], a[HOST > 3]
methods: a.mean(), a.std(), m.T.copy(), m.reshape(-1)[::2], a.astype(np.int32).max(), m.ravel()
more methods: a.argmax(), m.sum(axis=0, keepdims=True), a.clip(0, 1), a.dot(a), a.nonzero()
reductions: xp.mean(m, axis=1), xp.var(a), xp.median(a), xp.percentile(a, 50), xp.argsort(a)
making: xp.zeros((2, 2), np.float32), xp.ones_like(a), xp.full(3, 7), xp.linspace(0, 1, 5)
fft: xp.abs(xp.fft.rfft(a)) ** 2
linear algebra: xp.linalg.norm(m), xp.trace(m), xp.outer(a, a), xp.tensordot(m, m, 1)
random numbers: a + xp.random.random(64).astype(np.float32) + xp.random.rand(64)
shapes: a.shape, a.ndim, m[None].squeeze(), xp.expand_dims(a, 0), xp.broadcast_to(a, (2, 64))
dtypes: xp.float32(2), xp.dtype('f4'), xp.finfo(xp.float32).eps, a.dtype == np.float32
sorting: xp.sort(a), xp.unique(a), xp.cumsum(a), xp.histogram(a, 4), xp.searchsorted(xp.sort(a), a)
joining: xp.stack([a, a]), xp.hstack([m, m]), xp.pad(m, 1, mode='edge'), xp.roll(a, 3), xp.tile(a, 2)
splitting: xp.split(a, 4), xp.meshgrid(a[:3], a[:2]), xp.r_
masks: xp.where(a > 3, a, -a), a[a > 3].size, xp.count_nonzero(a), xp.any(a), bool(xp.allclose(a, a))
names that it may lack: hasattr(xp, 'nothing') or getattr(xp, 'spacing', None) is not None
fill: a.fill(3), a.fill(np.float32(2)), xp.copyto(a, 3)
setting all: m.__setitem__(Ellipsis, xp.asarray(HOST.reshape(8, 8)))
complex: a + 1j, xp.exp(1j * a), (a * 1j).real, xp.angle(a * 1j)
bits: a.astype(np.uint8) << 2, a.view(np.uint32) & 255, xp.bitwise_xor(a.view(np.int32), 3)
a subtraction of a 0-d array of numpy's: a - HOST.sum(), a > HOST.max(), a * HOST.mean()
an array of no dimension: a - a.mean(), a / a.max(), a[0] * m, xp.minimum(a, a[3])
a datetime that is only viewed: a.view(np.int32).view('i4')
sliding windows: xp.lib.stride_tricks.as_strided(a, (61, 4), (4, 4)).sum(axis=1)
loops over indices: [a[i] for i in range(3)] + [m[i, i] for i in range(2)]
isinstance: isinstance(a, xp.ndarray) and (not isinstance(a, np.ndarray))
take and put: xp.take(a, xp.arange(3)), m.take(xp.arange(2), axis=0), a.take([1, 2])
"""
    ),
}
REFUSED = written(
    """\
np.asarray: np.asarray(a)
np.array: np.array([a[0], a[1]])
a number of numpy's of it: np.float32(a[0])
an array of numpy's as operand: a * HOST
the same from the left: HOST * a
a list as operand: a[:2] + [1, 2]
np.random as operand: a + np.random.rand(64)
xp with an array of numpy's: xp.add(a, HOST)
out= of numpy's: np.add(a, 1, out=HOST.copy())
xp's out= of numpy's: xp.add(a, 1, out=HOST.copy())
in place of numpy's: HOST.copy().__iadd__(a)
assigned to numpy's: HOST.copy().__setitem__(slice(3), a[:3])
assigned from numpy's: a.__setitem__(Ellipsis, HOST)
assigned from a list: a.__setitem__(slice(2), [1, 2])
filled from numpy's: a.fill(HOST)
np.copyto: np.copyto(HOST.copy(), a)
concatenated with numpy's: xp.concatenate([a, HOST])
stacked with numpy's: xp.stack([HOST, a])
where of numpy's: xp.where(a > 3, HOST, 0)
a product with numpy's: m @ np.eye(8, dtype=np.float32)
dot with numpy's: xp.dot(a, HOST)
where= of a ufunc: xp.add(a, 1, where=a > 0)
where= of np's: np.add(a, 1, where=a > 0, out=a)
where= of a sum: xp.sum(a, where=a > 0)
initial= of a method: a.sum(initial=3)
initial= of a maximum: a.max(initial=0)
a name it lacks: xp.spacing(a)
the same by np: np.spacing(a)
np's function it lacks: np.insert(a, 0, 1)
a method it lacks: a.setflags(write=False)
ctypes: a.ctypes.data
texts: xp.asarray(['a', 'b'])
objects: xp.array([None, 1])
datetimes: a.view(np.int32)[:2].view('M8[s]') - np.datetime64(0, 's')
long double: xp.sqrt(a.view(np.longdouble))
scipy: __import__('scipy.ndimage').ndimage.gaussian_filter(a, 1.0)
"""
)
