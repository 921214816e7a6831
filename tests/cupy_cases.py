"""Expressions of device stages, and whether CuPy runs them: `tests/gpu/test_cupy_mock_on_gpu.py` asks CuPy.

Each takes `xp` and two arrays on the GPU, `a` of 64 and `m` of 8 by 8 float32.
"""

from __future__ import annotations

import operator
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


RUNS: dict[str, Case] = {
    "in place": in_place,
    "a view of one element": view_of_one,
    "out=": writes_out,
    "values on the host": branch,
    "both kinds of array": both_kinds,
    "a refusal that is caught": caught,
    "operators": lambda xp, a, m: (
        -a + 2 * a - a / 3 + a**2 // 2 % 5,
        ~(a > 3),
        abs(a),
        (a > 1) & (a < 9),
        1 - a,
    ),
    "matrix product": lambda xp, a, m: (
        m @ m,
        xp.dot(m, m),
        xp.matmul(m, m[0]),
        xp.einsum("ij,jk->ik", m, m),
    ),
    "numbers of numpy": lambda xp, a, m: (a * np.float32(2), np.float64(2) * a, a + np.int32(3), a * np.pi),
    "numpy's functions on its arrays": lambda xp, a, m: (
        np.sum(a),
        np.sqrt(a),
        np.maximum(a, 0),
        np.linalg.norm(a),
    ),
    "numpy's concatenate": lambda xp, a, m: (np.concatenate([a, a]), np.where(a > 0, a, 0), np.clip(a, 0, 1)),
    "upload": lambda xp, a, m: a + xp.asarray(HOST) + xp.array([1, 2])[0] + xp.asarray(np.arange(64)),
    "kept uploads": lambda xp, a, m: a * CACHE.setdefault(xp.__name__, xp.asarray(HOST)),
    "an index of numpy's": lambda xp, a, m: (a[np.arange(3)], a[[1, 2]], m[:, np.array([0, 1])], a[HOST > 3]),
    "methods": lambda xp, a, m: (
        a.mean(),
        a.std(),
        m.T.copy(),
        m.reshape(-1)[::2],
        a.astype(np.int32).max(),
        m.ravel(),
    ),
    "more methods": lambda xp, a, m: (
        a.argmax(),
        m.sum(axis=0, keepdims=True),
        a.clip(0, 1),
        a.dot(a),
        a.nonzero(),
    ),
    "reductions": lambda xp, a, m: (
        xp.mean(m, axis=1),
        xp.var(a),
        xp.median(a),
        xp.percentile(a, 50),
        xp.argsort(a),
    ),
    "making": lambda xp, a, m: (
        xp.zeros((2, 2), np.float32),
        xp.ones_like(a),
        xp.full(3, 7),
        xp.linspace(0, 1, 5),
    ),
    "fft": lambda xp, a, m: xp.abs(xp.fft.rfft(a)) ** 2,
    "linear algebra": lambda xp, a, m: (
        xp.linalg.norm(m),
        xp.trace(m),
        xp.outer(a, a),
        xp.tensordot(m, m, 1),
    ),
    "random numbers": lambda xp, a, m: a + xp.random.random(64).astype(np.float32) + xp.random.rand(64),
    "shapes": lambda xp, a, m: (
        a.shape,
        a.ndim,
        m[None].squeeze(),
        xp.expand_dims(a, 0),
        xp.broadcast_to(a, (2, 64)),
    ),
    "dtypes": lambda xp, a, m: (
        xp.float32(2),
        xp.dtype("f4"),
        xp.finfo(xp.float32).eps,
        a.dtype == np.float32,
    ),
    "sorting": lambda xp, a, m: (
        xp.sort(a),
        xp.unique(a),
        xp.cumsum(a),
        xp.histogram(a, 4),
        xp.searchsorted(xp.sort(a), a),
    ),
    "joining": lambda xp, a, m: (
        xp.stack([a, a]),
        xp.hstack([m, m]),
        xp.pad(m, 1, mode="edge"),
        xp.roll(a, 3),
        xp.tile(a, 2),
    ),
    "splitting": lambda xp, a, m: (xp.split(a, 4), xp.meshgrid(a[:3], a[:2]), xp.r_),
    "masks": lambda xp, a, m: (
        xp.where(a > 3, a, -a),
        a[a > 3].size,
        xp.count_nonzero(a),
        xp.any(a),
        bool(xp.allclose(a, a)),
    ),
    "names that it may lack": lambda xp, a, m: (
        hasattr(xp, "nothing") or getattr(xp, "spacing", None) is not None
    ),
    "fill": lambda xp, a, m: (a.fill(3), a.fill(np.float32(2)), xp.copyto(a, 3)),
    "setting all": lambda xp, a, m: m.__setitem__(Ellipsis, xp.asarray(HOST.reshape(8, 8))),
    "complex": lambda xp, a, m: (a + 1j, xp.exp(1j * a), (a * 1j).real, xp.angle(a * 1j)),
    "bits": lambda xp, a, m: (
        a.astype(np.uint8) << 2,
        a.view(np.uint32) & 0xFF,
        xp.bitwise_xor(a.view(np.int32), 3),
    ),
    "a subtraction of a 0-d array of numpy's": lambda xp, a, m: (
        a - HOST.sum(),
        a > HOST.max(),
        a * HOST.mean(),
    ),
    "an array of no dimension": lambda xp, a, m: (a - a.mean(), a / a.max(), a[0] * m, xp.minimum(a, a[3])),
    "a datetime that is only viewed": lambda xp, a, m: a.view(np.int32).view("i4"),
    "sliding windows": lambda xp, a, m: xp.lib.stride_tricks.as_strided(a, (61, 4), (4, 4)).sum(axis=1),
    "loops over indices": lambda xp, a, m: [a[i] for i in range(3)] + [m[i, i] for i in range(2)],
    "isinstance": lambda xp, a, m: isinstance(a, xp.ndarray) and not isinstance(a, np.ndarray),
    "take and put": lambda xp, a, m: (xp.take(a, xp.arange(3)), m.take(xp.arange(2), axis=0), a.take([1, 2])),
}
REFUSED: dict[str, Case] = {
    "np.asarray": lambda xp, a, m: np.asarray(a),
    "np.array": lambda xp, a, m: np.array([a[0], a[1]]),
    "a number of numpy's of it": lambda xp, a, m: np.float32(a[0]),
    "an array of numpy's as operand": lambda xp, a, m: a * HOST,
    "the same from the left": lambda xp, a, m: HOST * a,
    "a list as operand": lambda xp, a, m: operator.add(a[:2], [1, 2]),
    "np.random as operand": lambda xp, a, m: a + np.random.rand(64),
    "xp with an array of numpy's": lambda xp, a, m: xp.add(a, HOST),
    "out= of numpy's": lambda xp, a, m: np.add(a, 1, out=HOST.copy()),
    "xp's out= of numpy's": lambda xp, a, m: xp.add(a, 1, out=HOST.copy()),
    "in place of numpy's": lambda xp, a, m: HOST.copy().__iadd__(a),
    "assigned to numpy's": lambda xp, a, m: HOST.copy().__setitem__(slice(3), a[:3]),
    "assigned from numpy's": lambda xp, a, m: a.__setitem__(Ellipsis, HOST),
    "assigned from a list": lambda xp, a, m: a.__setitem__(slice(2), [1, 2]),
    "filled from numpy's": lambda xp, a, m: a.fill(HOST),
    "np.copyto": lambda xp, a, m: np.copyto(HOST.copy(), a),
    "concatenated with numpy's": lambda xp, a, m: xp.concatenate([a, HOST]),
    "stacked with numpy's": lambda xp, a, m: xp.stack([HOST, a]),
    "where of numpy's": lambda xp, a, m: xp.where(a > 3, HOST, 0),
    "a product with numpy's": lambda xp, a, m: m @ np.eye(8, dtype=np.float32),
    "dot with numpy's": lambda xp, a, m: xp.dot(a, HOST),
    "where= of a ufunc": lambda xp, a, m: xp.add(a, 1, where=a > 0),
    "where= of np's": lambda xp, a, m: np.add(a, 1, where=a > 0, out=a),
    "where= of a sum": lambda xp, a, m: xp.sum(a, where=a > 0),
    "initial= of a method": lambda xp, a, m: a.sum(initial=3),
    "initial= of a maximum": lambda xp, a, m: a.max(initial=0),
    "a name it lacks": lambda xp, a, m: xp.spacing(a),
    "the same by np": lambda xp, a, m: np.spacing(a),
    "np's function it lacks": lambda xp, a, m: np.insert(a, 0, 1),
    "a method it lacks": lambda xp, a, m: a.setflags(write=False),
    "ctypes": lambda xp, a, m: a.ctypes.data,
    "texts": lambda xp, a, m: xp.asarray(["a", "b"]),
    "objects": lambda xp, a, m: xp.array([None, 1]),
    "datetimes": lambda xp, a, m: a.view(np.int32)[:2].view("M8[s]") - np.datetime64(0, "s"),
    "long double": lambda xp, a, m: xp.sqrt(a.view(np.longdouble)),
    "scipy": lambda xp, a, m: __import__("scipy.ndimage").ndimage.gaussian_filter(a, 1.0),
}
