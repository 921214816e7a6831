"""Host memory of crossings: the line that allocated it, told by a NumPy memory handler (NEP 49) set through
ctypes, what new memory costs, and whether a line moves the same bytes again."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import PYFUNCTYPE, Structure, c_char, c_char_p, c_size_t, c_uint8, c_void_p
from dataclasses import dataclass, field
from time import perf_counter
from types import CodeType, FrameType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from advisor.measure.recording.loops import Lines, Site
from advisor.profiles.crossings import CrossingKind, OriginKind

LEAST = 4096
"""Bytes of an array whose line is noted; smaller ones cost nothing to move."""
MOST = 1 << 16
"""Allocations that are remembered: of an older one the line is not known."""
_TRIALS = 500
_ONCE_MORE = 0.01
"""Seconds after which an interrupt comes again that came while NumPy called the handler."""
NO_HANDLER = "The lines that allocate host arrays: NumPy {} has no memory handler that can be set here"
_GET, _SET = 305, 304
"""Places of PyDataMem_GetHandler and PyDataMem_SetHandler in NumPy's C API (numpy/_core/code_generators/
numpy_api.py), there since 1.22."""


class Source(NamedTuple):
    """The library that gave memory, and the line that asked for it."""

    kind: OriginKind
    site: Site | None


class _Allocator(Structure):
    _fields_ = tuple((name, c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free"))


class _Handler(Structure):
    _fields_ = (("name", c_char * 127), ("version", c_uint8), ("allocator", _Allocator))


_MALLOC = PYFUNCTYPE(c_void_p, c_void_p, c_size_t)
_CALLOC = PYFUNCTYPE(c_void_p, c_void_p, c_size_t, c_size_t)


class Origins:
    """Notes the line of each larger allocation while `watching`."""

    def __init__(self, lines: Lines) -> None:
        self.small = self.large = 0
        """Calls of the handler, for less than `LEAST` and for more."""
        self.absent = ""
        self._lines = lines
        self._allocations: dict[int, tuple[Site | None, int]] = {}
        self._kept: list[Any] = []
        self._callbacks: tuple[CodeType, ...] = ()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """In this thread: NumPy keeps its handler in a context variable."""
        try:
            set_handler, before = self._handlers()
        except (AttributeError, ImportError, OSError, ValueError):
            self.absent = NO_HANDLER.format(np.__version__)
            yield
            return
        set_handler(self._made(before))
        default, interrupt = signal.default_int_handler, signal.getsignal(signal.SIGINT)
        signal.default_int_handler = self.interrupt  # type: ignore[assignment]  # asyncio.run compares with it
        if interrupt is default:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            set_handler(before)
            signal.default_int_handler = default
            signal.signal(signal.SIGINT, interrupt)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C: what is raised while NumPy calls the handler would be lost, so it waits for its end."""
        around = frame
        while around is not None and around.f_code not in self._callbacks:
            around = around.f_back
        if around is None:
            raise KeyboardInterrupt
        again = threading.Timer(_ONCE_MORE, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    def _handlers(self) -> tuple[Any, Any]:
        """The function that sets a handler, and the present one."""
        core: Any = sys.modules.get("numpy._core._multiarray_umath")
        core = core or sys.modules["numpy.core._multiarray_umath"]
        table = ctypes.cast(_pointer(core._ARRAY_API, None), ctypes.POINTER(c_void_p))
        handler = ctypes.py_object
        return PYFUNCTYPE(handler, handler)(table[_SET]), PYFUNCTYPE(handler)(table[_GET])()

    def _made(self, before: Any) -> Any:
        """A handler that asks the one before for memory, and leaves freeing to it."""
        old = _Handler.from_address(_pointer(before, b"mem_handler")).allocator
        malloc, calloc = _MALLOC(old.malloc), _CALLOC(old.calloc)

        def allocate(context: int, size: int) -> Any:
            if size < LEAST:
                self.small += 1
                return malloc(context, size)
            return self._note(malloc(context, size))

        def clear(context: int, count: int, size: int) -> Any:
            if count * size < LEAST:
                self.small += 1
                return calloc(context, count, size)
            return self._note(calloc(context, count, size))

        self._callbacks = allocate.__code__, clear.__code__
        calls = _MALLOC(allocate), _CALLOC(clear)
        functions = (*(ctypes.cast(call, c_void_p) for call in calls), old.realloc, old.free)
        handler = _Handler(b"advisor", 1, _Allocator(old.ctx, *functions))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
        self._kept += [handler, calls, name := b"mem_handler", before]
        return new(ctypes.byref(handler), name, None)

    def cost(self) -> float:
        """Seconds that all calls of the handler took, at what one takes here."""

        def allocating(size: int) -> float:
            begin = perf_counter()
            for _ in range(_TRIALS):
                np.empty(size, np.uint8)
            return (perf_counter() - begin) / _TRIALS

        counts, seconds = (self.small, self.large), 0.0
        for count, size in zip(counts, (LEAST // 2, LEAST), strict=True):
            plain = allocating(size)
            with self.watching():
                seconds += count * max(allocating(size) - plain, 0.0)
        self.small, self.large = counts
        return seconds

    def _note(self, address: int) -> int:
        self.large += 1
        self._allocations.pop(address, None)
        self._allocations[address] = self._lines.site(sys._getframe(2)), self.large
        if len(self._allocations) > MOST:
            del self._allocations[next(iter(self._allocations))]
        return address

    def of(self, host: Any) -> tuple[Source, int]:
        """Where the memory of an array or tensor comes from, and its allocation's number: 0 if unseen."""
        if is_tensor(host):
            return Source("torch", None), 0
        *_, base = owners(host)
        if isinstance(base, np.ndarray):
            site, number = self._allocations.get(address(base), (None, 0))
            return Source("numpy", site if base.nbytes >= LEAST else None), number
        if isinstance(base, mmap.mmap):
            return Source("mmap", None), 0
        if isinstance(base, (bytes, bytearray)):
            return Source("bytes", None), 0
        return Source("torch" if type(base).__module__.startswith("torch") else "foreign", None), 0


def _pointer(capsule: Any, name: bytes | None) -> int:
    """Raises ValueError where it is no such capsule."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    return int(get(capsule, name))


def owners(array: Any) -> Iterator[Any]:
    """An array, and whose memory it is, up to the object that owns it."""
    while array is not None:
        yield array
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)


def owning_array(array: Any) -> Any:
    """NumPy's array that owns an array's memory, or the first that has it."""
    *_, last = (each for each in owners(array) if isinstance(each, np.ndarray))
    return last


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


WHOLE, FIRST_WHOLE, FIRST = 64 << 10, 64 << 20, 3
"""Bytes up to which an array is looked at whole: any, and the first crossings of a line."""
BLOCKS, BLOCK = 64, 512
"""Blocks of a larger one, and their bytes; their places are drawn once for each size."""
MOST_DOWNLOADS = 4096


@dataclass(slots=True, eq=False)
class LineContents:
    """Comparisons of the bytes of a line."""

    site: Site
    checked: int = 0
    compared: int = 0
    same: int = 0
    returned: int = 0
    returned_from: Site | None = None
    latest: int = 0
    """Returned arrays that are what the line had downloaded last."""
    complete: bool = True
    false_share: float = 0.0
    last: tuple[int, int, bool] | None = None
    """Fingerprint of the crossing before, its number, and whether it is of all bytes."""


@dataclass
class Contents:
    """Fingerprints of all lines. whole: of all bytes, however large, where time does not matter."""

    whole: bool = False
    _places: dict[int, Any] = field(default_factory=dict)
    _downloads: dict[int, LineContents] = field(default_factory=dict)
    _random: Any = field(default_factory=lambda: np.random.default_rng(0))

    def look(self, line: LineContents, kind: CrossingKind, host: Any, number: int) -> None:
        """Compares with the line's crossing before, if that was looked at too."""
        data = host_bytes(host)
        if data is None or not data.size:
            return
        whole = self.whole or data.size <= (FIRST_WHOLE if number <= FIRST else WHOLE)
        part = data if whole else self._sample(data)
        mark = crc32(np.ascontiguousarray(part).data, data.size & 0xFFFFFFFF)
        line.checked += 1
        if line.last is not None and line.last[1:] == (number - 1, whole):
            line.compared += 1
            line.same += mark == line.last[0]
        if not whole:
            line.complete = False
            line.false_share = max(line.false_share, 1 - BLOCKS * BLOCK / data.size)
        line.last = mark, number, whole
        if kind == "download":
            if len(self._downloads) < MOST_DOWNLOADS:
                self._downloads[mark] = line
        elif (origin := self._downloads.get(mark)) is not None:
            line.returned += 1
            line.returned_from = origin.site
            line.latest += origin.last is not None and origin.last[0] == mark

    def _sample(self, data: Any) -> Any:
        blocks = data.size // BLOCK
        if (places := self._places.get(blocks)) is None:
            places = self._places[blocks] = np.sort(self._random.choice(blocks, BLOCKS, replace=False))
        return data[: blocks * BLOCK].reshape(blocks, BLOCK)[places]


def is_tensor(value: Any) -> bool:
    """Whether it is PyTorch's, which is not imported for that."""
    return hasattr(type(value), "untyped_storage")


def host_bytes(host: Any) -> Any:
    """The bytes of a contiguous array or tensor of the host, without a copy; None of others.

    `Tensor.numpy` would make a tensor's storage one that cannot be resized any more.
    """
    with suppress(Exception):  # a dtype without plain bytes, a tensor that nobody thought of
        if is_tensor(host):
            plain = host.is_contiguous() and host.device.type == "cpu" and not host.is_conj()
            size = host.numel() * host.itemsize if plain else 0
            place = host.data_ptr() if size else 0  # also 0 for a tensor made of others
            return np.ctypeslib.as_array((c_uint8 * size).from_address(place)) if place else None
        if isinstance(host, np.ndarray) and host.flags.forc:
            return np.asarray(host).reshape(-1, order="A").view(np.uint8)
    return None
