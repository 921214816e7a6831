"""Changes of memory, of a line's or of all on the GPU, that are imposed on an unchanged script and lifted.

A change that would not be safe refuses itself, with the reason: the host may write page-locked memory again
before an asynchronous copy has read it, and an array that the script keeps cannot be downloaded into again.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any

import numpy as np

from advisor.measure.recording.calls import Call, replace, wrapping
from advisor.measure.recording.running import own_frame
from advisor.measure.trying.libraries import LIBRARIES, Copy, Memory
from advisor.profiles.crossings import Library
from advisor.profiles.trials import ChangeKind
from advisor.strategies.allocators import BY_NAME, VARIABLE
from advisor.strategies.edits import Change

MOST_ARRAYS = 16
"""Arrays that one line uploads in turn. More are taken for a new one in each frame, which page-locking makes
slower: locking a MiB takes 0.09 ms on an H200, copying it 0.02."""
_NAMED = 3
"""References to what a line got last, if it has one name: that, our own and the argument of the count."""
_page_locked: Counter[int] = Counter()
"""Changes in force that hold the memory at an address page-locked: several lines may upload one array."""


class Imposed:
    """One change on the calls of one library. `refused` is why it cannot be tried, once that is known."""

    def __init__(self, change: Change, own: Callable[[str], bool], *, checks: bool) -> None:
        """own: whether a file is the script's. checks: compares all bytes, in runs that are not timed."""
        self.change, self.refused, self.in_force = change, "", False
        self._own, self._checks = own, checks

    def install(self, module: Any) -> None:
        """Wraps the library's calls, once the script has imported it."""
        self._copies = LIBRARIES[self.change.library](module)

    def switch(self, on: bool) -> None:
        self.in_force = on and not self.refused

    def refuse(self, reason: str) -> None:
        self.refused = reason
        self.switch(False)

    def _replace(self, owner: Any, name: str, body: Call) -> None:
        """`body` gets the call and what it is called with, in its place, while the change is in force."""

        def chosen(call: Call, *args: Any, **options: Any) -> Any:
            return body(call, *args, **options) if self.in_force else call(*args, **options)

        replace(owner, name, wrapping(chosen))

    def _lifted(self, copy: Copy) -> Any:
        """The copy's result: what it calls itself is not the script's."""
        self.in_force = False
        try:
            return copy()
        finally:
            self.in_force = not self.refused

    def _is_here(self, line: int | None = None) -> FrameType | None:
        """The script's frame, if its line that is running is that of the change (or of its origin)."""
        file = self.change.origin_file if line else self.change.file
        frame = own_frame(sys._getframe(2), self._own)
        at = (line or self.change.line, file)
        return frame if frame and (frame.f_lineno, frame.f_code.co_filename) == at else None


class Locked(Imposed):
    """Arrays that the line uploads are page-locked. Each copy of them, in other lines too, is waited for
    before the host goes on."""

    def install(self, module: Any) -> None:
        super().install(module)
        self._memories = dict[int, Memory]()
        self._copies.replace_uploads(self._replace, self._uploading)

    def switch(self, on: bool) -> None:
        before = self.in_force
        super().switch(on)
        for memory in [*getattr(self, "_memories", {}).values()] if self.in_force != before else ():
            if self.in_force:
                self._lock(memory)
                continue
            _page_locked[memory.address] -= 1
            if not _page_locked[memory.address]:
                self._copies.unlock(memory)

    def _uploading(self, copy: Copy, source: Any, _: Any, wait: Copy) -> Any:
        memory = None if source is None else self._copies.memory(source)
        here = source is not None and self._is_here()
        if not (self._is_locked(memory) if here else memory and memory.address in self._memories):
            return copy()
        result = self._lifted(copy)
        wait()
        return result

    def _is_locked(self, memory: Memory | None) -> bool:
        """Locks the memory, unless it is already."""
        if memory is None:
            self.refuse("NumPy does not own the memory of what it uploads")
        elif memory.address not in self._memories:
            if len(self._memories) == MOST_ARRAYS:
                self.refuse("it uploads a new array in each frame")
            else:
                self._memories[memory.address] = memory  # kept, so that locked memory is never freed
                self._lock(memory)
        return not self.refused

    def _lock(self, memory: Memory) -> None:
        try:
            if not _page_locked[memory.address]:
                self._copies.lock(memory)
            _page_locked[memory.address] += 1
        except RuntimeError as error:  # as CuPy's are
            self._memories.pop(memory.address)
            self.refuse(f"its memory cannot be page-locked: {error}")


class _Turns:
    """Page-locked memory that one call of a line downloads into, two arrays in turn."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.shape: tuple[Any, ...] = ()
        self.unused = 0
        """References to kept memory that the script does not hold."""
        self.last: Callable[[], Any] = lambda: None


class Reused(Imposed):
    """The line downloads into page-locked memory that is kept."""

    def install(self, module: Any) -> None:
        super().install(module)
        self._calls = dict[int, _Turns]()
        self._copies.replace_downloads(self._replace, self._downloading)
        self._copies.replace_uploads(self._replace, self._uploading)

    def _downloading(self, copy: Copy, array: Any, copy_into: Callable[[Any], Any]) -> Any:
        """Into kept memory that the script does not hold, in the array's shape.

        What it got last it may hold by one name, that of the line: by two it would see it change.
        """
        if not (here := self._is_here()):
            return copy()
        turns = self._calls.setdefault(here.f_lasti, _Turns())
        kept, last = turns.kept, turns.last()
        shape = self._copies.shape(array)
        if reason := self._copies.unfit(array):
            self.refuse(reason)
        elif kept and shape != turns.shape:
            self.refuse("it downloads arrays of several shapes")
        elif _threads():
            self.refuse("the script runs threads, which may hold what it downloads")
        else:
            kept.reverse()
            twice = last is not None and sys.getrefcount(last) > _NAMED
            held = [self._copies.uses(each) > turns.unused + (at == 0) for at, each in enumerate(kept)]
            if any(held[1:]) if self._copies.takes_turns else twice or any(held):
                self.refuse("the script keeps the arrays that it downloads")
        if self.refused:
            return copy()
        if len(kept) < 2:
            kept.append(self._copies.pinned(array))
            *_, turns.unused = [self._copies.uses(each) for _, each in enumerate(kept)]
        turns.shape = shape
        out = self._copies.view(kept[-1], array)
        turns.last = weakref.ref(out)
        return copy_into(out)

    def _uploading(self, copy: Copy, source: Any, *_: Any) -> Any:
        """From page-locked memory the copy would be asynchronous, and the script may write it again."""
        at = None if source is None else self._copies.address(source)
        kept = [each for turns in self._calls.values() for each in turns.kept]
        if at is not None and any(0 <= at - self._copies.address(each) < each.nbytes for each in kept):
            self.refuse("the script uploads what it downloads")
            self._copies.synchronize()
            result = copy()
            self._copies.synchronize()
            return result
        return copy()


def _threads() -> bool:
    """Whether threads of the script's run; that of a progress bar holds no arrays."""
    own = (threading.main_thread(), threading.current_thread())
    return any(t not in own and not type(t).__module__.startswith("tqdm") for t in threading.enumerate())


class Hoisted(Imposed):
    """The line uploads once; later it gets what was uploaded, and an array that it sets stays as it is.

    Where it checks, it gives copies, and compares every byte of every upload with the first one's, and of
    what it gave: a script that writes there would find it changed in the next frame.
    """

    _given: Any = None

    def install(self, module: Any) -> None:
        super().install(module)
        self._first: Any = None
        self._sent: Any = None
        """What the line uploaded first, by bytes, where they are checked."""
        self._copies.replace_uploads(self._replace, self._uploading, assigns=False)

    def switch(self, on: bool) -> None:
        super().switch(on)
        if not self.in_force:
            self._look()

    def _uploading(self, copy: Copy, source: Any, array: Any, _: Any) -> Any:
        if source is None or not self._is_here():
            return copy()
        if self._first is None:
            result = self._lifted(copy)
            given = result if array is None else array
            self._first = self._copies.clone(given)
            self._target = array
            self._shape = self._copies.shape(source)
            if self._checks:
                self._given = given
                self._sent = self._copies.flat(source).copy()
            return result
        if array is not self._target:
            self.refuse("it uploads into several arrays")
        elif self._checks and not (
            self._copies.shape(source) == self._shape
            and np.array_equal(self._copies.flat(source), self._sent)
        ):
            self.refuse("what it uploads is not the same in each frame")
        self._look()
        if self.refused:
            return copy()
        if array is not None:
            return None
        if self._checks:
            self._given = self._copies.clone(self._first)
        return self._given if self._checks else self._first

    def _look(self) -> None:
        """Refuses where the script wrote to what it got last."""
        given, self._given = self._given, None
        if given is None or self._copies.same(given, self._first):
            self._given = given
        else:
            self.refuse("the script writes to what it uploads")


class NonBlocking(Imposed):
    """Copies of the line from page-locked memory return before they are done."""

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
        """Refuses memory that was copied before and that the script still holds, also through a view.

        What nobody holds PyTorch gives again once it is copied.
        """
        plain = "non_blocking" not in options and not any(isinstance(each, bool) for each in args)
        if not (plain and tensor.device.type == "cpu" and self._is_here() and tensor.is_pinned()):
            return call(tensor, *args, **options)
        self._look()
        memory = tensor.untyped_storage()
        before = self._copied.pop(memory.data_ptr(), None)
        if before is not None and not before[0].expired():
            self.refuse("the script keeps this page-locked memory, and may write it before it is copied")
        now = ctypes.string_at(memory.data_ptr(), memory.nbytes()) if self._checks else b""
        self._copied[memory.data_ptr()] = self._weak(memory), now
        asked = {} if self.refused else {"non_blocking": True}
        return call(tensor, *args, **asked, **options)

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
        pinned = {"pin_memory": True} if self._is_here(self.change.origin) else {}
        call(*args, **(options | pinned))


class CupyAllocator(Imposed):
    """What the script allocates on the GPU comes from it. Memory goes back where it came from."""

    _cuda: Any = None
    _allocator: Any = None

    def install(self, module: Any) -> None:
        self._cuda, self._set = module.cuda, inspect.unwrap(module.cuda.set_allocator)
        self._default = module.cuda.get_allocator()
        try:
            self._allocator = BY_NAME[self.change.name].callable(module)
        except (AttributeError, module.cuda.runtime.CUDARuntimeError) as error:
            self.refuse(f"CuPy cannot make it here: {error}")
        for name in ("set_allocator", "using_allocator"):
            replace(module.cuda, name, wrapping(self._replacing))
        self.switch(self.in_force)

    def switch(self, on: bool) -> None:
        before = self.in_force
        super().switch(on)
        if self._cuda is not None and (before or self.in_force):
            own = self._allocator and self._allocate
            self._set(own if self.in_force else self._default)

    def _allocate(self, size: int) -> Any:
        """What it cannot allocate the script gets as without it: out of memory, not supported."""
        try:
            return self._allocator(size)
        except Exception as error:
            self.refuse(f"it cannot allocate: {error}")
            return self._default(size)

    def _replacing(self, call: Call, *args: Any, **options: Any) -> Any:
        self.refuse("the script sets an allocator itself")
        return call(*args, **options)


class TorchAllocator(Imposed):
    """A variable of the environment, which PyTorch reads once: in force for a whole process."""

    _is_set = False

    def switch(self, on: bool) -> None:
        if on and not self.refused:
            setting = BY_NAME[self.change.name].setting
            if os.environ.get(VARIABLE) != (setting if self._is_set else None):
                self.refuse(f"the script or its environment sets {VARIABLE}")
                return
            os.environ[VARIABLE], self._is_set = setting, True
        super().switch(on)

    def install(self, _: Any) -> None:
        """PyTorch was imported: the script may have set the variable before."""
        self.switch(self.in_force)


_LINES: dict[ChangeKind, type[Imposed]] = {
    "lock": Locked,
    "reuse": Reused,
    "hoist": Hoisted,
    "non-blocking": NonBlocking,
    "pin-memory": PinnedLoader,
}
_ALLOCATORS: dict[Library, type[Imposed]] = {"cupy": CupyAllocator, "torch": TorchAllocator}
WHOLE_PROCESS: tuple[ChangeKind, ...] = ("pin-memory", "allocator")
"""Changes that hold for a whole process: what a loader is, and where all memory comes from."""


def imposed(change: Change, own: Callable[[str], bool], *, checks: bool) -> Imposed:
    kind = _LINES.get(change.kind) or _ALLOCATORS[BY_NAME[change.name].library]
    return kind(change, own, checks=checks)


def is_variable(change: Change) -> bool:
    """Whether it is a setting of the environment, which a library reads when it is imported."""
    allocator = BY_NAME.get(change.name)
    return allocator is not None and allocator.library == "torch"
