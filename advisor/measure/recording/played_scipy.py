"""cupyx.scipy without a GPU: SciPy computes. Parts of sparse matrices are uploaded as CuPy does."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from advisor.measure.cupy_mock.arrays import stripped, wrapped
from advisor.measure.cupy_mock.checks import Watch
from advisor.measure.recording.played import CannotPlay, Played

_SCIPY = ("fft", "interpolate", "linalg", "ndimage", "signal", "spatial", "special", "stats")
_PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}
"""What CuPy copies of SciPy's matrix, each with a call of its own (cupyx/scipy/sparse/_compressed.py)."""
_MAKING = ("eye", "identity", "diags", "spdiags", "kron", "hstack", "vstack", "bmat", "tril", "triu", "rand")
_OPERATORS = ("add", "radd", "sub", "rsub", "mul", "rmul", "matmul", "truediv", "pow", "neg", "abs")


class Sparse:
    """A matrix of the GPU; `plain` is SciPy's."""

    cupy: ClassVar[Any]
    watch: ClassVar[Any]
    kinds: ClassVar[dict[str, type[Any]]] = {}
    format = "csr"

    def __init__(self, given: Any, shape: Any = None, dtype: Any = None, copy: bool = False) -> None:
        scipy = _scipy()
        if isinstance(given, np.ndarray):
            raise ValueError("Unsupported initializer format")  # CuPy's words
        if scipy.issparse(given):
            given = given.asformat(self.format)
            for part in _PARTS[self.format]:
                self.cupy.array(getattr(given, part), dtype=None if part == "data" else "i")
        make = getattr(scipy, f"{self.format}_matrix")
        self.plain = make(_plain(given), shape=shape, dtype=dtype, copy=copy)
        self.watch.uses_cupyx = True

    def get(self, stream: Any = None) -> Any:
        """SciPy's matrix; its parts are downloaded one by one."""
        for part in _PARTS.get(self.plain.format, ()):
            wrapped(getattr(self.plain, part), self.watch).get(stream)
        return self.plain.copy()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        member = getattr(self.plain, name)
        return _computing(member) if callable(member) else _given(member)

    def __getitem__(self, key: Any) -> Any:
        return _given(self.plain[_plain(key)])


def modules(cupyx: Any, cupy: Any, watch: Watch) -> list[ModuleType]:
    """cupyx.scipy's modules compute with SciPy's functions of the same name."""
    for name in _SCIPY:
        setattr(cupyx.scipy, name, _Scipy(name, watch))
    cupyx.scipy.sparse = _sparse(cupy, watch)
    return [*(getattr(cupyx.scipy, name) for name in _SCIPY), cupyx.scipy.sparse, cupyx.scipy.sparse.linalg]


class _Scipy(ModuleType):
    def __init__(self, name: str, watch: Any) -> None:
        super().__init__(f"cupyx.scipy.{name}")
        self._plain_name, self._watch = f"scipy.{name}", watch

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._watch.uses_cupyx = True
        try:
            member = getattr(import_module(self._plain_name), name)
        except ImportError as error:
            raise CannotPlay(
                f"{self.__name__} is played by SciPy, which is missing: it cannot be played"
            ) from error
        return lambda *args, **options: wrapped(member(*stripped(args), **stripped(options)), self._watch)


def _sparse(cupy: Any, watch: Watch) -> Any:
    """cupyx.scipy.sparse, and its linalg, whose solvers wait as nobody knows."""
    Sparse.cupy, Sparse.watch = cupy, watch
    sparse: Any = Played("cupyx.scipy.sparse")
    sparse.__path__ = []
    sparse.spmatrix = Sparse
    for kind in _PARTS:
        name = f"{kind}_matrix"
        Sparse.kinds[kind] = type(name, (Sparse,), {"format": kind})
        setattr(sparse, name, Sparse.kinds[kind])
        setattr(sparse, f"isspmatrix_{kind}", lambda value, kind=kind: _is(value) and value.format == kind)
    sparse.issparse = sparse.isspmatrix = _is
    for name in _MAKING:
        setattr(sparse, name, lambda *args, name=name, **to: _computing(getattr(_scipy(), name))(*args, **to))
    sparse.linalg = Played("cupyx.scipy.sparse.linalg")
    for name in _OPERATORS:
        name = f"__{name}__"
        setattr(Sparse, name, lambda self, *args, name=name: _computing(getattr(self.plain, name))(*args))
    return sparse


def _scipy() -> Any:
    try:
        return import_module("scipy.sparse")
    except ImportError as error:
        raise CannotPlay(
            "cupyx.scipy.sparse is played by SciPy, which is missing: it cannot be played"
        ) from error


def _is(value: Any) -> bool:
    return isinstance(value, Sparse)


def _plain(value: Any) -> Any:
    """SciPy's and NumPy's in place of the GPU's."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value))
    return value.plain if _is(value) else stripped(value)


def _given(value: Any) -> Any:
    """A result as CuPy has it."""
    if not _scipy().issparse(value):
        return wrapped(np.asarray(value) if isinstance(value, np.matrix) else value, Sparse.watch)
    matrix = object.__new__(Sparse.kinds.get(value.format, Sparse))
    matrix.plain, matrix.format = value, value.format
    return matrix


def _computing(call: Callable[..., Any]) -> Callable[..., Any]:
    def computed(*args: Any, **options: Any) -> Any:
        if any(isinstance(each, np.ndarray) and each.ndim for each in args):
            raise TypeError("an array of NumPy's is given where CuPy takes its own")
        return _given(call(*map(_plain, args), **{key: _plain(value) for key, value in options.items()}))

    return computed
