"""Tries the GPU in a separate process: opens it, describes it, compiles and runs a kernel."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import Field

from advisor.errors import AdvisorError
from advisor.measure.processes import python_command
from advisor.profiles.base import Bytes, Record
from advisor.profiles.schema import Device
from advisor.profiles.scratch import scratch

SECONDS = 90.0
"""A first import of CuPy and a first compilation take several seconds, on a Jetson tens."""


class Probe(Record):
    """The result of trying the GPU; `problem` says what did not work."""

    device: Device | None = None
    environment: dict[str, str | int | float] = Field(default_factory=dict)
    free_bytes: Bytes | None = None
    problem: str = ""
    next_step: str = ""


def probe(gpu: int, seconds: float = SECONDS, command: Callable[..., list[str]] = python_command) -> Probe:
    """Tries that GPU, in the process that `command` makes of a module and its arguments; never raises."""
    with scratch() as folder:
        answer = folder / "probe.json"
        program = command("advisor.doctor.probe", str(answer), str(gpu))
        try:
            done = subprocess.run(program, capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return Probe(problem=f"the GPU did not answer within {seconds:.0f} s")
        with suppress(OSError, ValueError):
            return Probe.model_validate_json(answer.read_text(encoding="utf-8"))
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
        return Probe(problem=f"the process that tried the GPU exited with code {done.returncode}: {last[0]}")


def main(arguments: list[str]) -> None:
    """In the process: writes the answer to the file that comes first, of the GPU that comes second."""
    answer, gpu = Path(arguments[0]), int(arguments[1])
    answer.write_text(_tried(gpu).model_dump_json(), encoding="utf-8")
    os._exit(0)  # whatever state CUDA is in


def _tried(gpu: int) -> Probe:
    from advisor.measure.backends import open_backend

    try:
        backend = open_backend("cuda", gpu)
        device, environment = backend.device(), backend.environment()
    except AdvisorError as problem:
        return Probe(problem=problem.message, next_step=problem.next_step)
    except Exception as problem:
        return Probe(problem=f"CuPy failed: {_first_line(problem)}")
    result = Probe(device=device, environment=environment, free_bytes=backend.free_memory())
    try:
        total = int((backend.xp.arange(4, dtype="i4") * 2).sum())
    except Exception as problem:
        return result.model_copy(update={"problem": f"a first kernel failed: {_first_line(problem)}"})
    wrong = "" if total == 12 else "a first kernel gave a wrong result"
    return result.model_copy(update={"problem": wrong})


def _first_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".strip().partition("\n")[0].rstrip(": ")
