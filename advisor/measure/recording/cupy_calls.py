"""CuPy's recorder: its functions and the methods of its arrays, streams and kernels that cross or wait.

Scalars and masks make CuPy wait in compiled code too: it calls the array's `__int__`, `item` and `get` there,
which are replaced in the Python class `cupy.ndarray`. Works alike on the mock of CuPy.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from advisor.measure.cupy_mock.coverage import coverage
from advisor.measure.recording.calls import Call, Calls, Gpu, address, owners, replace
from advisor.measure.recording.events import Event, Recorder
from advisor.profiles.crossings import HostMemory, Library

_UPLOADS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")
_SCALARS = ("item", "__bool__", "__int__", "__float__", "__complex__", "__index__")
_WHOLE = ("tolist", "tobytes", "tofile", "dump", "dumps", "__repr__", "__str__", "__format__")
_VIEWS = ("view", "reshape", "ravel", "transpose", "squeeze", "swapaxes", "diagonal", "reduced_view")
_IDLE = ("asnumpy", "empty", "empty_like", "expand_dims", "broadcast_to", "moveaxis", "shape", "ndim", "size")
"""Functions that give the GPU no work, beside those that give views."""
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "divmod")
_OPERATORS = ("lt", "le", "eq", "ne", "gt", "ge", "neg", "abs", "invert")
_KERNELS = ("ElementwiseKernel", "ReductionKernel", "RawKernel", "RawModule")
_SUBMODULES = ("linalg", "fft", "random")
_HOST, _MANAGED = 1, 3
"""cudaMemoryTypeHost and cudaMemoryTypeManaged."""
_TO_DEVICE, _TO_HOST = 1, 2
"""cudaMemcpyHostToDevice and cudaMemcpyDeviceToHost."""
_BLOCKING_OPTION = 13
"""CuPy's version from which `get(stream=...)` waits unless blocking=False; before, it did not wait."""


class CupyCalls:
    """The recorder of CuPy; `cupyx` allocates through the same functions."""

    module = "cupy"
    library: Library = "cupy"

    def install(self, module: Any, recorder: Recorder) -> None:
        self._cupy = module
        self._gpu = _CupyGpu(module)
        self._recorder = recorder
        self._calls = Calls("cupy", recorder, self._gpu)
        self._data = module.ndarray.data
        self._waits = coverage(module.__version__).waits
        self._functions()
        self._array_methods()
        self._foreign_readers()
        self._streams()
        self._raw_memory()
        self._kernels()
        if not recorder.has_gpu:
            module._watch.heard, module._watch.not_seen = self._calls.waited, recorder.not_seen

    def finish(self) -> None:
        if "cupyx.jit" in sys.modules:
            self._recorder.not_seen("calls of cupyx.jit kernels")
        if self._recorder.has_gpu:
            self._cupy.cuda.runtime.deviceSynchronize()

    def seconds_between(self, begin: Any, end: Any) -> float:
        return self._gpu.seconds_between(begin, end)

    # Functions

    def _functions(self) -> None:
        cupy = self._cupy
        for name in _UPLOADS:
            replace(cupy, name, functools.partial(self._uploading, f"cupy.{name}"))
        if core := vars(cupy).get("_core"):
            replace(core, "array", functools.partial(self._uploading, "cupy.array"))
        replace(cupy, "asnumpy", lambda call: self._downloading("cupy.asnumpy", call))
        for prefix in ("", *_SUBMODULES):
            owner = getattr(cupy, prefix) if prefix else cupy
            for name in dir(owner):
                if not name.startswith("_") and name not in (*_UPLOADS, *_IDLE, *_VIEWS):
                    self._function(owner, name, f"{prefix}.{name}".lstrip("."))

    def _function(self, owner: Any, name: str, path: str) -> None:
        call = getattr(owner, name)
        if path in self._waits:
            call = self._calls.named(f"cupy.{path}", call)
        elif isinstance(call, type) or not callable(call):
            return
        ufunc = hasattr(call, "nin")
        setattr(owner, name, _Ufunc(call, self._launching(call)) if ufunc else self._working(call))

    def _launching(self, call: Call) -> Call:
        """Around what always gives the GPU work."""
        recorder, places = self._recorder, self._places

        @functools.wraps(call, updated=())
        def wrapped(*args: Any, **options: Any) -> Any:
            if recorder.outer():
                recorder.launched(places(args))
            return call(*args, **options)

        return wrapped

    def _working(self, call: Call) -> Call:
        """Around what gives the GPU work if an array goes in or comes out."""
        recorder, array, places = self._recorder, self._cupy.ndarray, self._places

        @functools.wraps(call, updated=())
        def wrapped(*args: Any, **options: Any) -> Any:
            result = call(*args, **options)
            if recorder.outer():
                reads = places((*args, *options.values()))
                if reads or isinstance(result, array):
                    recorder.launched(reads)
            return result

        return wrapped

    def _places(self, values: Iterable[Any]) -> tuple[int, ...]:
        """Where the allocations of the arrays among arguments are."""
        array, places = self._cupy.ndarray, []
        for value in values:
            if isinstance(value, array):
                places.append(self._place(value))
            elif isinstance(value, (list, tuple)):
                places.extend(self._places(value))
        return tuple(places)

    def _place(self, array: Any) -> int:
        return int(self._data.__get__(array).mem.ptr)

    # Copies

    def _uploading(self, name: str, call: Call) -> Call:
        calls = self._calls

        @functools.wraps(call, updated=())
        def wrapped(obj: Any, *args: Any, **options: Any) -> Any:
            if not self._recorder.outer() or self._is_on_gpu(obj):
                return call(obj, *args, **options)
            event, blocking = calls.event("upload", name), bool(options.get("blocking"))
            result = calls.run(event, lambda: call(obj, *args, **options), blocks=blocking)
            if result.nbytes:
                event.memory = self._memory(obj) if isinstance(obj, np.ndarray) else "pageable"
                event.staged, event.asynchronous = event.memory != "pinned", not blocking
                self._cross(event, result, obj)
            return result

        return wrapped

    def _is_on_gpu(self, obj: Any) -> bool:
        while isinstance(obj, (list, tuple)) and obj:
            obj = obj[0]
        return isinstance(obj, self._cupy.ndarray) or hasattr(obj, "__cuda_array_interface__")

    def _cross(self, event: Event, array: Any, host: Any) -> None:
        event.bytes = int(array.nbytes)
        event.host = host if isinstance(host, np.ndarray) else None
        event.device = self._place(array)
        self._calls.crossed(event)

    def _setting(self, call: Call) -> Call:
        """ndarray.set: always asynchronous, from the caller's memory."""

        @functools.wraps(call, updated=())
        def wrapped(array: Any, arr: Any, stream: Any = None) -> Any:
            if not self._recorder.outer():
                return call(array, arr, stream)
            event = self._calls.event("upload", "ndarray.set", non_blocking=stream is not None)
            event.memory = self._memory(arr)
            event.asynchronous = event.memory == "pinned"
            result = self._calls.run(event, lambda: call(array, arr, stream), stream=stream)
            self._cross(event, array, arr)
            return result

        return wrapped

    def _downloading(self, name: str, call: Call) -> Call:
        """ndarray.get and cupy.asnumpy, which take the same arguments."""
        version = int(self._cupy.__version__.partition(".")[0])

        @functools.wraps(call, updated=())
        def wrapped(array: Any, *args: Any, **options: Any) -> Any:
            if not self._recorder.outer() or not isinstance(array, self._cupy.ndarray) or not array.nbytes:
                return call(array, *args, **options)
            stream = args[0] if args else options.get("stream")
            blocks = bool(options.get("blocking", version >= _BLOCKING_OPTION or stream is None))
            event = self._calls.event("download", name, non_blocking=not blocks)
            run = functools.partial(call, array, *args, **options)
            result = self._calls.run(event, run, blocks=blocks, stream=stream)
            event.memory = self._memory(result)
            event.asynchronous = not blocks and event.memory == "pinned"
            self._recorder.read(self._place(array))
            self._cross(event, array, result)
            return result

        return wrapped

    def _memory(self, array: Any) -> HostMemory:
        """The kind of memory that a NumPy array is in."""
        for owner in owners(array):
            if type(owner).__name__ in ("PinnedMemoryPointer", "PooledPinnedMemory"):
                return "pinned"
        return self._pointed(address(array))

    def _pointed(self, pointer: int) -> HostMemory:
        kind = self._cupy.cuda.runtime.pointerGetAttributes(pointer).type
        return "pinned" if kind == _HOST else "managed" if kind == _MANAGED else "pageable"

    # Methods of arrays

    def _array_methods(self) -> None:
        array = self._cupy.ndarray
        for name in dir(array):
            if (
                name[0] != "_"
                and callable(getattr(array, name))
                and name not in (*_SCALARS, *_WHOLE, *_VIEWS)
            ):
                replace(array, name, self._launching)
        replace(array, "set", self._setting)
        replace(array, "get", lambda call: self._downloading("ndarray.get", call))
        for name in _SCALARS:
            replace(array, name, functools.partial(self._valued, name))
        for name in _WHOLE:
            replace(array, name, functools.partial(self._valued, name))
        for name in ("__getitem__", "__setitem__"):
            replace(array, name, functools.partial(self._indexed, name))
        replace(array, "nonzero", functools.partial(self._calls.named, "ndarray.nonzero"))
        operators = (*_OPERATORS, *(f"{way}{name}" for name in _BINARY for way in ("", "r", "i")))
        for name in operators:
            replace(array, f"__{name}__", self._launching)
        for name in ("__array_ufunc__", "__array_function__"):
            replace(array, name, self._working)

    def _valued(self, name: str, call: Call) -> Call:
        """Around what gives the host values: of one element it is a wait, else a download."""
        scalar = name in _SCALARS

        @functools.wraps(call, updated=())
        def wrapped(array: Any, *args: Any, **options: Any) -> Any:
            if not self._recorder.outer():
                return call(array, *args, **options)
            wait = scalar or array.size == 1
            event = self._calls.event("wait" if wait else "download", f"ndarray.{name}")
            result = self._calls.run(event, lambda: call(array, *args, **options), blocks=True)
            event.memory, event.asynchronous = ("unknown", None) if wait else ("pageable", False)
            event.bytes = int(array.itemsize if scalar else array.nbytes)
            self._recorder.read(self._place(array))
            self._calls.crossed(event)
            return result

        return wrapped

    def _indexed(self, name: str, call: Call) -> Call:
        """Around indexing: keys on the host are uploaded, the size of a mask's result is waited for."""
        recorder, calls = self._recorder, self._calls
        launching = self._launching(call)
        named = calls.named(f"ndarray.{name}", launching)

        @functools.wraps(call, updated=())
        def wrapped(array: Any, key: Any, *value: Any) -> Any:
            if (type(key) in (int, slice) and not value) or not recorder.outer():
                return call(array, key, *value)
            parts = key if isinstance(key, tuple) else (key,)
            if not any(isinstance(part, (list, np.ndarray)) or hasattr(part, "dtype") for part in parts):
                return launching(array, key, *value) if value else call(array, key)
            for part in parts:
                if isinstance(part, (list, np.ndarray)):
                    self._key(name, part)
            return named(array, key, *value)

        return wrapped

    def _key(self, name: str, part: Any) -> None:
        """A key on the host is staged and uploaded, in compiled code."""
        array = np.asarray(part)
        event = self._calls.event("upload", f"ndarray.{name}", bytes=array.nbytes, asynchronous=True)
        event.memory = self._memory(array)
        event.staged = event.memory != "pinned"
        event.host = array if array is part else None
        self._calls.crossed(event)

    def _foreign_readers(self) -> None:
        """Who asks for an array's address may read it from now on."""
        array, read, place = self._cupy.ndarray, self._recorder.read, self._place
        for name in ("data", "__cuda_array_interface__"):
            get = getattr(array, name).__get__

            def told(self: Any, get: Any = get) -> Any:
                read(place(self))
                return get(self)

            setattr(array, name, property(told))
        for name in ("__dlpack__", "toDlpack"):
            replace(array, name, self._launching)

    # Streams, pointers, kernels

    def _streams(self) -> None:
        cuda, waiting = self._cupy.cuda, self._calls.waiting
        for owner in (cuda.Stream, cuda.ExternalStream, cuda.Event, cuda.Device):
            name = f"{owner.__name__}.synchronize"
            replace(owner, "synchronize", functools.partial(waiting, name))
        for name in ("deviceSynchronize", "streamSynchronize", "eventSynchronize"):
            replace(cuda.runtime, name, functools.partial(waiting, f"runtime.{name}"))

    def _raw_memory(self) -> None:
        cuda, locking = self._cupy.cuda, self._calls.locking
        for name, position in (("hostAlloc", 0), ("hostRegister", 1)):
            size = functools.partial(_argument, position)
            lock = functools.partial(locking, f"runtime.{name}", size=size)
            replace(cuda.runtime, name, lock)
        allocate = locking("alloc_pinned_memory", cuda.alloc_pinned_memory, lambda _, size: int(size))
        for owner in (cuda, cuda.pinned_memory):
            owner.alloc_pinned_memory = allocate
        for name in ("memcpy", "memcpyAsync"):
            replace(cuda.runtime, name, functools.partial(self._raw_copy, name))
        for name in ("copy_from_host", "copy_from_host_async", "copy_to_host", "copy_to_host_async"):
            replace(cuda.MemoryPointer, name, functools.partial(self._pointer_copy, name))

    def _raw_copy(self, name: str, call: Call) -> Call:
        def wrapped(dst: int, src: int, size: int, kind: int, *stream: Any) -> Any:
            if kind not in (_TO_DEVICE, _TO_HOST) or not self._recorder.outer():
                return call(dst, src, size, kind, *stream)
            ways = (src, dst) if kind == _TO_DEVICE else (dst, src)
            run = functools.partial(call, dst, src, size, kind, *stream)
            return self._pointers(f"runtime.{name}", kind == _TO_DEVICE, ways, size, run, bool(stream))

        return wrapped

    def _pointer_copy(self, name: str, call: Call) -> Call:
        def wrapped(pointer: Any, mem: Any, size: int, *args: Any, **options: Any) -> Any:
            run = functools.partial(call, pointer, mem, size, *args, **options)
            if not self._recorder.outer():
                return run()
            ways = (int(getattr(mem, "value", mem)), int(pointer.mem.ptr))
            to_device = "from_host" in name
            return self._pointers(
                f"MemoryPointer.{name}", to_device, ways, size, run, name.endswith("_async")
            )

        return wrapped

    def _pointers(
        self, name: str, to_device: bool, ways: tuple[int, int], size: int, run: Call, asks: bool
    ) -> Any:
        host, device = ways
        event = self._calls.event("upload" if to_device else "download", name, non_blocking=asks)
        result = self._calls.run(event, run, blocks=not asks)
        event.memory = self._pointed(host)
        event.asynchronous = asks and event.memory == "pinned"
        event.bytes, event.device = int(size), device
        self._calls.crossed(event)
        return result

    def _kernels(self) -> None:
        """Calls of compiled kernels are told by subclasses, which CuPy's own modules use as well."""
        cupy, launching = self._cupy, self._launching
        for name in _KERNELS[:3]:
            base = getattr(cupy, name)
            kind = type(name, (base,), {"__call__": launching(base.__call__), "__module__": "cupy"})
            for owner in (cupy, vars(cupy).get("_core", cupy)):
                setattr(owner, name, kind)
        replace(cupy.RawModule, "get_function", lambda call: lambda *a: _Ufunc(k := call(*a), launching(k)))
        if "fuse" in vars(cupy):
            replace(cupy, "fuse", self._fused)

    def _fused(self, fuse: Call) -> Call:
        def wrapped(*args: Any, **options: Any) -> Any:
            result = fuse(*args, **options)
            plain = len(args) == 1 and callable(args[0])
            return self._launching(result) if plain else lambda function: self._launching(result(function))

        return wrapped


def _argument(position: int, _: Any, *args: Any) -> int:
    return int(args[position])


class _Ufunc:
    """A ufunc or kernel whose calls are told; the rest of it is the library's."""

    def __init__(self, library: Any, call: Call) -> None:
        self._library, self._call = library, call

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._call(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def __repr__(self) -> str:
        return repr(self._library)


class _CupyGpu(Gpu):
    def __init__(self, cupy: Any) -> None:
        self._cuda = cupy.cuda
        stream = cupy.cuda.Stream
        self._wait, self._event = stream.synchronize, cupy.cuda.Event

    def synchronize(self, stream: Any = None) -> None:
        self._wait(stream or self._cuda.get_current_stream())

    def mark(self, stream: Any = None) -> Any:
        event = self._event()
        event.record(stream or self._cuda.get_current_stream())
        return event

    def seconds_between(self, begin: Any, end: Any) -> float:
        return float(self._cuda.get_elapsed_time(begin, end)) * 1e-3
