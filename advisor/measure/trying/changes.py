"""Changes of memory that can be imposed on calls of an unchanged script, at one line, and lifted again.

A change that would not be safe refuses itself, with the reason: the host may write page-locked memory again
before an asynchronous copy has read it, and an array that the script keeps cannot be downloaded into again.
"""

from __future__ import annotations

import functools
import inspect
import sys
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
        self._arrays: dict[int, np.ndarray[Any, Any]] = {}

    def install(self, module: Any) -> None:
        """Wraps the library's calls, once the script has imported it."""
        raise NotImplementedError

    def switch(self, on: bool) -> None:
        self.in_force = on and not self.refused

    def refuse(self, reason: str) -> None:
        self.switch(False)
        self.refused = reason

    def _is_here(self, line: int = 0) -> bool:
        """Whether the script's line that is running is that of the change (or of its origin)."""
        file = self.change.origin_file if line else self.change.file
        frame = own_frame(sys._getframe(2), self._own)
        at = (line or self.change.line, file)
        return frame is not None and (frame.f_lineno, frame.f_code.co_filename) == at


class Locked(Imposed):
    """Arrays that the line uploads are page-locked. Each copy of them, in other lines too, is waited for
    before the host goes on."""

    library = "cupy"

    def install(self, module: Any) -> None:
        self._cupy = module
        for name in UPLOADS:
            replace(module, name, self._uploading)
        replace(module.ndarray, "set", self._setting)
        replace(module.ndarray, "__setitem__", self._assigning)

    def switch(self, on: bool) -> None:
        before = self.in_force
        super().switch(on)
        if self.in_force != before:
            for array in [*self._arrays.values()]:
                self._lock(array) if self.in_force else self._unlock(array)

    def _uploading(self, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(source: Any, *args: Any, **options: Any) -> Any:
            if not self._applies(source):
                return call(source, *args, **options)
            return self._waited(lambda: call(source, *args, **options))

        return wrapped

    def _setting(self, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(array: Any, source: Any, stream: Any = None) -> Any:
            if not self._applies(source):
                return call(array, source, stream)
            return self._waited(lambda: call(array, source, stream), stream)

        return wrapped

    def _assigning(self, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(array: Any, index: Any, source: Any) -> Any:
            if not self._applies(source):
                return call(array, index, source)
            return self._waited(lambda: call(array, index, source))

        return wrapped

    def _applies(self, source: Any) -> bool:
        if not (self.in_force and isinstance(source, np.ndarray)):
            return False
        base = source
        while isinstance(base.base, np.ndarray):
            base = base.base
        return self._is_locked(base) if self._is_here() else id(base) in self._arrays

    def _waited(self, copy: Callable[[], Any], stream: Any = None) -> Any:
        self.in_force = False  # what the copy calls itself is not the script's
        try:
            result = copy()
        finally:
            self.in_force = True
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
            replace(owner, name, self._downloading)

    def _downloading(self, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(array: Any, *args: Any, **options: Any) -> Any:
            plain = not args and not options and isinstance(array, self._cupy.ndarray)
            if not (self.in_force and plain and self._is_here()):
                return call(array, *args, **options)
            out = self._free(array)
            return call(array) if out is None else call(array, out=out)

        return wrapped

    def _free(self, array: Any) -> Any:
        """Kept memory that the script does not hold, in the array's shape; None where the change refuses.

        What it got last it may hold by one name, that of the line: by two it would see it change.
        """
        kept, shape, last = self._kept, (array.shape, array.dtype.str), self._last()
        if kept and shape != self._shape:
            self.refuse("it downloads arrays of several shapes")
            return None
        twice = last is not None and sys.getrefcount(last) > _FREE + 1
        kept.reverse()
        if twice or any(sys.getrefcount(kept[at]) > _FREE + (at == 0) for at in range(len(kept))[::-1]):
            self.refuse("the script keeps the arrays that it downloads")
            return None
        if len(kept) < 2:
            kept.append(_pinned(self._cupy, array))
        self._shape, out = shape, kept[-1].reshape(array.shape)
        self._last = weakref.ref(out)
        return out


def _pinned(cupy: Any, array: Any) -> np.ndarray[Any, Any]:
    """Page-locked memory for an array on the GPU; all views of it hold a reference to what is returned."""
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(array.nbytes), array.dtype, array.size)


class Hoisted(Imposed):
    """The line uploads once; later it gets a copy on the GPU of what was uploaded, and an array that it sets
    stays as it is.

    Where it checks, it compares every byte of every upload with the first one's, and of what it gave: a
    script that writes there would find it changed in the next frame.
    """

    library = "cupy"
    _given: Any = None

    def install(self, module: Any) -> None:
        self._download = inspect.unwrap(module.ndarray.get)
        self._first: Any = None
        self._bytes: np.ndarray[Any, Any] | None = None
        for name in UPLOADS:
            replace(module, name, self._uploading)
        replace(module.ndarray, "set", self._setting)

    def switch(self, on: bool) -> None:
        super().switch(on)
        if not self.in_force:
            self._look()

    def _setting(self, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(array: Any, source: Any, *args: Any, **options: Any) -> Any:
            if not (self.in_force and isinstance(source, np.ndarray) and self._is_here()):
                return call(array, source, *args, **options)
            if self._first is None:
                self._first, self._bytes = array, source.copy() if self._checks else None
                return call(array, source, *args, **options)
            if self._first is not array:
                self.refuse("it uploads into several arrays")
            elif self._bytes is not None and not _same(source, self._bytes):
                self.refuse("what it uploads is not the same in each frame")
            elif self._bytes is not None and not _same(self._download(array), self._bytes):
                self.refuse("the script writes to what it uploads")
            return call(array, source, *args, **options) if self.refused else None

        return wrapped

    def _uploading(self, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(source: Any, *args: Any, **options: Any) -> Any:
            if not (self.in_force and isinstance(source, np.ndarray) and self._is_here()):
                return call(source, *args, **options)
            if self._first is None:
                self.in_force = False
                self._first = call(source, *args, **options).copy()
                self.in_force = True
                self._bytes = source.copy() if self._checks else None
            elif self._bytes is not None and not _same(source, self._bytes):
                self.refuse("what it uploads is not the same in each frame")
            self._look()
            if self.refused:
                return call(source, *args, **options)
            given = self._first.copy()
            self._given = given if self._checks else None
            return given

        return wrapped

    def _look(self) -> None:
        """Refuses where the script wrote to what it got last."""
        given, self._given = self._given, None
        if given is not None and not _same(self._download(given), self._download(self._first)):
            self.refuse("the script writes to what it uploads")


def _same(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and one.tobytes() == other.tobytes()


class NonBlocking(Imposed):
    """Copies of the line from page-locked memory return before they are done."""

    library = "torch"

    def install(self, module: Any) -> None:
        self._weak = import_module("torch.multiprocessing.reductions").StorageWeakRef
        self._copied: dict[int, Any] = {}
        for name in ("to", "cuda"):
            replace(module.Tensor, name, self._moving)

    def _moving(self, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(tensor: Any, *args: Any, **options: Any) -> Any:
            plain = "non_blocking" not in options and not any(isinstance(each, bool) for each in args)
            if not (self.in_force and plain and tensor.device.type == "cpu" and self._is_here()):
                return call(tensor, *args, **options)
            if not tensor.is_pinned() or self._is_kept(tensor.untyped_storage()):
                return call(tensor, *args, **options)
            return call(tensor, *args, non_blocking=True, **options)

        return wrapped

    def _is_kept(self, memory: Any) -> bool:
        """Refuses memory that was copied before and that the script still holds, also through a view.

        What nobody holds PyTorch gives again once it is copied.
        """
        before = self._copied.get(memory.data_ptr())
        if before is not None and not before.expired():
            self.refuse("the script keeps this page-locked memory, and may write it before it is copied")
        self._copied[memory.data_ptr()] = self._weak(memory)
        return bool(self.refused)


class PinnedLoader(NonBlocking):
    """The DataLoader that is made at the origin gives page-locked batches, and the line copies them so.

    A loader is what it was made: this change is in force for a whole process.
    """

    def install(self, module: Any) -> None:
        super().install(module)
        replace(import_module("torch.utils.data").DataLoader, "__init__", self._making)

    def _making(self, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(loader: Any, *args: Any, **options: Any) -> None:
            if self.in_force and self._is_here(self.change.origin_line):
                options["pin_memory"] = True
            call(loader, *args, **options)

        return wrapped


IMPOSED: dict[ChangeKind, type[Imposed]] = {
    "lock": Locked,
    "reuse": Reused,
    "hoist": Hoisted,
    "non-blocking": NonBlocking,
    "pin-memory": PinnedLoader,
}
WHOLE_PROCESS: tuple[ChangeKind, ...] = ("pin-memory", "allocator")
"""Changes that hold for a whole process: what a loader is, and where all memory comes from."""
