"""The process that runs a script and records it. Run as `main([JOB.json, PARENT_PID])`."""

from __future__ import annotations

import builtins
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

from advisor import units
from advisor.devices.gpus import gpu_state
from advisor.errors import AdvisorError, UsageError
from advisor.measure.backends.cuda_calls import Driver
from advisor.measure.fork_server import die_with_parent
from advisor.measure.jobs import Problem, Recorded, ScriptJob, write_outcome
from advisor.measure.recording import played
from advisor.measure.recording.assembling import Assembler, overheads
from advisor.measure.recording.calls import MODULES, replace, wrapping
from advisor.measure.recording.cupy_calls import CupyCalls
from advisor.measure.recording.driver_bytes import DriverBytes
from advisor.measure.recording.host_memory import Contents, Origins
from advisor.measure.recording.loops import NAME, Lines, Loop, Loops
from advisor.measure.recording.numba_calls import NumbaCalls
from advisor.measure.recording.played_cupy import modules
from advisor.measure.recording.recorder import ScriptRecorder
from advisor.measure.recording.running import (
    Ending,
    Finder,
    OwnFiles,
    Program,
    hide_ours,
    prepare_children,
    program_of,
    run,
    tell_processes,
)
from advisor.measure.recording.torch_calls import TorchCalls
from advisor.profiles import secrets
from advisor.profiles.crossings import ACCOUNTED, CopiedBytes, CrossingKind, Library, ScriptRun

LibraryRecorder = CupyCalls | TorchCalls | NumbaCalls
RECORDERS: Mapping[Library, type[LibraryRecorder]] = {
    "cupy": CupyCalls,
    "torch": TorchCalls,
    "numba": NumbaCalls,
}
_PLAYING = f"from {__name__} import play; play({{!r}}); "


def main(arguments: list[str]) -> None:
    """Leaves a `Recorded` however the script ends, a `Problem` where it cannot begin."""
    die_with_parent(int(arguments[1]))
    job = ScriptJob.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    directory = Path(job.directory).resolve()  # the script may go elsewhere
    secrets.remember(secrets.secret_values(job.arguments, {}))
    try:
        outcome: Recorded | Problem = record(job)
    except AdvisorError as error:
        outcome = Problem.of(error)
    write_outcome(directory, outcome)


def record(job: ScriptJob) -> Recorded:
    """Runs the script under all recorders. Raises `AdvisorError` where it cannot begin."""
    session = Session(job)
    sys.meta_path.insert(0, session.finder)
    program = program_of(job, session.loops)
    named = session.named_loop(program.file)
    session.recorder.copy_costs.only = named
    ended, seconds = session.run(program)
    copied = session.count()
    overhead = overheads(session.recorder, session.loops, session.origins, seconds)
    unseen = tuple(session.unseen(named, copied))
    unrun = "; kernels were not run, see Not seen" * any("kernel" in what for what in unseen)
    run = ScriptRun(
        arguments=job.arguments,
        module=bool(job.module),
        exit_code=ended.code,
        error=f"{ended.error[:1000]}{unrun}" if ended.error else "",
        seconds=seconds,
        overhead_seconds=overhead(None)[0],
        played=" and ".join(session.played) or None,
        copied=copied,
        unseen=unseen,
    )
    script = Assembler(session.recorder, session.start, overhead, named).completed(run)
    if not session.recorder.has_gpu:
        return Recorded(script=script)
    place = str(Driver(job.gpu).environment()["pci_bus_id"])
    return Recorded(script=script, gpu_state=gpu_state(place, moment="under-load"))


def _mocked() -> ModuleType:
    mocked = modules()
    cupy = mocked.pop("cupy")
    sys.modules.update(mocked)
    return cupy


def _simulate() -> None:
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    import_module("numba.core.config").ENABLE_CUDASIM = 1  # type: ignore[attr-defined]


STAND_INS: dict[str, tuple[str, Callable[[], ModuleType | None]]] = {
    "cupy": ("a mock of CuPy", _mocked),
    "cupyx": ("a mock of CuPy", lambda: import_module("cupy") and sys.modules["cupyx"]),
    "torch": ("PyTorch on the CPU", lambda: None),  # its recorder plays the GPU, once the module is there
    "numba.cuda": ("Numba's simulator", _simulate),
}
"""Stand-ins where there is no GPU: words for each, and a function to call when the script imports the
library. It gives a module in the library's place, or None for the library itself."""


def play(job: str) -> None:
    """In a child of a script, before it imports that: a GPU is played there too, and nothing is recorded."""
    session = Session(ScriptJob.model_validate_json(job))
    setattr(builtins, NAME, session.loops.table)
    sys.meta_path.insert(0, session.finder)


class Session:
    """All that takes part in recording one script."""

    def __init__(self, job: ScriptJob) -> None:
        self.job, self.start, self.began = job, Path.cwd(), perf_counter()
        self.loops = Loops()
        self.lines = Lines(self.loops)
        self.origins = Origins(self.lines)
        self.lines.bottom = run.__code__
        has_gpu = job.backend == "cuda"
        self.recorder = ScriptRecorder(
            self.loops, self.lines, self.origins, Contents(whole=not has_gpu), perf_counter, has_gpu=has_gpu
        )
        self.recorder.copy_costs.is_possible = has_gpu and not job.counts_bytes
        played.not_seen[:] = [self.recorder.not_seen]
        self.libraries: list[LibraryRecorder] = []
        self.driver = DriverBytes()
        self.played: list[str] = []
        self.own = OwnFiles.of(Path(job.file), job.module)
        installs = {name: partial(self._install, RECORDERS[each]()) for name, each in MODULES.items()}
        plays = {} if has_gpu else {name: partial(self._play, *how) for name, how in STAND_INS.items()}
        self.finder = Finder(self.own, self.loops, installs, plays)

    def _install(self, library: LibraryRecorder, module: ModuleType) -> None:
        library.install(module, self.recorder)
        if self.recorder.has_gpu and self.job.counts_bytes:
            self.driver.start()
            if library.library == "torch":  # whose profiler takes CUPTI for itself
                for name in ("_prepare_profiler", "_enable_profiler"):
                    replace(module.autograd.profiler, name, wrapping(self._give_up))
        self.recorder.readers[library.library] = library.seconds_between
        self.libraries.append(library)

    def _give_up(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.driver.give_up()
        return call(*args, **options)

    def _play(self, words: str, provide: Callable[[], ModuleType | None]) -> ModuleType | None:
        if words not in self.played:
            self.played.append(words)
        return provide()

    def named_loop(self, main: str) -> Loop | None:
        """The loop that --frame names, in the file that is run or another; None without the option. Raises
        `UsageError` where there is no loop."""
        if not self.job.frame:
            return None
        where, _, line = self.job.frame.rpartition(":")
        path = (self.start / where).resolve() if where else Path(main).resolve()
        if where and not path.exists():
            raise UsageError(
                f"--frame {self.job.frame}: {where} does not exist",
                next_step="Give its path from this folder.",
            )
        file = main if path == Path(main).resolve() else str(path)
        if file not in self.loops.files:
            with suppress(OSError, SyntaxError, ValueError):  # raised again where the script imports it
                self.loops.compiled(path.read_bytes(), str(path))
        loop = self.loops.at(file, int(line))
        if loop is None:
            lines = [str(each.first) for each in self.loops.all if each.file == file]
            known = f"{'Loops are in lines' if lines[1:] else 'A loop is in line'} {', '.join(lines)}."
            raise UsageError(
                f"--frame {self.job.frame}: there is no loop in line {line} of {where or self.job.file}",
                next_step=known if lines else "Give FILE:LINE.",
            )
        return loop

    def count(self) -> CopiedBytes | None:
        """Ends the driver's count of bytes, and gives it beside the bytes recorded by line; None without a
        count. The GPU has to be idle."""
        if (counted := self.driver.stop()) is None:
            return None
        sizes = Counter[CrossingKind]()
        for record in self.recorder.records.values():
            sizes[record.event.kind] += record.bytes
        up, down = sizes["upload"], sizes["download"] + sizes["wait"]
        return CopiedBytes(up=counted[0], down=counted[1], up_on_lines=up, down_on_lines=down)

    def run(self, program: Program) -> tuple[Ending, float]:
        """How it ended, and its seconds until the GPU was done."""
        self.finder.install_imported()
        replace(np.ndarray, "resize", self.recorder.resizing)
        hide_ours()
        tell_processes(self.loops.files.__contains__, self.recorder.not_seen)
        if not self.recorder.has_gpu:
            prepare_children(_PLAYING.format(self.job.model_dump_json()))
        self.recorder.recording, self.began = True, perf_counter()
        with self.origins.watching():
            ended = run(program, self.loops)
        self.recorder.stop()
        for library in self.libraries:
            library.finish()
        seconds = perf_counter() - self.began
        self.loops.settle()
        self.recorder.settle()
        return ended, seconds

    def unseen(self, named: Loop | None, copied: CopiedBytes | None) -> Iterator[str]:
        yield from self.recorder.unseen()
        for file in self.loops.uncounted:
            yield f"Loops in {Path(file).name}: it is nested too deeply to count them"
        if self.origins.absent:
            yield self.origins.absent
        if copied is not None and copied.share is not None and copied.share < ACCOUNTED:
            yield f"Copies that no line calls for, such as a library's own tables: {_left(copied)}"
        if self.job.counts_bytes and self.recorder.has_gpu and copied is None:
            yield "The driver's count of bytes: CUPTI is missing, or another profiler holds it"
        inside = (each.loop for record in self.recorder.records.values() for each in record.loops)
        if named is not None and named not in inside:
            what = "in which nothing crosses" if named.called else "which never ran"
            yield f"Frames: the loop of --frame {self.job.frame}, {what}"


def _left(copied: CopiedBytes) -> str:
    up, down = copied.up - copied.up_on_lines, copied.down - copied.down_on_lines
    return f"{units.size(max(up, 0))} up, {units.size(max(down, 0))} down"
