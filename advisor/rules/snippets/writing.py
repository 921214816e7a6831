"""Code to copy: how each strategy is written for the buffers of this workload.

Memory is taken exactly (CuPy's pinned pool rounds up to a power of two), once, before the frames. The steps
of a frame come from the same plan that the measured frames ran, so that no copy or wait is forgotten.
For CuPy 13 and later, on CUDA 12 and 13; `variants` has the same for PyTorch and Numba where those differ.
What is written follows from each buffer's placement, so that a mix of placements needs nothing more.
Its calls were run on an H200 with CUDA 13.0, CuPy 14.2, PyTorch 2.11 and Numba 0.68.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from textwrap import indent

from advisor.profiles.schema import BufferRecord, Device, Loop, WorkloadRecord
from advisor.rules.rows import NO_MIXES, strategy_named
from advisor.rules.snippets.libraries import CUPY, NUMBA, TORCH, Library, Way, opening
from advisor.strategies.parts import Region
from advisor.strategies.planning import plan_of
from advisor.strategies.registry import BASELINE, Strategy, gpus_of, to_place
from advisor.strategies.schedule import Plan, Step, doubled, parts, stage_uses

_MOST = 102
"""Characters of a line that may end in a comment."""
_OWN_STREAM = """\
stream = cupy.cuda.Stream(non_blocking=True)  # memory cannot be attached to the null stream alone
stream.use()  # kernels launched by this thread now use it"""


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
        way, to_device = self.ways[step.name], step.action == "to-device"
        line = way.to_device if to_device else way.to_host
        if step.action == "to-peer":
            line = self.library.on_gpu.to_peer
        if not isinstance(step.part, Region):
            return self.filled(line, step, stream, f"[:{self.at(step.part)}_rows]" if step.part else "")
        buffer = self.buffers[step.name]
        s, *more = step.part.spans(buffer.bytes // math.prod(buffer.shape))
        # CuPy's set and get refuse a region that is not contiguous.
        strided = way.copies and bool(more or s.height > 1)
        if strided and (way.rebinds or more):
            line = "{device} = cupy.asarray({host})" if to_device else "{host} = cupy.asnumpy({device})"
        if not strided or way.rebinds or more:
            return self.filled(line, step, stream, _subscript(step.part))
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
            type=buffer.dtype,
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
    steps = plan_of(workload, traits)
    for step in chain(steps.first, *steps.period):
        in_rows = isinstance(step.part, Region) and any(s.height > 1 for s in step.part.spans(1))
        if in_rows and ("import cupy" not in library.imports or step.action == "to-peer"):
            return None  # CuPy alone has a call for regions that are not contiguous, between host and GPU
    in_place = {name: placements[name].takes_foreign_memory for name in buffers}
    return Code(workload, library, buffers, known, in_place, steps)


MOVES = ("to-device", "to-host", "to-peer", "length")


def stream_of(gpu: int) -> str:
    return f"stream{gpu or ''}"


def memory(code: Code) -> Iterator[str]:
    """The buffers on the host and on all GPUs that use them, and the streams."""
    used = {name: gpus_of(buffer, code.workload) for name, buffer in code.buffers.items()}
    for gpu in range(code.workload.gpus):
        lines = [] if gpu == 0 else [code.library.on_gpu.stream.format(stream=stream_of(gpu))]
        for name in (name for name, gpus in used.items() if gpu in gpus):
            if gpu == used[name][0]:
                lines += code.allocation(name)
            else:
                lines.append(code.filled(code.ways[name].elsewhere, Step("to-device", name, gpu=gpu)))
        if gpu == 0:
            yield from (*lines, code.stream())
        else:
            yield code.library.on_gpu.allocating.format(gpu=gpu)
            yield from (f"    {line}" for line in lines)


def queued(code: Code, steps: Sequence[Step]) -> Iterator[str]:
    """The steps one after the other; those that a further GPU is given stand in a block."""
    blocks = ("device", "mark", "order", *MOVES)
    for gpu, row in groupby(steps, lambda step: step.gpu if step.action in blocks else 0):
        lines = [line for step in row for line in _lines(code, step)]
        if gpu:
            yield code.library.on_gpu.running.format(gpu=gpu, stream=stream_of(gpu))
            yield from (f"    {line}" for line in lines)
            if all(line.startswith("#") for line in lines):
                yield "    pass"
        else:
            yield from lines


def _lines(code: Code, step: Step) -> Sequence[str]:
    stream, ways = stream_of(step.gpu), code.library.on_gpu
    if step.action == "synchronize":
        return (f"{stream}.synchronize()  # the CPU must not touch the buffers before this",)
    if step.action == "mark":
        return [line.format(mark=f"mark{step.name}", stream=stream) for line in ways.mark]
    if step.action == "order":
        return (ways.order.format(mark=f"mark{step.name}", stream=stream),)
    return (code.move(step, stream) if step.action in MOVES else code.stage_comment(step),)


def snippet(
    strategy: str,
    workload: WorkloadRecord,
    device: Device,
    mixes: Mapping[str, Strategy] = NO_MIXES,
    library: Library = CUPY,
) -> str | None:
    """Python for that strategy, these buffers and this device; None where nothing is to change, the device
    or the library cannot do it, or frames overlap in another library than CuPy."""
    known = strategy_named(strategy, mixes)
    if known is None or strategy == BASELINE or known.unavailable(device) or known.unsuited(workload):
        return None
    written = code(library, known, workload, device)
    if written is None or (known.pipelined and library is not CUPY):
        return None
    return overlapping(written) if known.pipelined else serial(written)


def variants(
    strategy: str, workload: WorkloadRecord, device: Device, mixes: Mapping[str, Strategy] = NO_MIXES
) -> dict[str, str]:
    """The same for other libraries that have a way of their own to it, by the library's name."""
    libraries = {"PyTorch": TORCH, "Numba": NUMBA}
    texts = {name: snippet(strategy, workload, device, mixes, library) for name, library in libraries.items()}
    return {name: text for name, text in texts.items() if text}


def serial(code: Code) -> str:
    """The whole of it: helpers, memory, and a function `frame` with the calls of a steady frame."""
    once = "# Once. Let the CPU work in these arrays directly: np.copyto into them would keep a copy."
    return "\n".join((*code.opening(), "", "", once, *memory(code), *_frame(code), ""))


def _frame(code: Code) -> Iterator[str]:
    """A function with the calls of a steady frame, and what is moved once before it."""
    first, steady = code.plan.first, frozenset(chain(*code.plan.period))
    uploads = {(step.name, step.gpu) for step in steady if step.action == "to-device" and step.part is None}
    bound = sorted(on_device(*upload) for upload in uploads if code.ways[upload[0]].rebinds)
    yield from ("", "", "def frame():" if len(code.plan.period) == 1 else "def frame(index):")
    if bound:
        yield f"    global {', '.join(bound)}"
    yield from (f"    {line}" for line in _by_index(code))
    once = [s for s in first if s.action in MOVES and s not in steady]
    if once:
        yield from ("", "", "# Once, after set-up, not in every frame:")
    for step in once:
        yield from queued(code, [step])
        if code.workload.gpus > 1 and step.action != "length":
            yield f"{stream_of(step.gpu)}.synchronize()"


def _by_index(code: Code) -> Iterator[str]:
    """The steps of a frame; where stages run in some only, under a condition for each kind of frame."""
    period = code.plan.period
    kinds = {steps: [i for i, other in enumerate(period) if other == steps] for steps in code.plan.kinds}
    *some, (rest, _) = sorted(kinds.items(), key=lambda kind: len(kind[1]))
    for number, (steps, frames) in enumerate(some):
        alike = f"== {frames[0]}" if len(frames) == 1 else f"in {tuple(frames)}"
        yield f"{'elif' if number else 'if'} index % {len(period)} {alike}:"
        yield from (f"    {line}" for line in _steps(code, steps))
    if some:
        yield "else:"
    yield from (f"    {line}" if some else line for line in _steps(code, rest))


def _steps(code: Code, steps: Sequence[Step]) -> Iterator[str]:
    first: list[str] = []
    for loop, again, row in parts(steps):
        lines = list(queued(code, [step for step in row if step.action != "until"]))
        if loop is None:
            yield from lines
        elif again:
            yield from _loop(loop, first, lines)
        else:
            first = lines
    if all(step.action in ("host", "device") for step in steps):
        yield "pass"


def _loop(loop: Loop, first: Sequence[str], again: Sequence[str]) -> Iterator[str]:
    """A loop that the host ends; where its first iteration is another, that stands before it."""
    ends = (f"    if {loop.until}.item(0):", "        break")
    body = [f"    {line}" for line in again]
    if first == again:
        yield from (f"for _ in range({loop.at_most}):", *body, *ends)
    else:
        yield from (*first, f"for _ in range({loop.at_most - 1}):", *ends, *body)


def overlapping(code: Code) -> str | None:
    """Functions `begin`, `finish` and `frames`; what only one set is needed of is taken once.

    None where a buffer cannot be moved on a stream of the caller's choice, or where frames differ.
    """
    if len(code.plan.period) > 1:
        return None
    moves = [move for way in code.ways.values() for move in (way.to_device, way.to_host)]
    if any(move and "{stream}" not in move for move in moves):
        return None
    twice = [n for n in code.buffers if n in doubled(stage_uses(code.workload, "frame"))]

    def slot(name: str) -> str:
        return f"slot.{name}" if name.removesuffix("_device") in twice else name

    of_slot, own = replace(code, at=slot), replace(code, at="self.{}".format)
    steady = code.plan.steady
    later = frozenset(steady)
    kernel = next(i for i, step in enumerate(steady) if step.action == "device")
    rest = (i for i, step in enumerate(steady) if i > kernel and step.action not in ("device", *MOVES))
    wait = next(rest, len(steady))
    once = [s for s in code.plan.first if s not in later and s.action in ("length", "to-device")]
    shared = [
        *(line for name in code.buffers if name not in twice for line in code.allocation(name)),
        "uploads, kernels, downloads = (cupy.cuda.Stream(non_blocking=True) for _ in range(3))",
        *(f"{line}  # once, after set-up" for step in once for line in _overlapped(of_slot, step, "kernels")),
    ]
    return _OVERLAPPING.format(
        opening="\n".join(code.opening()),
        own=_indented([line for name in twice for line in own.allocation(name)] or ["pass"], 8),
        shared="\n".join(shared),
        begin=_indented(_begin(of_slot, steady[:kernel], steady[kernel:wait]), 4),
        finish=_indented(_finish(of_slot, steady[wait:]), 4),
    )


_OVERLAPPING = '''\
{opening}


class Slot:
    """The buffers of one frame in flight."""

    def __init__(self):
{own}


slots = [Slot(), Slot()]
{shared}


def begin(slot):
    """Enqueues a frame up to the point where the CPU must wait for it."""
{begin}


def finish(slot):
    """Waits for that frame only, then completes it."""
{finish}


def frames(count):
    """Frame i + 1 is produced and uploaded while frame i computes."""
    begin(slots[0])
    for index in range(count):
        if index + 1 < count:
            begin(slots[(index + 1) % 2])
        finish(slots[index % 2])
'''


def _indented(lines: Iterable[str], spaces: int) -> str:
    return indent("\n".join(lines), " " * spaces)


def _begin(code: Code, head: Sequence[Step], body: Sequence[Step]) -> Iterator[str]:
    for step in head:
        yield from _overlapped(code, step, "uploads")
    yield "kernels.wait_event(uploads.record())"
    last = "kernels"
    for step in body:
        if step.action == "to-host":
            yield "downloads.wait_event(kernels.record())"
            last = "downloads"
        yield from _overlapped(code, step, "downloads" if step.action == "to-host" else "kernels")
    yield f"slot.done = {last}.record()"


def _finish(code: Code, tail: Sequence[Step]) -> Iterator[str]:
    yield "slot.done.synchronize()"
    queued = False
    for step in tail:
        if step.action != "synchronize":
            queued |= step.action not in ("host", "length")
            yield from _overlapped(code, step, "kernels")
        elif queued:
            queued = False
            yield "kernels.synchronize()"


def _overlapped(code: Code, step: Step, stream: str) -> Sequence[str]:
    """A copy on that stream, without its comment, or what the user's own stage does."""
    if step.action in MOVES:
        return (code.move(step, stream).partition("  #")[0],)
    stage = code.stage_comment(step)
    return ("with kernels:", f"    {stage}", "    pass") if step.action == "device" else (stage,)
