"""PyTorch's recorder: methods of tensors, functions and loaders that cross or wait, replaced one by one.

A mode would cost microseconds in each operation. Works alike on tensors that are played on the CPU.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

import numpy as np

from advisor.measure.recording import played_torch
from advisor.measure.recording.calls import Call, Calls, Gpu, replace
from advisor.measure.recording.events import Event, Recorder
from advisor.profiles.crossings import HostMemory, Library

_SCALARS = ("item", "__bool__", "__int__", "__float__", "__complex__", "__index__", "is_nonzero")
_WAITS = ("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "equal", "allclose")
"""Functions and methods whose result's size or value the host waits for."""
_FROM_HOST = ("tensor", "as_tensor", "asarray", "scalar_tensor")
_MODULE_COPIES = ("to", "cuda", "cpu")
_OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"]


class TorchCalls:
    """The recorder of PyTorch. Where there is no GPU it plays one on the CPU."""

    module = "torch"
    library: Library = "torch"

    def install(self, module: Any, recorder: Recorder) -> None:
        self._torch = module
        self._recorder = recorder
        self._originals: list[tuple[Any, str, Call]] = []
        if not recorder.has_gpu:
            played_torch.play(module, recorder)
        self._gpu = _TorchGpu(module)
        self._calls = Calls("torch", recorder, self._gpu)
        self._copies()
        self._waits()
        self._locks()
        self._work()
        for name in ("compile", "jit.script", "jit.trace"):
            owner = module.jit if name.startswith("jit") else module
            replace(owner, name.rpartition(".")[2], functools.partial(self._compiling, f"torch.{name}"))

    def finish(self) -> None:
        if self._recorder.has_gpu and self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()

    def seconds_between(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) * 1e-3

    # Copies

    def _copies(self) -> None:
        torch = self._torch
        tensor = torch.Tensor
        for name in ("to", "cuda", "cpu"):
            replace(tensor, name, functools.partial(self._moving, f"Tensor.{name}"))
        replace(tensor, "type", functools.partial(self._moving, "Tensor.type"))
        replace(tensor, "copy_", self._copying)
        replace(tensor, "tolist", self._listing)
        for name in _FROM_HOST:
            replace(torch, name, functools.partial(self._making, f"torch.{name}"))
        replace(tensor, "new_tensor", functools.partial(self._making, "Tensor.new_tensor"))
        for name in _MODULE_COPIES:
            replace(torch.nn.Module, name, functools.partial(self._calls.named, f"Module.{name}"))

    def _moving(self, name: str, call: Call) -> Call:
        """Around what may give the same values on another device."""
        recorder = self._recorder

        @functools.wraps(call, updated=())
        def wrapped(tensor: Any, *args: Any, **options: Any) -> Any:
            if not recorder.outer():
                return call(tensor, *args, **options)
            up = not tensor.is_cuda
            if up and not self._names_gpu(name, args, options):
                return call(tensor, *args, **options)
            asks = bool(options.get("non_blocking")) or any(arg is True for arg in args[1:2])
            event = self._calls.event("upload" if up else "download", name, non_blocking=asks)
            leaves = up or not self._names_gpu(name, args, options, default=name == "Tensor.to")
            run = functools.partial(call, tensor, *args, **options)
            result = self._calls.run(event, run, blocks=leaves and not asks) if leaves else run()
            if result.is_cuda == up:
                self._cross(event, tensor, result)
            return result

        return wrapped

    def _names_gpu(self, name: str, args: Any, options: Any, *, default: bool = False) -> bool:
        """Whether the result will be on the GPU; `default` where the arguments do not say."""
        if name in ("Tensor.cuda", "Tensor.cpu"):
            return name == "Tensor.cuda"
        for value in (*args, *options.values()):
            if isinstance(value, self._torch.Tensor):
                return bool(value.is_cuda)
            if isinstance(value, (str, int, self._torch.device)) and not isinstance(value, bool):
                return not str(value).startswith(("cpu", "meta", "torch.")) or "cuda" in str(value)
        return default

    def _copying(self, call: Call) -> Call:
        """Tensor.copy_: up, down, or within one side."""

        @functools.wraps(call, updated=())
        def wrapped(tensor: Any, src: Any, non_blocking: bool = False) -> Any:
            if not self._recorder.outer() or tensor.is_cuda == getattr(src, "is_cuda", tensor.is_cuda):
                return call(tensor, src, non_blocking)
            kind, asks = "upload" if tensor.is_cuda else "download", bool(non_blocking)
            event = self._calls.event(kind, "Tensor.copy_", non_blocking=asks)  # type: ignore[arg-type]
            run = functools.partial(call, tensor, src, non_blocking)
            result = self._calls.run(event, run, blocks=not asks)
            self._cross(event, src, tensor)
            return result

        return wrapped

    def _making(self, name: str, call: Call) -> Call:
        """Around functions that make a tensor of host data, on the GPU if device= or a default says so."""

        @functools.wraps(call, updated=())
        def wrapped(*args: Any, **options: Any) -> Any:
            if not self._recorder.outer():
                return call(*args, **options)
            event = self._calls.event("upload", name)
            gpu = "cuda" in str(options.get("device"))
            run = functools.partial(call, *args, **options)
            result = self._calls.run(event, run, blocks=gpu) if gpu else run()
            data = args[0] if name.startswith("torch") else args[1]
            if result.is_cuda and not getattr(data, "is_cuda", False):
                source = data if isinstance(data, (self._torch.Tensor, np.ndarray)) else None
                self._cross(event, source, result)
            return result

        return wrapped

    def _cross(self, event: Event, source: Any, result: Any) -> None:
        """Types are converted on the CPU, unless the call asks for an asynchronous copy: then on the GPU."""
        up = event.kind == "upload"
        host = source if up else result
        crossing = source if up == event.non_blocking and source is not None else result
        if not result.numel():
            return
        event.bytes = int(result.numel() * getattr(crossing, "itemsize", result.itemsize))
        event.memory = self._memory(host)
        event.asynchronous = event.non_blocking and event.memory == "pinned"
        event.host = host
        self._calls.crossed(event)

    def _memory(self, host: Any) -> HostMemory:
        """Kind of the host's memory; of lists it is pageable."""
        if isinstance(host, np.ndarray):
            host = (
                self._torch.from_numpy(host) if host.flags.writeable and host.dtype.kind in "iufb" else None
            )
        with self._recorder.inside():
            return "pinned" if host is not None and host.is_pinned() else "pageable"

    # Waits

    def _waits(self) -> None:
        torch, calls = self._torch, self._calls
        for name in _SCALARS:
            replace(torch.Tensor, name, functools.partial(self._valued, name))
        for name in _WAITS:
            replace(torch.Tensor, name, functools.partial(self._waiting, f"Tensor.{name}"))
            replace(torch, name, functools.partial(self._waiting, f"torch.{name}"))
        replace(torch, "where", self._where)
        for name in ("__getitem__", "__setitem__"):
            replace(torch.Tensor, name, functools.partial(self._indexed, name))
        for name in ("__repr__", "__str__", "__format__"):
            replace(torch.Tensor, name, functools.partial(self._waiting, f"Tensor.{name}"))
        replace(torch.cuda, "synchronize", functools.partial(calls.waiting, "torch.cuda.synchronize"))
        for kind in (torch.cuda.Stream, torch.cuda.Event):
            name = f"{kind.__name__}.synchronize"
            replace(kind, "synchronize", functools.partial(calls.waiting, name))

    def _valued(self, name: str, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(tensor: Any, *args: Any) -> Any:
            if not tensor.is_cuda or not self._recorder.outer():
                return call(tensor, *args)
            event = self._calls.event("wait", f"Tensor.{name}", bytes=int(tensor.itemsize))
            result = self._calls.run(event, lambda: call(tensor, *args), blocks=True)
            self._calls.crossed(event)
            return result

        return wrapped

    def _waiting(self, name: str, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(tensor: Any, *args: Any, **options: Any) -> Any:
            if not getattr(tensor, "is_cuda", False) or not self._recorder.outer():
                return call(tensor, *args, **options)
            event = self._calls.event("wait", name)
            result = self._calls.run(event, lambda: call(tensor, *args, **options), blocks=True)
            self._calls.crossed(event)
            return result

        return wrapped

    def _where(self, call: Call) -> Call:
        """torch.where waits where it is given a condition alone."""
        waiting = self._waiting("torch.where", call)

        @functools.wraps(call, updated=())
        def wrapped(*args: Any, **options: Any) -> Any:
            return (waiting if len(args) == 1 and not options else call)(*args, **options)

        return wrapped

    def _indexed(self, name: str, call: Call) -> Call:
        """Masks wait for the size of their result, unless they are filled with a number."""
        waiting = self._waiting(f"Tensor.{name}", call)

        @functools.wraps(call, updated=())
        def wrapped(tensor: Any, key: Any, *value: Any) -> Any:
            if type(key) in (int, slice) or not tensor.is_cuda:
                return call(tensor, key, *value)
            parts = key if isinstance(key, tuple) else (key,)
            masks = any(getattr(part, "dtype", None) is self._torch.bool and part.ndim for part in parts)
            fills = value and getattr(value[0], "ndim", 0) == 0
            return (waiting if masks and not fills else call)(tensor, key, *value)

        return wrapped

    def _listing(self, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(tensor: Any) -> Any:
            if not tensor.is_cuda or not self._recorder.outer():
                return call(tensor)
            event = self._calls.event("download", "Tensor.tolist", memory="pageable", asynchronous=False)
            result = self._calls.run(event, lambda: call(tensor), blocks=True)
            event.bytes = int(tensor.numel() * tensor.itemsize)
            self._calls.crossed(event)
            return result

        return wrapped

    # Page-locking, work, what is not seen

    def _locks(self) -> None:
        """A loader's own thread pins too: its batches are pinned, and no line of the script locks them."""
        torch, recorder = self._torch, self._recorder
        locked = self._calls.locking

        def size(result: Any, *_: Any, **__: Any) -> int:
            return int(result.numel() * result.itemsize)

        def pinning(call: Call) -> Call:
            lock = locked("Tensor.pin_memory", call, size)

            @functools.wraps(call, updated=())
            def wrapped(tensor: Any, *args: Any) -> Any:
                return tensor if recorder.outer() and tensor.is_pinned() else lock(tensor, *args)

            return wrapped

        def loading(call: Call) -> Call:
            @functools.wraps(call)
            def wrapped(*args: Any, **options: Any) -> Any:
                with recorder.inside():
                    return call(*args, **options)

            return wrapped

        def making(name: str, call: Call) -> Call:
            lock = locked(f"torch.{name}", call, size)

            @functools.wraps(call, updated=())
            def wrapped(*args: Any, **options: Any) -> Any:
                return (lock if options.get("pin_memory") else call)(*args, **options)

            return wrapped

        replace(torch.Tensor, "pin_memory", pinning)
        replace(import_module("torch.utils.data._utils.pin_memory"), "pin_memory", loading)
        for name in ("empty", "zeros", "ones", "full", "rand", "randn", "empty_like", "zeros_like"):
            replace(torch, name, functools.partial(making, name))

    def _work(self) -> None:
        torch = self._torch
        for name in _OPERATORS:
            self._keep(torch.Tensor, f"__{name}__")
        self._keep(torch.nn.Module, "__call__")
        self._keep(torch.Tensor, "backward")

    def _keep(self, owner: Any, name: str) -> None:
        """Tells the recorder of work for the GPU, until something is compiled."""
        call, recorder = getattr(owner, name), self._recorder
        self._originals.append((owner, name, call))

        @functools.wraps(call, updated=())
        def wrapped(first: Any, *args: Any, **options: Any) -> Any:
            if recorder.outer():
                recorder.launched()
            return call(first, *args, **options)

        setattr(owner, name, wrapped)

    def _compiling(self, name: str, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(*args: Any, **options: Any) -> Any:
            self._recorder.not_seen(f"copies and waits inside graphs of {name}")
            for owner, method, original in self._originals:
                setattr(owner, method, original)
            return call(*args, **options)

        return wrapped


class _TorchGpu(Gpu):
    def __init__(self, torch: Any) -> None:
        self._cuda = torch.cuda
        self._wait, self._event = torch.cuda.Stream.synchronize, torch.cuda.Event

    def synchronize(self, stream: Any = None) -> None:
        self._wait(stream or self._cuda.current_stream())

    def mark(self, stream: Any = None) -> Any:
        event = self._event(enable_timing=True)
        event.record(stream or self._cuda.current_stream())
        return event
