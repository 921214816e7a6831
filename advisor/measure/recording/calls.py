"""Common parts of the libraries' recorders: replacing a callable, and noting what crosses around a call."""

from __future__ import annotations

import ctypes
import functools
import gc
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from time import perf_counter
from types import FrameType
from typing import Any

import numpy as np

from advisor.measure.recording.copy_costs import PENDING
from advisor.measure.recording.host_memory import address
from advisor.measure.recording.loops import LAUNCH_SAMPLE, Lines, Loop, Loops, Site
from advisor.measure.recording.recorder import NEW, ScriptRecorder
from advisor.measure.recording.records import Event, InLoop, Record
from advisor.profiles.crossings import CrossingKind, Library

Call = Callable[..., Any]
Wrap = Callable[[Call], Call]
Direct = tuple[tuple[int, int], Call]
"""Address and size of a copy's host memory, and what makes the copy."""
_NO_COPY: tuple[Any, int] = None, 0
MODULES: Mapping[str, Library] = {"cupy": "cupy", "torch": "torch", "numba.cuda": "numba"}
"""By the module whose import makes a library's calls known."""
DEPTH = 3
"""Frames between the body of a wrapped callable and that of the caller."""
_TURNS = 2000
"""Calls whose cost is measured."""
_SEQUENCE, _ITEM = 10, 3
"""Places of tp_as_sequence after the head of CPython's PyTypeObject, and of sq_item in PySequenceMethods."""


def numba_classes(module: Any) -> tuple[Any, Any]:
    """Arrays on the GPU and configured kernels of `numba.cuda`; its simulator has neither."""
    arrays = import_module(f"{module.__name__}.cudadrv.devicearray")
    return arrays.DeviceNDArray, import_module(f"{module.__name__}.dispatcher")._LaunchConfiguration


def direct(host: Any, copy: Call) -> Direct | None:
    """A copy from or to a NumPy array without gaps; None for anything else."""
    if not isinstance(host, np.ndarray) or not host.flags.forc:
        return None
    return (address(host), host.nbytes), copy


@dataclass
class Gpu:
    """A library's streams, by functions of the library's: its current stream, what waits for one, the number
    of the current GPU, what makes an event, the milliseconds between two, and whether a stream is being
    captured into a CUDA graph."""

    stream: Call = lambda: None
    wait: Call = lambda _: None
    gpu: Call = lambda: 0
    event: Call = lambda: None
    elapsed: Call = lambda begin, end: begin.elapsed_time(end)
    is_capturing: Call = lambda _: False
    _spare: defaultdict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))

    def synchronize(self, stream: Any = None) -> None:
        """Returns when the stream (None: the current one) is done."""
        self.wait(stream or self.stream())

    def captures(self, stream: Any = None) -> bool:
        """Whether calls on the stream go into a CUDA graph: waiting would end the capture with an error, and
        events recorded in it have no times. CUDA refuses to say so of its default stream during a capture."""
        with suppress(Exception):
            return bool(self.is_capturing(stream or self.stream()))
        return True

    def mark(self, stream: Any = None) -> tuple[int, Any]:
        """A CUDA event, recorded on the stream, and its GPU. Making one takes up to 75 µs: it is reused."""
        gpu = int(self.gpu())
        try:
            event = self._spare[gpu].pop()
        except IndexError:
            event = self.event()
        event.record(stream or self.stream())
        return gpu, event

    def seconds_between(self, begin: tuple[int, Any], end: tuple[int, Any]) -> float:
        """Seconds between two completed marks. Read once: their events are reused."""
        seconds = float(self.elapsed(begin[1], end[1])) * 1e-3
        self._spare[begin[0]] += (begin[1], end[1])
        return seconds


class Calls:
    """Notes the calls of one library that cross, with their times."""

    def __init__(
        self, library: Library, recorder: ScriptRecorder, gpu: Gpu, direct: Call = lambda *_: None
    ) -> None:
        """direct: the host memory of a call that copies, and what makes the copy from or to that memory; None
        where there is more to it. Takes the name of the call, the call and its arguments."""
        self.library: Library = library
        self._direct = direct
        self.recorder = recorder
        self._gpu, self._depth = gpu, recorder.depth
        self._scope = _Scope()

    def event(self, kind: CrossingKind, call: str, **details: Any) -> Event:
        return Event(kind, call, self.library, **details)

    def around(self, body: Call) -> Wrap:
        """Replaces a callable by `body`, which is given it as well, in calls of the script's own."""
        recorder, depth = self.recorder, self._depth

        def wrap(call: Call) -> Call:
            @functools.wraps(call, updated=())
            def wrapped(*args: Any, **options: Any) -> Any:
                if depth.value or not recorder.recording:
                    return call(*args, **options)
                return _taken(body, (call,), args, options)

            return wrapped

        return wrap

    def copying(self, measure: Call, body: Call) -> Wrap:
        """Replaces what may copy by `body`, unless the copy only has to be counted.

        measure: by the arguments the kind and the bytes, of which fewer than 0 never are a repetition; None
        where nothing crosses. body: is given the kind, the callable and its arguments.
        """
        recorder, depth = self.recorder, self._depth

        def wrap(call: Call) -> Call:
            @functools.wraps(call, updated=())
            def wrapped(*args: Any, **options: Any) -> Any:
                if depth.value or not recorder.recording:
                    return call(*args, **options)
                try:
                    kind, size = measure(*args, **options) or _NO_COPY
                except TypeError:  # the library refuses the arguments, too, in its own words
                    kind, size = _NO_COPY
                if kind is None:
                    return call(*args, **options)
                if size >= 0:
                    result = recorder.repeated(kind, size, call, args, options)
                    if result is not NEW:
                        return result
                return _taken(body, (kind, call), args, options)

            return wrapped

        return wrap

    def launching(self, places: Call = lambda _: (), is_work: Call | None = None) -> Wrap:
        """Around what gives the GPU work, as cheaply as can be.

        places: what its arguments read. is_work: whether a call that reads nothing was work, by its result.
        """
        recorder, depth, turn = self.recorder, self._depth, itertools.count().__next__

        def wrap(call: Call) -> Call:
            @functools.wraps(call, updated=())
            def wrapped(*args: Any, **options: Any) -> Any:
                is_noted = recorder.listens or not turn() % LAUNCH_SAMPLE
                if not is_noted or depth.value or not recorder.recording:
                    return call(*args, **options)
                if (reads := places((*args, *options.values()))) or is_work is None:
                    recorder.launched(reads)
                    return call(*args, **options)
                if is_work(result := call(*args, **options)):
                    recorder.launched()
                return result

            return wrapped

        return wrap

    def run(self, event: Event, call: Call, args: Any, options: Any, blocks: bool, stream: Any = None) -> Any:
        """The result of a call that crosses; the event gets the call's times.

        Of those that block the host anyway, a sample first waits for earlier kernels: so that the two can be
        distinguished.
        """
        recorder, depth = self.recorder, self._depth
        is_sampled = recorder.is_sampled(event) and recorder.has_gpu
        is_measured = is_sampled and (blocks or event.kind in ("upload", "download"))
        is_special = is_measured or event.is_subtracted or event.is_compared
        if is_special and self._gpu.captures(stream):
            recorder.copy_costs.spoil()
            event.created = None
            event.is_subtracted = event.is_compared = is_measured = False
        if is_measured:
            return self._run_measured(event, call, args, options, blocks, stream)
        depth.value = 1  # it was 0, or nothing would have been replaced
        try:
            if event.is_subtracted:
                return self._run_directly(event, call, args, options, blocks, stream)
            if event.created is None:
                return call(*args, **options)
            begin = perf_counter()
            result = call(*args, **options)
            event.host_seconds = perf_counter() - begin
        finally:
            depth.value = 0
        event.kernel_seconds = None if blocks else 0.0
        return result

    def _run_measured(
        self, event: Event, call: Call, args: Any, options: Any, blocks: bool, stream: Any
    ) -> Any:
        copies = event.kind in ("upload", "download")
        with self._depth:
            begin = perf_counter()
            if blocks:
                self._gpu.synchronize(stream)
            event.kernel_seconds = perf_counter() - begin if blocks else 0.0
            first = self._gpu.mark(stream) if copies else None
            called = perf_counter()
            result = call(*args, **options)
            event.host_seconds = perf_counter() - called
            event.marks = (first, self._gpu.mark(stream)) if copies else None
        return result

    def _run_directly(
        self, event: Event, call: Call, args: Any, options: Any, blocks: bool, stream: Any
    ) -> Any:
        """Result of a copy that is subtracted from its frame; what it waits for stays there."""
        costs, wait = self.recorder.copy_costs, functools.partial(self._gpu.synchronize, stream)
        called = perf_counter()
        wait()
        begin = perf_counter()
        if blocks:
            event.kernel_seconds = begin - called
        elif begin - called > PENDING:
            costs.spoil()
        direct = None
        with suppress(Exception):  # the script goes on with arrays that nobody thought of
            direct = self._direct(event.call, call, args, options)
        if direct is None:
            event.is_subtracted, event.created = False, None
            return call(*args, **options)
        host, copy = direct
        return costs.copy_locked(event.site, host, copy, wait)

    def crossed(self, event: Event) -> None:
        """Notes a crossing: under the name of the call that made it, several waits of one call as one."""
        scope = self._scope
        event.call = scope.call or event.call
        if scope.call and event.kind == "wait":
            scope.add(event)
        else:
            self.recorder.crossed(event)

    def waited(self) -> None:
        """Notes that the function whose name is given to crossings waits."""
        if self._scope.call:
            self.crossed(self.event("wait", ""))

    def named(self, name: str) -> Wrap:
        """Around functions in which something crosses, or may wait: it gets their name."""
        return self.around(functools.partial(self.call_named, name))

    def call_named(self, name: str, call: Call, *args: Any, **options: Any) -> Any:
        scope = self._scope
        if scope.call:
            return call(*args, **options)
        scope.call, scope.wait = name, None
        try:
            result = call(*args, **options)
        finally:
            scope.call = ""
        if scope.wait is not None:
            scope.wait.created = None
            self.recorder.crossed(scope.wait)
        return result

    def synchronizing(self, name: str) -> Wrap:
        """Around what does nothing but wait for the GPU."""

        def body(call: Call, *args: Any, **options: Any) -> Any:
            event = self.event("wait", name)
            result = self.run(event, call, args, options, blocks=False)
            if event.host_seconds is not None:
                event.kernel_seconds, event.host_seconds = event.host_seconds, 0.0
            self.crossed(event)
            return result

        return self.around(body)

    def waiting(self, name: str, size: Call = lambda *_, **__: 0) -> Wrap:
        """Around what waits for earlier kernels and has a result for the host, of `size` bytes of the
        arguments."""
        return self.sized("wait", name, lambda _, *args, **options: size(*args, **options), blocks=True)

    def locking(self, name: str, size: Call) -> Wrap:
        """Around what page-locks memory; `size` takes the result and the arguments."""
        return self.sized("lock", name, size, memory="pinned")

    def sized(self, kind: CrossingKind, name: str, size: Call, blocks: bool = False, **details: Any) -> Wrap:
        """Around what crosses with `size` bytes of the result and the arguments."""

        def body(call: Call, *args: Any, **options: Any) -> Any:
            event = self.event(kind, name, **details)
            result = self.run(event, call, args, options, blocks)
            event.bytes = int(size(result, *args, **options))
            self.crossed(event)
            return result

        return self.around(body)


def _taken(body: Call, first: tuple[Any, ...], args: Any, options: Any) -> Any:
    """The result of `body`; where it does not take the arguments, that of the library's callable."""
    try:
        return body(*first, *args, **options)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise
    return first[-1](*args, **options)


class _Scope(threading.local):
    """The function of the library's that a thread is in, whose hidden waits count as one."""

    call = ""
    wait: Event | None = None

    def add(self, event: Event) -> None:
        event.bytes = 0
        first, self.wait = self.wait, event
        for name in ("host_seconds", "kernel_seconds") if first is not None else ():
            seconds = getattr(first, name), getattr(event, name)
            setattr(event, name, None if None in seconds else sum(seconds))


def wrapper_costs(loops: Loops) -> tuple[float, float, float]:
    """Seconds that a wrapped call takes longer: one that crosses and a launch, without what is noted of them,
    and one of a line's repeated crossings."""
    loop = Loop("", 1, 1, 1, [], perf_counter)
    site = Site("", 1, (loop,), (), at_head=False, size=1, kind="upload", repeats_until=1 << 62)
    site.only = Record(site, Event("upload", "", "cupy"), (InLoop(loop),))

    class OneLine(Lines):
        def site(self, frame: FrameType | None) -> Site:
            super().site(frame)
            loop.turns += 1
            return site

    nothing: Any = None
    recorder = ScriptRecorder(loops, OneLine(loops), nothing, nothing, perf_counter, has_gpu=True)
    calls, array = Calls("cupy", recorder, Gpu()), np.zeros(1, np.uint8)
    wraps: tuple[Wrap, ...] = (
        calls.around(lambda call, array: call(array)),
        calls.launching(),
        calls.copying(lambda array: ("upload", array.nbytes), lambda *_: None),
    )
    costs: list[float] = []
    for call in (len, *(wrap(len) for wrap in wraps)):
        recorder.recording = len(costs) == len(wraps)
        begin = perf_counter()
        for _ in range(_TURNS):
            call(array)
        costs.append((perf_counter() - begin) / _TURNS)
    crossing, launch, repeated = (max(cost - costs[0], 0.0) for cost in costs[1:])
    return crossing, launch, repeated


def wrapping(body: Call) -> Wrap:
    """Replaces a callable by `body`, which is given it as well."""

    def wrap(call: Call) -> Call:
        @functools.wraps(call, updated=())
        def wrapped(*args: Any, **options: Any) -> Any:
            return _taken(body, (call,), args, options)

        return wrapped

    return wrap


def replace(owner: Any, name: str, wrap: Wrap) -> None:
    """Puts `wrap` around the callable of that name, in a compiled class too; nothing where there is none."""
    call = getattr(owner, name, None)
    if call is None:
        return
    try:
        setattr(owner, name, wrap(call))
    except TypeError:  # the type is immutable: its namespace is not
        gc.get_referents(owner.__dict__)[0][name] = wrap(call)
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def hide_items(kind: Any) -> None:
    """Has C take a class and its subclasses for no sequences again, which a replaced `__getitem__` made them:
    torch.tensor([loss]) would ask a tensor without dimensions for its length."""
    word = ctypes.sizeof(ctypes.c_void_p)
    methods = ctypes.c_void_p.from_address(id(kind) + tuple.__basicsize__ + _SEQUENCE * word).value
    if methods:
        ctypes.c_void_p.from_address(methods + _ITEM * word).value = None
    for each in kind.__subclasses__():
        hide_items(each)


def is_on_gpu(array: Any) -> bool:
    """By its type, which libraries share: nothing is asked of the array itself."""
    kind = type(array)
    if hasattr(kind, "is_cuda"):
        return bool(array.is_cuda)
    return hasattr(kind, "copy_to_host") or hasattr(kind, "__cuda_array_interface__")
