"""One call of a user's function, watched in a separate process: for `advisor new FILE --from`.

The file runs as a script until it calls the function; where there is no GPU, on mocks of the libraries. The
result has the call's arguments, what it changed and what it returned. An array that it overwrites without
reading is found by a second call on copies with other contents.
"""

from __future__ import annotations

import ast
import dis
import inspect
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Literal, NoReturn

import numpy as np

from advisor.errors import AdvisorError, UsageError, WorkloadError, nearest
from advisor.measure.backends import gpu_count
from advisor.measure.fork_server import die_with_parent
from advisor.measure.jobs import LOG, ScriptJob
from advisor.measure.processes import end, log_tail, start, wait
from advisor.measure.recording.calls import is_on_gpu
from advisor.measure.recording.host_memory import is_tensor
from advisor.measure.recording.worker import play
from advisor.profiles.base import Record
from advisor.profiles.files import scratch, write_atomically
from advisor.profiles.schema import AccessMode
from advisor.workloads.definition import RESERVED
from advisor.workloads.starters import function_name, template

Kind = Literal["array", "value", "xp"]
WORKER = "advisor.measure.observed"
_TIMEOUT = 120.0
_DEFERRED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_PLAIN = (bool, int, float, str)
_FILLS = (0x00, 0x40)
"""Bytes that stand in an array before the two calls that tell whether it is read; as floats 0 and 2 to 33."""


class Argument(Record):
    """One argument or result. Arrays have shape, dtype, where they are and what is done to them; other values
    their text."""

    name: str
    kind: Kind
    shape: tuple[int, ...] = ()
    dtype: str = ""
    mode: AccessMode = "in"
    on_device: bool = False
    tensor: bool = False
    value: bool | int | float | str | None = None


class Observed(Record):
    """One call. `problem` is why it could not be taken; `inputs` are saved beside, by name. results: one for
    each part of a tuple; those that need no buffer, as None, are values named `_`."""

    arguments: tuple[Argument, ...] = ()
    results: tuple[Argument, ...] = ()
    problem: str = ""

    @property
    def arrays(self) -> tuple[Argument, ...]:
        """Values that need a buffer: array arguments, then array results."""
        return tuple(each for each in (*self.arguments, *self.results) if each.kind == "array")


class CallJob(Record):
    """The call that a process watches. `beside`: another folder from which the file imports."""

    file: str
    function: str
    inputs: str
    arguments: tuple[str, ...]
    beside: str
    directory: str


_BEGUN, _ANSWER = "begun", "call.json"
"""Files of the job's folder: the function was called; the call."""


class _Seen(BaseException):
    """The call has returned: the script is not needed any more."""


def observe(
    file: Path,
    function: str,
    inputs: Path,
    arguments: Sequence[str] = (),
    *,
    timeout: float = _TIMEOUT,
    beside: Path | None = None,
) -> Observed:
    """Runs the file until it calls the function; the arrays it was called with go to `inputs`, an .npz file.

    arguments: those of the file itself. beside: a folder from which the file imports too.

    Raises `WorkloadError` where the file fails before, `UsageError` where it never calls it, or has no such
    function that another file can import.
    """
    _require_function(file, function)
    with scratch() as folder:
        job = CallJob(
            file=str(file),
            function=function,
            inputs=str(inputs),
            arguments=tuple(arguments),
            beside=str(beside.resolve()) if beside else "",
            directory=str(folder),
        )
        process = start(job, folder, WORKER)
        try:
            in_time = wait(process, timeout)
        finally:
            end(process, folder)
        if not (folder / _ANSWER).exists():
            raise _without_call(job, process.returncode if in_time else None, timeout)
        call = Observed.model_validate_json((folder / _ANSWER).read_text(encoding="utf-8"))
    if call.problem:
        step = "Use a function of arrays or tensors, numbers and strings; wrap anything else."
        raise UsageError(f"{file}::{function}: {call.problem}", next_step=step)
    return call


def _without_call(job: CallJob, code: int | None, timeout: float) -> AdvisorError:
    """Why there is no call to take; the code is None where the process did not end in time."""
    begun, called = (Path(job.directory) / _BEGUN).exists(), f"{job.file} called {job.function}, which"
    if code is None and begun:
        late, step = f"{called} had not returned after {timeout:.0f} s", "Call it with less data."
        return UsageError(late, next_step=step)
    if code is None:
        late = f"{job.file} did not call {job.function} within {timeout:.0f} s"
        return UsageError(late, next_step="Call it earlier in the file.")
    if begun or code:
        before = f"{job.file} failed before it called {job.function}"
        failed = f"{called} did not return: exit code {code}" if begun else before
        step, log = "Check that the file runs with python.", log_tail(Path(job.directory) / LOG)
        return WorkloadError(failed, next_step=step, detail=log)
    step = 'Call it once with real data, under: if __name__ == "__main__":'
    return UsageError(f"running {job.file} does not call {job.function}", next_step=step)


def _require_function(file: Path, function: str) -> None:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return  # running it says why
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    defined = {node.name for node in tree.body if isinstance(node, kinds)}
    if function in defined:
        return
    last = function.rpartition(".")[2]
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    of = {each.name: kind.name for kind in classes for each in kind.body if isinstance(each, kinds)}
    if last in of:
        raise UsageError(
            f"{file}::{function} is a method of {of[last]}, and a workload cannot create the object",
            next_step=f"Write a function of arrays that calls it, call that once, and name it: "
            f"def {last}_of(image): return thing.{last}(image).",
        )
    if any(isinstance(node, kinds) and node.name == function for node in ast.walk(tree)):
        message = f"{file}::{function} is not at the top level of the file, so no other file can import it"
        step = "Define it at the top level, outside of functions and of if and try."
        raise UsageError(message, next_step=step)
    step = f"It has: {', '.join(sorted(defined))}." if defined else f"Name a line: --from {file}:LINE."
    raise UsageError(f"{file} has no function {function!r}{nearest(function, defined)}", next_step=step)


def main(arguments: list[str]) -> None:
    """Runs a file until it calls a function; the call goes to one file, its arrays to another."""
    die_with_parent(int(arguments[1]))
    job = CallJob.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    folder, inputs, path = Path(job.directory), Path(job.inputs).resolve(), Path(job.file).resolve()
    begun: dict[str, tuple[Any, Any]] = {}

    def watch(frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if code.co_name != job.function or Path(code.co_filename).resolve() != path:
            return
        if event == "call" and not begun:
            (folder / _BEGUN).touch()
            if problem := _uncallable(frame):
                leave(Observed(problem=problem))
            names, _, _, values = inspect.getargvalues(frame)
            begun.update({name: (values[name], _copied(values[name])) for name in names})
            begun["return"] = (frame, None)
        elif event == "return" and begun.get("return", (None,))[0] is frame:
            sys.setprofile(None)
            if not dis.opname[code.co_code[frame.f_lasti]].startswith("RETURN"):
                return  # it raised
            del begun["return"]
            leave(_observed(begun, value, frame.f_globals.get(job.function)))

    def leave(call: Observed) -> NoReturn:
        sys.setprofile(None)
        _save(inputs, {} if call.problem else begun)
        write_atomically(folder / _ANSWER, call.model_dump_json())
        raise _Seen

    if not gpu_count():
        play(ScriptJob(file=job.file, backend="cpu", gpu=0, directory=".").model_dump_json())
    sys.path[:0] = [str(path.parent), *filter(None, [job.beside])]
    sys.argv = [job.file, *job.arguments]
    sys.setprofile(watch)
    try:
        runpy.run_path(job.file, run_name="__main__")
    except _Seen:
        return
    finally:
        sys.setprofile(None)


def _uncallable(frame: FrameType) -> str:
    """Why a workload cannot repeat that call; empty where it can."""
    code = frame.f_code
    _, varargs, keywords, values = inspect.getargvalues(frame)
    if code.co_flags & _DEFERRED:
        return "it is a generator or coroutine, so calling it does not run its body"
    if code.co_posonlyargcount or any(values[name] for name in (varargs, keywords) if name):
        return "it has arguments that a call cannot name: before /, in * or in **"
    return ""


def _save(inputs: Path, passed: Mapping[str, tuple[Any, Any]]) -> None:
    arrays: Any = {name: before for name, (_, before) in passed.items() if before is not None}
    if passed:
        np.savez(inputs, **arrays)


def _observed(passed: dict[str, tuple[Any, Any]], result: Any, function: Any) -> Observed:
    arguments = []
    for name, (value, before) in passed.items():
        if isinstance(value, ModuleType):
            arguments.append(Argument(name=name, kind="xp"))
        elif isinstance(before, np.ndarray) and name in RESERVED:
            return Observed(problem=f"its argument {name!r} is an array, and no buffer can have that name")
        elif isinstance(before, np.ndarray):
            changed = not np.array_equal(_host(value), before, equal_nan=before.dtype.kind in "fc")
            mode: AccessMode = "inout" if changed else "in"
            if changed and callable(function) and _is_overwritten(function, passed, name):
                mode = "out"
            arguments.append(_array(name, before, mode, value))
        elif value is None or isinstance(value, _PLAIN):
            arguments.append(Argument(name=name, kind="value", value=value))
        else:
            return Observed(problem=f"its argument {name!r} is a {type(value).__name__}")
    try:
        call = Observed(arguments=tuple(arguments), results=_results(result, passed))
    except (TypeError, ValueError):
        return Observed(problem=f"it returns a {type(result).__name__} of values that are not arrays")
    if len({each.tensor for each in call.arrays}) > 1:
        return Observed(problem="it has tensors and arrays of other libraries")
    return call if call.arrays else Observed(problem="it takes no array and returns none")


def _results(result: Any, passed: Mapping[str, tuple[Any, Any]]) -> tuple[Argument, ...]:
    """The parts of the result. Raises `TypeError` or `ValueError` for what no buffer can hold."""
    own = {id(value) for value, _ in passed.values()}
    several = isinstance(result, (tuple, list)) and any(isinstance(_host(p), np.ndarray) for p in result)
    names = (name for name in ("result", *(f"result_{i}" for i in range(2, 1000))) if name not in passed)
    arguments: list[Argument] = []
    for part in result if several or isinstance(result, tuple) else (result,):
        if part is None or id(part) in own:
            arguments.append(Argument(name="_", kind="value"))
            continue
        host = np.asarray(_host(part))
        if host.dtype.hasobject:
            raise TypeError(type(part).__name__)
        arguments.append(_array(next(names), np.atleast_1d(host), "out", part))
    return tuple(arguments) if any(each.kind == "array" for each in arguments) else ()


def _is_overwritten(function: Any, passed: dict[str, tuple[Any, Any]], name: str) -> bool:
    """Whether the changed array holds the same afterwards, whatever it held before."""
    after = set()
    for fill in _FILLS:
        contents = {n: before for n, (_, before) in passed.items() if before is not None}
        filled = contents[name].copy()
        filled.reshape(-1).view(np.uint8)[:] = fill
        contents[name] = filled
        try:
            copies = {n: _again(v, contents[n]) if n in contents else v for n, (v, _) in passed.items()}
            function(**copies)
            after.add(_host(copies[name]).tobytes())
        except Exception:
            return False
    return len(after) == 1


def _array(name: str, array: Any, mode: AccessMode, value: Any) -> Argument:
    kind = {"shape": array.shape, "dtype": str(array.dtype), "tensor": is_tensor(value)}
    return Argument(name=name, kind="array", mode=mode, on_device=is_on_gpu(value), **kind)


def _again(value: Any, contents: Any) -> Any:
    if is_tensor(value):
        return value.new_tensor(contents)
    if not is_on_gpu(value):
        return contents.copy()
    copy = value.copy()
    copy.set(contents)
    return copy


def _host(value: Any) -> Any:
    """A CuPy array or a tensor as NumPy's array; all else as it is."""
    if is_tensor(value):
        return value.detach().cpu().numpy()
    return value.get() if is_on_gpu(value) and hasattr(value, "get") else value


def _copied(value: Any) -> Any:
    host = _host(value)
    return np.array(host) if isinstance(host, np.ndarray) and host.ndim else None


_WIDTH = 90
_EVERY_FRAME = "Every frame brings the inputs of that call; what stays (weights) belongs in setup=[...]."
_MODES = {"in": "In", "out": "Out", "inout": "InOut"}
_LOADING = """
with np.load(Path(__file__).with_name("{}")) as file:
    INPUTS = dict(file)
"""


def workload_text(
    file: Path, source: Path, function: str, call: Observed, inputs: Path, downloaded: Sequence[int] = ()
) -> str:
    """A workload for `file` whose device stage calls `function` of `source`; `inputs` is an .npz file.
    downloaded: results by their place that the program copies to the host."""
    results = (call.results[place] for place in downloaded if place < len(call.results))
    folder = source.resolve().parent
    reads = _used(call, [a.name for a in results if a.kind == "array"])
    near = folder == file.resolve().parent
    tensors = ', arrays="torch"' * any(a.tensor for a in call.arrays)
    modes = sorted({_MODES[a.mode] for a in call.arrays} | {"In", "Out"})
    values = [a for a in call.arguments if a.kind == "value" and a.value is not None]
    loads = [a for a in call.arguments if a.kind == "array" and a.mode != "out"]
    fed, stays = ([a for a in loads if a.on_device == there] for there in (False, True))
    parameters = [*(a.name for a in call.arguments if a.kind == "xp")]
    parameters += [f"{a.name}: {_MODES[a.mode]}" for a in call.arrays]
    stages = [
        *_producing("load", "These were on the GPU: they are copied there once.", stays),
        *_producing("produce", _EVERY_FRAME, fed),
        *(f"    def run({', '.join(parameters)}) -> None:", f"        {_call(function, call)}", ""),
    ]
    if reads:
        stages.append(f"    def use({', '.join(f'{name}: In' for name in reads)}) -> None:")
        stages.append("        # What the CPU does with the result.")
        stages += [*(f"        {name}.max()" for name in reads), ""]
    return template("call.txt").format(
        file=file,
        source=source,
        function=function,
        import_sys="" if near else "import sys\n",
        names=", ".join(["Buffer", *modes, "Workload", "device", "host", "workload"]),
        path="" if near else f"sys.path.insert(0, {str(folder)!r})\n",
        loading=_LOADING.format(inputs.name) if loads else "",
        name=function_name(file),
        parameters=", ".join(f"{a.name}: {type(a.value).__name__} = {a.value!r}" for a in values),
        stages="\n".join(stages),
        buffers="\n".join(_buffer(array, reads) for array in call.arrays),
        setup="        setup=[host(load)],\n" if stays else "",
        frame=f"{'host(produce), ' * bool(fed)}device(run{tensors}){', host(use)' * bool(reads)}",
    )


def _buffer(array: Argument, used: Sequence[str]) -> str:
    """An output on the GPU never leaves it, unless it is all there is to compare strategies by."""
    shape = array.shape[0] if len(array.shape) == 1 else array.shape
    is_scratch = array.on_device and array.mode == "out" and used and array.name not in used
    scratch = ", scratch=True" if is_scratch else ""
    return f'            "{array.name}": Buffer({shape!r}, "{array.dtype}"{scratch}),'


def _producing(stage: str, comment: str, fed: Sequence[Argument]) -> list[str]:
    if not fed:
        return []
    return [
        f"    # {comment}",
        f"    def {stage}({', '.join(f'{a.name}: Out' for a in fed)}) -> None:",
        *(f'        np.copyto({a.name}, INPUTS["{a.name}"])' for a in fed),
        "",
    ]


def _used(call: Observed, downloaded: Sequence[str]) -> list[str]:
    """Buffers the host reads: those written there or downloaded, or one input that was not on the GPU."""
    there = [a for a in call.arrays if not a.on_device]
    written = [*(a.name for a in there if a.mode != "in"), *downloaded]
    return written or ([] if len(there) < len(call.arrays) else [a.name for a in there][:1])


def _call(function: str, call: Observed) -> str:
    unset = {a.name for a in call.arguments if a.kind == "value" and a.value is None}
    passed = ", ".join(f"{a.name}={'None' if a.name in unset else a.name}" for a in call.arguments)
    targets = [f"{a.name}[...]" if a.kind == "array" else a.name for a in call.results]
    text = f"{', '.join(targets)} = {function}({passed})" if targets else f"{function}({passed})"
    if len(text) <= _WIDTH:
        return text
    head, _, _ = text.partition(f"{function}(")
    rows = passed.replace(", ", ",\n            ")
    return f"{head}{function}(\n            {rows},\n        )"
