"""PyTorch's recorder: methods of tensors, functions and loaders that cross or wait, replaced one by one.

A mode would cost microseconds in each operation. Works alike on tensors that are played on the CPU.
"""

from __future__ import annotations

import functools
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from advisor.measure.recording import played_torch
from advisor.measure.recording.calls import Call, Calls, Direct, Gpu, hide_items, is_on_gpu, replace, wrapping
from advisor.measure.recording.recorder import ScriptRecorder
from advisor.measure.recording.records import Event
from advisor.profiles.crossings import CrossingKind, HostMemory, Library

_SCALARS = ("item", "__bool__", "__int__", "__float__", "__complex__", "__index__", "is_nonzero")
_SIZED = ("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "equal", "allclose")
"""Functions and methods whose result's size or value the host waits for."""
_SHOWN = ("__repr__", "__str__", "__format__")
_FROM_HOST = ("tensor", "as_tensor", "asarray", "scalar_tensor")
_PINNED = ("empty", "zeros", "ones", "full", "rand", "randn", "empty_like", "zeros_like")
"""Functions that take pin_memory=True."""
_ROWS, _COLUMNS = ("crow_indices", "col_indices"), ("ccol_indices", "row_indices")
_COMPRESSED = {
    "torch.sparse_csr": _ROWS, "torch.sparse_bsr": _ROWS,
    "torch.sparse_csc": _COLUMNS, "torch.sparse_bsc": _COLUMNS,
}  # fmt: skip
_TYPES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool")
_WORK = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")


class TorchCalls:
    """The recorder of PyTorch. Where there is no GPU it plays one on the CPU."""

    library: Library = "torch"

    def install(self, module: Any, recorder: ScriptRecorder) -> None:
        self._torch, self._recorder = module, recorder
        self._originals: list[tuple[Any, str, Call]] = []
        if not recorder.has_gpu:
            played_torch.play(module)
        cuda = module.cuda
        event = functools.partial(cuda.Event, enable_timing=True)
        captures = lambda _: cuda.is_current_stream_capturing()  # noqa: E731
        gpu = Gpu(
            cuda.current_stream, cuda.Stream.synchronize, cuda.current_device, event, is_capturing=captures
        )
        self._calls, self.seconds_between = Calls("torch", recorder, gpu, self._direct), gpu.seconds_between
        self._copies()
        self._cuda_types()
        self._waits()
        self._locks()
        self._work()
        for name in ("save", "load"):
            unseen = functools.partial(self._unseen, f"Copies of torch.{name}")
            replace(module, name, self._calls.around(unseen))
        for owner, name in ((module, "compile"), (module.jit, "script"), (module.jit, "trace")):
            replace(owner, name, self._calls.around(functools.partial(self._compile, name)))

    def finish(self) -> None:
        if self._recorder.has_gpu and self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()

    # Copies

    def _copies(self) -> None:
        torch, around = self._torch, self._calls.around
        for name in ("to", "cuda", "cpu"):
            ways = (functools.partial(each, name) for each in (self._moved, self._move))
            replace(torch.Tensor, name, self._calls.copying(*ways))
            replace(torch.nn.Module, name, self._calls.named(f"Module.{name}"))
        replace(torch.Tensor, "copy_", self._calls.copying(self._copied, self._copy))
        details: dict[str, Any] = {"blocks": True, "memory": "pageable", "asynchronous": False}
        size = lambda _, tensor: tensor.numel() * tensor.itemsize  # noqa: E731
        download = self._calls.sized("download", "Tensor.tolist", size, **details)
        replace(torch.Tensor, "tolist", self._on_gpu(download))
        for name in _FROM_HOST:
            replace(torch, name, around(functools.partial(self._make, f"torch.{name}", 0)))
        replace(torch.Tensor, "new_tensor", around(functools.partial(self._make, "Tensor.new_tensor", 1)))

    def _moved(self, name: str, tensor: Any, *args: Any, **options: Any) -> tuple[CrossingKind, int] | None:
        """Methods that may give the same values on the other side."""
        up = not tensor.is_cuda
        if self._goes_to_gpu(name, tensor, (*args, *options.values())) != up:
            return None
        return "upload" if up else "download", tensor.numel() * tensor.itemsize

    def _move(self, name: str, kind: CrossingKind, call: Call, *args: Any, **options: Any) -> Any:
        asks = bool(options.get("non_blocking")) or any(arg is True for arg in args[2:4])
        event = self._calls.event(kind, f"Tensor.{name}", non_blocking=asks)
        result = self._calls.run(event, call, args, options, not asks)
        if result.is_cuda == (kind == "upload"):
            self._cross(event, args[0], result)
        return result

    def _direct(self, name: str, call: Call, args: Any, options: Any) -> Direct | None:
        """Only copies of plain, contiguous tensors; a downloaded tensor has no gradient."""
        torch = self._torch
        tensor: Any = args[0] if args else None
        if not name.startswith("Tensor.") or not self._is_plain(tensor):
            return None
        copy, host = functools.partial(call, *args, **options), tensor
        if name == "Tensor.copy_":
            host = args[1] if tensor.is_cuda else tensor
        elif tensor.is_cuda:
            kinds = [type(value) for value in (*args[1:], *options.values())]
            alone = kinds == [] if name == "Tensor.cpu" else kinds in ([str], [torch.device])
            if not alone or tensor.requires_grad:
                return None
            host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
            copy = functools.partial(host.copy_, tensor)
        return ((host.data_ptr(), host.numel() * host.itemsize), copy) if self._is_plain(host) else None

    def _is_plain(self, tensor: Any) -> bool:
        torch = self._torch
        is_dense = type(tensor) is torch.Tensor and tensor.layout is torch.strided
        return is_dense and bool(tensor.is_contiguous())

    def _goes_to_gpu(self, name: str, tensor: Any, arguments: Any) -> bool:
        """Whether the result will be on the GPU: where arguments name no device, where the tensor is."""
        if name in ("cuda", "cpu"):
            return name == "cuda"
        for value in arguments:
            if isinstance(value, self._torch.Tensor):
                return bool(value.is_cuda)
            if isinstance(value, (str, self._torch.device)) or type(value) is int:
                return not str(value).startswith(("cpu", "meta", "torch.")) or "cuda" in str(value)
        return bool(tensor.is_cuda)

    def _copied(self, tensor: Any, src: Any, *_: Any, **__: Any) -> tuple[CrossingKind, int] | None:
        if tensor.is_cuda == getattr(src, "is_cuda", tensor.is_cuda):
            return None
        return "upload" if tensor.is_cuda else "download", tensor.numel() * tensor.itemsize

    def _copy(self, kind: CrossingKind, call: Call, tensor: Any, src: Any, non_blocking: bool = False) -> Any:
        event = self._calls.event(kind, "Tensor.copy_", non_blocking=bool(non_blocking))
        result = self._calls.run(event, call, (tensor, src, non_blocking), {}, not non_blocking)
        self._cross(event, src, tensor)
        return result

    def _make(self, name: str, place: int, call: Call, *args: Any, **options: Any) -> Any:
        """Functions that make a tensor of host data, on the GPU if `device` or a default says so."""
        data = args[place] if len(args) > place else options.get("data")
        event = self._calls.event("upload", name)
        blocks = "cuda" in str(options.get("device")) and not is_on_gpu(data)
        result = self._calls.run(event, call, args, options, blocks)
        if result.is_cuda and not is_on_gpu(data):
            self._cross(event, data if isinstance(data, (self._torch.Tensor, np.ndarray)) else None, result)
        return result

    def _cross(self, event: Event, source: Any, result: Any) -> None:
        """Types are converted on the CPU, unless the call asks for an asynchronous copy: then on the GPU."""
        up = event.kind == "upload"
        as_source = up == event.non_blocking and source is not None
        if not result.numel():
            return
        event.bytes = _size(result, (source if as_source else result).itemsize)
        event.host = source if up else result
        event.memory = self._memory(event.host)
        if result.layout is not self._torch.strided:
            event.host = None  # several arrays: none of them is the tensor's memory
        event.asynchronous = event.non_blocking and event.memory == "pinned"
        self._calls.crossed(event)

    def _memory(self, host: Any) -> HostMemory:
        """The kind of the host's memory; lists and NumPy's arrays become tensors in pageable memory."""
        with self._recorder.depth, suppress(Exception):  # a tensor made of others need not tell
            return "pinned" if isinstance(host, self._torch.Tensor) and host.is_pinned() else "pageable"
        return "unknown"

    def _cuda_types(self) -> None:
        """`torch.cuda.FloatTensor` and its kin: types that make tensors on the GPU by the calls of today."""
        torch = self._torch
        self._kinds: dict[Any, tuple[str, Any]] = {}
        for name in (f"{kind}Tensor" for kind in _TYPES):
            setattr(torch.cuda, name, CudaType(torch, name))
            for place, owner in (("cpu", torch), ("cuda", torch.cuda)):
                kind = getattr(owner, name)
                self._kinds |= dict.fromkeys((kind, f"{owner.__name__}.{name}"), (place, kind.dtype))
        replace(torch.Tensor, "type", wrapping(self._convert))
        replace(torch, "set_default_tensor_type", wrapping(self._set_default))

    def _convert(self, call: Call, tensor: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
        if dtype in self._kinds:
            return tensor.to(*self._kinds[dtype], *args, **options)
        result = call(tensor, dtype, *args, **options)
        if dtype is None and tensor.is_cuda and ".cuda." not in result:  # where a GPU is played
            return result.replace("torch.", "torch.cuda.")
        return result

    def _set_default(self, call: Call, kind: Any) -> None:
        place, dtype = self._kinds.get(kind, ("", None))
        if place == "cuda":
            self._torch.set_default_dtype(dtype)
            self._torch.set_default_device(place)
        else:
            call(kind)

    # Waits

    def _waits(self) -> None:
        torch, waiting = self._torch, self._calls.waiting
        for name in _SCALARS:
            wait = waiting(f"Tensor.{name}", lambda tensor, *_: tensor.itemsize)
            replace(torch.Tensor, name, self._on_gpu(wait))
        for name in (*_SIZED, *_SHOWN):
            replace(torch.Tensor, name, self._on_gpu(waiting(f"Tensor.{name}")))
            if name in _SIZED:
                replace(torch, name, self._on_gpu(waiting(f"torch.{name}")))
        only = lambda *args, **options: len(args) == 1 and not options  # noqa: E731
        replace(torch, "where", self._on_gpu(waiting("torch.where"), only))
        for name in ("__getitem__", "__setitem__"):
            index = self._calls.around(functools.partial(self._index, f"Tensor.{name}"))
            more = lambda _, key, *value: value or type(key) not in (int, slice)  # noqa: E731
            replace(torch.Tensor, name, self._on_gpu(index, more))
        hide_items(torch.Tensor)

        def begin(kind: type[Any], /, **options: Any) -> None:
            super(torch.Tensor, kind).__init_subclass__(**options)
            hide_items(kind)

        torch.Tensor.__init_subclass__ = classmethod(begin)
        replace(torch.cuda, "synchronize", self._calls.synchronizing("torch.cuda.synchronize"))
        for kind in (torch.cuda.Stream, torch.cuda.Event):
            replace(kind, "synchronize", self._calls.synchronizing(f"{kind.__name__}.synchronize"))

    def _on_gpu(self, wrap: Call, if_: Call = lambda *_, **__: True) -> Call:
        """Around calls whose first argument is a tensor on the GPU; others are left alone."""

        def is_meant(*args: Any, **options: Any) -> Any:
            return args and getattr(args[0], "is_cuda", False) and if_(*args, **options)

        return functools.partial(_where, is_meant, wrap)

    def _index(self, name: str, call: Call, tensor: Any, key: Any, *value: Any) -> Any:
        """Keys and values on the host are uploaded; the size of what a mask indexes is waited for, unless it
        is filled with a number."""
        given = [(each, self._key(each)) for each in (key if isinstance(key, tuple) else (key,))]
        parts = [(part, made) for part, made in given if made is not None and made.ndim]
        uploads = [(None if type(part) is list else part, made) for part, made in parts if not made.is_cuda]
        source = next(iter(value), None)
        dimensions = getattr(source, "ndim", 0)
        if dimensions and not is_on_gpu(source):
            with self._recorder.depth:
                uploads.append((source, tensor[key]))
        events = [self._calls.event("upload", name) for _ in uploads]
        if dimensions or not value:
            masks = any(made.dtype is self._torch.bool for _, made in parts)
            events += [self._calls.event("wait", name)] * masks
        if not events:
            return call(tensor, key, *value)
        result = self._calls.run(events[-1], call, (tensor, key, *value), {}, True)
        for event, copied in zip(events, uploads, strict=False):
            self._cross(event, *copied)
        for event in events[len(uploads) :]:
            self._calls.crossed(event)
        return result

    def _key(self, part: Any) -> Any:
        """The tensor that a part of a key is or becomes; None of other parts, and of nested lists."""
        if not isinstance(part, (list, np.ndarray)):
            return part if hasattr(part, "is_cuda") else None
        with self._recorder.depth, suppress(Exception):  # a list of slices
            kind = (array := np.asarray(part)).dtype
            if array.ndim == 1 and (array is part or not any(hasattr(each, "is_cuda") for each in part)):
                return self._torch.from_numpy(array.astype(kind if kind in (bool, np.uint8) else np.int64))
        return None

    # Page-locking, work, what is not seen

    def _locks(self) -> None:
        """A loader's own thread pins too: its batches are pinned, and no line of the script locks them."""
        torch, calls = self._torch, self._calls

        def size(result: Any, *_: Any, **__: Any) -> Any:
            return result.numel() * result.itemsize

        lock = calls.locking("Tensor.pin_memory", size)
        pin = calls.around(lambda call, array, *_, **__: array if array.is_pinned() else lock(call)(array))
        replace(torch.Tensor, "pin_memory", pin)
        unseen = calls.around(functools.partial(self._unseen, ""))
        replace(import_module("torch.utils.data._utils.pin_memory"), "pin_memory", unseen)
        for name in _PINNED:
            is_pinned = lambda *_, pin_memory=False, **__: pin_memory  # noqa: E731
            replace(torch, name, functools.partial(_where, is_pinned, calls.locking(f"torch.{name}", size)))

    def _work(self) -> None:
        """Tells of work for the GPU, until something is compiled."""
        torch = self._torch
        methods = [(torch.Tensor, f"__{name}__") for name in _WORK]
        for owner, name in (*methods, (torch.nn.Module, "__call__"), (torch.Tensor, "backward")):
            self._originals.append((owner, name, getattr(owner, name)))
            replace(owner, name, self._calls.launching())

    def _compile(self, name: str, call: Call, *args: Any, **options: Any) -> Any:
        for owner, method, original in self._originals:
            setattr(owner, method, original)
        return self._unseen(f"Copies and waits in what torch's {name} compiles", call, *args, **options)

    def _unseen(self, what: str, call: Call, *args: Any, **options: Any) -> Any:
        if what:
            self._recorder.not_seen(what)
        with self._recorder.depth:
            return call(*args, **options)


def _size(tensor: Any, itemsize: int) -> int:
    """Bytes that cross: of a sparse tensor its indices and values."""
    kind = str(tensor.layout)
    names = ("_indices",) if kind == "torch.sparse_coo" else _COMPRESSED.get(kind)
    if names is None:
        return int(tensor.numel() * itemsize)
    parts = [getattr(tensor, name)() for name in names]
    values = tensor._values() if kind == "torch.sparse_coo" else tensor.values()
    return int(sum(part.numel() * part.itemsize for part in parts) + values.numel() * itemsize)


def _where(is_meant: Call, wrap: Call, call: Call) -> Call:
    """Wraps a callable for arguments that are meant, and leaves it alone for others."""
    wrapped = wrap(call)
    return wrapping(
        lambda call, *args, **options: (wrapped if is_meant(*args, **options) else call)(*args, **options)
    )(call)


class CudaType:
    """Stands in for such a type, which exists on the GPU alone and can be neither wrapped nor derived."""

    is_cuda = True

    def __init__(self, torch: Any, name: str) -> None:
        self._torch, self.dtype = torch, getattr(torch, name).dtype
        self.__name__ = self.__qualname__ = name

    def __call__(self, *args: Any, **_: Any) -> Any:
        """Sizes give memory that is not initialised; data is uploaded."""
        sizes = args[0] if len(args) == 1 and isinstance(args[0], self._torch.Size) else args
        if all(isinstance(each, int) for each in sizes):
            return self._torch.empty(sizes, dtype=self.dtype, device="cuda")
        return self._torch.as_tensor(args[0], dtype=self.dtype, device="cuda")

    def __instancecheck__(self, tensor: Any) -> bool:
        return bool(getattr(tensor, "is_cuda", False)) and tensor.dtype is self.dtype
