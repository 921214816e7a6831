"""Numba's recorder: copies by name, those that a kernel's host arguments cause, waits and page-locked memory.

Works alike in Numba's simulator.
"""

from __future__ import annotations

import ctypes
import math
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from advisor.measure.cupy_mock.checks import user_line
from advisor.measure.recording.calls import Call, Calls, Direct, Gpu, direct, numba_classes, replace, wrapping
from advisor.measure.recording.host_memory import address, owning_array
from advisor.measure.recording.played import NAN, Device, fact, values_of
from advisor.measure.recording.recorder import ScriptRecorder
from advisor.measure.recording.records import Event
from advisor.profiles.crossings import KERNEL_ARGUMENT, SHARED, CrossingKind, HostMemory, Library

MOST_THREADS = 1 << 16
"""All kernels together in Numba's simulator, where each thread is one of Python's: 10 s (0.14 ms each)."""
MOST_SECONDS = 10.0
"""All kernels together in the simulator; then their threads end, wherever they are."""
_STOPPED = f"stopped: without a GPU kernels have {MOST_SECONDS:.0f} s in all; arrays keep what they have then"
_NOT_RUN = f"not run: without a GPU kernels have {MOST_THREADS:,} threads in all; arrays keep their values"


class NumbaCalls:
    """The recorder of numba.cuda."""

    library: Library = "numba"

    def install(self, module: Any, recorder: ScriptRecorder) -> None:
        self._cuda = module
        self._wait = wait = module.synchronize
        gpu = Gpu(
            lambda: 0,
            lambda _: wait(),
            lambda: module.get_current_device().id,
            lambda: module.event(timing=True),
            lambda begin, end: module.event_elapsed_time(begin, end),
        )
        self.seconds_between = gpu.seconds_between
        self.watch(Calls("numba", recorder, gpu, self._direct), recorder)
        around = self._calls.around
        if hasattr(module, "FakeCUDAKernel"):  # `simulator` is there without it too, once imported
            self._simulator()
        else:
            array, kernel = numba_classes(module)
            self._arrays(array)
            arrays = import_module(f"{module.__name__}.cudadrv.devicearray")
            if hasattr(arrays, "_to_strided_memory_view"):
                self.arguments(import_module(f"{module.__name__}.args"))
            replace(kernel, "__call__", around(self._launch))
        replace(module, "to_device", self._calls.named("cuda.to_device"))
        replace(module, "synchronize", self._calls.synchronizing("cuda.synchronize"))
        for name in ("pinned_array", "pinned_array_like", "mapped_array", "mapped_array_like"):
            replace(module, name, self._calls.locking(f"cuda.{name}", self._lock))
        for name in ("managed_array", "mapped_array", "mapped_array_like"):
            replace(module, name, around(self._share))
        replace(module, "pinned", around(self._register))

    def watch(self, calls: Calls, recorder: ScriptRecorder) -> None:
        self._calls, self._recorder = calls, recorder
        self._locked: dict[int, int] = {}
        self._threads, self._left = 0, MOST_SECONDS

    def _simulator(self) -> None:
        """Its arrays are made, and copied, by functions of its own."""
        arrays = import_module("numba.cuda.simulator.cudadrv.devicearray")
        self._arrays(arrays.FakeCUDAArray)
        replace(arrays, "to_device", self._calls.around(self._simulated_upload))
        self._cuda.to_device = arrays.to_device
        absent = {
            "event_elapsed_time": lambda *_: NAN,
            "get_current_device": _Device,
            "is_cuda_array": arrays.is_cuda_ndarray,
            "profiling": nullcontext,
            **dict.fromkeys(("profile_start", "profile_stop", "initialize"), _nothing),
        }
        streams = ("default_stream", "legacy_default_stream", "per_thread_default_stream", "external_stream")
        absent |= {name: lambda *_: self._cuda.stream() for name in streams}
        self._cuda.stream.auto_synchronize = _synchronizing
        for name, function in absent.items():
            setattr(self._cuda, name, getattr(self._cuda, name, function))
        self._cuda.managed_array = self._cuda.mapped_array = _reached
        self._cuda.mapped_array_like = lambda array, **_: _reached(array.shape, array.dtype)
        self._cuda.as_cuda_array = lambda array, **_: _simulated(arrays, array)
        blocks = import_module("numba.cuda.simulator.kernel").BlockManager
        replace(blocks, "run", wrapping(self._run_block))
        launch = partial(self._simulated_launch, arrays)
        replace(self._cuda.FakeCUDAKernel, "__call__", self._calls.around(launch))
        ufuncs = import_module("numba.np.ufunc.decorators")
        ufuncs.Vectorize.target_registry.ondemand.update(cuda=lambda: partial(_Ufunc, self._cuda, arrays))
        ufuncs.GUVectorize.target_registry.ondemand.update(cuda=lambda: partial(_GUfunc, self._cuda, arrays))

    def finish(self) -> None:
        if self._recorder.has_gpu:
            self._wait()

    # Copies

    def _arrays(self, kind: Any) -> None:
        for name, size in (("copy_to_host", self._download_size), ("copy_to_device", self._upload_size)):
            copy = partial(self._copy, f"DeviceNDArray.{name}")
            replace(kind, name, self._calls.copying(size, copy))
        driver = import_module(f"{self._cuda.__name__}.cudadrv.driver")
        for name in ("Stream", "Event"):
            kind = getattr(driver, name, getattr(self._cuda, name.lower()))  # the simulator's are classes
            replace(kind, "synchronize", self._calls.synchronizing(f"{name}.synchronize"))

    def _download_size(self, array: Any, ary: Any = None, *_: Any, **__: Any) -> Any:
        return None if isinstance(ary, _Reached) else ("download", array.nbytes)

    def _upload_size(self, _: Any, ary: Any, *__: Any, **___: Any) -> Any:
        return ("upload", ary.nbytes) if isinstance(ary, np.ndarray) else None

    def _copy(
        self, name: str, kind: CrossingKind, call: Call, array: Any, ary: Any = None, stream: Any = 0
    ) -> Any:
        return self._copied(kind, name, call, (array, ary, stream), ary, stream, array)

    def _direct(self, name: str, call: Call, args: Any, _: Any) -> Direct | None:
        if not name.startswith("DeviceNDArray."):
            return None
        array, host, *stream = args
        if host is None and array.is_c_contiguous():
            host = np.empty(array.shape, array.dtype)
        return direct(host, partial(call, array, host, *stream))

    def _copied(
        self, kind: CrossingKind, name: str, call: Call, args: Any, host: Any, stream: Any, array: Any = None
    ) -> Any:
        """The result of a call that copies between an array and the host's, or (None) its result."""
        event = self._calls.event(kind, name, non_blocking=bool(stream))
        result = self._calls.run(event, call, args, {}, not stream, stream)
        self._cross(event, array, result if host is None else host)
        return result

    def arguments(self, hints: Any) -> None:
        """In new versions of numba-cuda, host arrays given to kernels do not cross through DeviceNDArray."""
        replace(hints.In, "to_device", self._calls.around(partial(self._argument, True, False)))
        for kind in (hints.InOut, hints.Out):  # the subclass first: it inherits what is replaced
            replace(kind, "to_device", self._calls.around(partial(self._argument, kind.copy_input, True)))

    def _argument(
        self, up: bool, down: bool, call: Call, hint: Any, after: list[Call], stream: Any = 0
    ) -> Any:
        """after: what is called once the kernel was launched; it ends with the copy back."""
        host = hint.value
        if not isinstance(host, np.ndarray) or hasattr(host, "__cuda_array_interface__"):
            return call(hint, after, stream)
        given = hint, after, stream
        result = self._copied("upload", KERNEL_ARGUMENT, call, given, host, stream) if up else call(*given)
        if down:
            after[-1] = partial(self._copied, "download", KERNEL_ARGUMENT, after[-1], (), host, stream)
        return result

    def _simulated_upload(
        self, call: Call, ary: Any, stream: Any = 0, copy: bool = True, to: Any = None
    ) -> Any:
        result = call(ary, stream, copy, to)
        if copy and isinstance(ary, np.ndarray) and not isinstance(ary, _Reached):
            event = self._calls.event("upload", "cuda.to_device", non_blocking=bool(stream))
            self._cross(event, result, ary)
        return result

    def _cross(self, event: Event, array: Any, host: Any) -> None:
        event.bytes = int(host.nbytes)
        event.memory = self._memory(host)
        event.asynchronous = event.non_blocking and event.memory == "pinned"
        event.host = host
        if event.kind == "download" and array is not None:
            self._recorder.read(_place(array))
        elif array is not None:
            event.device = array
            event.locate = lambda array: (_place(array), None)
        self._calls.crossed(event)

    def _memory(self, host: Any) -> HostMemory:
        place = address(host)
        locked = any(begin <= place < begin + size for begin, size in self._locked.items())
        return "pinned" if locked else "pageable"

    # Kernels, locks

    def _launch(self, call: Call, kernel: Any, *args: Any) -> Any:
        if self._recorder.listens:
            self._recorder.launched(tuple(_place(each) for each in args if hasattr(each, "copy_to_host")))
        return self._calls.call_named(KERNEL_ARGUMENT, call, kernel, *args)

    def _simulated_launch(self, arrays: Any, call: Call, kernel: Any, *args: Any) -> Any:
        there = [_simulated(arrays, each) for each in args]
        if kernel._device:  # a function that a kernel calls
            return call(kernel, *there)
        function, size = kernel.fn, (kernel.grid_dim, kernel.block_dim)
        self._threads += math.prod((*size[0], *size[1]))
        is_run = self._threads <= MOST_THREADS and self._left > 0
        if not is_run:
            kernel.fn, kernel.grid_dim, kernel.block_dim = _nothing, (1,), (1,)
        try:
            return self._launch(call, kernel, *there)
        finally:
            kernel.fn, (kernel.grid_dim, kernel.block_dim) = function, size
            if not is_run or self._left <= 0:
                effect = _STOPPED if is_run else _NOT_RUN
                self._recorder.not_seen(f"{user_line()}: kernel {kernel.__name__} was {effect}")

    def _run_block(self, run: Call, *args: Any) -> None:
        """A block of threads of the simulator, as long as there is time."""
        if self._left > 0:
            done, begin = threading.Event(), perf_counter()
            threading.Thread(target=_stop_late, args=(done, self._left), daemon=True).start()
            try:
                run(*args)
            finally:
                done.set()
                self._left -= perf_counter() - begin

    def _share(self, call: Call, *args: Any, **kwargs: Any) -> Any:
        self._recorder.not_seen(SHARED)
        return call(*args, **kwargs)

    def _lock(self, result: Any, *_: Any, **__: Any) -> int:
        place = address(result)
        self._locked[place] = result.nbytes
        weakref.finalize(result, self._locked.pop, place, None)
        return int(result.nbytes)

    @contextmanager
    def _register(self, call: Call, *arrays: Any) -> Iterator[Any]:
        """The context of `cuda.pinned`, which registers arrays as it is entered."""
        context = call(*arrays)
        event = self._calls.event("lock", "cuda.pinned", memory="pinned")
        event.bytes = sum(array.nbytes for array in arrays)
        result = self._calls.run(event, context.__enter__, (), {}, blocks=False)
        self._calls.crossed(event)
        self._locked.update({address(array): array.nbytes for array in arrays})
        with ExitStack() as leaving:
            leaving.push(context)
            for array in arrays:
                leaving.callback(self._locked.pop, address(array), None)
            yield result


def _stop_late(done: threading.Event, seconds: float) -> None:
    """Ends the simulator's threads after that time: SystemExit leaves a thread without a word."""
    wait = seconds
    while not done.wait(wait):
        wait = 0.05
        for thread in [*threading._active.values()]:  # type: ignore[attr-defined]  # none that is starting
            if type(thread).__name__ == "BlockThread" and thread.is_alive():
                ending = ctypes.py_object(SystemExit)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ending)


def _place(array: Any) -> int:
    """Where an array's memory on the GPU is; in the simulator, its host array."""
    plain = getattr(array, "_ary", None)
    if plain is not None:
        return address(owning_array(plain))
    pointer: Any = getattr(array, "device_ctypes_pointer", SimpleNamespace(value=0))
    return int(pointer.value or 0)


def _simulated(arrays: Any, value: Any) -> Any:
    """The simulator's array over one of another library's on the GPU; anything else as it is."""
    values = None if isinstance(value, arrays.FakeCUDAArray) else values_of(value)
    return value if values is None else arrays.FakeCUDAArray(values)


class _Device(Device):
    compute_capability = property(lambda _: (fact("major"), fact("minor")))


class _Reached(np.ndarray[Any, Any]):
    """Mapped or managed memory in the simulator: a kernel reaches it where it is, and nothing is copied."""


def _reached(shape: Any, dtype: Any = np.float64, strides: Any = None, order: Any = "C", **_: Any) -> Any:
    return _Reached(shape, dtype, strides=strides, order=order)


@contextmanager
def _synchronizing(stream: Any) -> Iterator[Any]:
    yield stream
    stream.synchronize()


def _nothing(*_: Any) -> None:
    """For functions that the simulator lacks and a program does not miss."""


class _Ufunc:
    """A ufunc by `vectorize` for cuda, computed by NumPy; its arrays cross as the GPU's do."""

    def __init__(self, cuda: Any, arrays: Any, function: Any, **_: Any) -> None:
        self._cuda, self._arrays, self._function = cuda, arrays, function
        self._type: Any = None
        self._inputs = function.__code__.co_argcount

    def add(self, signature: Any) -> None:
        _, result = import_module("numba.core.sigutils").normalize_signature(signature)
        self._type = self._type or import_module("numba.np.numpy_support").as_dtype(result)

    def disable_compile(self) -> None: ...

    def build_ufunc(self) -> _Ufunc:
        return self

    def _values(self, inputs: list[Any]) -> Any:
        return np.vectorize(self._function, [self._type])(*inputs)

    def __call__(self, *args: Any, out: Any = None, stream: Any = 0) -> Any:
        args, out = args[: self._inputs], next(iter(args[self._inputs :]), out)
        there = [_simulated(self._arrays, each) for each in args]
        is_on_gpu = [isinstance(each, self._arrays.FakeCUDAArray) for each in (*there, out)]
        there = [
            each if on else self._cuda.to_device(np.asarray(each), stream)
            for each, on in zip(there, is_on_gpu, strict=False)
        ]
        values = self._values([each._ary for each in there])
        if is_on_gpu[-1]:
            out._ary[...] = values
            return out
        result = self._arrays.FakeCUDAArray(np.atleast_1d(values))
        return result if any(is_on_gpu) else result.copy_to_host(out, stream)


class _GUfunc(_Ufunc):
    """The same of `guvectorize`, compiled for the CPU."""

    def __init__(self, cuda: Any, arrays: Any, function: Any, signature: str, **options: Any) -> None:
        super().__init__(cuda, arrays, function)
        make, is_dynamic = import_module("numba.np.ufunc.gufunc").GUFunc, options.get("is_dynamic", False)
        self._gufunc = make(function, signature, is_dynamic=is_dynamic)
        self._inputs = len(self._gufunc.expected_ndims()[0])

    def add(self, signature: Any) -> None:
        self._gufunc.add(signature)

    def _values(self, inputs: list[Any]) -> Any:
        return self._gufunc.build_ufunc()(*inputs)
