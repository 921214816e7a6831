"""What the recorders of libraries share: replacing a callable, and noting what crosses around a call."""

from __future__ import annotations

import ctypes
import functools
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import perf_counter
from typing import Any

import numpy as np

from advisor.measure.recording.events import Event, Recorder
from advisor.profiles.crossings import CrossingKind, Library

Call = Callable[..., Any]


class Gpu:
    """The library's current stream; on a machine without a GPU nothing is asked of it."""

    def synchronize(self, stream: Any = None) -> None:
        """Returns when the stream (None: the current one) is done."""

    def mark(self, stream: Any = None) -> Any:
        """A CUDA event, recorded on the stream."""

    def seconds_between(self, begin: Any, end: Any) -> float:
        raise NotImplementedError


class Calls:
    """Notes the calls of one library that cross, with their times where there is a GPU."""

    def __init__(self, library: Library, recorder: Recorder, gpu: Gpu) -> None:
        self.library: Library = library
        self.recorder = recorder
        self._gpu = gpu
        self._scopes = threading.local()

    def event(self, kind: CrossingKind, call: str, **details: Any) -> Event:
        return Event(kind, call, self.library, **details)

    def run(self, event: Event, call: Call, *, blocks: bool = False, stream: Any = None) -> Any:
        """The result of a call that crosses; the event gets the call's times.

        One that blocks the host anyway first waits for earlier kernels, so that the two are told apart.
        """
        recorder = self.recorder
        if not recorder.has_gpu:
            with recorder.inside():
                return call()
        timed = event.kind in ("upload", "download") and recorder.is_timed(event.call)
        with recorder.inside():
            begin = perf_counter()
            if blocks:
                self._gpu.synchronize(stream)
            ready = perf_counter()
            first = self._gpu.mark(stream) if timed else None
            result = call()
            event.marks = (first, self._gpu.mark(stream)) if timed else None
            event.host_seconds = perf_counter() - ready
            event.kernel_seconds = ready - begin if blocks else None
        return result

    def synchronize(self, name: str, call: Call) -> Any:
        """The result of a call that does nothing but wait for the GPU."""
        event = self.event("wait", name)
        with self.recorder.inside():
            begin = perf_counter()
            result = call()
            if self.recorder.has_gpu:
                event.host_seconds, event.kernel_seconds = 0.0, perf_counter() - begin
        self.crossed(event)
        return result

    def crossed(self, event: Event) -> None:
        """Notes a crossing: under the name of the call that made it, several waits of one call as one."""
        scope = getattr(self._scopes, "current", None)
        if scope is not None:
            event.call = scope.call
            if event.kind == "wait":
                scope.add(event)
                return
        self.recorder.crossed(event)

    def waited(self) -> None:
        """Notes that the call of the current scope waits."""
        scope = getattr(self._scopes, "current", None)
        if scope is not None:
            scope.add(self.event("wait", scope.call))

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """Gives what crosses within the name of the function that the script called."""
        if getattr(self._scopes, "current", None) is not None:
            yield
            return
        scope = self._scopes.current = Scope(name)
        try:
            yield
        finally:
            self._scopes.current = None
        if scope.wait is not None:
            self.recorder.crossed(scope.wait)

    def named(self, name: str, call: Call) -> Call:
        """The call, with what crosses in it noted under `name`."""

        @functools.wraps(call, updated=())
        def wrapped(*args: Any, **options: Any) -> Any:
            with self.naming(name) if self.recorder.outer() else nullcontext():
                return call(*args, **options)

        return wrapped

    def waiting(self, name: str, call: Call) -> Call:
        """The call, which does nothing but wait for the GPU."""

        @functools.wraps(call, updated=())
        def wrapped(*args: Any, **options: Any) -> Any:
            if not self.recorder.outer():
                return call(*args, **options)
            return self.synchronize(name, lambda: call(*args, **options))

        return wrapped

    def locking(self, name: str, call: Call, size: Callable[..., int]) -> Call:
        """The call, which page-locks memory; `size` takes the result and the arguments."""

        @functools.wraps(call, updated=())
        def wrapped(*args: Any, **options: Any) -> Any:
            if not self.recorder.outer():
                return call(*args, **options)
            event = self.event("lock", name, memory="pinned")
            result = self.run(event, lambda: call(*args, **options))
            event.bytes = size(result, *args, **options)
            self.crossed(event)
            return result

        return wrapped


class Scope:
    """A function of the library's whose hidden waits count as one."""

    def __init__(self, call: str) -> None:
        self.call = call
        self.wait: Event | None = None

    def add(self, event: Event) -> None:
        if self.wait is None:
            event.bytes = 0
            self.wait = event
            return
        for name in ("host_seconds", "kernel_seconds"):
            later = getattr(event, name)
            if later is not None:
                setattr(self.wait, name, (getattr(self.wait, name) or 0.0) + later)


def replace(owner: Any, name: str, wrap: Callable[[Call], Call]) -> None:
    """Puts `wrap` around the callable of that name, in a compiled class too; nothing where there is none."""
    call = getattr(owner, name, None)
    if call is None:
        return
    try:
        setattr(owner, name, wrap(call))
    except TypeError:  # the type is immutable: its namespace is not
        gc.get_referents(owner.__dict__)[0][name] = wrap(call)
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def owners(array: Any) -> Iterator[Any]:
    """An array, and whose memory it is, up to the object that owns it."""
    while array is not None:
        yield array
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
