"""The workload API: what a user's file says about its buffers and the stages of one frame.

@workload
def vector_add(n: int = 1 << 24) -> Workload:
    def produce(a: Out, frame: int) -> None: ...
    def add(xp, a: In, c: Out) -> None: ...
    return Workload(buffers={...}, frame=[host(produce), device(add)])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from advisor.errors import WorkloadError, nearest
from advisor.profiles.schema import MOST_GPUS, MOST_PERIOD, ArrayForm, Loop, Side
from advisor.texts import bounded, in_a_line, is_name
from advisor.workloads.access import Access as Access
from advisor.workloads.access import In as In
from advisor.workloads.access import InOut as InOut
from advisor.workloads.access import Out as Out

StageFunction: TypeAlias = Callable[..., object]
FORMS: tuple[ArrayForm, ...] = get_args(ArrayForm)
FORMS_EXPLAINED = (
    'arrays="torch" gives tensors, "numba" Numba arrays, "pointer" addresses as int, "dlpack" objects '
    "for from_dlpack; without it a stage gets NumPy or CuPy arrays."
)
_MOST_SUMMARY = 300
"""Characters of a docstring's first line that a report shows."""


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
    Raises `WorkloadError` on what is no shape or dtype. A shape that no array can have is the workload's to
    tell, which knows the buffer's name.
    """

    shape: int | Sequence[int]
    dtype: npt.DTypeLike
    external: bool = False
    scratch: bool = False
    valid: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _shape(self.shape))
        object.__setattr__(self, "dtype", _dtype(self.dtype))
        if self.external and self.scratch:
            raise WorkloadError(
                "a buffer cannot be both external and scratch",
                next_step="external data arrives on the host; scratch data never leaves the device.",
            )

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The shape as a tuple."""
        return tuple(self.shape) if isinstance(self.shape, Sequence) else (self.shape,)

    @property
    def element(self) -> np.dtype[Any]:
        """The dtype as NumPy's."""
        return np.dtype(self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of one copy of it."""
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
    """Of a device stage: which of the workload's GPUs it runs on."""

    @property
    def name(self) -> str:
        """The function's name."""
        return _named(self.function)


def host(function: StageFunction, *, arrays: str | None = None, every: int = 1) -> Stage:
    """A stage that runs on the CPU and gets NumPy arrays, or CPU tensors with arrays="torch".

    Also "numba", "pointer" (int) and "dlpack"; `a: In[torch.Tensor]` says it of one buffer. All share the
    buffer's memory. every: it runs, and what it needs is moved, only in frames 0, every, 2 * every, ...
    Raises `WorkloadError` for another form, and for an `every` that is not 1 or more.
    """
    form = _form(arrays, _name(function))
    return Stage(_callable(function, "host"), "host", arrays=form, every=_every(every, _name(function)))


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
        raise WorkloadError(
            f"device({_name(function)}): passes is {passes!r}; it must map buffers to numbers",
            next_step='Write passes={"image": 8}.',
        )
    for name, value in (*(passes or {}).items(), ("flops", 0 if flops is None else flops)):
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value < math.inf:
            what = "operations of a frame" if name == "flops" else "times that the kernel reads the buffer"
            raise WorkloadError(
                f"device({_name(function)}): {name} is {value!r}; it must be a number, 0 or more",
                next_step=f"Give the number of {what}, or omit it.",
            )
    twin = None if cpu is None else _callable(cpu, "device(cpu=...)")
    form = _form(arrays, _name(function))
    often = _every(every, _name(function))
    where = _gpu(gpu, _name(function))
    return Stage(
        _callable(function, "device"), "device", twin, dict(passes or {}), flops, form, often, gpu=where
    )


@dataclass(frozen=True)
class Repeat:
    """Stages that run again and again within a frame. Made by `advisor.repeat`."""

    stages: tuple[Stage, ...]
    until: str
    at_most: int


@dataclass(frozen=True)
class Workload:
    """What a `@workload` function returns: buffers by name, and the stages of one frame in order, which may
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
        ids = self.ignore
        if not isinstance(ids, (list, tuple)) or not all(isinstance(name, str) for name in ids):
            raise WorkloadError(
                f"ignore is {ids!r}; it must be a list of rule ids",
                next_step='Write ignore=["pageable-transfer"]; `advisor rules` lists them.',
            )
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
            raise WorkloadError(
                "frame=[] has no stage", next_step="List the stages of one frame: frame=[host(f), device(g)]."
            )
        _require_frames(self.frame_stages)
        _require_gpus({s.gpu for s in (*self.setup, *self.frame_stages) if s.side == "device"})
        if self.check is not None:
            _callable(self.check, "check=")

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
        """The function's name, as in FILE::NAME."""
        return _named(self.function)

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return bounded((self.function.__doc__ or "").strip().partition("\n")[0], _MOST_SUMMARY)

    def __call__(self, *arguments: Any, **keywords: Any) -> object:
        return self.function(*arguments, **keywords)


def workload(function: Callable[..., object]) -> Definition:
    """Marks a function that returns a `Workload`; its annotated parameters are the workload's."""
    return Definition(_callable(function, "@workload"))


def _every(every: object, stage: str) -> int:
    """The number itself. Raises `WorkloadError` for what is no count of frames."""
    if isinstance(every, bool) or not isinstance(every, (int, np.integer)) or every < 1:
        raise WorkloadError(
            f"stage {stage!r}: every is {every!r}; it must be an integer, 1 or more",
            next_step="every=10 runs it in frames 0, 10, 20 and so on.",
        )
    return int(every)


def _gpu(gpu: object, stage: str) -> int:
    """The number itself. Raises `WorkloadError` for what is no GPU's."""
    if isinstance(gpu, bool) or not isinstance(gpu, (int, np.integer)) or not 0 <= gpu < MOST_GPUS:
        raise WorkloadError(
            f"stage {stage!r}: gpu is {gpu!r}; it must be an integer from 0 to {MOST_GPUS - 1}",
            next_step="gpu=1 is the workload's second GPU; --gpus says which device that is.",
        )
    return int(gpu)


def _require_gpus(used: set[int]) -> None:
    """The GPUs that stages name are all from 0 on."""
    if missing := sorted(set(range(max(used, default=-1) + 1)) - used):
        raise WorkloadError(
            f"device stages run on GPU {', '.join(map(str, sorted(used)))}, but none on GPU {missing[0]}",
            next_step="Number the GPUs from 0 without gaps; --gpus chooses the devices.",
        )


def _require_frames(frame: Sequence[Stage]) -> None:
    """Some stage runs in every frame, and the period of all stages is short enough."""
    every = [stage.every for stage in frame]
    if min(every) > 1:
        raise WorkloadError(
            f"no stage runs in every frame: every is {', '.join(map(str, every))}",
            next_step="A frame is what the program repeats most often: divide them all by the smallest.",
        )
    if math.lcm(*every) > MOST_PERIOD:
        raise WorkloadError(
            f"every is {', '.join(map(str, every))}: all stages run together only every "
            f"{math.lcm(*every)} frames; the maximum is {MOST_PERIOD}",
            next_step="Choose numbers that are multiples of each other.",
        )


def _form(arrays: object, stage: str) -> ArrayForm | None:
    """The form that `arrays=` names. Raises `WorkloadError` for any other value."""
    for form in FORMS:
        if arrays == form:
            return form
    if arrays is None:
        return None
    raise WorkloadError(
        f"stage {stage!r}: arrays is {arrays!r}, which is not one of {', '.join(FORMS)}"
        f"{nearest(str(arrays), FORMS)}",
        next_step=FORMS_EXPLAINED,
    )


def _shape(shape: object) -> tuple[int, ...]:
    parts = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not parts or not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in parts):
        raise WorkloadError(
            f"a buffer's shape is {shape!r}; it must be a positive integer or a tuple of them",
            next_step="Write Buffer(1024, np.float32) or Buffer((480, 640), np.uint8).",
        )
    return tuple(int(n) for n in parts)


def _dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        element = np.dtype(dtype)
    except (TypeError, ValueError):
        element = None
    unusable = element is None or element.hasobject or element.itemsize == 0 or element.subdtype is not None
    if dtype is None or element is None or unusable:
        raise WorkloadError(
            f"a buffer's dtype is {dtype!r}; it must be a NumPy dtype of fixed size without objects",
            next_step="Write Buffer(1024, np.float32), for example.",
        )
    return element


def _callable(function: object, where: str) -> Callable[..., object]:
    if not callable(function):
        raise WorkloadError(
            f"{where} was given {function!r}, which is not a function",
            next_step="Pass the function itself; do not call it.",
        )
    return function


def _require_buffers(buffers: object) -> None:
    if not isinstance(buffers, Mapping) or not buffers:
        raise WorkloadError(
            f"buffers is {buffers!r}; it must map names to Buffer(...)",
            next_step='Write buffers={"image": Buffer((480, 640), np.uint8)}.',
        )
    for name, buffer in buffers.items():
        if not isinstance(name, str) or not is_name(name) or not isinstance(buffer, Buffer):
            raise WorkloadError(
                f"buffers[{name!r}] is {buffer!r}; names must be Python identifiers, values Buffer(...)",
                next_step="A stage gets a buffer by naming a parameter after it.",
            )
        if name in RESERVED:
            raise WorkloadError(
                f"a buffer cannot be named {name!r}: that parameter name is reserved",
                next_step=f"Reserved names: {', '.join(RESERVED)}.",
            )
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
        raise WorkloadError(
            f"{what}, which is scratch, but the host must know how much of {name!r} to move",
            next_step=f"Remove scratch=True from {buffer.valid!r}.",
        )


def _require_size(name: str, buffer: Buffer) -> None:
    """Raises `ImpossibleBuffer` for a shape without elements, and one of 2**63 bytes."""
    what = f"buffer {name!r} has the shape {buffer.dimensions}"
    if min(buffer.dimensions) < 1:
        raise ImpossibleBuffer(f"{what}; every dimension must be 1 or more", next_step="Correct the shape.")
    if buffer.nbytes >= 1 << 63:
        raise ImpossibleBuffer(
            f"{what} and dtype {buffer.element}: {buffer.nbytes} bytes; the most is 2**63 - 1",
            next_step="Choose a smaller shape.",
        )


def _named(function: StageFunction) -> str:
    return in_a_line(str(getattr(function, "__name__", type(function).__name__)))


def _name(thing: object) -> str:
    return str(getattr(thing, "__name__", repr(thing)))


RESERVED = ("xp", "rng", "frame", "stream", "gpu", "gpus")
"""Parameters that stages get by name: the array module, a generator, the frame's index, the stream, the GPU
that a device stage runs on, and how many there are."""
_LENGTH = 'Write {"count": Buffer(1, np.int32), "data": Buffer((4096, 4), np.float32, valid="count")}.'
_WRAP = "Wrap each function: frame=[host(produce), device(compute), host(consume)]."
