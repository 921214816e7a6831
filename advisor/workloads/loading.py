"""Loads a user's workload file, and tells the user's mistakes from ours."""

from __future__ import annotations

import difflib
import dis
import hashlib
import importlib.machinery
import importlib.util
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import psutil

from advisor import units
from advisor.devices.host import ROOT, Tree, group_limit
from advisor.errors import AdvisorError, FileProblem, WorkloadError, nearest
from advisor.profiles.files import read_bytes
from advisor.profiles.schema import WorkloadRecord
from advisor.profiles.secrets import is_secret, masked_and_bounded, of_process
from advisor.texts import bounded
from advisor.workloads.binding import BoundStage, BoundWorkload, bind
from advisor.workloads.definition import Definition, ImpossibleBuffer, Workload
from advisor.workloads.outline import LARGEST_SOURCE, relative
from advisor.workloads.parameters import Value, require_readable, resolve

_LONGEST = 2000
"""Characters of a parameter that is a text, in the record."""
MOST_LISTED = 20
"""Workloads of a file that a message lists."""
MODULE_PREFIX = "advisor_workload_"
"""A user's file is imported under its own name after this."""

_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Loaded:
    """A workload with its parameters, ready to run, and what the profile keeps of it."""

    bound: BoundWorkload
    record: WorkloadRecord
    cautions: tuple[str, ...] = ()
    """Parts that look forgotten, in words."""


def load(path: Path, name: str | None, assignments: Mapping[str, str]) -> Loaded:
    """Imports the file, picks the workload, calls it with its parameters and binds its stages. Raises
    `FileProblem` for a missing file, `WorkloadError` for a wrong one (with the user's own traceback as detail
    where the user's code raised), `UsageError` for a wrong setting."""
    return prepare(path, name, assignments)()


def prepare(path: Path, name: str | None, assignments: Mapping[str, str]) -> Callable[[], Loaded]:
    """Like `load`, but imports once; each call of the result calls the workload's function again."""
    source = _source(path)
    definition = _pick(path, name, _import(path))
    parameters = resolve(definition, assignments)
    return lambda: _loaded(path, source, definition, parameters)


def _loaded(path: Path, source: bytes, definition: Definition, parameters: Mapping[str, Value]) -> Loaded:
    bound, shown = bind(_call(path, definition, parameters)), dict(parameters)
    for key, value in parameters.items():
        if isinstance(value, str):  # that of a secret stays, so that the parent knows what to mask
            masked = masked_and_bounded(value, _LONGEST, of_process(()))
            shown[key] = bounded(value, _LONGEST) if is_secret(key) else masked
    record = WorkloadRecord(
        name=definition.name,
        file=relative(path),
        sha256=hashlib.sha256(source).hexdigest(),
        summary=definition.summary,
        parameters=shown,
        buffers=bound.buffer_records(),
        stages=tuple(stage.record() for stage in bound.stages),
        ignore=tuple(bound.workload.ignore),
    )
    unused = unused_parameters(definition.function, list(parameters))
    notes = (f"Workload {definition.name!r} does not use its parameter {name!r}." for name in unused)
    return Loaded(bound, record, (*cautions(bound), *notes))


def check_sweep(
    path: Path, name: str | None, assignments: Mapping[str, str], swept: Mapping[str, Sequence[str]]
) -> None:
    """Imports the file and reads every value of the swept parameters; raises as `load` does. Also for a value
    with which a buffer cannot be. What else is wrong with a value costs its row."""
    source = _source(path)
    definition = _pick(path, name, _import(path))
    for parameter, values in swept.items():
        require_readable(definition, parameter, values, "--sweep")
    for chosen in product(*swept.values()):
        at = dict(zip(swept, chosen, strict=True))
        parameters = resolve(definition, {**assignments, **at})
        try:
            require_host_memory(_loaded(path, source, definition, parameters).bound)
        except ImpossibleBuffer as problem:
            wrong = f"{' '.join(map('--sweep {}={}'.format, at, chosen))}: {problem.message}"
            raise ImpossibleBuffer(wrong, next_step=problem.next_step) from None
        except AdvisorError:
            continue


def user_traceback(error: BaseException, path: Path) -> str:
    """The traceback from the user's file, a neighbour of it, or a stage on: without our frames."""
    frames = traceback.extract_tb(error.__traceback__)
    folder = path.resolve().parent
    files = [None if frame.filename.startswith("<") else Path(frame.filename).resolve() for frame in frames]
    theirs = [i for i, file in enumerate(files) if file and file.parent == folder]
    inside = theirs or [i for i in range(1, len(frames)) if _is_stage(frames[i - 1], frames[i])]
    linecache.checkcache()
    excerpt = frames[inside[0] :] if inside else []
    excerpt = [frame for frame in excerpt if _PACKAGE not in Path(frame.filename).resolve().parents]
    lines = traceback.format_list(excerpt) + traceback.format_exception_only(type(error), error)
    return ("Traceback (most recent call last):\n" if excerpt else "") + "".join(lines).rstrip()


def _is_stage(caller: traceback.FrameSummary, called: traceback.FrameSummary) -> bool:
    """Whether this is where a frame, a bridge or `Inspector.run_check` call a function of the user's."""
    ours = {("measure/verification.py", "run_check"), ("workloads/bridges.py", "call")}
    callers = {("<frame>", "frame"), *((str(_PACKAGE / file), name) for file, name in ours)}
    return (caller.filename, caller.name) in callers and _PACKAGE not in Path(called.filename).parents


def user_error(what: str, error: BaseException, path: Path) -> WorkloadError:
    """An exception of the user's own code, shown as theirs."""
    return WorkloadError(
        f"{what} raised {type(error).__name__}",
        next_step=after_error(error, path),
        detail=user_traceback(error, path),
    )


def after_error(error: BaseException, path: Path) -> str:
    """Next step after an exception of the user's own code."""
    if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
        return _NO_CUPY
    if isinstance(error, ImportError) and "beyond top-level package" in str(error):
        return f"Import it by its full name: {path.parent} is on sys.path, and PYTHONPATH adds other folders."
    name = error.filename if isinstance(error, FileNotFoundError) else None
    if isinstance(name, str) and not Path(name).is_absolute() and (path.parent / name).exists():
        return (
            f"{name} is opened relative to the working directory, {Path.cwd()}, but is next to {path.name}: "
            f"write Path(__file__).parent / {name!r}."
        )
    return f"The error is in your code: {path}."


def _source(path: Path) -> bytes:
    try:
        source = read_bytes(path, LARGEST_SOURCE)
    except FileNotFoundError:
        names = [p.name for p in path.parent.glob("*.py") if p.exists()]
        near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.75)
        raise FileProblem(
            f"{path} does not exist" + (f"; did you mean {path.parent / near[0]}?" if near else ""),
            next_step="Give the path of a Python file with a @workload function.",
        ) from None
    except OSError as problem:
        wrong = f"{path} cannot be read: {problem.strerror}"
        raise FileProblem(wrong, next_step="Give the path of a Python file.") from None
    if len(source) > LARGEST_SOURCE:
        step = "Load data from a file of its own, and import what is generated."
        raise WorkloadError(f"{path} has more than {LARGEST_SOURCE / 1e6:g} MB of source", next_step=step)
    return source


def _import(path: Path) -> ModuleType:
    """Runs the file as a module of its own, with its folder on the path for its neighbours. `from . import
    helper` finds them too, in a package made up for the folder."""
    folder = ModuleType(f"{MODULE_PREFIX}folder")
    folder.__path__ = [str(path.parent.resolve())]
    sys.modules[folder.__name__] = folder
    name = f"{folder.__name__}.{path.stem}"
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except AdvisorError as problem:
        raise _placed(problem, path) from None
    except BaseException as problem:  # sys.exit too, and what test libraries derive from it
        if not isinstance(problem, SyntaxError) or not Path(problem.filename or path).is_file():
            raise user_error(f"importing {path}", problem, path) from None
        line = f"line {problem.lineno}: " if problem.lineno else ""
        raise WorkloadError(
            f"{problem.filename or path} is not valid Python: {line}{problem.msg}",
            next_step="Fix the file, or check the Python version.",
            detail="".join(traceback.format_exception_only(type(problem), problem)).rstrip(),
        ) from None
    return module


def _placed(problem: AdvisorError, path: Path) -> AdvisorError:
    """The same with the line of the user's file that called us."""
    lines = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == str(path)]
    place = f"{path.name}:{lines[-1].lineno}: " if lines else ""
    problem.message = f"{place}{problem.message}"
    return problem.with_traceback(None)


def _pick(path: Path, name: str | None, module: ModuleType) -> Definition:
    definitions = {d.name: d for d in vars(module).values() if isinstance(d, Definition)}
    own = {n: d for n, d in definitions.items() if d.function.__module__ == module.__name__} or definitions
    if not own:
        from advisor.workloads.starters import template  # with the catalogue, which no worker needs

        raise WorkloadError(
            f"{path} has no function marked with @workload",
            next_step="Mark the function that returns your Workload with @workload. A file without "
            "one runs as a script if it imports cupy, torch or numba, or gets arguments after --. A minimal "
            "workload:\n\n" + template("minimal.txt"),
        )
    listing = "\n".join(f"  {path}::{d.name}  {d.summary}".rstrip() for d in list(own.values())[:MOST_LISTED])
    listing += f"\n  … {len(own) - MOST_LISTED} more" if len(own) > MOST_LISTED else ""
    if name is None and len(own) > 1:
        raise WorkloadError(f"{path} has {len(own)} workloads", next_step=f"Name one of them:\n{listing}")
    if name is not None and name not in definitions:
        step = f"It has:\n{listing}"
        raise WorkloadError(f"{path} has no workload {name!r}{nearest(name, definitions)}", next_step=step)
    return definitions[name] if name is not None else next(iter(own.values()))


def _call(path: Path, definition: Definition, parameters: Mapping[str, Value]) -> Workload:
    try:
        result = definition(**parameters)
    except ImpossibleBuffer as problem:
        values = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
        step = f"{problem.next_step} The parameters are {values}." if values else problem.next_step
        raise ImpossibleBuffer(problem.message, next_step=step) from None
    except AdvisorError as problem:
        raise _placed(problem, path) from None
    except BaseException as problem:
        raise user_error(f"workload {definition.name!r}", problem, path) from None
    if not isinstance(result, Workload):
        wrong = f"workload {definition.name!r} returned {type(result).__name__}, not a Workload"
        raise WorkloadError(wrong, next_step="End it with: return Workload(buffers={...}, frame=[...]).")
    return result


_NO_CUPY = (
    "CuPy is not installed. Take the array module as a parameter named xp in device stages instead of "
    "importing cupy, or install it: pip install 'gpu-memory-advisor[cuda13]' (or cuda12)."
)


_IDLE = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "COPY_FREE_VARS", "LOAD_SMALL_INT"}
"""Bytecode of a function whose body is `pass`, `...` or a docstring."""


def cautions(bound: BoundWorkload) -> Iterator[str]:
    """One or two sentences for each: a buffer without a use, a stage that does nothing, and the like."""
    yield from _of_buffers(bound)
    for stage in bound.stages:
        yield from _of_stage(stage)


def unused_parameters(function: Any, names: list[str]) -> list[str]:
    """The parameters that the function's code never names; none where that is unknown."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(code, CodeType) or not set(names) <= set(code.co_varnames) or "locals" in code.co_names:
        return []
    used = {each.argval for each in dis.get_instructions(code)}
    used |= {name for pair in used if isinstance(pair, tuple) for name in pair}  # two loads in one, from 3.13
    return [name for name in names if name not in used and name not in code.co_cellvars]


def _of_buffers(bound: BoundWorkload) -> Iterator[str]:
    checked = {*(bound.check.access if bound.check else ()), *(loop.until for loop in bound.loops)}
    checked |= {buffer.valid for buffer in bound.workload.buffers.values() if buffer.valid}
    for name, buffer in bound.workload.buffers.items():
        modes = [stage.access[name] for stage in bound.stages if name in stage.access]
        size = units.size(buffer.nbytes)
        if not modes:
            yield (
                f"No stage uses buffer {name!r}, but its {size} are in every footprint. "
                "Remove it from buffers=, or name it as a parameter of a stage."
            )
        elif set(modes) == {"out"} and name not in checked and not buffer.scratch:
            yield (
                f"Buffer {name!r} ({size}) is written but never read, so no frame includes its transfer. "
                "Add the stage that reads it in your program, or declare it with scratch=True."
            )


def _of_stage(stage: BoundStage) -> Iterator[str]:
    function = stage.stage.function
    code = getattr(inspect.unwrap(function), "__code__", None)
    if isinstance(code, CodeType) and {each.opname for each in dis.get_instructions(code)} <= _IDLE:
        yield (
            f"Stage {stage.name!r} does nothing: its time is 0, but its buffers are still moved. "
            "Make it do what your program does, or remove it."
        )
        return
    read = [name for name, mode in stage.access.items() if mode != "out"]
    for name in unused_parameters(function, read):
        yield (
            f"Stage {stage.name!r} takes buffer {name!r} but never uses it, so it may be moved "
            "unnecessarily. Remove the parameter."
        )


def require_host_memory(bound: BoundWorkload, copies: int = 1) -> None:
    """Raises `ImpossibleBuffer` where the host cannot hold as many copies of the buffers that it shares with
    the GPU: 2 where the CPU stands for the GPU too, which then holds scratch memory as well."""
    buffers = {n: b for n, b in bound.workload.buffers.items() if copies > 1 or not b.scratch}
    needed = sum(b.nbytes * copies for b in buffers.values())
    limits = psutil.virtual_memory().total, group_limit(Tree(ROOT))
    there = min(limit for limit in limits if isinstance(limit, int))
    if needed <= there:
        return
    name, largest = max(buffers.items(), key=lambda item: item[1].nbytes)
    twice = " in two copies" if copies > 1 else ""
    raise ImpossibleBuffer(
        f"the buffers need {units.size(needed)}{twice}, and this machine has {units.size(there)}; the "
        f"largest is buffer {name!r} of shape {largest.dimensions} and dtype {largest.element}",
        next_step="Make it smaller with --set NAME=VALUE, or with smaller values in --sweep.",
    )
