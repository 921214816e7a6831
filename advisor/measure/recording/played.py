"""CUDA itself, played on a machine without a GPU for CuPy and PyTorch: everything is done at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from types import ModuleType
from typing import Any, ClassVar

from advisor.measure.cupy_mock.arrays import DeviceArray
from advisor.measure.cupy_mock.checks import Unknowable, user_line

NAME = "cuda (played on the CPU)"
NAN = float("nan")
"""A time or an amount of memory that nobody measured."""


def values_of(array: Any) -> Any:
    """NumPy's array with the values of any library's played array, as these share their memory on a GPU; None
    of anything else."""
    if isinstance(array, DeviceArray):
        with suppress(AttributeError, Unknowable):  # the recorder hears that it is read
            _ = array.__cuda_array_interface__
        return array.plain
    if hasattr(type(array), "copy_to_host"):
        return getattr(array, "_ary", None)
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(array, torch.Tensor) or not array.is_cuda:
        return None
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.numpy(array.detach())


class CannotPlay(Unknowable):
    """The script asks for what only a GPU can tell."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{user_line()}: {what} without a GPU")


class Played(ModuleType):
    """A module in a library's place; a name that only a GPU can answer says so."""

    names: Collection[str] = ()
    """All that the library's has, if that is known."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or (self.names and name not in self.names):
            what = f"module {self.__name__!r} has no attribute {name!r}"
            raise AttributeError(what, name=name, obj=self)
        raise CannotPlay(f"{self.__name__}.{name} cannot be played")


class Idle:
    """Something of CUDA's with nothing to do: its methods return at once."""

    done = True

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: None

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True


class Event(Idle):
    def elapsed_time(self, _: Any) -> float:
        return NAN


class Graph(Idle):
    """A CUDA graph: the calls that make it are computed, its replays are not."""

    def replay(self, *_: Any, **__: Any) -> None:
        tell(f"{user_line()}: a CUDA graph was not replayed; without a GPU its arrays keep their values")

    launch = replay


class Stream(Idle):
    """`current` are the streams in use, the last one innermost."""

    ptr = cuda_stream = 0
    null: ClassVar[Stream]
    current: ClassVar[list[Stream]] = []

    def __enter__(self) -> Any:
        self.current.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.current.pop()

    def use(self) -> Any:
        self.current[-1] = self
        return self

    def record(self, event: Any = None) -> Any:
        return event or Event()

    record_event = record
    end_capture = Graph

    def launch_host_func(self, callback: Callable[[Any], None], arg: Any) -> None:
        callback(arg)


class ExternalStream(Stream): ...


Stream.null = Stream.ptds = Stream()  # type: ignore[attr-defined]
Stream.current.append(Stream.null)


class Pool(Idle):
    """A memory pool; its figures are unknown."""

    malloc = None

    def used_bytes(self) -> float:
        return NAN

    total_bytes = free_bytes = n_free_blocks = get_limit = used_bytes


_FACTS: dict[str, Any] = {
    **dict.fromkeys(("major", "computeCapabilityMajor"), 9),
    **dict.fromkeys(("minor", "computeCapabilityMinor"), 0),
    **dict.fromkeys(("multi_processor_count", "multiProcessorCount", "MULTIPROCESSOR_COUNT"), 132),
    **dict.fromkeys(("warp_size", "warpSize", "WARP_SIZE"), 32),
    **dict.fromkeys(("maxThreadsPerBlock", "MAX_THREADS_PER_BLOCK"), 1024),
    **dict.fromkeys(("total_memory", "totalGlobalMem"), NAN),
}
"""Properties that programs print, or size their grids by, under each library's name: those of an H200
(compute capability 9.0; CUDA C++ programming guide, technical specifications)."""
not_seen: list[Callable[[str], None]] = []
"""The recorder's, once there is one."""


def tell(what: str) -> None:
    """Has the report list it under Not seen."""
    for each in not_seen:
        each(what)


def fact(name: str) -> Any:
    """A property of the GPU, which the report then lists under Not seen."""
    if name not in _FACTS:
        raise CannotPlay(f"{name} of the device is unknown")
    tell("Properties of the GPU that the program asks for: without one, those of an H200")
    return _FACTS[name]


class Device:
    """The GPU that is played, and its properties."""

    name = NAME
    mem_info = (NAN, NAN)

    def __init__(self, device: Any = 0) -> None:
        self.id = int(getattr(device, "id", device))

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None: ...

    def use(self) -> Any:
        return self

    def synchronize(self) -> None: ...

    @property
    def compute_capability(self) -> Any:
        return f"{fact('major')}{fact('minor')}"

    def __getattr__(self, name: str) -> Any:
        return fact(name)


class Properties(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return fact(name)
