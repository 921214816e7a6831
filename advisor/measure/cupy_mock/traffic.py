"""How many bytes each stage reads and writes of each buffer, seen while it runs in NumPy on the CPU.

`trace_buffer` gives a traced view of a buffer (see traced.py); what NumPy does with it inside
`with recorder.stage(name)` is counted. Bytes count every pass over the data. Memory is distinguished by
address, so views and views of views belong to their buffer, and everything else is the stage's own.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from advisor.measure import routines
from advisor.measure.namespaces import users_frame
from advisor.measure.routines import torch_seconds
from advisor.measure.verification import RegionViolation
from advisor.profiles.schema import Trace
from advisor.profiles.traces import Again, StageWork, Traffic
from advisor.strategies.backend import Array
from advisor.strategies.parts import Region
from advisor.strategies.schedule import StageUse
from advisor.workloads.torch_operations import GATHERS, Operation, torch_operations

_ROUTINES = {**dict.fromkeys(("mm", "addmm", "bmm", "baddbmm"), "matmul"), "clone": "copy", "copy_": "copy"}
"""The routine of routines.toml that reads as this operator of PyTorch does; products are cuBLAS's."""
_TORCH_ROUTINES = ("convolution", "native_batch_norm", "_native_batch_norm_legit", "native_layer_norm")


def extent(array: Array) -> tuple[int, int]:
    """First address and one past the last of the memory an array spans."""
    low: int = array.__array_interface__["data"][0]
    high = low
    for length, stride in zip(array.shape, array.strides, strict=True):
        if length == 0:
            return low, low
        low += min(0, (length - 1) * stride)
        high += max(0, (length - 1) * stride)
    return low, high + int(array.itemsize)


class Watched:
    """The region of a buffer that a stage may touch, as a mask over the buffer's memory."""

    def __init__(self, region: Region, buffer: Array) -> None:
        self.region = region
        self._start = int(buffer.ctypes.data)
        self._itemsize = buffer.itemsize
        self._inside = np.zeros(region.shape, bool)
        self._inside[region.index] = True

    def holds(self, array: Array, key: Any = None) -> bool:
        """Whether what the key selects of that view of the buffer, or all of it, lies in the region. Views of
        other memory (a buffer may be in two) and of another element size are not judged."""
        low, high = extent(array)
        here = self._start <= low and high <= self._start + self._inside.size * self._itemsize
        if not here or array.itemsize != self._itemsize or not array.size:
            return True
        first = (int(array.ctypes.data) - self._start) // self._itemsize
        strides = tuple(stride // self._itemsize for stride in array.strides)
        inside = np.lib.stride_tricks.as_strided(self._inside.reshape(-1)[first:], array.shape, strides)
        return bool(np.all(inside if key is None else inside[key]))


Regions = Mapping[tuple[str, str], Region]
"""By stage and buffer."""


def unique_bytes(array: Array) -> int:
    """Bytes an operand has in memory: repetition by broadcasting (stride 0) is not counted."""
    lengths = (n for n, s in zip(array.shape, array.strides, strict=True) if s != 0 or n == 0)
    count: int = math.prod(lengths)
    return count * int(array.itemsize)


MERGED_RUN = 4096
"""Elements that a block of CuPy's merge sort orders: 16 Mi floats take 0.54 ms on an H200, about as long as
reading and writing them 12 times (measured by us)."""


@dataclass
class _Tally:
    runs: int = 0
    read: dict[str, float] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)
    again: dict[tuple[str, str, str | None], routines.Reread] = field(default_factory=dict)
    """By buffer, call and where it stands."""
    temporary: float = 0.0
    merged: float = 0.0
    calls: int = 0
    issuing: float = 0.0
    flops: float = 0.0
    uncounted: dict[str, None] = field(default_factory=dict)


class TrafficRecorder:
    def __init__(self, regions: Regions | None = None) -> None:
        """`regions`: the parts of buffers that stages may touch; of touches elsewhere the first is kept."""
        self.strays: dict[tuple[str, str], RegionViolation] = {}
        self._regions = dict(regions or {})
        self._watched: dict[tuple[str, str], list[Watched]] = {}
        self._stage = ""
        self._memory: dict[tuple[int, int], tuple[str, Array]] = {}
        self._tallies: dict[str, _Tally] = {}
        self._current = _Tally()
        self.counting = False
        """Whether a stage is running."""

    def own(self, name: str, array: Array) -> None:
        # The array is kept, so that its addresses cannot be given to another one.
        self._memory[extent(array)] = (name, array)
        for key, region in self._regions.items():
            if key[1] == name:
                self._watched.setdefault(key, []).append(Watched(region, array))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Charges everything inside to this stage; outside of any stage nothing is counted."""
        before = self._stage, self._current, self.counting
        self._stage, self.counting = name, True
        self._current = self._tallies.setdefault(name, _Tally())
        self._current.runs += 1
        try:
            with torch_operations(self.operated):
                yield
        finally:
            self._stage, self._current, self.counting = before

    def read(self, array: Array, count: float, key: Any = None) -> None:
        """Counts `count` bytes read from the memory of `array`, or from where the key selects."""
        self._count(array, count, written=False)
        own = unique_bytes(array)
        if key is None and own and count >= own:
            self.again(array, "strided read", routines.strided_beyond(array) * count / own)
        self._judge(array, count, key, "reads")

    def wrote(self, array: Array, count: float, key: Any = None) -> None:
        """Counts `count` bytes written to the memory of `array`, or to where the key selects."""
        self._count(array, count, written=True)
        self._judge(array, count, key, "writes")

    def _judge(self, array: Array, count: float, key: Any, what: Literal["reads", "writes"]) -> None:
        """Notes elements outside the stage's region; a call that touches part of an array is judged only
        by its key."""
        owner = self._owner(array) if self._watched else None
        place = (self._stage, owner or "")
        if place in self.strays or (key is None and count < unique_bytes(array)):
            return
        for watched in self._watched.get(place, ()):
            if not watched.holds(array, key):
                self.strays[place] = RegionViolation(*place, what, watched.region, _caller())

    def again(
        self, array: Array, call: str, count: float, shared_bytes: float = 0.0, readers: float = 1.0
    ) -> None:
        """Counts what a routine reads again where no cache serves it, and on each multiprocessor."""
        some = count or (shared_bytes and readers > 1)
        owner = self._owner(array) if some else None
        if owner is not None:
            key = owner, call, _caller()
            before = self._current.again.get(key, routines.Reread())
            self._current.again[key] = routines.Reread(
                before.bytes + count, before.shared_bytes + shared_bytes, max(before.readers, readers)
            )

    def called(self, seconds: float, *, launches: bool = True) -> None:
        """Counts a NumPy call by the host's time that it takes, and a kernel unless it only makes a view."""
        self._current.calls += launches
        self._current.issuing += seconds

    def computed(self, flops: float, uncounted: str = "") -> None:
        self._current.flops += flops
        if uncounted:
            self._current.uncounted[uncounted] = None

    def merged(self, arrays: Iterable[Array]) -> None:
        """Counts what a GPU moves to sort them: runs of a block, merged by twos."""
        passes = ((a.nbytes, math.log2(max(a.size / MERGED_RUN, 1))) for a in arrays)
        self._current.merged += sum(2 * size * times for size, times in passes)

    def operated(self, operation: Operation) -> None:
        """Counts an operator of PyTorch: its products are cuBLAS's, as CuPy's are."""
        self.called(torch_seconds(operation.name))
        name = operation.name.strip("_").removesuffix("_ex")
        factorizes = name.startswith("linalg_") and not name.endswith(("norm", "check_errors"))
        self.computed(operation.flops, name if factorizes else "")
        gathers = operation.name in GATHERS and operation.read and operation.written
        for position, array in enumerate(operation.read):
            gathered = gathers and position == 0
            self.read(array, operation.written[0].nbytes if gathered else unique_bytes(array))
            if gathered and operation.key is not None:
                self.again(array, routines.TAKE, routines.gathered_beyond(array, operation.key))
            call, uses = _ROUTINES.get(operation.name, operation.name), 0.0
            if call == "matmul":
                uses = operation.flops / 2
            elif position:
                continue
            elif call == "convolution":
                uses = float(array.size * array.shape[1])
            if call in ("matmul", "copy", *_TORCH_ROUTINES):
                largest = max(each.size for each in operation.read)
                self.again(array, call, *routines.beyond(call, array, 1, uses, largest))
        for array in operation.written:
            self.wrote(array, unique_bytes(array))

    def _count(self, array: Array, count: float, *, written: bool) -> None:
        owner = self._owner(array)
        if owner is None:
            self._current.temporary += count
            return
        table = self._current.written if written else self._current.read
        table[owner] = table.get(owner, 0.0) + count

    def _owner(self, array: Array) -> str | None:
        low, high = extent(array)
        for (start, end), (name, _) in self._memory.items():
            if start <= low and high <= end:
                return name
        return None

    def trace(
        self,
        uses: Sequence[StageUse],
        passes: Mapping[str, Mapping[str, float]],
        flops: Mapping[str, float],
        bytes_of: Mapping[str, float],
        twins: Collection[str] = (),
    ) -> Trace:
        """The record of what was seen, for one run of each stage.

        A stage whose `passes` the user declared counts those, and one pass over its other buffers: its CPU
        twin is not the kernel. Declared `flops` win too. A buffer without observed access (the array went
        to a C library) is taken as one pass, marked "assumed"; an InOut seen only read or
        only written was only that. Stages named in `twins` ran as another function than on the GPU: their
        calls are not counted. A stage that neither ran nor declares anything has no record.
        """
        traffic = [
            _declared(use, buffer, passes[use.name].get(buffer, 1.0), _touched(use, buffer, bytes_of))
            if passes.get(use.name)
            else self._seen(use, buffer, _touched(use, buffer, bytes_of), flops.get(use.name) or 0.0)
            for use in uses
            if passes.get(use.name) or use.name in self._tallies
            for buffer in use.access
        ]
        raw = {use.name for use in uses if passes.get(use.name)}
        work = [self._work(u, flops.get(u.name), raw=u.name in raw, twin=u.name in twins) for u in uses]
        return Trace(traffic=tuple(traffic), work=tuple(work))

    def _seen(self, use: StageUse, buffer: str, size: float, flops: float) -> Traffic:
        tally = self._tallies[use.name]
        read, written = tally.read.get(buffer, 0.0) / tally.runs, tally.written.get(buffer, 0.0) / tally.runs
        mode, seen = use.access[buffer], read > 0 or written > 0
        unseen = not seen or (mode == "in" and read == 0) or (mode == "out" and written == 0)
        return Traffic(
            stage=use.name,
            buffer=buffer,
            bytes_read=float(size) if unseen and mode != "out" else read,
            bytes_written=float(size) if unseen and mode != "in" else written,
            source="assumed" if unseen else "traced",
            again=tuple(self._again(use, buffer, flops if unseen and mode != "out" else 0.0)),
        )

    def _again(self, use: StageUse, buffer: str, flops: float) -> Iterator[Again]:
        """Repeated reads of a device stage; `flops` of an unseen one, which may be those of products."""
        if use.side != "device":
            return
        tally = self._tallies[use.name]
        rereads = {key[1:]: reread for key, reread in tally.again.items() if key[0] == buffer}
        if flops:
            operand = next(array for name, array in self._memory.values() if name == buffer)
            reread = routines.beyond("matmul", operand, 1, flops / 2)
            yield Again(call="declared arithmetic", where=None, **reread._asdict())
        for (call, where), reread in rereads.items():
            yield Again(
                call=call,
                where=where,
                bytes=reread.bytes / tally.runs,
                shared_bytes=reread.shared_bytes / tally.runs,
                readers=reread.readers,
            )

    def _work(self, use: StageUse, flops: float | None, *, raw: bool, twin: bool) -> StageWork:
        tally = self._tallies.get(use.name, _Tally())
        runs = max(tally.runs, 1)
        seen = tally.flops / runs if tally.flops else None
        unseen = raw or twin or not tally.runs
        temporary = tally.temporary + (tally.merged if use.side == "device" else 0.0)
        return StageWork(
            stage=use.name,
            flops=seen if flops is None else flops,
            temporary_bytes=0.0 if raw or twin else temporary / runs,
            twin=twin and not raw,
            calls=None if unseen else round(tally.calls / runs),
            uncounted=() if unseen or flops is not None else tuple(tally.uncounted),
            issue_seconds=None if unseen or not tally.calls or use.side == "host" else tally.issuing / runs,
        )


def _caller() -> str | None:
    """File and line of the user's own call."""
    frame = users_frame(sys._getframe(1))
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame is not None else None


def _touched(use: StageUse, buffer: str, bytes_of: Mapping[str, float]) -> float:
    part = use.parts.get(buffer)
    return bytes_of[buffer] * (part.share if isinstance(part, Region) else 1)


def _declared(use: StageUse, buffer: str, passes: float, size: float) -> Traffic:
    """A buffer of a kernel that tracing cannot see: the passes that read it, and one that writes it."""
    mode = use.access[buffer]
    return Traffic(
        stage=use.name,
        buffer=buffer,
        bytes_read=0.0 if mode == "out" else passes * size,
        bytes_written=0.0 if mode == "in" else float(size),
        source="declared",
    )
