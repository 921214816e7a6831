"""CuPy's recorder: its functions and the methods of its arrays, streams and kernels that cross or wait.

Scalars make CuPy wait in compiled code too: it calls the array's `__int__`, `item` and `get` there, which are
replaced in the Python class `cupy.ndarray`. Works alike on the mock of CuPy.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from typing import Any
from weakref import ref as weakref

import numpy as np

from advisor.measure.cupy_mock.arrays import MAKING, by_position
from advisor.measure.cupy_mock.checks import coverage
from advisor.measure.recording.calls import Call, Calls, Direct, Gpu, direct, is_on_gpu, replace, wrapping
from advisor.measure.recording.host_memory import address, owners, owning_array
from advisor.measure.recording.recorder import ScriptRecorder
from advisor.measure.recording.records import Event, Location
from advisor.profiles.crossings import SHARED, CrossingKind, HostMemory, Library

_SCALARS = ("item", "__bool__", "__int__", "__float__", "__complex__", "__index__")
_WHOLE = ("tolist", "tobytes", "tofile", "dump", "dumps", "__repr__", "__str__", "__format__")
_VIEWS = ("view", "reshape", "ravel", "transpose", "squeeze", "swapaxes", "diagonal", "reduced_view")
_IDLE = ("asnumpy", "empty", "empty_like", "get_array_module", "broadcast_to", "expand_dims", "shape", "size")
"""Functions that give the GPU no work, beside those that give views."""
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "divmod")
_OPERATORS = ("lt", "le", "eq", "ne", "gt", "ge", "neg", "abs", "invert")
_UNSEEN_READERS = ("cupyx.scipy", "cupyx.jit")
_KERNELS = ("ElementwiseKernel", "ReductionKernel", "RawKernel")
_SIZED = frozenset(("nonzero", "flatnonzero", "argwhere", "unique", "extract"))
"""Functions that always wait for the size of their result; those of the coverage's list may wait."""
MOST_KINDS = 1024
"""Host arrays whose kind of memory is remembered."""
_NUMBER = 16
"""Bytes of the largest number, a complex one."""
_HOST, _MANAGED = 1, 3
"""cudaMemoryTypeHost and cudaMemoryTypeManaged."""
_TO_DEVICE, _TO_HOST = 1, 2
"""cudaMemcpyHostToDevice and cudaMemcpyDeviceToHost."""
_BLOCKING_OPTION = 13
"""CuPy's version from which `get(stream=...)` waits unless blocking=False; before, it did not wait."""


class CupyCalls:
    """The recorder of CuPy; `cupyx` allocates through the same functions."""

    library: Library = "cupy"

    def install(self, module: Any, recorder: ScriptRecorder) -> None:
        self._cupy, self._recorder = module, recorder
        self._array = module.ndarray
        cuda = module.cuda
        gpu = Gpu(
            cuda.get_current_stream, cuda.Stream.synchronize, cuda.runtime.getDevice, cuda.Event,
            cuda.get_elapsed_time, lambda stream: stream.is_capturing(),
        )  # fmt: skip
        self._calls, self.seconds_between = Calls("cupy", recorder, gpu, self._direct), gpu.seconds_between
        self._kinds = recorder.kinds
        self._data = module.ndarray.data
        self._get_waits = int(module.__version__.partition(".")[0]) >= _BLOCKING_OPTION
        self._work = self._calls.launching(self._places)
        self._use = self._calls.launching(self._places, lambda result: isinstance(result, self._array))
        self._functions()
        self._array_methods()
        self._memory_and_streams()
        self._kernels()
        if not recorder.has_gpu:
            module._watch.heard = self._calls.waited

    def finish(self) -> None:
        if self._recorder.has_gpu:
            if "cupyx.jit" in sys.modules:
                self._recorder.not_seen("Calls of cupyx.jit kernels")
            self._cupy.cuda.runtime.deviceSynchronize()

    # Functions

    def _functions(self) -> None:
        cupy = self._cupy
        waits, unchanged = coverage(cupy.__version__).waits, (*MAKING, *_IDLE, *_VIEWS)
        for name in MAKING:
            upload = self._calls.copying(_uploaded, functools.partial(self._upload, f"cupy.{name}"))
            replace(cupy, name, upload)
            if name == "array" and (core := vars(cupy).get("_core")):
                replace(core, name, upload)
        for owner, name in ((cupy, "cupy.asnumpy"), (self._array, "ndarray.get")):
            download = self._calls.copying(self._downloaded, functools.partial(self._download, name))
            replace(owner, name.partition(".")[2], download)
        for owner in (cupy, cupy.linalg, cupy.fft, cupy.random):
            for name in dir(owner):
                call = getattr(owner, name)
                if name[0] == "_" or name in unchanged or not callable(call) or isinstance(call, type):
                    continue
                wrap = self._use
                if owner is cupy and (name in _SIZED or name in waits):
                    named = self._calls.waiting if name in _SIZED else self._calls.named
                    call, wrap = named(f"cupy.{name}")(call), self._work
                is_ufunc = hasattr(call, "nin")
                setattr(owner, name, _Recorded(call, self._work(call)) if is_ufunc else wrap(call))

    def _places(self, values: Iterable[Any]) -> tuple[int, ...]:
        """Where the allocations of the arrays among arguments are."""
        places: list[int] = []
        for value in values:
            if isinstance(value, self._array):
                places.append(self._place(value))
            elif isinstance(value, (list, tuple)):
                places.extend(self._places(value))
        return tuple(places)

    def _place(self, array: Any) -> int:
        """The address of its allocation; for the mock's array, the id of NumPy's that owns the values."""
        if self._recorder.has_gpu:
            return int(self._data.__get__(array).mem.ptr)
        return id(owning_array(array.plain))

    def _reads(self, array: Any) -> None:
        if self._recorder.listens:
            self._recorder.read(self._place(array))

    # Copies

    def _upload(self, name: str, kind: CrossingKind, call: Call, *args: Any, **options: Any) -> Any:
        """cupy.array and its kin. They stage all but contiguous page-locked arrays of the same type; a single
        number is an argument of a kernel."""
        blocking = bool(options and options.get("blocking"))
        event = Event(kind, name, "cupy")
        args = by_position(args, options)
        obj = args[0]
        result = self._calls.run(event, call, args, options, blocking)
        if result.ndim and result.nbytes:
            event.asynchronous, event.memory = not blocking, self._memory(obj)
            event.staged = event.memory != "pinned" or obj.dtype != result.dtype or not obj.flags.forc
            self._cross_up(event, obj, result)
        return result

    def _cross_up(self, event: Event, host: Any, array: Any) -> None:
        event.bytes, event.device, event.locate = array.nbytes, array, self._locate
        event.host = host if isinstance(host, np.ndarray) else None
        self._calls.crossed(event)

    def _locate(self, array: Any) -> Location | None:
        """The array's allocation; None while the script uses ufuncs and kernels of cupyx, whose reads are not
        recorded."""
        played = not self._recorder.has_gpu
        names = () if played else _UNSEEN_READERS
        if any(name in sys.modules for name in names) or (played and self._cupy._watch.uses_cupyx):
            return None
        if isinstance(array, int):  # an address, which is no array's when played
            return None if played else (array, None)
        if played:
            values = owning_array(array.plain)
            return id(values), weakref(values)
        return self._place(array), weakref(array if array.base is None else array.base)

    def _set(self, kind: CrossingKind, call: Call, array: Any, arr: Any, stream: Any = None) -> None:
        """ndarray.set: never waits, and copies from the caller's memory."""
        event = Event(kind, "ndarray.set", "cupy")
        event.non_blocking = stream is not None
        self._calls.run(event, call, (array, arr, stream), {}, False, stream)
        event.memory = self._memory(arr)
        event.asynchronous = event.memory == "pinned"
        self._cross_up(event, arr, array)

    def _downloaded(self, a: Any, *args: Any, **options: Any) -> tuple[CrossingKind, int] | None:
        """What `copying` asks of ndarray.get and cupy.asnumpy, which take the same arguments; a single number
        is waited for."""
        if not isinstance(a, self._array) or not (nbytes := a.nbytes):
            return None
        is_number = nbytes <= _NUMBER and not args and not options and a.size == 1
        return ("wait", -1) if is_number else ("download", nbytes)

    def _download(self, name: str, kind: CrossingKind, call: Call, a: Any, *args: Any, **options: Any) -> Any:
        if kind == "wait":
            return self._value(name, call, a)
        event = Event(kind, name, "cupy")
        stream = options.get("stream", args[0] if args else None)
        blocks = bool(options.get("blocking", stream is None or self._get_waits))
        result = self._calls.run(event, call, (a, *args), options, blocks, stream)
        # What CuPy itself makes is NumPy's.
        event.memory = self._memory(options.get("out", args[2] if len(args) > 2 else None))
        event.non_blocking, event.asynchronous = not blocks, not blocks and event.memory == "pinned"
        self._reads(a)
        event.bytes, event.host = a.nbytes, result if isinstance(result, np.ndarray) else None
        self._calls.crossed(event)
        return result

    def _direct(self, name: str, call: Call, args: Any, options: dict[str, Any]) -> Direct | None:
        downloads = name in ("ndarray.get", "cupy.asnumpy")
        host = args[0] if name.startswith("cupy.") else args[1] if name == "ndarray.set" else None
        if downloads:
            stream, order, host = (*args[1:], *(None, "C", None)[len(args) - 1 :])[:3]
            options = {"stream": stream, "order": order, "out": host} | options
            if (host := options["out"]) is None and options["order"] == "C":
                host = options["out"] = np.empty(args[0].shape, args[0].dtype)
            args = args[:1]
        return direct(host, functools.partial(call, *args, **options))

    def _memory(self, array: Any) -> HostMemory:
        """The kind of memory that a NumPy array is in; anything else becomes one in pageable memory.

        The driver is asked once for an array that stays, until some memory is registered.
        """
        if not isinstance(array, np.ndarray):
            return "pageable"
        known = self._kinds.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        pinned = any(type(each).__name__ == "PinnedMemoryPointer" for each in owners(array))
        kind: HostMemory = "pinned" if pinned else self._pointed(address(array))
        if len(self._kinds) >= MOST_KINDS:
            self._kinds.clear()
        self._kinds[id(array)] = weakref(array), kind
        return kind

    def _forgetting(self, call: Call, *args: Any, **options: Any) -> Any:
        """What changes the kind of memory that an array is in."""
        self._kinds.clear()
        return call(*args, **options)

    def _pointed(self, pointer: int) -> HostMemory:
        kind = self._cupy.cuda.runtime.pointerGetAttributes(pointer).type
        return "pinned" if kind == _HOST else "managed" if kind == _MANAGED else "pageable"

    # Methods of arrays

    def _array_methods(self) -> None:
        array, around = self._array, self._calls.around
        for name in dir(array):
            if (
                name[0] != "_"
                and callable(getattr(array, name))
                and name not in (*_SCALARS, *_WHOLE, *_VIEWS, "get", "set", "nonzero")
            ):
                replace(array, name, self._work)
        for name in (*_OPERATORS, *(f"{way}{name}" for name in _BINARY for way in ("", "r", "i"))):
            replace(array, f"__{name}__", self._work)
        for name in ("__array_ufunc__", "__array_function__"):
            replace(array, name, self._use)
        size = lambda array, *_, **__: ("upload", array.nbytes)  # noqa: E731
        replace(array, "set", self._calls.copying(size, self._set))
        for name in (*_SCALARS, *_WHOLE):
            replace(array, name, around(functools.partial(self._value, f"ndarray.{name}")))
        for name in ("__getitem__", "__setitem__"):
            replace(array, name, around(functools.partial(self._index, f"ndarray.{name}")))
        replace(array, "nonzero", self._calls.waiting("ndarray.nonzero"))

        def asked(attribute: Any, array: Any) -> Any:
            """Who asks for an array's address may read it from now on."""
            self._reads(array)
            return attribute.__get__(array)

        for name in ("data", "__cuda_array_interface__"):
            setattr(array, name, property(functools.partial(asked, getattr(array, name))))
        for name in ("__dlpack__", "toDlpack"):
            replace(array, name, self._work)

    def _value(self, name: str, call: Call, array: Any, *args: Any, **options: Any) -> Any:
        """Methods that give the host values: a wait for one element, else a download."""
        wait = array.size == 1 or name.removeprefix("ndarray.") in _SCALARS
        event = self._calls.event("wait" if wait else "download", name)
        result = self._calls.run(event, call, (array, *args), options, True)
        event.memory, event.asynchronous = ("unknown", None) if wait else ("pageable", False)
        event.bytes = int(array.itemsize if wait else array.nbytes)
        self._reads(array)
        self._calls.crossed(event)
        return result

    def _index(self, name: str, call: Call, array: Any, key: Any, *value: Any) -> Any:
        """Keys on the host are uploaded, in compiled code; the size of a mask's result is waited for."""
        parts = key if isinstance(key, tuple) else (key,)
        arrays = [part for part in parts if isinstance(part, (list, np.ndarray, self._array))]
        if not arrays and not value:
            return call(array, key)
        if self._recorder.listens:
            self._recorder.launched(self._places((array, *arrays, *value)))
        for part in arrays:
            if isinstance(part, self._array):
                continue
            memory, plain = self._memory(part), np.asarray(part)
            upload = self._calls.event("upload", name, asynchronous=True, memory=memory)
            upload.staged, upload.bytes = memory != "pinned", plain.nbytes
            upload.host = plain if plain is part else None
            self._calls.crossed(upload)
        if not any(map(_is_mask, arrays)):
            return call(array, key, *value)
        event = self._calls.event("wait", name)
        result = self._calls.run(event, call, (array, key, *value), {}, True)
        self._calls.crossed(event)
        return result

    # Streams, memory by address, kernels

    def _memory_and_streams(self) -> None:
        cuda, calls = self._cupy.cuda, self._calls
        for owner in (cuda.Stream, cuda.ExternalStream, cuda.Event, cuda.Device):
            replace(owner, "synchronize", calls.synchronizing(f"{owner.__name__}.synchronize"))
        for name in ("deviceSynchronize", "streamSynchronize", "eventSynchronize"):
            replace(cuda.runtime, name, calls.synchronizing(f"runtime.{name}"))
        first, second = (lambda _, size, *__, **___: size), (lambda *args, **_: args[2])
        replace(cuda.runtime, "hostAlloc", calls.locking("runtime.hostAlloc", first))
        replace(cuda.runtime, "hostRegister", calls.locking("runtime.hostRegister", second))
        for name in ("hostRegister", "hostUnregister"):
            replace(cuda.runtime, name, wrapping(self._forgetting))
        allocate = calls.locking("alloc_pinned_memory", first)
        cuda.pinned_memory.alloc_pinned_memory = cuda.alloc_pinned_memory = allocate(cuda.alloc_pinned_memory)

        replace(cuda, "UnownedMemory", calls.around(self._share))
        for name in ("memcpy", "memcpyAsync"):
            replace(cuda.runtime, name, calls.around(functools.partial(self._copy, f"runtime.{name}")))
        for name in ("copy_from_host", "copy_to_host", "copy_from_host_async", "copy_to_host_async"):
            replace(cuda.MemoryPointer, name, calls.around(functools.partial(self._pointer_copy, name)))

    def _share(self, call: Call, pointer: int, *args: Any, **options: Any) -> Any:
        """Host memory that becomes an array on the GPU: nothing is copied."""
        if self._pointed(int(pointer)) != "pageable":
            self._recorder.not_seen(SHARED)
        return call(pointer, *args, **options)

    def _copy(
        self, name: str, call: Call, dst: int, src: int, size: int, kind: int, *stream: Any, **named: Any
    ) -> Any:
        run = functools.partial(call, dst, src, size, kind, *stream, **named)
        if kind not in (_TO_DEVICE, _TO_HOST):
            return run()
        up = kind == _TO_DEVICE
        return self._cross_pointers(name, up, src if up else dst, dst if up else src, size, run)

    def _pointer_copy(self, name: str, call: Call, pointer: Any, mem: Any, size: int, *args: Any) -> Any:
        run = functools.partial(call, pointer, mem, size, *args)
        host, device = int(getattr(mem, "value", mem)), int(pointer.mem.ptr)
        return self._cross_pointers(f"MemoryPointer.{name}", "from" in name, host, device, size, run)

    def _cross_pointers(self, name: str, up: bool, host: int, device: int, size: int, run: Call) -> Any:
        asks = name.lower().endswith("async")
        event = self._calls.event("upload" if up else "download", name, non_blocking=asks)
        result = self._calls.run(event, run, (), {}, not asks)
        event.memory = self._pointed(host)
        event.asynchronous = asks and event.memory == "pinned"
        event.bytes = int(size)
        if up:
            event.device, event.locate = device, self._locate
        elif self._recorder.listens:
            self._recorder.read(device)
        self._calls.crossed(event)
        return result

    def _kernels(self) -> None:
        """Replaces kernels by subclasses that record their calls, in CuPy's own modules as well."""
        cupy, work = self._cupy, self._work
        for name in _KERNELS:
            base = getattr(cupy, name)
            kind = type(name, (base,), {"__call__": work(base.__call__), "__module__": "cupy"})
            for owner in (cupy, vars(cupy).get("_core", cupy)):
                setattr(owner, name, kind)

        def get_function(call: Call, *args: Any, **options: Any) -> _Recorded:
            kernel = call(*args, **options)
            return _Recorded(kernel, work(kernel))

        replace(cupy.RawModule, "get_function", wrapping(get_function))
        if "fuse" in vars(cupy):
            replace(cupy, "fuse", wrapping(self._fuse))

    def _fuse(self, call: Call, *args: Any, **options: Any) -> Any:
        result = call(*args, **options)
        decorated = len(args) == 1 and callable(args[0])
        return self._work(result) if decorated else lambda function: self._work(result(function))


def _uploaded(*args: Any, **options: Any) -> tuple[CrossingKind, int] | None:
    """What `copying` asks of functions that make an array; None where the values are on the GPU already,
    which the first element of a list or tuple tells."""
    if not (values := by_position(args, options)):
        return None  # CuPy raises
    obj = values[0]
    if type(obj) is np.ndarray:
        return "upload", obj.nbytes if obj.ndim else -1
    while isinstance(obj, (list, tuple)) and obj:
        obj = obj[0]
    return None if is_on_gpu(obj) else ("upload", -1)


def _is_mask(key: Any) -> bool:
    while isinstance(key, list) and key:
        key = key[0]
    return isinstance(key, bool) or bool(getattr(key, "ndim", 0) and key.dtype == bool)


class _Recorded:
    """A ufunc or kernel whose calls are recorded; the rest of it is the library's."""

    def __init__(self, library: Any, call: Call) -> None:
        self._library, self._call = library, call

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._call(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """For isinstance: cupyx.jit asks which of a kernel's globals are ufuncs."""
        return type(self._library)

    def __repr__(self) -> str:
        return repr(self._library)
