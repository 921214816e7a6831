"""Another allocator for all memory on the GPU of an unchanged script; and the change of each kind."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

from advisor.measure.recording.calls import Call, replace
from advisor.measure.trying.changes import IMPOSED, Imposed, ScriptChange
from advisor.profiles.crossings import Library
from advisor.strategies.allocators import BY_NAME, VARIABLE


class CupyAllocator(Imposed):
    """What the script allocates on the GPU comes from it. Memory goes back where it came from."""

    library = "cupy"
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
            replace(module.cuda, name, self._replacing)
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

    def _replacing(self, call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(*args: Any, **options: Any) -> Any:
            self.refuse("the script sets an allocator itself")
            return call(*args, **options)

        return wrapped


class TorchAllocator(Imposed):
    """A variable of the environment, which PyTorch reads once: in force for a whole process."""

    library = "torch"
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


def imposed(change: ScriptChange, own: Callable[[str], bool], *, checks: bool) -> Imposed:
    kind = IMPOSED.get(change.kind) or _ALLOCATORS[BY_NAME[change.name].library]
    return kind(change, own, checks=checks)


_ALLOCATORS: dict[Library, type[Imposed]] = {"cupy": CupyAllocator, "torch": TorchAllocator}
