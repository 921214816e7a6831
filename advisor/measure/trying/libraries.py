"""How each library copies, page-locks and waits, as far as changes are imposed on its calls."""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from advisor.measure.recording.calls import Call, numba_classes
from advisor.measure.recording.host_memory import address
from advisor.profiles.crossings import Library

UPLOADS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")
Copy = Callable[[], Any]
Replace = Callable[[Any, str, Call], None]
"""Puts a function in a call's place: it gets the call and what that is called with."""


class Memory(NamedTuple):
    """The whole allocation of an array on the host."""

    owner: Any
    address: int
    nbytes: int


class CupyCopies:
    """CuPy's, and what the libraries have in common. Arrays on the host are NumPy's."""

    takes_turns = False
    """Whether a patch downloads into two arrays in turn, so that names of the one before do no harm."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def replace_uploads(self, replace: Replace, body: Call, *, assigns: bool = True) -> None:
        """`body` gets the copy to make, its source, the array that it sets or None, and a wait until the
        source may be written again."""
        for name in UPLOADS:
            replace(self.module, name, self._uploading(body, 0))
        replace(self.module.ndarray, "set", self._uploading(body, 1, stream=2))
        if assigns:
            replace(self.module.ndarray, "__setitem__", self._uploading(body, 2))

    def _uploading(self, body: Call, source: int, stream: int | None = None) -> Call:
        """source, stream: places among the arguments. Before the source stands the array that is set."""

        def called(call: Call, *args: Any, **options: Any) -> Any:
            values = (*args[source : source + 1], *options.values())
            host = next((each for each in values if isinstance(each, np.ndarray)), None)
            on_stream = options.get("stream", args[stream] if stream and len(args) > stream else 0)
            array = args[0] if source else None
            return body(partial(call, *args, **options), host, array, self._wait(on_stream))

        return called

    def _wait(self, stream: Any) -> Copy:
        return lambda: (stream or self.module.cuda.get_current_stream()).synchronize()

    def replace_downloads(self, replace: Replace, body: Call) -> None:
        """`body` gets the copy to make, its array, and the same copy into memory that it is given."""

        def got(call: Call, *args: Any, **options: Any) -> Any:
            copy = partial(call, *args, **options)
            plain = len(args) == 1 and not options and isinstance(args[0], self.module.ndarray)
            return body(copy, args[0], lambda out: call(*args, out=out)) if plain else copy()

        for owner, name in ((self.module.ndarray, "get"), (self.module, "asnumpy")):
            replace(owner, name, got)

    def address(self, array: Any) -> int:
        return address(array)

    def memory(self, array: Any) -> Memory | None:
        """None where NumPy does not own it."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        return Memory(array, address(array), array.nbytes) if array.base is None else None

    def lock(self, memory: Memory) -> None:
        """Page-locks it. Raises `RuntimeError` where that fails."""
        self.module.cuda.runtime.hostRegister(memory.address, memory.nbytes, 0)

    def unlock(self, memory: Memory) -> None:
        self.module.cuda.runtime.hostUnregister(memory.address)

    def pinned(self, array: Any) -> Any:
        """Page-locked memory for an array on the GPU. Views of it hold a reference to what is returned."""
        buffer = self.module.cuda.alloc_pinned_memory(array.nbytes)
        return np.frombuffer(buffer, array.dtype, array.size)

    def unfit(self, _: Any) -> str:
        """Why an array on the GPU cannot be downloaded into kept memory; empty where it can."""
        return ""

    def view(self, kept: Any, array: Any) -> Any:
        return kept.reshape(array.shape)

    def uses(self, kept: Any) -> int:
        return sys.getrefcount(kept)

    def shape(self, array: Any) -> tuple[Any, ...]:
        return array.shape, array.dtype.str

    def synchronize(self) -> None:
        self.module.cuda.runtime.deviceSynchronize()

    def clone(self, array: Any) -> Any:
        return array.copy()

    def flat(self, array: Any) -> Any:
        """The bytes of an array on the host, as NumPy's array."""
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def same(self, one: Any, other: Any) -> bool:
        """Whether two arrays on the GPU have the same bytes."""
        parts = (each.ravel("K").view(np.uint8) for each in (one, other))
        return bool((next(parts) == next(parts)).all())


class TorchCopies(CupyCopies):
    """PyTorch's. Its copies are waited for, unless they ask for the opposite."""

    takes_turns = True

    def replace_uploads(self, replace: Replace, body: Call, *, assigns: bool = True) -> None:
        def moved(name: str, call: Call, tensor: Any, *args: Any, **options: Any) -> Any:
            copy = partial(call, tensor, *args, **options)
            places = (getattr(each, "device", each) for each in (*args, *options.values()))
            up = name == "cuda" or any(type(p) is int or str(p).startswith("cuda") for p in places)
            if not up or tensor.device.type != "cpu" or tensor.requires_grad:
                return copy()
            return body(copy, tensor, None, self._wait(None))

        def copied(call: Call, tensor: Any, src: Any, *args: Any, **options: Any) -> Any:
            copy = partial(call, tensor, src, *args, **options)
            up = tensor.device.type == "cuda" and src.device.type == "cpu"
            return body(copy, src, tensor, self._wait(None)) if up else copy()

        for name in ("to", "cuda"):
            replace(self.module.Tensor, name, partial(moved, name))
        if assigns:
            replace(self.module.Tensor, "copy_", copied)

    def _wait(self, _: Any) -> Copy:
        return lambda: self.module.cuda.current_stream().synchronize()

    def replace_downloads(self, replace: Replace, body: Call) -> None:
        def moved(name: str, call: Call, tensor: Any, *args: Any, **options: Any) -> Any:
            copy = partial(call, tensor, *args, **options)
            plain = not options and [*map(str, args)] == ["cpu"] * (name == "to")
            if tensor.device.type == "cpu" or not plain:
                return copy()
            return body(copy, tensor, lambda out: out.copy_(tensor))

        for name in ("to", "cpu"):
            replace(self.module.Tensor, name, partial(moved, name))

    def address(self, array: Any) -> int:
        return int(array.data_ptr())

    def memory(self, array: Any) -> Memory | None:
        storage = array.untyped_storage()
        return Memory(storage, storage.data_ptr(), storage.nbytes())

    def lock(self, memory: Memory) -> None:
        if int(error := self.module.cuda.cudart().cudaHostRegister(memory.address, memory.nbytes, 0)):
            raise RuntimeError(str(error))

    def unlock(self, memory: Memory) -> None:
        self.module.cuda.cudart().cudaHostUnregister(memory.address)

    def pinned(self, array: Any) -> Any:
        return self.module.empty_like(array, device="cpu", pin_memory=True)

    def unfit(self, tensor: Any) -> str:
        return "its gradient goes through the download" if tensor.requires_grad else ""

    def view(self, kept: Any, array: Any) -> Any:
        return kept.view(array.shape)

    def uses(self, kept: Any) -> int:
        """Tensors and NumPy's arrays over its memory."""
        return int(self.module._C._storage_Use_Count(kept.untyped_storage()._cdata))

    def shape(self, array: Any) -> tuple[Any, ...]:
        return tuple(array.shape), array.stride(), array.dtype

    def synchronize(self) -> None:
        if self.module.cuda.is_initialized():
            self.module.cuda.synchronize()

    def clone(self, array: Any) -> Any:
        return array.detach().clone()

    def flat(self, array: Any) -> Any:
        return self._bytes(array).numpy()

    def same(self, one: Any, other: Any) -> bool:
        return bool(self.module.equal(self._bytes(one), self._bytes(other)))

    def _bytes(self, tensor: Any) -> Any:
        return tensor.detach().contiguous().reshape(-1).view(self.module.uint8)


class NumbaCopies(CupyCopies):
    """Numba's. Its copies are waited for, unless they are made in a stream."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._array, self._launcher = numba_classes(module)
        self._get = inspect.unwrap(self._array.copy_to_host)

    def replace_uploads(self, replace: Replace, body: Call, *, assigns: bool = True) -> None:
        def launched(call: Call, kernel: Any, *args: Any) -> Any:
            copy: Copy = partial(call, kernel, *args)
            for host in (each for each in args if isinstance(each, np.ndarray)):
                copy = partial(body, copy, host, None, self._wait(getattr(kernel, "stream", 0)))
            return copy()

        replace(self.module, "to_device", self._uploading(body, 0, stream=1))
        if assigns:
            replace(self._array, "copy_to_device", self._uploading(body, 1, stream=2))
            replace(self._launcher, "__call__", launched)

    def _wait(self, stream: Any) -> Copy:
        return lambda: self.module.synchronize() if stream else None

    def replace_downloads(self, replace: Replace, body: Call) -> None:
        def copied(call: Call, array: Any, *args: Any, **options: Any) -> Any:
            copy = partial(call, array, *args, **options)
            plain = not (args or options) and array.is_c_contiguous()
            return body(copy, array, lambda out: call(array, out)) if plain else copy()

        replace(self._array, "copy_to_host", copied)

    def lock(self, memory: Memory) -> None:
        """By the driver, in the context that Numba makes current: its own functions unlock later."""
        self.module.current_context()
        if error := _driver().cuMemHostRegister_v2(
            ctypes.c_void_p(memory.address), ctypes.c_size_t(memory.nbytes), 0
        ):
            raise RuntimeError(f"the driver's error {error}")

    def unlock(self, memory: Memory) -> None:
        _driver().cuMemHostUnregister(ctypes.c_void_p(memory.address))

    def pinned(self, array: Any) -> Any:
        return self.module.pinned_array(array.size, array.dtype)

    def synchronize(self) -> None:
        self.module.synchronize()

    def clone(self, array: Any) -> Any:
        copy = self.module.device_array_like(array)
        copy.copy_to_device(array)
        return copy

    def same(self, one: Any, other: Any) -> bool:
        return bool(np.array_equal(*(self.flat(self._get(each)) for each in (one, other))))


LIBRARIES: Mapping[Library, type[CupyCopies]] = {
    "cupy": CupyCopies,
    "torch": TorchCopies,
    "numba": NumbaCopies,
}


def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")
