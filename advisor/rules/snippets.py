"""Code to copy: how each strategy is written with NumPy and CuPy for the buffers of this workload.

Memory is taken exactly (CuPy's pinned pool rounds up to a power of two), once, before the frames. The steps
of a frame come from the same plan that the measured frames ran, so that no copy or wait is forgotten.
Checked on CuPy 13 and later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.profiles import BufferRecord, Device, WorkloadRecord
from advisor.schedule import Plan, Step, plan, stage_uses
from advisor.strategies import STRATEGIES, Strategy

_PINNED = '''\
import math

import cupy
import numpy as np


def pinned_empty(shape, dtype):
    """A NumPy array in page-locked memory of exactly its size."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    memory = cupy.cuda.PinnedMemory(count * dtype.itemsize)
    return np.frombuffer(cupy.cuda.PinnedMemoryPointer(memory, 0), dtype, count).reshape(shape)
'''

_ZERO_COPY = '''\
import math

import cupy
import numpy as np


def mapped_empty(shape, dtype):
    """One page-locked memory as a NumPy and as a CuPy array."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    memory = cupy.cuda.PinnedMemory(count * dtype.itemsize, cupy.cuda.runtime.hostAllocMapped)
    pointer = cupy.cuda.runtime.pointerGetAttributes(memory.ptr).devicePointer
    host = np.frombuffer(cupy.cuda.PinnedMemoryPointer(memory, 0), dtype, count).reshape(shape)
    shared = cupy.cuda.UnownedMemory(pointer, memory.size, memory)
    return host, cupy.ndarray(shape, dtype, memptr=cupy.cuda.MemoryPointer(shared, 0))
'''

_MANAGED = '''\
import ctypes
import math

import cupy
import numpy as np


def managed_empty(shape, dtype):
    """One managed memory as a NumPy and as a CuPy array."""
    dtype, count = np.dtype(dtype), math.prod(shape)
    memory = cupy.cuda.malloc_managed(count * dtype.itemsize)
    view = (ctypes.c_byte * (count * dtype.itemsize)).from_address(memory.ptr)
    view.owner = memory  # the NumPy array keeps the memory alive
    host = np.frombuffer(view, dtype).reshape(shape)
    return host, cupy.ndarray(shape, dtype, memptr=memory)
'''

_HELPERS = {"pinned": _PINNED, "zero-copy": _ZERO_COPY, "managed": _MANAGED}
_SHARED_MEMORY = {"zero-copy": "mapped_empty", "managed": "managed_empty"}


def snippet(strategy: str, workload: WorkloadRecord, device: Device) -> str | None:
    """Python for that strategy, these buffers and this device; None where there is nothing to change to."""
    known = {s.name: s for s in STRATEGIES}
    if strategy not in _HELPERS or strategy not in known:
        return None
    shared = [buffer for buffer in workload.buffers if _is_shared(buffer, workload)]
    lines = [
        *_HELPERS[strategy].splitlines(),
        "",
        "",
        "# Once. The CPU works in these arrays themselves: np.copyto into them would keep a copy.",
        *(line for buffer in shared for line in _allocation(strategy, buffer)),
        "stream = cupy.cuda.get_current_stream()  # the one your kernels run on",
        *_frame(known[strategy], workload, device, shared),
    ]
    return "\n".join(lines) + "\n"


def _is_shared(buffer: BufferRecord, workload: WorkloadRecord) -> bool:
    return {s.side for s in workload.stages if s.name in buffer.access} == {"host", "device"}


def _allocation(strategy: str, buffer: BufferRecord) -> Iterator[str]:
    name, arguments = buffer.name, f"{buffer.shape}, {_dtype(buffer.dtype)}"
    if strategy in _SHARED_MEMORY:
        yield f"{name}, {name}_device = {_SHARED_MEMORY[strategy]}({arguments})"
    else:
        yield f"{name} = pinned_empty({arguments})"
        yield f"{name}_device = cupy.empty({arguments})"
    if buffer.external:
        yield f"# The data of {name} arrives elsewhere: the np.copyto between there and {name} stays."


def _dtype(text: str) -> str:
    """As an argument: a structured dtype is recorded as the list that makes it."""
    return text if text.startswith(("[", "{")) else f'"{text}"'


def _frame(
    strategy: Strategy, workload: WorkloadRecord, device: Device, shared: Sequence[BufferRecord]
) -> Iterator[str]:
    """A function with the calls of a steady frame, and what is uploaded once before it."""
    steps = _plan(strategy, workload, device)
    names = {buffer.name for buffer in shared}
    once = [s for s in steps.first if s not in steps.steady and s.action in ("to-device", "to-host")]
    yield ""
    yield ""
    yield "def frame():"
    for step in steps.steady:
        yield from (f"    {line}" for line in _step(step, workload, names))
    if once:
        yield ""
        yield ""
        yield "# Once, after set-up; not in every frame:"
        for step in once:
            yield from _step(step, workload, names)


def _plan(strategy: Strategy, workload: WorkloadRecord, device: Device) -> Plan:
    placements = strategy.placements(workload)
    inner = strategy.traits(device)
    shared = {b.name for b in workload.buffers if _is_shared(b, workload)}
    traits = {n: inner if n in shared else placements[n].traits(device) for n in placements}
    return plan(stage_uses(workload, "setup"), stage_uses(workload, "frame"), traits)


def _step(step: Step, workload: WorkloadRecord, names: set[str]) -> Iterator[str]:
    name = step.name
    if step.action == "synchronize":
        yield "stream.synchronize()  # the CPU must not touch the buffers before this"
    elif step.action == "to-device":
        yield f"{name}_device.set({name}, stream=stream)  # in place of cupy.asarray({name})"
    elif step.action == "to-host":
        yield f"{name}_device.get(stream=stream, out={name}, blocking=False)  # not cupy.asnumpy"
    else:
        yield _stage_comment(step, workload, names)


def _stage_comment(step: Step, workload: WorkloadRecord, names: set[str]) -> str:
    """What the user's own stage does, with the arrays it gets on its side."""
    suffix = "_device" if step.action == "device" else ""
    touched = {b.name: b.access[step.name] for b in workload.buffers if step.name in b.access}
    parts = [
        f"{verb} {', '.join(n + suffix * (n in names) for n, mode in touched.items() if mode in modes)}"
        for verb, modes in (("reads", ("in", "inout")), ("writes", ("out", "inout")))
        if any(mode in modes for mode in touched.values())
    ]
    return f"# your {step.name}, on the {'GPU' if suffix else 'CPU'}: {'; '.join(parts)}".rstrip(": ")
