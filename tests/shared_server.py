"""One server forks the workers of all in-process commands of a pytest process: none waits for its start.

A worker begins in the folder and with the variables of the test, as if its server had been started there.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import sys
import tempfile
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO

import pytest

from advisor.measure.fork_server import ForkServer, Process
from advisor.measure.jobs import Settings
from advisor.measure.launcher import ProcessLauncher
from advisor.measure.processes import WORKERS, python_command
from advisor.workloads.outline import imported_early

MODULES = ",".join([*WORKERS, "advisor.measure.recording.worker", "recording_worker", __name__])


class SharedServer(ForkServer):
    """Tells each worker where the test is; importing PyTorch on a busy machine takes its time."""

    ready_seconds = 600.0

    def fork(
        self, worker: str, arguments: list[str], output: IO[bytes], pass_fds: tuple[int, ...]
    ) -> Process:
        here = json.dumps([worker, str(Path.cwd()), dict(os.environ)]).encode()
        where = base64.b64encode(here).decode()
        return super().fork("shared_server", [where, *arguments], output, pass_fds)


def run_forked(module: str, *arguments: str, output: Path, libraries: str = "") -> int:
    """The exit code of a test module's `main` in a forked process, which prints to that file."""
    with output.open("wb") as log, pytest.MonkeyPatch.context() as here:
        here.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        return server(libraries).fork(module, [*arguments], log, ()).wait(600)


@cache
def server(libraries: str = "") -> SharedServer:
    """Of this pytest process, with which it ends; its workers have those libraries imported."""
    scratch = tempfile.TemporaryDirectory(prefix="advisor-tests-")
    atexit.register(scratch.cleanup)
    if "torch" in libraries:
        libraries += ",torch._dynamo"  # which its optimizers import
    command = [*python_command("advisor.measure.fork_server"), str(os.getpid()), MODULES + libraries]
    command[2] = f"import sys; sys.path.append({str(Path(__file__).parent)!r})\n{command[2]}"
    made = SharedServer(command, Path(scratch.name) / "log")
    atexit.register(made.close)
    return made


def launching(settings: Settings) -> ProcessLauncher:
    """Forked workers for a workload on the CPU; else started ones."""
    forked = settings.arguments is None and settings.backend == "cpu"
    libraries = "".join(f",{name}" for name in imported_early(settings.file)) if forked else ""
    return ProcessLauncher(settings.timeout, server=server(libraries) if forked else None)


def main(arguments: list[str]) -> None:
    """In the forked worker: goes where the test is, and does there what was asked."""
    worker, folder, variables = json.loads(base64.b64decode(arguments[0]))
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    own = [path for path in sys.path if path not in before and path != str(Path(__file__).parent)]
    sys.path[:] = [*filter(None, variables.get("PYTHONPATH", "").split(os.pathsep)), *own]
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    import_module(worker).main(arguments[1:])
