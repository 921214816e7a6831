"""Checks of the mock: refusals, as exceptions of CuPy's kinds, and calls that wait for the GPU."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from advisor.measure.cupy_mock.coverage import COMPARISON, Coverage
from advisor.measure.regions import extent

Array = npt.NDArray[Any]
_OWN = (str(Path(__file__).parents[1]), str(Path(np.__file__).parent))
_INSTALLED = ("site-packages", "dist-packages")
_SIGNS = re.compile(
    r"np\.ndarray|cupy\.ndarray|numpy array|bytes-like object|buffer protocol|__array_interface__|"
    r"non-precise type pyobject",
    re.IGNORECASE,
)
_REMEDIES = {
    "torch": (
        "PyTorch takes NumPy arrays there, not CuPy's",
        'Let the stage have tensors, device(f, arrays="torch"), or use torch.as_tensor(...).',
    ),
    "numba": (
        "Numba compiles this function for the CPU, which cannot take CuPy arrays",
        'Write a kernel with numba.cuda.jit for device(f, arrays="numba"), or make it a host stage.',
    ),
    "cv2": ("OpenCV takes NumPy arrays, not CuPy's", "Make it a host stage, or use CuPy or cv2.cuda."),
}
_OTHER = (
    "it takes NumPy arrays, not CuPy's",
    "Make it a host stage, or use what CuPy and cupyx have; a.get() copies to the host, and waits.",
)


class Unknowable(BaseException):
    """CuPy's behaviour here is unknown without a GPU. Not an Exception, so that no stage catches it."""


@dataclass(frozen=True)
class Place:
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


@dataclass(frozen=True)
class Refused:
    why: str
    write: str
    place: Place
    buffer: str = ""


class Refusal(Exception):
    def __init__(self, reason: Refused) -> None:
        super().__init__(reason.why)
        self.reason = reason


class NoSuchName(Refusal, AttributeError):
    """CuPy's message for a missing name."""


class NotTaken(Refusal, TypeError):
    """CuPy's message for a refused argument."""


class NotFilled(Refusal, ValueError):
    """CuPy's message for a NumPy array assigned as a value."""


@dataclass(frozen=True)
class Waiting:
    call: str
    write: str
    place: Place


@dataclass
class Watch:
    """Notes what device stages do. `stage`: the one that runs; `buffers`: all, by name."""

    coverage: Coverage
    buffers: Mapping[str, Array] = field(default_factory=dict)
    stage: str = ""
    waits: Counter[tuple[str, Waiting]] = field(default_factory=Counter)

    def refuse(self, kind: type[Refusal], why: str, write: str, *arrays: Any) -> NoReturn:
        """Raises as CuPy does, naming the line and the buffer among the arrays."""
        names = [name for name in map(self.owner, arrays) if name]
        raise kind(Refused(why, write, user_line(), names[0] if names else ""))

    def wait(self, call: str, write: str) -> None:
        self.waits[self.stage, Waiting(call, write, user_line())] += 1

    def lacks(self, name: str) -> NoReturn:
        self.refuse(
            NoSuchName,
            f"CuPy {self.coverage.version} has no {name}",
            f"Use what CuPy has ({COMPARISON}), or write a kernel: device(..., cpu=...).",
        )

    def require_parameters(
        self, name: str, parameters: str | None, args: Any, keywords: Any, *owner: Any
    ) -> None:
        """Raises where CuPy's function of that name, or method of `owner`, does not take these arguments."""
        if what := self.coverage.refused(parameters, len(args), keywords):
            takes = (parameters or "").replace(" * ", " ").replace(" ", ", ")
            self.refuse(
                NotTaken,
                f"{name} of CuPy {self.coverage.version} does not take {what}",
                f"It takes {takes}.",
                *owner,
                *args,
            )

    def require_on_gpu(self, call: str, values: Any, out: Any = None) -> None:
        if isinstance(out, np.ndarray):
            self.refuse(
                NotTaken,
                f"{call} is given a NumPy array as out=",
                "Give it an array on the GPU: a buffer, or xp.empty(...).",
            )
        for value in values:
            if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.size > 1):
                what = "a NumPy array" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
                self.refuse(
                    NotTaken, f"{call} mixes a CuPy array with {what}, which CuPy refuses", _upload(), *values
                )

    def require_dtype(self, *arrays: Any) -> None:
        for array in arrays:
            dtype = getattr(array, "dtype", None)
            if isinstance(dtype, np.dtype) and (
                dtype.kind in "OSUMm" or dtype.char in "gG" or not dtype.isnative
            ):
                self.refuse(
                    NotTaken,
                    f"CuPy has no arithmetic on arrays of {dtype}",
                    "Use bool, integers, float16 to float64 or complex numbers, in native byte order: int64 "
                    "for datetimes, codes for text.",
                    array,
                )

    def owner(self, array: Any) -> str:
        """The buffer that the array is, or is a view of; nothing where it is none."""
        plain = getattr(array, "plain", array)
        if not isinstance(plain, np.ndarray):
            return ""
        low, high = extent(plain)
        spans = ((name, extent(buffer)) for name, buffer in self.buffers.items())
        return next((name for name, (start, end) in spans if start <= low and high <= end), "")


def is_users(file: str) -> bool:
    """Whether a file is outside of advisor, NumPy and what is installed beside it."""
    return not file.startswith((*_OWN, "<")) and not any(part in file for part in _INSTALLED)


def user_line() -> Place:
    frame: Any = sys._getframe(1)
    first = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_OWN):
            first = first or frame
            if is_users(file):
                break
        frame = frame.f_back
    chosen = frame or first
    file, line = (chosen.f_code.co_filename, chosen.f_lineno) if chosen else ("", 0)
    return Place(file, line, linecache.getline(file, line).strip())


def _upload() -> str:
    if "random" in user_line().text:
        return "Generate them on the GPU with xp.random, or convert them with xp.asarray(...)."
    return (
        "Convert it with xp.asarray(...) once, or make it a buffer that a set-up stage fills: each call of "
        "xp.asarray copies."
    )


def refused_by_library(error: Exception, watch: Watch) -> Refused | None:
    """A library's refusal of CuPy's array; None for any other error."""
    if not _SIGNS.search(str(error)):
        return None
    frames = [f for f in traceback.walk_tb(error.__traceback__) if is_users(f[0].f_code.co_filename)]
    if not frames:
        return None
    frame, line = frames[-1]
    file = frame.f_code.co_filename
    place = Place(file, line, linecache.getline(file, line).strip())
    home = type(error).__module__.partition(".")[0]
    library = home if home in _REMEDIES else "torch" if "np.ndarray" in str(error) else ""
    why, write = _REMEDIES.get(library, _OTHER)
    named = (v for n, v in frame.f_locals.items() if re.search(rf"\b{n}\b", place.text))
    owners = (watch.owner(value) for value in named if type(value).__module__ == "cupy")
    return Refused(f"{why} ({type(error).__name__})", write, place, next(filter(None, owners), ""))
