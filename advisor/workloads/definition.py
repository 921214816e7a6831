"""The workload API: what a user's file says about its buffers and the stages of one frame.

@workload
def vector_add(n: int = 1 << 24) -> Workload:
    def produce(a: Out, frame: int) -> None: ...
    def add(xp, a: In, c: Out) -> None: ...
    return Workload(buffers={...}, frame=[host(produce), device(add)])
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from advisor.errors import WorkloadError, nearest
from advisor.profiles.figures import MOST_ITERATIONS
from advisor.profiles.schema import MOST_GPUS, MOST_PERIOD, ArrayForm, Loop, Side
from advisor.profiles.secrets import masked_and_bounded, of_process
from advisor.texts import in_a_line, is_name
from advisor.workloads.arguments import Access as Access
from advisor.workloads.arguments import In as In
from advisor.workloads.arguments import InOut as InOut
from advisor.workloads.arguments import Out as Out
from advisor.workloads.arguments import dtype_of, form_of, function_of, integer_of, require_plain, shape_of

StageFunction: TypeAlias = Callable[..., object]
_MOST_SUMMARY = 300
"""Characters of a docstring's first line that a report shows."""
MOST_STAGES, MOST_BUFFERS = 500, 2000
"""All are checked and predicted under each strategy, some 10 ms of a processor's time for each: the largest
workload concludes in half a minute."""


class ImpossibleBuffer(WorkloadError):
    """A buffer that no machine, or not this one, can hold; mostly for a parameter's value."""


@dataclass(frozen=True)
class Buffer:
    """An array that stages share.

    shape: an int or a sequence of positive ints. dtype: anything `numpy.dtype` takes, but no objects.
    external: its data is in memory that a camera, a decoder or another library allocates.
    scratch: device stages alone use it; it never leaves the device.
    valid: the buffer of one integer that says in each frame how much of the first dimension is valid: no more
    is moved, checked and compared.
    What is wrong with it is the workload's to tell, which knows the buffer's name.
    """

    shape: int | Sequence[int]
    dtype: npt.DTypeLike
    external: bool = False
    scratch: bool = False
    valid: str | None = None
    line: str | None = field(default=None, init=False, compare=False, repr=False)
    """Where it is declared: workload.py:34."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", _line_of_caller(sys._getframe(1)))
        with suppress(WorkloadError):
            object.__setattr__(self, "shape", shape_of(self.shape))
            object.__setattr__(self, "dtype", dtype_of(self.dtype))

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The shape as a tuple. Raises `WorkloadError` for what is no shape."""
        return shape_of(self.shape)

    @property
    def element(self) -> np.dtype[Any]:
        """The dtype as NumPy's. Raises `WorkloadError` for what is no dtype."""
        return dtype_of(self.dtype)

    @property
    def nbytes(self) -> int:
        return math.prod(self.dimensions) * self.element.itemsize


@dataclass(frozen=True)
class Stage:
    """A function and the side it runs on. Made by `host` and `device`."""

    function: StageFunction
    side: Side
    cpu: StageFunction | None = None
    passes: Mapping[str, float] = field(default_factory=dict)
    flops: float | None = None
    arrays: ArrayForm | None = None
    every: int = 1
    loop: Loop | None = None
    """The loop it is in; the workload knows it."""
    gpu: int = 0
    """Index among the workload's GPUs; for device stages."""

    @property
    def name(self) -> str:
        return _named(self.function)


def host(function: StageFunction, *, arrays: str | None = None, every: int = 1) -> Stage:
    """A stage that runs on the CPU and gets NumPy arrays, or CPU tensors with arrays="torch".

    Also "numba", "pointer" (int) and "dlpack"; `a: In[torch.Tensor]` says it of one buffer. All share the
    buffer's memory. every: it runs, and what it needs is moved, only in frames 0, every, 2 * every, ...
    Raises `WorkloadError` for another form, and for an `every` that is not 1 or more.
    """
    return _stage(function, "host", arrays, every)


def device(
    function: StageFunction,
    *,
    cpu: StageFunction | None = None,
    passes: Mapping[str, float] | None = None,
    flops: float | None = None,
    arrays: str | None = None,
    every: int = 1,
    gpu: int = 0,
) -> Stage:
    """A stage that runs on the GPU and gets CuPy arrays; without a GPU it gets NumPy arrays.

    cpu: what to run without a GPU, where `function` cannot. passes: how many times the kernel reads each
    buffer, and flops: how much arithmetic it does, where tracing cannot see it (raw kernels).
    arrays: the form of its buffers, as `host` has it; the CPU twin gets NumPy arrays unless its annotations
    say otherwise. every: it runs only in frames 0, every, 2 * every, ... gpu: which of the workload's GPUs
    it runs on, from 0; `--gpus` says which devices these are. Raises `WorkloadError` on negative or
    non-finite figures.
    """
    if passes is not None and not isinstance(passes, Mapping):
        wrong = f"device({_name(function)}): passes is {passes!r}; it must map buffers to numbers"
        raise WorkloadError(wrong, next_step='Write passes={"image": 8}.')
    for name, value in (*(passes or {}).items(), ("flops", 0 if flops is None else flops)):
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value < math.inf:
            what = "operations of a frame" if name == "flops" else "times that the kernel reads the buffer"
            wrong = f"device({_name(function)}): {name} is {value!r}; it must be a number, 0 or more"
            raise WorkloadError(wrong, next_step=f"Give the number of {what}, or omit it.")
    twin = None if cpu is None else function_of(cpu, "device(cpu=...)")
    stage = _stage(function, "device", arrays, every)
    step = "gpu=1 is the workload's second GPU; --gpus says which device that is."
    number = integer_of(gpu, f"stage {_name(function)!r}: gpu", 0, MOST_GPUS - 1, step)
    return replace(stage, cpu=twin, passes=dict(passes or {}), flops=flops, gpu=number)


def _stage(function: StageFunction, side: Side, arrays: str | None, every: int) -> Stage:
    name, step = _name(function), "every=10 runs it in frames 0, 10, 20 and so on."
    form, often = form_of(arrays, name), integer_of(every, f"stage {name!r}: every", 1, None, step)
    return Stage(function_of(function, side), side, arrays=form, every=often)


@dataclass(frozen=True)
class Repeat:
    """Stages that run again and again within a frame. Made by `advisor.repeat`."""

    stages: tuple[Stage, ...]
    until: str
    at_most: int


@dataclass(frozen=True)
class Workload:
    """The result of a `@workload` function: buffers by name, and the stages of one frame in order, which may
    be in a `repeat`.

    setup: stages that run once before the frames. check: gets the host arrays it names after a frame and
    raises (or returns False) when the result is wrong. ignore: ids of rules to silence; the report
    shows them as silenced. Raises `WorkloadError` on parts of a wrong type.
    """

    buffers: Mapping[str, Buffer]
    frame: Sequence[Stage | Repeat]
    setup: Sequence[Stage] = ()
    check: Callable[..., object] | None = None
    ignore: Sequence[str] = ()

    def __post_init__(self) -> None:
        _require_buffers(self.buffers)
        _require_number(len(self.buffers), MOST_BUFFERS, "buffers", "Join buffers that are used alike.")
        ids = self.ignore
        if not isinstance(ids, (list, tuple)) or not all(isinstance(name, str) for name in ids):
            step = 'Write ignore=["pageable-transfer"]; `advisor rules` lists them.'
            raise WorkloadError(f"ignore is {ids!r}; it must be a list of rule ids", next_step=step)
        for part, stages in (("frame", self.frame), ("setup", self.setup)):
            if not isinstance(stages, (list, tuple)):
                raise WorkloadError(f"{part} is {stages!r}; it must be a list of stages", next_step=_WRAP)
            for index, stage in enumerate(stages):
                if isinstance(stage, Repeat) and part == "setup":
                    what = f"setup[{index}] is a repeat, which only a frame can have"
                    raise WorkloadError(what, next_step="Write it as a Python loop inside one stage.")
                if not isinstance(stage, (Stage, Repeat)):
                    what = f"{part}[{index}] is {_name(stage)}, which is not a stage"
                    raise WorkloadError(what, next_step=_WRAP)
        if not self.frame:
            step = "List the stages of one frame: frame=[host(f), device(g)]."
            raise WorkloadError("frame=[] has no stage", next_step=step)
        number = len(self.setup) + len(self.frame_stages)
        join = "Join stages that follow one another on the same side; write what repeats as repeat([...])."
        _require_number(number, MOST_STAGES, "stages", join)
        _require_frames(self.frame_stages)
        used = {s.gpu for s in (*self.setup, *self.frame_stages) if s.side == "device"}
        if missing := sorted(set(range(max(used, default=-1) + 1)) - used):
            wrong = f"device stages run on GPU {', '.join(map(str, sorted(used)))}"
            step = "Number the GPUs from 0 without gaps; --gpus chooses the devices."
            raise WorkloadError(f"{wrong}, but none on GPU {missing[0]}", next_step=step)
        if self.check is not None:
            function_of(self.check, "check=")

    @property
    def gpus(self) -> int:
        """How many GPUs its stages run on; 1 where none runs on any."""
        return 1 + max(stage.gpu for stage in (*self.setup, *self.frame_stages))

    @property
    def frame_stages(self) -> tuple[Stage, ...]:
        """The stages of one frame in order, each with the loop that it is in."""
        stages: list[Stage] = []
        loops = 0
        for part in self.frame:
            if isinstance(part, Repeat):
                loop = Loop(number=loops, until=part.until, at_most=part.at_most)
                stages += (replace(stage, loop=loop) for stage in part.stages)
                loops += 1
            else:
                stages.append(part)
        return tuple(stages)


@dataclass(frozen=True)
class Definition:
    """A function marked with `@workload`; calling it calls the function."""

    function: Callable[..., object]

    @property
    def name(self) -> str:
        return _named(self.function)

    @property
    def summary(self) -> str:
        line = (self.function.__doc__ or "").strip().partition("\n")[0]
        return masked_and_bounded(line, _MOST_SUMMARY, of_process(()))

    def __call__(self, *arguments: Any, **keywords: Any) -> object:
        return self.function(*arguments, **keywords)


def workload(function: Callable[..., object]) -> Definition:
    """Marks a function that returns a `Workload`; its annotated parameters are the workload's."""
    require_plain(function, "the function under @workload")
    return Definition(function_of(function, "@workload"))


def _require_number(number: int, most: int, what: str, next_step: str) -> None:
    if number > most:
        wrong = f"the workload has {number} {what}; at most {most} can be profiled"
        raise WorkloadError(wrong, next_step=next_step)


def _require_frames(frame: Sequence[Stage]) -> None:
    """Some stage runs in every frame, and the period of all stages is short enough."""
    every = [stage.every for stage in frame]
    listed, period = f"every is {', '.join(map(str, every))}", math.lcm(*every)
    if min(every) > 1:
        step = "A frame is what the program repeats most often: divide them all by the smallest."
        raise WorkloadError(f"no stage runs in every frame: {listed}", next_step=step)
    if period > MOST_PERIOD:
        wrong = f"all stages run together only every {period} frames; the maximum is {MOST_PERIOD}"
        step = "Choose numbers that are multiples of each other."
        raise WorkloadError(f"{listed}: {wrong}", next_step=step)


def _require_buffers(buffers: object) -> None:
    if not isinstance(buffers, Mapping) or not buffers:
        step = 'Write buffers={"image": Buffer((480, 640), np.uint8)}.'
        raise WorkloadError(f"buffers is {buffers!r}; it must map names to Buffer(...)", next_step=step)
    for name, buffer in buffers.items():
        if not isinstance(name, str) or not is_name(name) or not isinstance(buffer, Buffer):
            wrong = f"buffers[{name!r}] is {buffer!r}; names must be Python identifiers, values Buffer(...)"
            raise WorkloadError(wrong, next_step="A stage gets a buffer by naming a parameter after it.")
        if name in RESERVED:
            wrong = f"a buffer cannot be named {name!r}: that parameter name is reserved"
            raise WorkloadError(wrong, next_step=f"Reserved names: {', '.join(RESERVED)}.")
        _require_size(name, buffer)
    for name, buffer in buffers.items():
        if buffer.valid is not None:
            _require_length(name, buffer, buffers)


def _require_length(name: str, buffer: Buffer, buffers: Mapping[str, Buffer]) -> None:
    """Raises `WorkloadError` where no buffer of that name can hold a buffer's length."""
    length = buffers.get(buffer.valid) if isinstance(buffer.valid, str) else None
    what = f"valid of buffer {name!r} is {buffer.valid!r}"
    if length is None:
        near = nearest(str(buffer.valid), buffers)
        raise WorkloadError(f"{what}, which is not a buffer{near}", next_step=_LENGTH)
    if length.element.kind not in "iu" or math.prod(length.dimensions) != 1:
        wrong = f"which has the shape {length.dimensions} and dtype {length.element}"
        raise WorkloadError(f"{what}, {wrong}; it must be one integer", next_step=_LENGTH)
    if length.valid is not None:
        raise WorkloadError(f"{what}, which has a valid= of its own", next_step=_LENGTH)
    if length.scratch and not buffer.scratch:
        wrong = f"which is scratch, but the host must know how much of {name!r} to move"
        raise WorkloadError(f"{what}, {wrong}", next_step=f"Remove scratch=True from {buffer.valid!r}.")


def _require_size(name: str, buffer: Buffer) -> None:
    """Raises `WorkloadError` for no shape or dtype, `ImpossibleBuffer` for no elements, and 2**63 bytes."""
    try:
        shape_of(buffer.shape)
        dtype_of(buffer.dtype)
    except WorkloadError as problem:
        raise WorkloadError(f"buffer {name!r}: {problem.message}", next_step=problem.next_step) from None
    try:
        np.empty((0,) * len(buffer.dimensions), np.uint8)
    except ValueError as problem:  # 32 or 64, by NumPy's version
        wrong = f"buffer {name!r} has {len(buffer.dimensions)} dimensions: {problem}"
        raise WorkloadError(wrong, next_step="Merge dimensions of the shape.") from None
    if buffer.external and buffer.scratch:
        step = "external data arrives on the host; scratch data never leaves the device."
        raise WorkloadError(f"buffer {name!r} cannot be both external and scratch", next_step=step)
    what = f"buffer {name!r} has the shape {buffer.dimensions}"
    if min(buffer.dimensions) < 1:
        raise ImpossibleBuffer(f"{what}; every dimension must be 1 or more", next_step="Correct the shape.")
    if buffer.nbytes >= 1 << 63:
        wrong = f"{what} and dtype {buffer.element}: {buffer.nbytes} bytes; the most is 2**63 - 1"
        raise ImpossibleBuffer(wrong, next_step="Choose a smaller shape.")


_PACKAGE = str(Path(__file__).resolve().parent.parent)


def _line_of_caller(frame: FrameType | None) -> str | None:
    """The line that calls a dataclass's constructor, or `replace`; None where that is a line of advisor."""
    while frame and frame.f_code.co_filename in ("<string>", dataclasses.__file__):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(_PACKAGE):
        return None
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _named(function: StageFunction) -> str:
    return in_a_line(str(getattr(function, "__name__", type(function).__name__)))


def _name(thing: object) -> str:
    return str(getattr(thing, "__name__", repr(thing)))


RESERVED = ("xp", "rng", "frame", "stream", "gpu", "gpus")
"""Parameters that stages get by name: the array module, a generator, the frame's index, the stream, the GPU
that a device stage runs on, and how many there are."""
_LENGTH = 'Write {"count": Buffer(1, np.int32), "data": Buffer((4096, 4), np.float32, valid="count")}.'
_WRAP = "Wrap each function: frame=[host(produce), device(compute), host(consume)]."


_WRITE = 'Write repeat([device(step), host(check)], until="done", at_most=100), with a buffer "done".'


def repeat(stages: Sequence[Stage], *, until: str, at_most: int) -> Repeat:
    """A loop over stages, as an element of `frame`, that the host ends.

    until: the buffer whose first element, once it is not 0 (True) on the host after an iteration, ends it.
    Where a device stage wrote it, each iteration copies it to the host and waits. at_most: iterations after
    which the loop ends in any case, which is no error. Raises `WorkloadError` on parts that make no loop.
    """
    if not isinstance(stages, (list, tuple)) or not stages:
        raise WorkloadError(f"repeat was given {stages!r}; it must be a list of stages", next_step=_WRITE)
    for index, stage in enumerate(stages):
        if isinstance(stage, Repeat):
            wrong = f"element {index} of a repeat is another repeat, and loops cannot be nested"
            raise WorkloadError(wrong, next_step="Write the inner loop as a Python loop inside one stage.")
        if not isinstance(stage, Stage):
            wrong = f"element {index} of a repeat is {stage!r}, which is not a stage"
            raise WorkloadError(wrong, next_step=_WRITE)
        if stage.every > 1:
            wrong = (
                f"stage {stage.name!r} has every={stage.every} and is in a repeat, whose stages run in every"
            )
            step = "Omit every=, or list the stage in the frame outside of the repeat."
            raise WorkloadError(f"{wrong} iteration of every frame", next_step=step)
    if not isinstance(until, str):
        raise WorkloadError(f"repeat: until is {until!r}; it must be a buffer's name", next_step=_WRITE)
    step = "It is the number of iterations after which your program gives up."
    most = integer_of(at_most, f"repeat until {until!r}: at_most", 1, MOST_ITERATIONS, step)
    return Repeat(tuple(stages), until, most)
