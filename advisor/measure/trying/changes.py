"""Changes of memory that can be imposed on calls of an unchanged script, at one line, and lifted again.

A change that would not be safe refuses itself, with the reason: the host may write page-locked memory again
before an asynchronous copy has read it, and an array that the script keeps cannot be downloaded into again.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from advisor.measure.recording.calls import Call, address, replace
from advisor.measure.recording.lines import own_frame
from advisor.profiles.base import Record
from advisor.profiles.trials import ChangeKind

UPLOADS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")
MOST_ARRAYS = 16
"""Arrays that one line uploads in turn. More are taken for a new one in each frame, which page-locking makes
slower: locking a MiB takes 0.09 ms on an H200, copying it 0.02."""
_FREE = 2
"""References to kept memory that the script does not hold: our own and the argument of the count. Of what it
got last it still holds one, its variable."""
_page_locked: Counter[int] = Counter()
"""Changes in force that hold the memory at an address page-locked: several lines may upload one array."""


class ScriptChange(Record):
    """What to change, as `advisor.strategies.edits.Change` and with the files in full."""

    name: str
    kind: ChangeKind
    file: str
    line: int
    origin_file: str = ""
    origin_line: int = 0
    uploads: tuple[tuple[str, int], ...] = ()
    """File and line of other uploads of an array that is page-locked."""


class Imposed:
    """One change on the calls of one library. `refused` is why it cannot be tried, once that is known."""

    library: ClassVar[str]

    def __init__(self, change: ScriptChange, own: Callable[[str], bool], *, checks: bool) -> None:
        """own: whether a file is the script's. checks: compares all bytes, in runs that are not timed."""
        self.change, self.refused, self.in_force = change, "", False
        self._own, self._checks = own, checks

    def install(self, module: Any) -> None:
        """Wraps the library's calls, once the script has imported it."""
        raise NotImplementedError

    def switch(self, on: bool) -> None:
        self.in_force = on and not self.refused

    def refuse(self, reason: str) -> None:
        self.refused = reason
        self.switch(False)

    def _replace(self, owner: Any, name: str, body: Call) -> None:
        """`body` gets the call and what it is called with, in its place, while the change is in force."""

        def wrap(call: Call) -> Call:
            @functools.wraps(call, updated=())
            def wrapped(*args: Any, **options: Any) -> Any:
                return body(call, *args, **options) if self.in_force else call(*args, **options)

            return wrapped

        replace(owner, name, wrap)

    def _replace_uploads(
        self, module: Any, body: Callable[[Callable[[], Any], Any, Any, Any], Any], *, assigns: bool = True
    ) -> None:
        """`body` gets the copy to make, its source, the array that it sets and its stream, or None."""

        def converted(call: Call, *args: Any, **options: Any) -> Any:
            source = next((each for each in (*args[:1], *options.values()) if _is_host(each)), None)
            return body(lambda: call(*args, **options), source, None, None)

        def copied(call: Call, array: Any, *args: Any, **options: Any) -> Any:
            source = next((each for each in (*args[:1], *options.values()) if _is_host(each)), None)
            stream = options.get("stream", args[1] if args[1:] else None)
            return body(lambda: call(array, *args, **options), source, array, stream)

        def assigned(call: Call, array: Any, index: Any, value: Any) -> Any:
            source = value if _is_host(value) else None
            return body(lambda: call(array, index, value), source, array, None)

        for name in UPLOADS:
            self._replace(module, name, converted)
        self._replace(module.ndarray, "set", copied)
        if assigns:
            self._replace(module.ndarray, "__setitem__", assigned)

    def _lifted(self, copy: Callable[[], Any]) -> Any:
        """The copy's result: what it calls itself is not the script's."""
        self.in_force = False
        try:
            return copy()
        finally:
            self.in_force = True

    def _is_here(self, line: int = 0) -> bool:
        """Whether the script's line that is running is that of the change (or of its origin)."""
        file = self.change.origin_file if line else self.change.file
        frame = own_frame(sys._getframe(2), self._own)
        at = (line or self.change.line, file)
        return frame is not None and (frame.f_lineno, frame.f_code.co_filename) == at


def _is_host(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _base(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array whose memory it is, as far as NumPy tells."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Locked(Imposed):
    """Arrays that the line uploads are page-locked. Each copy of them, in other lines too, is waited for
    before the host goes on."""

    library = "cupy"

    def install(self, module: Any) -> None:
        self._cupy, self._arrays = module, dict[int, np.ndarray[Any, Any]]()
        self._replace_uploads(module, self._uploading)

    def switch(self, on: bool) -> None:
        before = self.in_force
        super().switch(on)
        if self.in_force != before:
            for array in [*getattr(self, "_arrays", {}).values()]:
                self._lock(array) if self.in_force else self._unlock(array)

    def _uploading(self, copy: Callable[[], Any], source: Any, _: Any, stream: Any) -> Any:
        base = None if source is None else _base(source)
        if base is None or not (self._is_locked(base) if self._is_here() else id(base) in self._arrays):
            return copy()
        result = self._lifted(copy)
        (stream or self._cupy.cuda.get_current_stream()).synchronize()
        return result

    def _is_locked(self, base: np.ndarray[Any, Any]) -> bool:
        """Locks the memory, unless it is already."""
        if base.base is not None:
            self.refuse("NumPy does not own the memory of what it uploads")
        elif id(base) not in self._arrays:
            if len(self._arrays) == MOST_ARRAYS:
                self.refuse("it uploads a new array in each frame")
            else:
                self._arrays[id(base)] = base  # kept, so that locked memory is never freed
                self._lock(base)
        return not self.refused

    def _lock(self, array: np.ndarray[Any, Any]) -> None:
        try:
            if not _page_locked[address(array)]:
                self._cupy.cuda.runtime.hostRegister(address(array), array.nbytes, 0)
            _page_locked[address(array)] += 1
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            self._arrays.pop(id(array))
            self.refuse(f"its memory cannot be page-locked: {error}")

    def _unlock(self, array: np.ndarray[Any, Any]) -> None:
        _page_locked[address(array)] -= 1
        if not _page_locked[address(array)]:
            self._cupy.cuda.runtime.hostUnregister(address(array))


class Reused(Imposed):
    """The line downloads into page-locked arrays that are kept, two in turn."""

    library = "cupy"

    def install(self, module: Any) -> None:
        self._cupy, self._kept = module, list[np.ndarray[Any, Any]]()
        self._shape: tuple[Any, ...] = ()
        self._last: Callable[[], Any] = lambda: None
        for owner, name in ((module.ndarray, "get"), (module, "asnumpy")):
            self._replace(owner, name, self._downloading)
        self._replace_uploads(module, self._uploading)

    def _downloading(self, call: Call, *args: Any, **options: Any) -> Any:
        plain = len(args) == 1 and not options and isinstance(args[0], self._cupy.ndarray)
        out = self._free(args[0]) if plain and self._is_here() else None
        return call(*args, **options) if out is None else call(*args, out=out)

    def _uploading(self, copy: Callable[[], Any], source: Any, *_: Any) -> Any:
        """From page-locked memory the copy would be asynchronous, and the script may write it again."""
        if source is not None and any(_base(source) is each for each in self._kept):
            self.refuse("the script uploads what it downloads")
            self._cupy.cuda.runtime.deviceSynchronize()
            result = copy()
            self._cupy.cuda.runtime.deviceSynchronize()
            return result
        return copy()

    def _free(self, array: Any) -> Any:
        """Kept memory that the script does not hold, in the array's shape; None where the change refuses.

        What it got last it may hold by one name, that of the line: by two it would see it change.
        """
        kept, shape, last = self._kept, (array.shape, array.dtype.str), self._last()
        if kept and shape != self._shape:
            self.refuse("it downloads arrays of several shapes")
        elif _threads():
            self.refuse("the script runs threads, which may hold what it downloads")
        else:
            kept.reverse()
            twice = last is not None and sys.getrefcount(last) > _FREE + 1
            if twice or any(sys.getrefcount(kept[at]) > _FREE + (at == 0) for at in range(len(kept))[::-1]):
                self.refuse("the script keeps the arrays that it downloads")
        if self.refused:
            return None
        if len(kept) < 2:
            kept.append(_pinned(self._cupy, array))
        self._shape, out = shape, kept[-1].reshape(array.shape)
        self._last = weakref.ref(out)
        return out


def _threads() -> bool:
    """Whether threads of the script's run; that of a progress bar holds no arrays."""
    own = (threading.main_thread(), threading.current_thread())
    return any(t not in own and not type(t).__module__.startswith("tqdm") for t in threading.enumerate())


def _pinned(cupy: Any, array: Any) -> np.ndarray[Any, Any]:
    """Page-locked memory for an array on the GPU; all views of it hold a reference to what is returned."""
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(array.nbytes), array.dtype, array.size)


class Hoisted(Imposed):
    """The line uploads once; later it gets what was uploaded, and an array that it sets stays as it is.

    Where it checks, it gives copies, and compares every byte of every upload with the first one's, and of
    what it gave: a script that writes there would find it changed in the next frame.
    """

    library = "cupy"
    _given: Any = None

    def install(self, module: Any) -> None:
        self._download = inspect.unwrap(module.ndarray.get)
        self._first: Any = None
        self._bytes: np.ndarray[Any, Any] | None = None
        self._replace_uploads(module, self._uploading, assigns=False)

    def switch(self, on: bool) -> None:
        super().switch(on)
        if not self.in_force:
            self._look()

    def _uploading(self, copy: Callable[[], Any], source: Any, array: Any, _: Any) -> Any:
        if source is None or not self._is_here():
            return copy()
        if self._first is None:
            result = self._lifted(copy)
            self._first = result.copy() if array is None else array
            self._given, self._bytes = (result, source.copy()) if self._checks else (None, None)
            return result
        if array is not None and self._first is not array:
            self.refuse("it uploads into several arrays")
        elif self._bytes is not None and not _same(source, self._bytes):
            self.refuse("what it uploads is not the same in each frame")
        elif array is not None and self._bytes is not None and not _same(self._download(array), self._bytes):
            self.refuse(_WRITTEN)
        self._look()
        if self.refused:
            return copy()
        if array is not None:
            return None
        if self._checks:
            self._given = self._first.copy()
        return self._given if self._checks else self._first

    def _look(self) -> None:
        """Refuses where the script wrote to what it got last."""
        given, self._given = self._given, None
        if given is not None and not _same(self._download(given), self._download(self._first)):
            self.refuse(_WRITTEN)


_WRITTEN = "the script writes to what it uploads"


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and one.tobytes() == other.tobytes()


class NonBlocking(Imposed):
    """Copies of the line from page-locked memory return before they are done."""

    library = "torch"

    def install(self, module: Any) -> None:
        self._weak = import_module("torch.multiprocessing.reductions").StorageWeakRef
        self._copied: dict[int, tuple[Any, bytes]] = {}
        """By address: the memory, and its bytes where they are checked."""
        for name in ("to", "cuda"):
            self._replace(module.Tensor, name, self._moving)

    def switch(self, on: bool) -> None:
        super().switch(on)
        if not self.in_force and not self.refused:
            self._look()

    def _moving(self, call: Call, tensor: Any, *args: Any, **options: Any) -> Any:
        plain = "non_blocking" not in options and not any(isinstance(each, bool) for each in args)
        if not (plain and tensor.device.type == "cpu" and self._is_here()):
            return call(tensor, *args, **options)
        if not tensor.is_pinned() or self._is_kept(tensor.untyped_storage()):
            return call(tensor, *args, **options)
        return call(tensor, *args, non_blocking=True, **options)

    def _is_kept(self, memory: Any) -> bool:
        """Refuses memory that was copied before and that the script still holds, also through a view.

        What nobody holds PyTorch gives again once it is copied.
        """
        self._look()
        before = self._copied.pop(memory.data_ptr(), None)
        if before is not None and not before[0].expired():
            self.refuse("the script keeps this page-locked memory, and may write it before it is copied")
        now = ctypes.string_at(memory.data_ptr(), memory.nbytes()) if self._checks else b""
        self._copied[memory.data_ptr()] = self._weak(memory), now
        return bool(self.refused)

    def _look(self) -> None:
        """Refuses where the script wrote to memory that it holds since it was copied, of the last copies."""
        for pointer in [*getattr(self, "_copied", ())][-_LOOKED_AT:]:
            memory, before = self._copied[pointer]
            if before and not memory.expired() and ctypes.string_at(pointer, len(before)) != before:
                self.refuse("the script writes page-locked memory that it has copied")


_LOOKED_AT = 4
"""Copies before the last whose memory is looked at again: a line copies few tensors of a frame."""


class PinnedLoader(NonBlocking):
    """The DataLoader that is made at the origin gives page-locked batches, and the line copies them so.

    A loader is what it was made: this change is in force for a whole process.
    """

    def install(self, module: Any) -> None:
        super().install(module)
        self._replace(import_module("torch.utils.data").DataLoader, "__init__", self._making)

    def _making(self, call: Call, *args: Any, **options: Any) -> None:
        pinned = {"pin_memory": True} if self._is_here(self.change.origin_line) else {}
        call(*args, **(options | pinned))


IMPOSED: dict[ChangeKind, type[Imposed]] = {
    "lock": Locked,
    "reuse": Reused,
    "hoist": Hoisted,
    "non-blocking": NonBlocking,
    "pin-memory": PinnedLoader,
}
WHOLE_PROCESS: tuple[ChangeKind, ...] = ("pin-memory", "allocator")
"""Changes that hold for a whole process: what a loader is, and where all memory comes from."""
