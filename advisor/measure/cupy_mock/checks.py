"""Checks of the mock: refusals, as exceptions of CuPy's kinds, and calls that wait for the GPU.

CuPy's API by version (names, parameters, functions that wait) is in files that `tests/cupy_coverage.py`
writes from an installed CuPy; each has the command in it. Stages must not write arrays that are no buffers.
"""

from __future__ import annotations

import functools
import inspect
import json
import linecache
import re
import sys
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from advisor.devices.host import installed
from advisor.errors import WorkloadError, nearest
from advisor.measure.cupy_mock.traffic import extent
from advisor.measure.kept_results import some
from advisor.measure.namespaces import is_users, users_frame
from advisor.strategies.backend import Array
from advisor.workloads.stage_code import referred_to

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


PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
COMPARISON = "https://docs.cupy.dev/en/stable/reference/comparison.html"
"""CuPy's own table of what NumPy has and CuPy lacks."""


@dataclass(frozen=True)
class Coverage:
    """One version of CuPy. A callable has the names of its parameters, None where they cannot be read."""

    version: str
    names: Mapping[str, str | None]
    """Functions, ufuncs, types and constants, those of submodules as `linalg.norm`."""
    ndarray: Mapping[str, str | None]
    waits: frozenset[str]
    """Functions whose documentation says that they may synchronize."""

    def refused(self, parameters: str | None, count: int, keywords: Mapping[str, object]) -> str:
        """The part of a call that they do not accept: `where=`, or "6 arguments by position"; else empty."""
        if parameters is None:
            return ""
        words = parameters.split()
        positional = words[: words.index("*")] if "*" in words else words
        known = {word.lstrip("*") for word in words}
        unknown = [name for name in keywords if name not in known]
        if unknown and "**" not in words:
            return f"{unknown[0]}="
        open_ended = any(word.startswith("*") and len(word) > 1 for word in words)
        return f"{count} arguments by position" if count > len(positional) and not open_ended else ""


@cache
def coverage(version: str | None = None) -> Coverage:
    """Coverage of that CuPy version; by default of the installed CuPy, else of the newest known. The newest
    version known that is not above it counts for it, else the oldest."""
    files = {_number(path.stem.partition("-")[2]): path for path in Path(__file__).parent.glob("cupy-*.json")}
    target = _number(version or next(iter(installed(*PACKAGES).values()), "999"))
    fitting = [number for number in files if number <= target]
    data = json.loads(files[max(fitting, default=min(files))].read_text(encoding="utf-8"))
    release = ".".join(data["cupy"].split(".")[:2])
    return Coverage(release, data["names"], data["ndarray"], frozenset(data["waits"]))


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def unknown_name(error: BaseException) -> WorkloadError | None:
    """The error of a name that neither NumPy nor CuPy has, with one that is like it."""
    missing = missing_name(error)
    if missing is None or missing[0] in missing[1]:
        return None
    name, known = missing
    owner, last = name.rpartition(".")[0], name.rpartition(".")[2]
    have = {k.rpartition(".")[2] for k in known if k.rpartition(".")[0] == owner}
    have |= {*dir(getattr(error, "obj", None))}
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [each for each in frames if not each.filename.startswith(str(Path(np.__file__).parent))]
    place = f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno}, in {theirs[-1].name}: " if theirs else ""
    message = f"{place}neither NumPy nor CuPy has {name!r}{nearest(last, have)}"
    return WorkloadError(message, next_step="Correct the name.")


def missing_name(error: BaseException) -> tuple[str, dict[str, str | None]] | None:
    """The name that NumPy lacks, as CuPy would have it, and CuPy's names of its kind."""
    if not isinstance(error, AttributeError) or not error.name:
        return None
    owner = getattr(error, "obj", None)
    if isinstance(owner, ModuleType) and owner.__name__.partition(".")[0] == "numpy":
        prefix = owner.__name__.partition(".")[2]
        return (f"{prefix}.{error.name}" if prefix else error.name), dict(coverage().names)
    if isinstance(owner, np.ndarray) and hasattr(type(owner), "__array_ufunc__"):
        return error.name, dict(coverage().ndarray)
    return None


class Unknowable(BaseException):
    """CuPy's behaviour here is unknown without a GPU. Not an Exception, so that no stage catches it."""


@dataclass(frozen=True)
class Place:
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


class Refusal(Exception):
    """`write`: what to write in its place. `buffer`: the one that is refused, where that is known."""

    def __init__(self, why: str, write: str, place: Place, buffer: str = "") -> None:
        super().__init__(why)
        self.write, self.place, self.buffer = write, place, buffer


def _shown_as(kind: type[Exception]) -> type[Refusal]:
    """Refusals that a script, and its traceback, have as the exceptions that CuPy raises."""
    return type(kind.__name__, (Refusal, kind), {"__module__": "builtins"})


NoSuchName, NotTaken, NotFilled = map(_shown_as, (AttributeError, TypeError, ValueError))


@dataclass
class Watch:
    """Notes what device stages do. `stage`: the one that runs; `buffers`: all, by name; `waits`: how often
    which stage waits in which line, by the call, and what to write in its place."""

    coverage: Coverage
    buffers: Mapping[str, Array] = field(default_factory=dict)
    stage: str = ""
    waits: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)

    def refuse(self, kind: type[Refusal], why: str, write: str, *arrays: Any) -> NoReturn:
        """Raises as CuPy does, naming the line and the buffer among the arrays."""
        raise kind(why, write, user_line(), next(filter(None, map(self.owner, arrays)), ""))

    def wait(self, call: str, write: str) -> None:
        self.waits[self.stage, str(user_line()), call, write] += 1

    def lacks(self, name: str) -> NoReturn:
        step = f"Use what CuPy has ({COMPARISON}), or write a kernel: device(..., cpu=...)."
        self.refuse(NoSuchName, f"CuPy {self.coverage.version} has no {name}", step)

    def require_parameters(
        self, name: str, parameters: str | None, args: Any, keywords: Any, *owner: Any
    ) -> None:
        """Raises where CuPy's function of that name, or method of `owner`, does not take these arguments."""
        if what := self.coverage.refused(parameters, len(args), keywords):
            takes = (parameters or "").replace(" * ", " ").replace(" ", ", ")
            why = f"{name} of CuPy {self.coverage.version} does not take {what}"
            self.refuse(NotTaken, why, f"It takes {takes}.", *owner, *args)

    def require_on_gpu(self, call: str, values: Any, out: Any = None) -> None:
        if isinstance(out, np.ndarray):
            step = "Give it an array on the GPU: a buffer, or xp.empty(...)."
            self.refuse(NotTaken, f"{call} is given a NumPy array as out=", step)
        for value in values:
            if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.size > 1):
                why = f"{call} mixes a CuPy array with {kind_of(value)}, which CuPy refuses"
                self.refuse(NotTaken, why, _upload(), *values)

    def require_dtype(self, *arrays: Any) -> None:
        for array in arrays:
            dtype = getattr(array, "dtype", None)
            if isinstance(dtype, np.dtype) and (
                dtype.kind in "OSUMm" or dtype.char in "gG" or not dtype.isnative
            ):
                step = "Use bool, integers, float16 to float64 or complex numbers, in native byte order: "
                step += "int64 for datetimes, codes for text."
                self.refuse(NotTaken, f"CuPy has no arithmetic on arrays of {dtype}", step, array)

    def owner(self, array: Any) -> str:
        """The buffer that the array is, or is a view of; empty if it is none."""
        plain = getattr(array, "plain", array)
        if not isinstance(plain, np.ndarray):
            return ""
        low, high = extent(plain)
        spans = ((name, extent(buffer)) for name, buffer in self.buffers.items())
        return next((name for name, (start, end) in spans if start <= low and high <= end), "")


def user_line() -> Place:
    frame = users_frame(sys._getframe(1))
    return _place(frame.f_code.co_filename, frame.f_lineno) if frame else Place("", 0, "")


def _place(file: str, line: int) -> Place:
    return Place(file, line, linecache.getline(file, line).strip())


def kind_of(value: Any) -> str:
    return "a NumPy array" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"


def _upload() -> str:
    if "random" in user_line().text:
        return "Generate them on the GPU with xp.random, or convert them with xp.asarray(...)."
    return (
        "Convert it with xp.asarray(...) once, or make it a buffer that a set-up stage fills: each call of "
        "xp.asarray copies."
    )


def refused_by_library(error: Exception, watch: Watch) -> Refusal | None:
    """A library's refusal of CuPy's array; None for any other error."""
    if not _SIGNS.search(str(error)):
        return None
    frames = [f for f in traceback.walk_tb(error.__traceback__) if is_users(f[0].f_code.co_filename)]
    if not frames:
        return None
    frame, line = frames[-1]
    place = _place(frame.f_code.co_filename, line)
    home = type(error).__module__.partition(".")[0]
    library = home if home in _REMEDIES else "torch" if "np.ndarray" in str(error) else ""
    why, write = _REMEDIES.get(library, _OTHER)
    values = (v for n, v in frame.f_locals.items() if re.search(rf"\b{n}\b", place.text))
    owners = (watch.owner(value) for value in values if type(value).__module__ == "cupy")
    return Refusal(f"{why} ({type(error).__name__})", write, place, next(filter(None, owners), ""))


_WHOLE_BYTES = 64 << 20
"""Size of an array up to which all elements are looked at."""
_DEPTH = 4
"""Levels of containers, objects and functions that are searched."""
_MOST = 1000
"""Elements of a container that are looked at."""


def host_arrays(function: Callable[..., object]) -> dict[str, Array]:
    """The NumPy arrays that a function can write without taking them, by what it calls them."""
    arrays: dict[int, tuple[str, Array]] = {}
    for name, value in _reached(function, "", _DEPTH, set()):
        if isinstance(value, np.ndarray) and value.flags.writeable and not value.dtype.hasobject:
            arrays.setdefault(id(value), (name, value))
    return dict(arrays.values())


def sums(arrays: Mapping[str, Array]) -> dict[str, int]:
    samples = {name: a if a.nbytes <= _WHOLE_BYTES else some(a) for name, a in arrays.items()}
    return {name: zlib.crc32(array.tobytes()) for name, array in samples.items()}


def _reached(value: Any, name: str, depth: int, visited: set[int]) -> Iterator[tuple[str, Any]]:
    if not depth or id(value) in visited:
        return
    visited.add(id(value))
    yield name, value
    for inner, each in _inside(value, name):
        yield from _reached(each, inner, depth - 1, visited)


def _inside(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", each) for key, each in list(value.items())[:_MOST])
    elif isinstance(value, (list, tuple)):
        yield from ((f"{name}[{index}]", each) for index, each in enumerate(value[:_MOST]))
    elif isinstance(value, functools.partial):
        yield from ((key, each) for key, each in value.keywords.items())
        yield "", value.func
    elif isinstance(value, MethodType):
        yield from (("self", value.__self__), ("", value.__func__))
    elif isinstance(value, FunctionType):
        plain = inspect.unwrap(value)
        yield from (pair for pair in referred_to(plain) if not isinstance(pair[1], (ModuleType, type)))
        yield from (plain.__kwdefaults__ or {}).items()
        yield from ((f"default {index}", each) for index, each in enumerate(plain.__defaults__ or ()))
    elif is_users(str(getattr(sys.modules.get(type(value).__module__), "__file__", None) or "<unknown>")):
        yield from ((f"{name}.{key}".lstrip("."), each) for key, each in _own(value).items())
        yield "", _own(type(value)).get("__call__")


def _own(value: Any) -> Mapping[str, Any]:
    return dict(getattr(value, "__dict__", {}))
