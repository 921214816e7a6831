"""What of a workload looks forgotten: told, and never an error."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from types import CodeType
from typing import Any

from advisor import units
from advisor.workloads.binding import BoundStage, BoundWorkload

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
    if _does_nothing(function):
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


def _does_nothing(function: Any) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return isinstance(code, CodeType) and {each.opname for each in dis.get_instructions(code)} <= _IDLE
