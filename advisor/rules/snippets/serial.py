"""A frame whose stages follow one another, in the words of one library: its `Dialect`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from advisor.profiles.schema import BufferRecord, Device, WorkloadRecord
from advisor.rules.placed import shared
from advisor.strategies.placements.base import host_only_writes
from advisor.strategies.registry import Strategy
from advisor.strategies.schedule import Plan, Step, plan, stage_uses


@dataclass(frozen=True)
class Dialect:
    """How a library says what a strategy does."""

    helpers: str
    """Imports and functions that stand first."""
    allocate: Callable[[BufferRecord], Iterable[str]]
    stream: str
    """Binds `stream`, the one that kernels run on."""
    to_device: Callable[[str], str]
    to_host: Callable[[str], str]
    wait: str = "stream.synchronize()"
    rebinds: bool = False
    """An upload makes a new device array, so that `frame` must bind its name anew."""
    takes_foreign_memory: bool = False
    """Data that arrives elsewhere can be used where it is."""


def serial(dialect: Dialect, strategy: Strategy, workload: WorkloadRecord, device: Device) -> str:
    """The whole of it: helpers, memory, and a function `frame` with the calls of a steady frame."""
    both = shared(workload)
    lines = [
        *dialect.helpers.splitlines(),
        "",
        "",
        "# Once. The CPU works in these arrays themselves: np.copyto into them would keep a copy.",
        *(line for buffer in both for line in _allocation(dialect, buffer)),
        dialect.stream,
        *_frame(dialect, strategy, workload, device, both),
    ]
    return "\n".join(lines) + "\n"


def _allocation(dialect: Dialect, buffer: BufferRecord) -> Iterator[str]:
    yield from dialect.allocate(buffer)
    yield from arrival(buffer, in_place=dialect.takes_foreign_memory)


def arrival(buffer: BufferRecord, *, in_place: bool = False) -> Iterator[str]:
    """What to do about data that arrives in memory the program does not choose."""
    name = buffer.name
    if buffer.external and in_place:
        yield f"# The data of {name} arrives elsewhere: hand over that memory in place of this."
    elif buffer.external:
        yield f"# The data of {name} arrives elsewhere: the np.copyto between there and {name} stays."


def only_written(buffer: BufferRecord, workload: WorkloadRecord) -> bool:
    """Whether the host never reads it, so that write-combined memory will do."""
    return host_only_writes(buffer, workload)


def arguments(buffer: BufferRecord) -> str:
    """Shape and dtype as arguments: a structured dtype is recorded as the list that makes it."""
    text = buffer.dtype
    return f"{buffer.shape}, {text if is_structured(buffer) else repr_of(text)}"


def is_structured(buffer: BufferRecord) -> bool:
    """Whether its dtype has fields."""
    return buffer.dtype.startswith(("[", "{"))


def repr_of(text: str) -> str:
    """In double quotes, as the rest of the code."""
    return f'"{text}"'


def planned(strategy: Strategy, workload: WorkloadRecord, device: Device) -> Plan:
    """The steps as the runner would take them, with what arrives elsewhere taken to arrive in place."""
    placements = strategy.placements(workload)
    inner = strategy.traits(device)
    both = {buffer.name for buffer in shared(workload)}
    traits = {n: inner if n in both else placements[n].traits(device) for n in placements}
    return plan(stage_uses(workload, "setup"), stage_uses(workload, "frame"), traits)


def _frame(
    dialect: Dialect,
    strategy: Strategy,
    workload: WorkloadRecord,
    device: Device,
    both: Sequence[BufferRecord],
) -> Iterator[str]:
    """A function with the calls of a steady frame, and what is moved once before it."""
    steps = planned(strategy, workload, device)
    names = {buffer.name for buffer in both}
    uploads = sorted({step.name for step in steps.steady if step.action == "to-device"})
    yield from ("", "", "def frame():")
    if dialect.rebinds and uploads:
        yield f"    global {', '.join(f'{name}_device' for name in uploads)}"
    for step in steps.steady:
        yield f"    {_step(dialect, step, workload, names)}"
    if all(step.action in ("host", "device") for step in steps.steady):
        yield "    pass"
    once = [s for s in steps.first if s not in steps.steady and s.action in ("to-device", "to-host")]
    if once:
        yield from ("", "", "# Once, after set-up; not in every frame:")
        for step in once:
            yield _step(dialect, step, workload, names)


def _step(dialect: Dialect, step: Step, workload: WorkloadRecord, names: set[str]) -> str:
    if step.action == "synchronize":
        return f"{dialect.wait}  # the CPU must not touch the buffers before this"
    if step.action == "to-device":
        return dialect.to_device(step.name)
    if step.action == "to-host":
        return dialect.to_host(step.name)
    return stage_comment(step, workload, names)


def stage_comment(
    step: Step, workload: WorkloadRecord, names: Iterable[str], owner: Callable[[str], str] = str
) -> str:
    """What the user's own stage does, with the arrays it gets on its side; `owner` says where one is kept."""
    suffix, both = "_device" if step.action == "device" else "", set(names)
    touched = {b.name: b.access[step.name] for b in workload.buffers if step.name in b.access}
    parts = [
        f"{verb} {', '.join(owner(n + suffix * (n in both)) for n, m in touched.items() if m in modes)}"
        for verb, modes in (("reads", ("in", "inout")), ("writes", ("out", "inout")))
        if any(mode in modes for mode in touched.values())
    ]
    return f"# your {step.name}, on the {'GPU' if suffix else 'CPU'}: {'; '.join(parts)}".rstrip(": ")
