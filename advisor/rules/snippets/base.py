"""How a library writes what a placement asks for, buffer by buffer."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from advisor.profiles.schema import BufferRecord, Device, WorkloadRecord
from advisor.strategies.parts import Region
from advisor.strategies.placements.base import Placement
from advisor.strategies.planning import plan
from advisor.strategies.registry import Strategy, gpus_of, to_place
from advisor.strategies.schedule import Plan, Step, stage_uses

_IMPORTS = {name: f"import {name}" for name in ("ctypes", "cupy", "math", "mmap", "weakref")} | {
    "np": "import numpy as np",
    "runtime": "from cuda.bindings import runtime  # CuPy cannot prefetch to the CPU",
}


def _split(text: str) -> dict[str, str]:
    """Functions by name, each behind two empty lines."""
    return {part.partition("(")[0]: f"\n\ndef {part.rstrip()}\n" for part in f"\n{text}".split("\ndef ")[1:]}


_TEXT = Path(__file__).with_name("functions.txt").read_text(encoding="utf-8")
_FUNCTIONS, _ATTACHING = map(_split, _TEXT.split("# For a GPU that cannot prefetch:\n"))


def opening(code: str, imports: Sequence[str] = (), *, attaches: bool = False) -> str:
    """These imports and the functions that the code calls, with what they call and import themselves.

    attaches: `prefetch` attaches memory to the stream, for a GPU that cannot prefetch.
    """
    functions = _FUNCTIONS | (_ATTACHING if attaches else {})
    needed: set[str] = set()
    while called := {name for name in functions if name not in needed and f"{name}(" in code}:
        needed |= called
        code = "".join(functions[name] for name in called)
    text = "".join(functions[name] for name in functions if name in needed)
    lines = {*imports, *(line for name, line in _IMPORTS.items() if re.search(rf"(?<![.\w]){name}\.", text))}
    standard = sorted(line for line in lines if line.split()[1] in sys.stdlib_module_names)
    others = sorted(lines - set(standard), key=lambda line: (line.startswith("from"), line))
    return "\n".join((*standard, *([""] if standard else []), *others, text))


_MOST = 102
"""Characters of a line that may end in a comment."""
_OWN_STREAM = """\
stream = cupy.cuda.Stream(non_blocking=True)  # memory cannot be attached to the null stream alone
stream.use()  # kernels launched by this thread now use it"""


@dataclass(frozen=True)
class Way:
    """How one placement is written: lines with {host} and {device} for the arrays of a buffer, {shape} and
    {dtype} for what it is, and {stream} for where a copy is queued."""

    allocate: tuple[str, ...]
    to_device: str = ""
    to_host: str = ""
    attaches: bool = False
    """`prefetch` attaches the memory to the stream, which cannot be the library's own then."""
    rebinds: bool = False
    """An upload makes a new device array, so that `frame` must bind its name again."""
    elsewhere: str = ""
    """Binds {device} for a further GPU, of number {gpu}; empty where several GPUs cannot have it."""

    @property
    def copies(self) -> bool:
        """It has two memories, and copies between them."""
        return "{device}" in self.to_device


@dataclass(frozen=True)
class OnGpu:
    """How a library works on further GPUs: lines with {gpu} for the number of one, {stream} for its stream,
    {mark} for an event, and {device} and {source} for a buffer's arrays on two of them."""

    allocating: str
    """Begins a block that takes memory there."""
    running: str
    """Begins a block that queues work there."""
    stream: str
    mark: tuple[str, ...]
    order: str
    to_peer: str


@dataclass(frozen=True)
class Library:
    """An array library: what its code imports, and its way to a placement; None where it has no call."""

    imports: tuple[str, ...]
    stream: str
    """Binds `stream`, the one that kernels run on."""
    way: Callable[[Placement, BufferRecord, Device], Way | None]
    on_gpu: OnGpu


@dataclass(frozen=True)
class Code:
    """What is to be written: the buffers that both sides use, each with its placement and its way."""

    workload: WorkloadRecord
    library: Library
    buffers: Mapping[str, BufferRecord]
    ways: Mapping[str, Way]
    in_place: Mapping[str, bool]
    """Data that arrives elsewhere can be used where it is."""
    plan: Plan
    at: Callable[[str], str] = str
    """Where the program keeps the array of a name."""

    def opening(self) -> list[str]:
        ways = self.ways.values()
        calls = "".join("".join((*way.allocate, way.to_device, way.to_host)) for way in ways)
        calls += "".join(way.elsewhere for way in ways) * (self.workload.gpus > 1)
        return opening(calls, self.library.imports, attaches=self._attaches).splitlines()

    def stream(self) -> str:
        return _OWN_STREAM if self._attaches else self.library.stream

    @property
    def _attaches(self) -> bool:
        return any(way.attaches for way in self.ways.values())

    def allocation(self, name: str) -> Iterator[str]:
        """A buffer's memory, and what to do about data that arrives in memory the program does not choose."""
        step = Step("to-device", name, gpu=min(gpus_of(self.buffers[name], self.workload), default=0))
        for line in self.ways[name].allocate:
            yield self.filled(line, step)
        if self.buffers[name].external and self.in_place[name]:
            yield f"# The data of {name} arrives in other memory: register and use that memory instead."
        elif self.buffers[name].external:
            yield f"# The data of {name} arrives in other memory: the np.copyto to or from {name} remains."

    def move(self, step: Step, stream: str = "stream") -> str:
        """A copy or prefetch of a buffer, or of a part of it; the CPU's reading of a length."""
        if step.action == "length":
            return f"{self.at(step.name)}_rows = int({self.at(step.name)}.item())"
        way, on_gpu = self.ways[step.name], self.library.on_gpu
        line = {"to-device": way.to_device, "to-host": way.to_host}.get(step.action, on_gpu.to_peer)
        if isinstance(step.part, Region):
            return self._region(step, step.part, line, stream)
        part = f"[:{self.at(step.part)}_rows]" if isinstance(step.part, str) else ""
        return self.filled(line, step, stream, part)

    def _region(self, step: Step, region: Region, line: str, stream: str) -> str:
        """Moves a region; one that is not contiguous not by CuPy's set and get, which refuse it."""
        buffer = self.buffers[step.name]
        spans_of = region.spans(buffer.bytes // math.prod(buffer.shape))
        way = self.ways[step.name]
        if not way.copies or (len(spans_of) == 1 and spans_of[0].height == 1):
            return self.filled(line, step, stream, _subscript(region))
        to_device = step.action == "to-device"
        if way.rebinds or len(spans_of) > 1:
            line = "{device} = cupy.asarray({host})" if to_device else "{host} = cupy.asnumpy({device})"
            return self.filled(line, step, stream, _subscript(region))
        (s,) = spans_of
        ends = (
            f"{self.at(step.name)}.ctypes.data + {s.offset}",
            f"{self.at(on_device(step.name, step.gpu))}.data.ptr + {s.offset}",
        )
        source, target = ends if to_device else reversed(ends)
        kind = "memcpyHostToDevice" if to_device else "memcpyDeviceToHost"
        return (
            f"cupy.cuda.runtime.memcpy2DAsync({target}, {s.pitch}, {source}, {s.pitch}, {s.width}, "
            f"{s.height}, cupy.cuda.runtime.{kind}, {stream}.ptr)"
        )

    def filled(self, line: str, step: Step, stream: str = "stream", part: str = "") -> str:
        """A way's line for a step's buffer, or that part of it."""
        name, buffer = step.name, self.buffers[step.name]
        # A structured dtype is recorded as the list that makes it.
        dtype = buffer.dtype if buffer.dtype.startswith(("[", "{")) else f'"{buffer.dtype}"'
        filled = line.format(
            host=self.at(name) + part,
            device=self.at(on_device(name, step.gpu)) + part,
            source=self.at(on_device(name, step.source)) + part,
            gpu=step.gpu,
            stream=stream,
            shape=buffer.shape,
            dtype=dtype,
        )
        return filled if len(filled) <= _MOST else filled.partition("  #")[0]

    def stage_comment(self, step: Step) -> str:
        """What the user's own stage does, with the arrays it gets on its side."""
        suffix = on_device("", step.gpu) if step.action == "device" else ""
        gpu = f"GPU {step.gpu}" if self.workload.gpus > 1 else "the GPU"
        touched = {b.name: b.access[step.name] for b in self.workload.buffers if step.name in b.access}
        parts = []
        for verb, modes in (("reads", ("in", "inout")), ("writes", ("out", "inout"))):
            names = [name + suffix * (name in self.ways) for name, mode in touched.items() if mode in modes]
            parts += [f"{verb} {', '.join(map(self.at, names))}"] if names else []
        return f"# your {step.name}, on {gpu if suffix else 'the CPU'}: {'; '.join(parts)}".rstrip(": ")


def on_device(name: str, gpu: int) -> str:
    return f"{name}_device{gpu or ''}"


def _subscript(region: Region) -> str:
    bounds = [(b, b == (0, length)) for b, length in zip(region.bounds, region.shape, strict=True)]
    while bounds and bounds[-1][1]:
        bounds.pop()
    parts = (":" if whole else f"{b[0]}:{b[1]}" for b, whole in bounds)
    return f"[{', '.join(parts)}]" if bounds else ""


def code(library: Library, strategy: Strategy, workload: WorkloadRecord, device: Device) -> Code | None:
    """A strategy in the words of a library, or None where that has no call for one of its placements.

    The steps are those that the runner would take, with what arrives elsewhere taken to arrive in place.
    """
    placements = {name: placed.own for name, placed in strategy.placements(workload).items()}
    buffers = {buffer.name: buffer for buffer in to_place(workload)}
    ways = {name: library.way(placements[name], buffer, device) for name, buffer in buffers.items()}
    known = {name: way for name, way in ways.items() if way and (way.elsewhere or workload.gpus == 1)}
    if len(known) < len(ways):
        return None
    traits = {name: placement.traits(device) for name, placement in placements.items()}
    steps = plan(stage_uses(workload, "setup"), stage_uses(workload, "frame"), traits)
    # Steps that move regions that are not contiguous, which CuPy alone has a call for.
    in_rows = [
        step
        for step in chain(steps.first, *steps.period)
        if isinstance(step.part, Region) and any(s.height > 1 for s in step.part.spans(1))
    ]
    if "import cupy" not in library.imports and in_rows:
        return None
    if any(step.action == "to-peer" for step in in_rows):
        return None
    in_place = {name: placements[name].takes_foreign_memory for name in buffers}
    return Code(workload, library, buffers, known, in_place, steps)
