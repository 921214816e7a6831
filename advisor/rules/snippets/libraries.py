"""How CuPy, PyTorch and Numba write each placement, and what their code imports and calls.

CuPy alone has a call for all of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from advisor.profiles.schema import BufferRecord, Device
from advisor.strategies.placement import Placement, flag_is_off

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


_ADVICE = {
    "read-mostly": ("cudaMemAdviseSetReadMostly", "device"),
    "prefer-device": ("cudaMemAdviseSetPreferredLocation", "device"),
    "accessed-by-device": ("cudaMemAdviseSetAccessedBy", "device"),
    "accessed-by-host": ("cudaMemAdviseSetAccessedBy", "host"),
}
_FLAGS = {
    "write-combined": "cupy.cuda.runtime.hostAllocWriteCombined",
    "portable": "cupy.cuda.runtime.hostAllocPortable",
}
"""`mapped_empty` adds the flag for mapped memory itself."""
_IN_DEVICE_MEMORY = "{device} = cupy.empty({shape}, {dtype})"


def _in_cupy(placement: Placement, buffer: BufferRecord, device: Device) -> Way:
    del buffer
    if placement.host_kind == "device":
        return Way((_IN_DEVICE_MEMORY,), elsewhere=_IN_DEVICE_MEMORY)
    if placement.host_kind != placement.device_kind:
        return _copied(placement) if placement.locks else _STAGED if placement.staged else _PAGEABLE
    if placement.managed:
        return _managed(placement, device)
    if not placement.locks:
        return _one_memory("system_empty")
    if placement.registered:
        return _one_memory("mapped_registered_empty")
    return _for_all_gpus(_one_memory("mapped_empty", _flags(placement)))


CUPY = Library(
    ("import cupy", "import numpy as np"),
    "stream = cupy.cuda.get_current_stream()  # the one your kernels run on",
    _in_cupy,
    OnGpu(
        allocating="with cupy.cuda.Device({gpu}):",
        running="with cupy.cuda.Device({gpu}), {stream}:  # kernels launched in it run there",
        stream="{stream} = cupy.cuda.Stream(non_blocking=True)",
        mark=("{mark} = {stream}.record()",),
        order="{stream}.wait_event({mark})",
        to_peer="{device}.data.copy_from_device_async({source}.data, {source}.nbytes, {stream})",
    ),
)

_PAGEABLE = Way(
    ("{host} = np.empty({shape}, {dtype})", _IN_DEVICE_MEMORY),
    to_device="{device}.set({host}, stream={stream})",
    to_host="{device}.get(stream={stream}, out={host})",
    elsewhere=_IN_DEVICE_MEMORY,
)
_STAGED = Way(
    ("{host} = np.empty({shape}, {dtype})", _IN_DEVICE_MEMORY),
    to_device="{device} = cupy.asarray({host})  # through CuPy's pinned pool",
    to_host="cupy.asnumpy({device}, out={host})",
    rebinds=True,
    elsewhere=_IN_DEVICE_MEMORY,
)


def _copied(placement: Placement) -> Way:
    if placement.registered:
        host = "{host} = registered_empty({shape}, {dtype})"
    else:
        host = f"{{host}} = pinned_empty({{shape}}, {{dtype}}{_flags(placement)})"
    return Way(
        (host, _IN_DEVICE_MEMORY),
        to_device="{device}.set({host}, stream={stream})  # instead of cupy.asarray({host})",
        to_host="{device}.get(stream={stream}, out={host}, blocking=False)  # not cupy.asnumpy",
        elsewhere="" if placement.registered else _IN_DEVICE_MEMORY,
    )


def _flags(placement: Placement) -> str:
    wanted = [_FLAGS[flag] for flag in placement.host_flags if flag in _FLAGS]
    return f", {' | '.join(wanted)}" if wanted else ""


def _one_memory(call: str, flags: str = "") -> Way:
    """One memory with a name for each side; nothing is moved on request."""
    return Way((f"{{host}}, {{device}} = {call}({{shape}}, {{dtype}}{flags})",))


def _for_all_gpus(way: Way) -> Way:
    return replace(way, elsewhere="{device} = on_gpu({host}, {gpu})")


def _managed(placement: Placement, device: Device) -> Way:
    way = _one_memory("managed_empty")
    if not placement.prefetched:
        return _for_all_gpus(way)
    advice = (
        f'advise({{host}}, "{advice}", "{side}")'
        for advice, side in map(_ADVICE.__getitem__, placement.hints)
    )
    return Way(
        (*way.allocate, *advice),
        to_device='prefetch({host}, "device")',
        to_host='prefetch({host}, "host")',
        attaches=flag_is_off(device, "concurrent_managed_access"),
    )


_DTYPES = frozenset(("float16", "float32", "float64", "complex64", "complex128", "bool"))
_DTYPES |= frozenset(("uint8", "int8", "int16", "int32", "int64"))
"""NumPy's names that PyTorch has too, in every version."""


def _in_torch(placement: Placement, buffer: BufferRecord, device: Device) -> Way | None:
    """Tensors of its own, pinned or not, and views of memory that CuPy allocates."""
    if buffer.dtype not in _DTYPES or placement.prefetched or placement.staged:
        return None
    if placement.host_kind == "device":
        allocate = _in_torch_memory(buffer.dtype)
        return Way((allocate,), elsewhere=allocate)
    if placement.host_kind == placement.device_kind:
        if not (placement.locks or placement.managed):
            return None
        # PyTorch allocates no such memory, but takes a view of it.
        way = _in_cupy(placement, buffer, device)
        view = '{device} = torch.as_tensor({device}, device="cuda")  # no copy'
        return replace(way, allocate=(*way.allocate, view), elsewhere="")
    plain = not placement.registered and not placement.host_flags
    return _tensors(buffer.dtype, pinned=placement.locks) if plain else None


TORCH = Library(
    ("import torch",),
    "stream = torch.cuda.current_stream()  # the one your kernels run on",
    _in_torch,
    OnGpu(
        allocating="with torch.cuda.device({gpu}):",
        running="with torch.cuda.stream({stream}):  # kernels launched in it run on GPU {gpu}",
        stream="{stream} = torch.cuda.Stream()",
        mark=("{mark} = {stream}.record_event()",),
        order="{stream}.wait_event({mark})",
        to_peer="{device}.copy_({source}, non_blocking=True)",
    ),
)


def _tensors(dtype: str, *, pinned: bool) -> Way:
    """One on each side; copies from memory that is not pinned return when they are done."""
    pin, later = (", pin_memory=True", ", non_blocking=True") if pinned else ("", "")
    return Way(
        (
            f"{{host}} = torch.empty({{shape}}, dtype=torch.{dtype}{pin})  # .numpy() is the same memory",
            _in_torch_memory(dtype),
        ),
        to_device=f"{{device}}.copy_({{host}}{later})  # instead of {{host}}.to('cuda')",
        to_host=f"{{host}}.copy_({{device}}{later})  # not {{device}}.cpu()",
        elsewhere=_in_torch_memory(dtype),
    )


def _in_torch_memory(dtype: str) -> str:
    return f'{{device}} = torch.empty({{shape}}, dtype=torch.{dtype}, device="cuda")'


def _in_numba(placement: Placement, buffer: BufferRecord, device: Device) -> Way | None:
    del buffer, device
    if placement.registered or placement.prefetched or placement.staged:
        return None
    if placement.host_kind == "device":
        return Way((_IN_NUMBA_MEMORY,), elsewhere=_IN_NUMBA_MEMORY)
    if placement.host_kind != placement.device_kind:
        return None if placement.host_flags else _PINNED if placement.locks else _ORDINARY
    if placement.managed:
        return _numba_memory("managed_array")
    return _numba_memory("mapped_array", f", wc={placement.write_combined}") if placement.locks else None


NUMBA = Library(
    ("import numpy as np", "from numba import cuda"),
    "stream = cuda.stream()  # launch kernels on it: kernel[blocks, threads, stream](...)",
    _in_numba,
    OnGpu(
        allocating="with cuda.gpus[{gpu}]:",
        running="with cuda.gpus[{gpu}]:  # launch its kernels on {stream}",
        stream="{stream} = cuda.stream()",
        mark=("{mark} = cuda.event(timing=False)", "{mark}.record({stream})"),
        order="{mark}.wait({stream})",
        to_peer="{device}.copy_to_device({source}, stream={stream})",
    ),
)
_IN_NUMBA_MEMORY = "{device} = cuda.device_array({shape}, np.dtype({dtype}))"


def _arrays(call: str) -> Way:
    return Way(
        (f"{{host}} = {call}({{shape}}, np.dtype({{dtype}}))", _IN_NUMBA_MEMORY),
        to_device="{device}.copy_to_device({host}, stream={stream})",
        to_host="{device}.copy_to_host({host}, stream={stream})",
        elsewhere=_IN_NUMBA_MEMORY,
    )


_PINNED, _ORDINARY = _arrays("cuda.pinned_array"), _arrays("np.empty")


def _numba_memory(call: str, options: str = "") -> Way:
    return Way(
        (f"{{host}} = {{device}} = cuda.{call}({{shape}}, np.dtype({{dtype}}){options})  # for both sides",)
    )
