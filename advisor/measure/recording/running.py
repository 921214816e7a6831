"""Runs a script or a module as `python` would, in this process; as its modules are imported, their loops get
counted, and GPU libraries their recorder."""

from __future__ import annotations

import builtins
import importlib.util
import marshal
import multiprocessing.process
import multiprocessing.util
import os
import re
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType, SimpleNamespace, TracebackType
from typing import Any

from numpy.lib import mixins

from advisor.errors import INTERRUPTED, WorkloadError
from advisor.measure.cupy_mock.checks import Unknowable
from advisor.measure.jobs import ScriptJob
from advisor.measure.namespaces import OUR_FOLDER, is_users
from advisor.measure.recording import calls
from advisor.measure.recording.calls import replace, wrapping
from advisor.measure.recording.loops import NAME, Loops
from advisor.profiles.crossings import PROCESSES

_AROUND = ("subprocess", "multiprocessing.", "concurrent.", calls.__name__)
_OPERATORS = str(mixins.__file__)
"""The file of NumPy's operators, which the mock's arrays use."""
_PLAIN = (
    *("marshal", "dill._dill", "numba.core.bytecode", "numba.cuda.core.bytecode"),
    *(f"{owner}cloudpickle.cloudpickle" for owner in ("", "joblib.externals.", "numba.", "pyspark.", "ray.")),
)
"""Modules that read the code of functions: to compile it, or to send it to other processes."""
_STARTS = re.compile(r"from multiprocessing\.(spawn|forkserver) import")


@dataclass(frozen=True)
class Program:
    """A script or module, ready to run as `__main__`."""

    file: str
    code: CodeType
    module: ModuleType


@dataclass(frozen=True)
class Ending:
    """How a script ended: what Python would have exited with, and the exception if one ended it."""

    code: int = 0
    error: str = ""


def program_of(job: ScriptJob, loops: Loops) -> Program:
    """The code to run. Raises `WorkloadError` where there is none."""
    sys.argv = ["-m", *job.arguments]
    spec = None
    try:
        if job.module:
            spec, file, code = _module_code(job.module)
        else:
            file = str(Path(job.file).absolute())
            sys.path.insert(0, str(Path(file).resolve().parent))
            code = loops.compiled(Path(file).read_bytes(), file)
    except SyntaxError as error:
        raise WorkloadError(
            f"{job.file} is not valid Python: line {error.lineno}: {error.msg}",
            next_step="Fix the error above and run again.",
        ) from None
    sys.argv[0] = file if job.module else job.file
    module = ModuleType("__main__")
    module.__dict__.update(
        __file__=file, __spec__=spec, __cached__=None, __annotations__={}, __builtins__=builtins
    )
    if spec is not None:
        module.__dict__.update(__package__=spec.parent, __loader__=spec.loader)
    return Program(file, code, module)


def _module_code(name: str) -> tuple[ModuleSpec, str, CodeType]:
    """What `python -m NAME` runs; the finder of the user's modules compiles it. Raises `WorkloadError`."""
    sys.path.insert(0, str(Path.cwd()))
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader: Any = spec and spec.loader
    code = loader.get_code(spec.name) if spec and hasattr(loader, "get_code") else None
    if spec is None or spec.origin is None or code is None:
        raise WorkloadError(
            f"module {name} cannot be run", next_step="Run it from the folder in which `python -m` finds it."
        )
    return spec, spec.origin, code


def run(program: Program, loops: Loops) -> Ending:
    """Runs it to its end, threads that Python would wait for included. A child that it forks ends there."""
    process, ended = os.getpid(), _run(program, loops)
    if os.getpid() != process:
        raise SystemExit(ended.code)
    return ended


def _run(program: Program, loops: Loops) -> Ending:
    sys.modules["__main__"] = program.module
    setattr(builtins, NAME, loops.table)
    try:
        exec(program.code, program.module.__dict__)
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    except SystemExit as ending:
        if isinstance(ending.code, int):
            return Ending(ending.code & 0xFF)
        if ending.code is not None:
            print(ending.code, file=sys.stderr)
        return Ending(int(ending.code is not None))
    except Unknowable as error:  # only a GPU can answer
        frames = [each for each in traceback.extract_tb(error.__traceback__) if is_users(each.filename)]
        where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""
        why = str(error) or f"{where}: what CuPy does here is not known without a GPU"
        words = f"{why}. Run the script on a machine with a CUDA GPU"
        print(words, file=sys.stderr)
        return Ending(1, words)
    except BaseException as error:
        _tell(error, program.file)
        last = traceback.format_exception_only(type(error), error)[-1].strip()
        return Ending(INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1, last)
    return Ending()


def _tell(error: BaseException, file: str) -> None:
    """The traceback as Python prints it, from the script's first line on."""
    begin: TracebackType | None = error.__traceback__
    while begin is not None and begin.tb_frame.f_code.co_filename != file:
        begin = begin.tb_next
    _hide_ours(error.with_traceback(begin))
    sys.excepthook(type(error), error, error.__traceback__)


def _is_hidden(frame: FrameType) -> bool:
    """Whether it is ours, or of the imports around one of ours, which Python leaves out of tracebacks."""
    return frame.f_code.co_filename.startswith((f"{OUR_FOLDER}/", "<frozen importlib.", _OPERATORS))


def _hide_ours(error: Any) -> None:
    """Leaves our frames out of the tracebacks of an error and of those that led to it."""
    waiting, done = [error], set[int]()
    while waiting:
        if not isinstance(error := waiting.pop(), BaseException) or id(error) in done:
            continue
        done.add(id(error))
        places, place = [], error.__traceback__
        while place is not None:
            places += [] if _is_hidden(place.tb_frame) else [place]
            place = place.tb_next
        for place, following in zip(places, (*places[1:], None), strict=False):
            place.tb_next = following
        error.__traceback__ = next(iter(places), None)
        parts = getattr(error, "exceptions", ())  # of a group
        waiting += (error.__cause__ or error.__context__, *(parts if isinstance(parts, tuple) else ()))


def hide_ours() -> None:
    """Our frames are in no traceback and no warning that the script, a thread of its or a library prints."""

    def tell(hook: Callable[..., None], args: Any) -> None:
        _hide_ours(args.exc_value)
        hook(args)

    def warn(show: Callable[..., None], warning: Any) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (_is_hidden(frame) or frame.f_code.co_filename == warnings.__file__):
            frame = frame.f_back
        if warning.filename.startswith(f"{OUR_FOLDER}/") and frame is not None:
            warning.filename, warning.lineno = frame.f_code.co_filename, frame.f_lineno
        show(warning)

    for name in ("walk_tb", "_walk_tb_with_full_positions"):
        shown = wrapping(lambda walk, begin: (each for each in walk(begin) if not _is_hidden(each[0])))
        replace(traceback, name, shown)
    replace(threading, "excepthook", wrapping(tell))
    replace(warnings, "_showwarnmsg", wrapping(warn))  # also where others replace what it calls


def tell_processes(is_own: Callable[[str], bool], tell: Callable[[str], None]) -> None:
    """Tells of processes that the user's own lines start, which are not recorded."""

    def telling(place: int, name: str, call: Any, *args: Any, **options: Any) -> Any:
        """Calls what starts a process; `place` and `name` of its command, or of multiprocessing's object."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__", "").startswith(_AROUND):
            frame = frame.f_back
        if frame is not None and is_own(frame.f_code.co_filename):
            command = args[place] if len(args) > place else options.get(name, "")
            tell(f"{PROCESSES} {_started(command)}")
        return call(*args, **options)

    def forking() -> None:
        if is_own(sys._getframe(1).f_code.co_filename):
            tell(f"{PROCESSES} a child that the script forks")

    os.register_at_fork(before=forking)
    replace(os, "system", wrapping(partial(telling, 0, "command")))
    replace(subprocess.Popen, "__init__", wrapping(partial(telling, 1, "args")))
    replace(multiprocessing.process.BaseProcess, "start", wrapping(partial(telling, 0, "self")))


def _started(command: Any) -> str:
    if isinstance(command, multiprocessing.process.BaseProcess):
        return "a process that the script starts with multiprocessing"
    first = command[0] if command and isinstance(command, (list, tuple)) else command
    return f"a subprocess that the script starts: {Path(str(first).split(' ')[0]).name}"


def prepare_children(begin: str) -> None:
    """Processes that are spawned from here on, and the server that forks some, run `begin` first."""

    def spawn(call: Callable[..., Any], path: Any, words: Sequence[Any], fds: Any) -> Any:
        return call(path, [begin + word if _STARTS.search(str(word)) else word for word in words], fds)

    replace(multiprocessing.util, "spawnv_passfds", wrapping(spawn))


class _Counted(SourceFileLoader):
    """Compiles a module of the user's with its loops counted; no bytecode is read or written."""

    def __init__(self, name: str, path: str, loops: Loops) -> None:
        super().__init__(name, path)
        self._loops = loops

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self._loops.compiled(self.get_data(path), path)


class Finder(MetaPathFinder):
    """Goes before Python's own finders.

    installs: what to call once a library is imported. plays: what is called before, and may give a module in
    its place.
    """

    def __init__(
        self,
        own: OwnFiles,
        loops: Loops,
        installs: Mapping[str, Callable[[ModuleType], None]],
        plays: Mapping[str, Callable[[], ModuleType | None]],
    ) -> None:
        self._own, self._loops, self._plays = own, loops, dict(plays)
        self._installs = dict.fromkeys(_PLAIN, self._give_plain) | dict(installs)

    def _give_plain(self, module: ModuleType) -> None:
        """Functions have their own code where Numba compiles them, and in another process."""
        plain = self._loops.plain
        replace(module, "get_code_object", wrapping(lambda get, function: plain(get(function))))
        for name in ("dump", "dumps") if module is marshal else ():
            replace(module, name, wrapping(lambda save, code, *rest: save(plain(code), *rest)))
        table: dict[type, Any] = getattr(getattr(module, "Pickler", None), "dispatch", {})
        if save := table.get(CodeType):
            table[CodeType] = lambda *given: save(*given[:-1], plain(given[-1]))

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> Any:
        if (play := self._plays.pop(name, None)) and (module := play()) is not None:
            given: Any = SimpleNamespace(create_module=lambda _: module, exec_module=lambda _: None)
            spec: Any = ModuleSpec(name, given, is_package=True)
        else:
            # The next finder's answer: a library may have one of its own, as numba-cuda has.
            others = (each.find_spec(name, path, target) for each in sys.meta_path if each is not self)
            spec = next((each for each in others if each is not None), None)
        loader = spec and spec.loader
        if loader is not None and name in self._installs:
            _afterwards(spec, self._installs.pop(name))
        elif type(loader) is SourceFileLoader and spec.origin and spec.origin in self._own:
            spec.loader = _Counted(name, spec.origin, self._loops)
            spec.cached = None
        return spec

    def install_imported(self) -> None:
        """Installs recorders in libraries that are imported already."""
        for name in [name for name in self._installs if name in sys.modules]:
            self._installs.pop(name)(sys.modules[name])


def _afterwards(spec: ModuleSpec, install: Callable[[ModuleType], None]) -> None:
    """Has a loader call `install` once the module is whole."""

    def execute(run: Callable[[ModuleType], None], module: ModuleType) -> None:
        run(module)
        install(module)

    replace(spec.loader, "exec_module", wrapping(execute))


@dataclass(frozen=True)
class OwnFiles:
    """The script's files: below its folder or the working directory, and neither Python's nor installed."""

    roots: tuple[str, ...]
    package: str | None = None
    """The folder of a package run with -m, installed or not."""

    @classmethod
    def of(cls, file: Path, module: str) -> OwnFiles:
        """The files of a script; / is left out, since it holds all files.

        module: what `python -m` is given, whose folder `file` lies in.
        """
        home = file.resolve().parent
        roots = dict.fromkeys(str(folder) for folder in (home, Path.cwd()) if folder != Path("/"))
        return cls(tuple(roots) or (str(home),), str(home) if module else None)

    def __contains__(self, file: str) -> bool:
        in_package = self.package is not None and _below(file, self.package)
        return in_package or (any(_below(file, root) for root in self.roots) and is_users(file))


def own_frame(frame: FrameType | None, is_own: Callable[[str], bool]) -> FrameType | None:
    """The nearest frame of the user's files, from this one outwards."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _below(file: str, folder: str) -> bool:
    return file.startswith(folder.rstrip("/") + "/")
