"""Every strategy with NumPy and CuPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from advisor.profiles.schema import BufferRecord, Device, WorkloadRecord
from advisor.rules.snippets import helpers
from advisor.rules.snippets.serial import Dialect, arguments, only_written
from advisor.strategies.placements.base import flag_is_off
from advisor.strategies.placements.managed_hinted import hints_for
from advisor.strategies.registry import BASELINE, Strategy

STREAM = "stream = cupy.cuda.get_current_stream()  # the one your kernels run on"
OWN_STREAM = """\
stream = cupy.cuda.Stream(non_blocking=True)  # memory cannot be attached to the null stream alone
stream.use()  # your kernels of this thread run on it from here on"""
WRITE_COMBINED = "cupy.cuda.runtime.hostAllocWriteCombined"
Allocate = Callable[[BufferRecord], Iterator[str]]
_ADVICE = {
    "read-mostly": ("cudaMemAdviseSetReadMostly", "device"),
    "prefer-device": ("cudaMemAdviseSetPreferredLocation", "device"),
    "accessed-by-device": ("cudaMemAdviseSetAccessedBy", "device"),
    "accessed-by-host": ("cudaMemAdviseSetAccessedBy", "host"),
}


def dialect(strategy: Strategy, workload: WorkloadRecord, device: Device) -> Dialect | None:
    """How CuPy says it; None for the baseline, and for a strategy whose code is not written yet."""
    if strategy.name == BASELINE:
        return None
    name = strategy.name
    found = _copied(name, workload) or _mapped(name, workload) or _managed(name, workload, device)
    return found or _ordinary(name)


def _copied(name: str, workload: WorkloadRecord) -> Dialect | None:
    """Two memories with asynchronous copies between them."""
    pinned = Dialect(
        helpers.IMPORTS + helpers.PINNED,
        lambda buffer: two_memories(f"pinned_empty({_flagged(buffer, name, workload)})", buffer),
        STREAM,
        to_device=lambda n: f"{n}_device.set({n}, stream=stream)  # in place of cupy.asarray({n})",
        to_host=lambda n: f"{n}_device.get(stream=stream, out={n}, blocking=False)  # not cupy.asnumpy",
    )
    if name in ("pinned", "write-combined"):
        return pinned
    if name == "registered":
        return replace(
            pinned,
            helpers=helpers.REGISTERED_IMPORTS + helpers.REGISTERED,
            allocate=lambda buffer: two_memories(f"registered_empty({arguments(buffer)})", buffer),
            takes_foreign_memory=True,
        )
    return None


def two_memories(call: str, buffer: BufferRecord) -> Iterator[str]:
    """Host memory by that call, and device memory."""
    yield f"{buffer.name} = {call}"
    yield f"{buffer.name}_device = cupy.empty({arguments(buffer)})"


def _flagged(buffer: BufferRecord, name: str, workload: WorkloadRecord) -> str:
    """Write-combined where that is the strategy and the CPU never reads the buffer."""
    wanted = name in ("write-combined", "zero-copy-wc") and only_written(buffer, workload)
    return arguments(buffer) + (f", {WRITE_COMBINED}" if wanted else "")


def _mapped(name: str, workload: WorkloadRecord) -> Dialect | None:
    """Page-locked memory that kernels use in place."""
    if name in ("zero-copy", "zero-copy-wc"):
        return _one_memory(
            helpers.IMPORTS + helpers.MAPPED,
            lambda buffer: _both(f"mapped_empty({_flagged(buffer, name, workload)})", buffer),
        )
    if name == "zero-copy-registered":
        made = _one_memory(
            helpers.REGISTERED_IMPORTS + helpers.REGISTERED + helpers.REGISTERED_MAPPED,
            lambda buffer: _both(f"mapped_registered_empty({arguments(buffer)})", buffer),
        )
        return replace(made, takes_foreign_memory=True)
    return None


def _one_memory(code: str, allocate: Allocate) -> Dialect:
    """Nothing is moved on request: delete the copies."""
    return Dialect(code, allocate, STREAM, to_device=str, to_host=str)


def _both(call: str, buffer: BufferRecord) -> Iterator[str]:
    """One memory with a name for each side."""
    yield f"{buffer.name}, {buffer.name}_device = {call}"


def _managed(name: str, workload: WorkloadRecord, device: Device) -> Dialect | None:
    """Managed memory, moved by the driver, on request, or with hints."""

    def allocate(buffer: BufferRecord) -> Iterator[str]:
        yield from _both(f"managed_empty({arguments(buffer)})", buffer)
        if name == "managed-advised":
            for advice, side in map(_ADVICE.__getitem__, hints_for(buffer, workload)):
                yield f'advise({buffer.name}, "{advice}", "{side}")'

    if name == "managed":
        return _one_memory(helpers.MANAGED_IMPORTS + helpers.MANAGED, allocate)
    if name not in ("managed-prefetch", "managed-advised"):
        return None
    attaches = flag_is_off(device, "concurrent_managed_access")
    moves = (helpers.ATTACH,) if attaches else (helpers.LOCATION, helpers.PREFETCH)
    hinted = (helpers.ADVISE,) if name == "managed-advised" else ()
    return Dialect(
        "".join((helpers.MANAGED_CALLS_IMPORTS, helpers.MANAGED, helpers.REQUIRE, *moves, *hinted)),
        allocate,
        OWN_STREAM if attaches else STREAM,
        to_device=lambda n: f'prefetch({n}, "device")',
        to_host=lambda n: f'prefetch({n}, "host")',
    )


def _ordinary(name: str) -> Dialect | None:
    """Memory that no call of CUDA has seen."""
    if name == "system":
        made = _one_memory(
            "import cupy\nimport numpy as np\n" + helpers.SYSTEM,
            lambda buffer: _both(f"system_empty({arguments(buffer)})", buffer),
        )
        return replace(made, takes_foreign_memory=True)
    if name == "staged":
        return Dialect(
            "import cupy\nimport numpy as np\n",
            _staged,
            STREAM,
            to_device=lambda n: f"{n}_device = cupy.asarray({n})  # through CuPy's pinned pool",
            to_host=lambda n: f"cupy.asnumpy({n}_device, out={n})",
            rebinds=True,
            takes_foreign_memory=True,
        )
    return None


def _staged(buffer: BufferRecord) -> Iterator[str]:
    yield f"{buffer.name} = np.empty({arguments(buffer)})"
    yield f"{buffer.name}_device = cupy.empty({arguments(buffer)})"
