"""CuPy for a whole script without a GPU: the mock's arrays, and streams and pools that do nothing.

Values are NumPy's. What only a GPU can tell raises `CannotPlay`, which names
the line; times are not a number.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from advisor.measure.cupy_mock import arrays
from advisor.measure.cupy_mock.arrays import DeviceArray, MockModule, lifted, stripped, wrapped
from advisor.measure.cupy_mock.checks import Unknowable, Watch, coverage
from advisor.measure.recording import played, played_numerics
from advisor.measure.recording.calls import wrapping
from advisor.measure.recording.host_memory import address, owning_array
from advisor.measure.recording.played import NAN, Device, Event, Idle, Played, Stream
from advisor.measure.recording.played_numerics import RawKernel

_READ = ("load", "loadtxt", "genfromtxt", "fromfile", "frombuffer", "fromstring", "fromiter")
_HOST, _UNREGISTERED = 1, 0


class PlayedWatch(Watch):
    """Tells of waits as they happen; the recorder listens."""

    heard: Callable[[], None]
    uses_cupyx = False
    runs_all_kernels = True

    def wait(self, call: str, write: str) -> None:  # noqa: ARG002
        self.heard()


def modules() -> dict[str, ModuleType]:
    """Entries of `sys.modules` for the script: cupy, cupyx and their submodules."""
    watch = PlayedWatch(coverage("999"), {})
    _complete_arrays(watch)
    mock = MockModule(watch)
    cupy = _filled(Played("cupy"), mock, "")
    cupy.__version__ = f"{watch.coverage.version}.0"
    cupy._watch = played_numerics.Kernel.watch = watch
    for name in ("linalg", "fft", "testing"):
        setattr(cupy, name, _filled(Played(f"cupy.{name}"), getattr(mock, name), f"{name}."))
    for name, check in [each for each in vars(cupy.testing).items() if each[0][0] != "_"]:
        setattr(cupy.testing, name, wrapping(functools.partial(_checked, cupy))(check))
    cupy.random, cupy.cuda = _random(watch), _cuda()
    cupy.get_default_memory_pool = cupy.get_default_pinned_memory_pool = lambda: played.Pool()
    cupy.ElementwiseKernel = played_numerics.ElementwiseKernel
    cupy.ReductionKernel = played_numerics.ReductionKernel
    cupy.RawKernel, cupy.RawModule = RawKernel, RawModule
    cupy.fuse = lambda *args, **_: args[0] if args and callable(args[0]) else lambda function: function
    cupy.mgrid, cupy.ogrid = _Grid(np.mgrid, watch), _Grid(np.ogrid, watch)
    cupy.memoize = lambda *_, **__: functools.cache
    cupy.vectorize = lambda function, *_, **__: _drawing(np.vectorize(function), watch)
    cupy.fft.config, cupy.show_config = Idle(), lambda *_, **__: print(played.NAME)
    for name in arrays.MAKING:
        setattr(cupy, name, _sharing(getattr(cupy, name), watch))
    cupy.from_dlpack = _sharing(lambda array, *_, **__: array, watch)
    for name in _READ:
        read = getattr(np, name)
        setattr(cupy, name, lambda *args, read=read, **options: cupy.array(read(*args, **options)))
    cupy.save = lambda file, array, *_: np.save(file, cupy.asnumpy(array))
    cupy.get_array_module = lambda *values: cupy if any(isinstance(v, DeviceArray) for v in values) else np
    cupyx = _cupyx(cupy)
    parts = (cupy, cupy.testing, cupy.linalg, cupy.fft, cupy.random, cupy.cuda, cupy.cuda.runtime)
    others = (cupy.cuda.nvtx, cupyx, cupyx.profiler, cupyx.jit, cupyx.scipy)
    return {each.__name__: each for each in (*parts, *others, *played_numerics.scipy_modules(cupyx, watch))}


def _filled(module: Any, mock: MockModule, prefix: str) -> Any:
    """The module with all names of the mock's that work."""
    module.__path__, module.names = [], _names(mock._watch, prefix)
    for name in module.names:
        with contextlib.suppress(Unknowable, AttributeError):
            setattr(module, name, getattr(mock, name))
    return module


def _names(watch: Watch, prefix: str) -> list[str]:
    """Names in one of CuPy's modules."""
    paths = [path for path in watch.coverage.names if path.startswith(prefix)]
    return [name for path in paths if "." not in (name := path.removeprefix(prefix))]


def _checked(cupy: Any, check: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Downloads what it is given, and checks nothing once a kernel was not run."""
    for array in filter(lambda each: isinstance(each, DeviceArray), args):
        cupy.asnumpy(array)
    return check(*args, **options) if cupy._watch.runs_all_kernels else None


def _sharing(make: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    """Takes arrays of other libraries on the GPU, whose memory it shares."""

    def shared(*arguments: Any, **options: Any) -> Any:
        given = arrays.by_position(arguments, options)
        obj = next(iter(given), None)
        if not isinstance(obj, DeviceArray) and (values := played.values_of(obj)) is not None:
            given = (wrapped(values, watch), *given[1:])
        return make(*given, **options)

    return shared


def _complete_arrays(watch: Watch) -> None:
    """Gives the mock's array the methods that a recorder replaces, an address, and CuPy's constructor."""
    array: Any = DeviceArray
    wrap = array.__init__

    def init(
        self: Any, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: Any = "C"
    ) -> None:
        is_result = isinstance(dtype, Watch)
        wrap(self, shape if is_result else np.ndarray(shape, dtype, _bytes(memptr), 0, strides, order), watch)

    array.__init__ = init
    for name in dir(np.ndarray):
        if not name.startswith("_") and not hasattr(array, name) and callable(getattr(np.ndarray, name)):
            setattr(array, name, lambda self, *args, name=name, **to: self.__getattr__(name)(*args, **to))
    array.data = property(_pointer)
    array.__cuda_array_interface__ = property(lambda _: Played("cupy.ndarray").__cuda_array_interface)
    array.device = property(lambda _: Device(0))
    array.nbytes = property(lambda self: self.plain.nbytes)


def _pointer(array: DeviceArray) -> Any:
    begin = address(whole := owning_array(array.plain))
    return MemoryPointer(UnownedMemory(begin, whole.nbytes, whole), address(array.plain) - begin)


class UnownedMemory:
    """Memory by its address, which here is the host's."""

    def __init__(self, ptr: int, size: int, owner: Any = None, device_id: int = 0) -> None:
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    ptr: int

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset

    def __int__(self) -> int:
        return self.ptr

    def copy_from_host(self, mem: Any, size: int, *_: Any) -> None:
        ctypes.memmove(self.ptr, getattr(mem, "value", mem), size)

    def copy_to_host(self, mem: Any, size: int, *_: Any) -> None:
        ctypes.memmove(getattr(mem, "value", mem), self.ptr, size)

    copy_from_host_async, copy_to_host_async = copy_from_host, copy_to_host


def _bytes(pointer: Any) -> Any:
    """The memory from a pointer on, which stays as long as they do; None without one."""
    if pointer is None:
        return None
    size = pointer.mem.ptr + pointer.mem.size - pointer.ptr
    memory: Any = (ctypes.c_byte * size).from_address(pointer.ptr)
    memory.pointer = pointer
    return memory


def _allocated(size: int, *_: Any) -> MemoryPointer:
    memory = np.empty(size, np.uint8)
    return MemoryPointer(UnownedMemory(address(memory), size, memory), 0)


class PinnedMemoryPointer(bytearray):
    """Host memory that a GPU would have page-locked; `locked` has sizes by address."""

    locked: ClassVar[dict[int, int]] = {}

    def __init__(self, size: int, _: int = 0) -> None:
        super().__init__(max(size, 1))
        self.ptr = address(np.frombuffer(self, np.uint8))
        self.locked[self.ptr] = size

    def __del__(self) -> None:
        self.locked.pop(getattr(self, "ptr", 0), None)

    def size(self) -> int:
        return len(self)


def _cuda() -> Any:
    cuda: Any = Played("cupy.cuda")
    cuda.__path__ = []
    kinds = (Stream, played.ExternalStream, Event, played.Graph, Device)
    for kind in (*kinds, MemoryPointer, UnownedMemory, PinnedMemoryPointer):
        setattr(cuda, kind.__name__, kind)
    cuda.MemoryPool = cuda.MemoryAsyncPool = cuda.PinnedMemoryPool = played.Pool
    cuda.set_allocator = cuda.set_pinned_memory_allocator = lambda *_, **__: None
    cuda.alloc = cuda.malloc_managed = cuda.malloc_async = _allocated
    cuda.using_allocator = lambda *_: contextlib.nullcontext()
    cuda.alloc_pinned_memory = PinnedMemoryPointer
    cuda.pinned_memory = SimpleNamespace(PinnedMemoryPointer=PinnedMemoryPointer)
    cuda.get_current_stream = lambda *_: Stream.current[-1]
    cuda.get_elapsed_time = lambda *_: NAN
    cuda.is_available = lambda: True
    cuda.get_device_id = lambda: 0
    cuda.runtime, cuda.nvtx, cuda.profiler = _runtime(), Played("cupy.cuda.nvtx"), Idle()
    cuda.stream = SimpleNamespace(Stream=Stream, Event=Event, get_current_stream=cuda.get_current_stream)
    for name in ("RangePush", "RangePushC", "RangePop", "Mark", "MarkC"):
        setattr(cuda.nvtx, name, lambda *_: None)
    return cuda


def _runtime() -> Any:
    runtime: Any = Played("cupy.cuda.runtime")
    locked, allocated = PinnedMemoryPointer.locked, {}

    def allocate(size: int, flags: int = 0) -> int:
        memory = PinnedMemoryPointer(size, flags)
        allocated[memory.ptr] = memory
        return memory.ptr

    def attributes(pointer: int) -> Any:
        known = any(begin <= pointer < begin + size for begin, size in locked.items())
        return SimpleNamespace(type=_HOST if known else _UNREGISTERED, devicePointer=pointer)

    runtime.hostAlloc, runtime.pointerGetAttributes = allocate, attributes
    runtime.hostRegister = lambda pointer, size, _: locked.update({pointer: size})
    runtime.hostUnregister = lambda pointer: locked.pop(pointer, None)
    runtime.freeHost = lambda pointer: allocated.pop(pointer) and None
    runtime.memcpy = runtime.memcpyAsync = lambda dst, src, size, *_: ctypes.memmove(dst, src, size) and None
    runtime.memGetInfo = lambda: (NAN, NAN)
    runtime.runtimeGetVersion = runtime.driverGetVersion = lambda: NAN
    runtime.getDeviceCount, runtime.getDevice = lambda: 1, lambda: 0
    for name in ("setDevice", "deviceSynchronize", "streamSynchronize", "eventSynchronize", "free"):
        setattr(runtime, name, lambda *_: None)
    kinds = {"memcpyHostToDevice": 1, "memcpyDeviceToHost": 2, "memcpyDeviceToDevice": 3, "memcpyDefault": 4}
    flags = {"hostAllocDefault": 0, "hostAllocPortable": 1, "hostAllocMapped": 2, "hostAllocWriteCombined": 4}
    vars(runtime).update(kinds, **flags)
    runtime.getDeviceProperties = lambda _: played.Properties(name=played.NAME.encode())
    runtime.CUDARuntimeError = RuntimeError
    return runtime


class _Grid:
    """cupy.mgrid and cupy.ogrid."""

    def __init__(self, plain: Any, watch: Watch) -> None:
        self._plain, self._watch = plain, watch

    def __getitem__(self, key: Any) -> Any:
        return wrapped(self._plain[key], self._watch)


# Random numbers: NumPy's, since CuPy's own differ from them anyway


def _random(watch: Watch) -> Any:
    module: Any = Played("cupy.random")
    module.names = _names(watch, "random.")
    for name in filter(functools.partial(hasattr, np.random), module.names):
        member = getattr(np.random, name)
        parameters = watch.coverage.names[f"random.{name}"]
        module.__dict__[name] = member if isinstance(member, type) else _drawing(member, watch, parameters)
    module.default_rng = lambda seed=None: _Generator(np.random.default_rng(seed), watch)
    module._generator = module.generator = module  # where its parts are, now and in older versions
    module.RandomState = lambda seed=None: _Generator(np.random.RandomState(seed), watch)
    return module


def _drawing(draw: Callable[..., Any], watch: Watch, parameters: str | None = None) -> Callable[..., Any]:
    """Takes `dtype`, which NumPy's older functions do not, by name or at its place among the parameters."""
    words = (parameters or "").split()
    place = words.index("dtype") if "dtype" in words else 0

    def drawn(*args: Any, dtype: Any = None, **options: Any) -> Any:
        if place:
            args, dtype = args[:place], next(iter(args[place:]), dtype)
        return np.asanyarray(draw(*args, **options), dtype)

    return lifted(drawn, watch)


class _Generator:
    def __init__(self, plain: Any, watch: Watch) -> None:
        self._plain, self._watch = plain, watch

    def __getattr__(self, name: str) -> Any:
        return _drawing(getattr(self._plain, name), self._watch)


class RawModule:
    def __init__(self, *_: Any, **__: Any) -> None: ...

    def get_function(self, name: str) -> RawKernel:
        return RawKernel("", name)


# cupyx


def _cupyx(cupy: Any) -> Any:
    cupyx: Any = Played("cupyx")
    cupyx.__path__ = []

    def empty_pinned(shape: Any, dtype: Any = float, order: Any = "C") -> Any:
        memory = cupy.cuda.alloc_pinned_memory(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return np.ndarray(shape, dtype, memory, order=order)

    cupyx.empty_pinned = cupyx.zeros_pinned = empty_pinned
    cupyx.empty_like_pinned = cupyx.zeros_like_pinned = lambda a, dtype=None, *_, **__: empty_pinned(
        a.shape, dtype or a.dtype
    )
    cupyx.scatter_add = lambda a, index, value: np.add.at(a.plain, stripped(index), stripped(value))
    cupyx.rsqrt = lambda x: 1 / cupy.sqrt(x)
    cupyx.errstate = cupyx.allow_synchronize = lambda *_, **__: contextlib.nullcontext()
    for name in ("profiler", "scipy", "jit"):
        setattr(cupyx, name, Played(f"cupyx.{name}"))
    cupyx.profiler.profile = cupyx.profiler.time_range = lambda *_, **__: contextlib.nullcontext()
    cupyx.profiler.benchmark = _benchmark
    cupyx.jit.rawkernel = lambda *_, **__: lambda function: cupy.RawKernel("", function.__name__)
    cupyx.scipy.__path__ = []
    cupyx.scipy.get_array_module = cupy.get_array_module
    return cupyx


def _benchmark(
    func: Callable[..., Any],
    args: Any = (),
    kwargs: Any = None,
    n_repeat: int = 10_000,
    *,
    name: str | None = None,
    n_warmup: int = 10,
    **_: Any,
) -> Any:
    """cupyx.profiler.benchmark: as many calls, whose times nobody measured."""
    for _turn in range(n_warmup + n_repeat):
        func(*args, **kwargs or {})
    text = f"{name or func.__name__}: not timed without a GPU"
    times = np.full(n_repeat, NAN)
    return SimpleNamespace(name=name, cpu_times=times, gpu_times=times[None], to_str=lambda *_, **__: text)
