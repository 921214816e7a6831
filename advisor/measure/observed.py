"""One call of a user's function, watched in a separate process: for `advisor new FILE --from`.

The file is run as a script until it calls the function. What the call was given, what it changed and what it
returned is told; an array that it overwrites without reading is found by calling it again on copies that hold
something else.
"""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Literal

import numpy as np

from advisor.errors import UsageError, WorkloadError, nearest
from advisor.profiles.base import Record
from advisor.profiles.schema import AccessMode
from advisor.profiles.scratch import scratch
from advisor.workloads.definition import RESERVED

Kind = Literal["array", "value", "xp"]
_TIMEOUT = 120.0
_PLAIN = (bool, int, float, str)
_FILLS = (0x00, 0x40)
"""Bytes that stand in an array before the two calls that tell whether it is read; as floats 0 and 2 to 33."""


class Argument(Record):
    """One argument or result. Arrays have shape, dtype and what is done to them; other values their text."""

    name: str
    kind: Kind
    shape: tuple[int, ...] = ()
    dtype: str = ""
    mode: AccessMode = "in"
    value: bool | int | float | str | None = None


class Observed(Record):
    """One call. `problem` is why it could not be taken; `inputs` are saved beside, by name.

    results: one for each part of a tuple; those that need no buffer, as None, are values named `_`.
    """

    arguments: tuple[Argument, ...] = ()
    results: tuple[Argument, ...] = ()
    problem: str = ""

    @property
    def arrays(self) -> tuple[Argument, ...]:
        """What needs a buffer: array arguments, then array results."""
        return tuple(each for each in (*self.arguments, *self.results) if each.kind == "array")


class _Seen(BaseException):
    """The call has returned: the script is not needed any more."""


def observe(file: Path, function: str, inputs: Path) -> Observed:
    """Runs the file until it calls the function; the arrays it was given go to `inputs`, an .npz file.

    Raises `WorkloadError` where the file fails before, `UsageError` where it never calls it.
    """
    with scratch() as folder:
        told = folder / "call.json"
        names = (str(file), function, str(told), str(inputs))
        command = [sys.executable, "-m", "advisor.measure.observed", *names]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"{file} did not call {function} within {_TIMEOUT:.0f} s",
                next_step="Call it earlier in the file.",
            ) from None
        if not told.exists():
            if done.returncode == 0:
                _require_function(file, function)
                raise UsageError(
                    f"running {file} does not call {function}",
                    next_step='Call it once with real data, under: if __name__ == "__main__":',
                )
            raise WorkloadError(
                f"{file} failed before it called {function}",
                next_step="Check that the file runs with python.",
                detail=done.stderr.strip()[-2000:],
            )
        found = Observed.model_validate_json(told.read_text(encoding="utf-8"))
    if found.problem:
        raise UsageError(
            f"{file}::{function}: {found.problem}",
            next_step="Use a function of arrays, numbers and strings; wrap anything else.",
        )
    return found


def _require_function(file: Path, function: str) -> None:
    """Raises `UsageError` where the file, which runs, defines no function of that name."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    defined = {node.name for node in ast.walk(ast.parse(file.read_bytes())) if isinstance(node, kinds)}
    if function not in defined:
        raise UsageError(
            f"{file} has no function {function!r}{nearest(function, defined)}",
            next_step=f"It has: {', '.join(sorted(defined))}." if defined else "Name a file that has one.",
        )


def main(file: str, function: str, told: str, inputs: str) -> None:
    """The watching process."""
    path = Path(file).resolve()
    begun: dict[str, tuple[Any, Any]] = {}

    def watch(frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if code.co_name != function or Path(code.co_filename).resolve() != path:
            return
        if event == "call" and not begun:
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            begun.update({name: (frame.f_locals[name], _copied(frame.f_locals[name])) for name in names})
            begun["return"] = (frame, None)
        elif event == "return" and begun.get("return", (None,))[0] is frame:
            sys.setprofile(None)
            del begun["return"]
            seen = _observed(begun, value, frame.f_globals.get(function))
            arrays: Any = {name: before for name, (_, before) in begun.items() if before is not None}
            np.savez(inputs, **arrays)
            Path(told).write_text(seen.model_dump_json(), encoding="utf-8")
            raise _Seen

    sys.path.insert(0, str(path.parent))
    sys.argv = [file]
    sys.setprofile(watch)
    try:
        runpy.run_path(file, run_name="__main__")
    except _Seen:
        return
    finally:
        sys.setprofile(None)


def _observed(given: dict[str, tuple[Any, Any]], result: Any, function: Any) -> Observed:
    arguments = []
    for name, (value, before) in given.items():
        if isinstance(value, ModuleType):
            arguments.append(Argument(name=name, kind="xp"))
        elif isinstance(before, np.ndarray) and name in RESERVED:
            return Observed(problem=f"its argument {name!r} is an array, and no buffer can have that name")
        elif isinstance(before, np.ndarray):
            changed = not np.array_equal(_host(value), before, equal_nan=before.dtype.kind in "fc")
            mode: AccessMode = "inout" if changed else "in"
            arguments.append(_array(name, before, mode))
        elif value is None or isinstance(value, _PLAIN):
            arguments.append(Argument(name=name, kind="value", value=value))
        else:
            return Observed(problem=f"its argument {name!r} is a {type(value).__name__}")
    outputs = _overwritten(function, given, [a.name for a in arguments if a.mode == "inout"])
    modes = [a.model_copy(update={"mode": "out"}) if a.name in outputs else a for a in arguments]
    try:
        return Observed(arguments=tuple(modes), results=_results(result, given))
    except (TypeError, ValueError):
        return Observed(problem=f"it returns a {type(result).__name__} of what is no array")


def _results(result: Any, given: Mapping[str, tuple[Any, Any]]) -> tuple[Argument, ...]:
    """What is returned, part by part. Raises `TypeError` or `ValueError` for what no buffer can hold."""
    own = {id(value) for value, _ in given.values()}
    several = isinstance(result, (tuple, list)) and any(isinstance(_host(p), np.ndarray) for p in result)
    names = (name for name in ("result", *(f"result_{i}" for i in range(2, 1000))) if name not in given)
    told: list[Argument] = []
    for part in result if several or isinstance(result, tuple) else (result,):
        if part is None or id(part) in own:
            told.append(Argument(name="_", kind="value"))
            continue
        host = np.asarray(_host(part))
        if host.dtype.hasobject:
            raise TypeError(type(part).__name__)
        told.append(_array(next(names), np.atleast_1d(host), "out"))
    return tuple(told) if any(each.kind == "array" for each in told) else ()


def _overwritten(function: Any, given: dict[str, tuple[Any, Any]], changed: list[str]) -> set[str]:
    """The changed arrays that hold the same afterwards, whatever they held before."""
    return {name for name in changed if callable(function) and _is_overwritten(function, given, name)}


def _is_overwritten(function: Any, given: dict[str, tuple[Any, Any]], name: str) -> bool:
    after = set()
    for fill in _FILLS:
        copies = {n: value if before is None else before.copy() for n, (value, before) in given.items()}
        copies[name].reshape(-1).view(np.uint8)[:] = fill
        try:
            function(**copies)
        except Exception:
            return False
        after.add(copies[name].tobytes())
    return len(after) == 1


def _array(name: str, array: Any, mode: AccessMode) -> Argument:
    return Argument(name=name, kind="array", shape=array.shape, dtype=str(array.dtype), mode=mode)


def _host(value: Any) -> Any:
    """A CuPy array or a CPU tensor as NumPy's."""
    return value.get() if hasattr(value, "__cuda_array_interface__") and hasattr(value, "get") else value


def _copied(value: Any) -> Any:
    host = _host(value)
    return np.array(host) if isinstance(host, np.ndarray) and host.ndim else None


if __name__ == "__main__":
    main(*sys.argv[1:])
