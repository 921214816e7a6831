"""One process's work on one GPU as figures: copies, migrations, idle time and what the host did in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from advisor.nsys.database import THREAD_BITS, UNKNOWN, Database, Integers, Tables
from advisor.nsys.intervals import NOTHING, Intervals, between, inside, length, seconds, starting, union
from advisor.nsys.loops import Marked, by_ranges, by_repeats
from advisor.nsys.spans import gpu_rows, rows, timeline
from advisor.nsys.work import (
    MOST_KINDS,
    OWN,
    WORKS,
    Calls,
    Columns,
    GpuWork,
    Light,
    copy_kinds,
    move_kinds,
    origin,
)
from advisor.profiles.programs import LARGE, SMALL, Flow, Frames, HostTime, HostWork, Managed, Stream
from advisor.profiles.traces import Kernels, Migrations, Timeline

UP, DOWN, PEER = "host-to-device", "device-to-host", "peer-to-peer"
_ARRAYS = {"host-to-array": UP, "array-to-host": DOWN}
"""Copies to and from texture memory cross the link as the others do."""
_MOST_LENGTHS, _MOST_KERNELS, _MOST_SIZES, _MOST_STREAMS = 1000, 10, 12, 8
_CHANGES = 3
"""Of side, from which a range of managed memory goes back and forth: less is one round trip."""
_TURNS = 1.5
"""Of side in a frame: two are a round trip, which the first and the last frame can lack a part of."""


@dataclass
class GpuFigures:
    """The figures of one GPU; all of them are of `window`."""

    database: Database
    work: GpuWork
    calls: Calls | None
    named: tuple[str, Intervals] | None
    """The NVTX ranges that are its frames."""
    elsewhere: Intervals = (NOTHING, NOTHING)
    """When other GPUs of the process worked."""

    @cached_property
    def kinds(self) -> list[tuple[int, str, str]]:
        """Each kind of copy: its number, direction and the host's kind of memory."""
        kinds = copy_kinds(self.database, self.work.copies)
        named = ((number, _ARRAYS.get(way, way), source, target) for number, way, source, target in kinds)
        return [(n, way, (source if way == UP else target) or "unknown") for n, way, source, target in named]

    def copied(self, way: str, at: Integers | slice = slice(None)) -> Integers:
        """Positions of the copies in that direction, of all or among those given."""
        wanted = [number for number, each, _ in self.kinds if each == way]
        chosen = np.flatnonzero(np.isin(self.work.copies.get("kind", NOTHING)[at], wanted))
        return chosen if isinstance(at, slice) else at[chosen]

    @cached_property
    def kernels(self) -> Intervals:
        return union([self.work.intervals("kernels")])

    @cached_property
    def copies(self) -> Intervals:
        return union([self.work.intervals("copies")])

    @cached_property
    def moved(self) -> Intervals:
        return union([self.work.intervals("moved")])

    @cached_property
    def extent(self) -> tuple[int, int]:
        """From the first work to the last."""
        begins, ends = union([self.kernels, self.copies, self.moved])
        return int(begins[0]), max(int(ends[-1]), int(begins[0]) + 1)

    @cached_property
    def marked(self) -> Marked | None:
        if self.named is not None:
            return by_ranges(*self.named)
        return by_repeats(self.work, self.calls, self.copied(UP), self.copied(DOWN))

    @cached_property
    def window(self) -> Intervals:
        """The steady frames; without frames, the extent."""
        if self.marked is not None:
            return union([self.marked.steady])
        begin, end = self.extent
        return np.array([begin]), np.array([end])

    @property
    def units(self) -> int:
        return len(self.marked.begins) - self.marked.first if self.marked else 1

    @cached_property
    def idle(self) -> Intervals:
        return between(union([self.kernels, self.copies, self.moved]), self.window)

    @cached_property
    def steady_copies(self) -> Integers:
        """Positions of the copies in the window."""
        return starting(self.work.copies.get("start", NOTHING), self.window)

    @property
    def other_copies(self) -> Integers:
        """Positions of the copies before, between and after the steady frames."""
        left = np.ones(len(self.work.copies.get("start", NOTHING)), bool)
        left[self.steady_copies] = False
        return np.flatnonzero(left)

    def hidden_seconds(self) -> float:
        """Part of the copies' time in which a kernel ran."""
        both = union([self.kernels, self.copies])
        sums = (seconds(self.window, each) for each in (self.kernels, self.copies, both))
        kernels, copies, either = sums
        return max(round(kernels + copies - either, 9), 0.0)

    def frames(self) -> Frames | None:
        if (marked := self.marked) is None:
            return None
        begins, ends = marked.steady
        lengths = np.maximum(ends - begins, 1)[:_MOST_LENGTHS] / 1e9
        return Frames(
            source=marked.source,
            name=marked.name,
            count=len(marked.begins),
            alike=marked.alike,
            steady=tuple(lengths.tolist()),
            steady_count=len(begins),
            uploads=self._sizes(UP),
            downloads=self._sizes(DOWN),
        )

    def _sizes(self, way: str) -> tuple[tuple[int, int], ...]:
        """Bytes and number of the copies that most frames make in that direction, the largest first."""
        at = self.copied(way, self.steady_copies)
        if not len(at):
            return ()
        sizes, counts = np.unique(self.work.copies["bytes"][at], return_counts=True)
        times = [(int(s), round(int(c) / self.units)) for s, c in zip(sizes, counts, strict=True)]
        return tuple(sorted((pair for pair in times if pair[1]), reverse=True)[:_MOST_SIZES])

    def flows(self, at: Integers) -> tuple[Flow, ...]:
        """These copies by direction, memory and size; those that take longest first."""
        if not len(at):
            return ()
        kinds, small = self.work.copies["kind"][at], self.work.copies["bytes"][at] <= SMALL
        flows = []
        for way, memory in sorted(
            {(way, memory) for _, way, memory in self.kinds if way in (UP, DOWN, PEER)}
        ):
            mine = np.isin(kinds, [number for number, *each in self.kinds if each == [way, memory]])
            flows += [self._flow(way, memory, small=s, at=at[mine & (small == s)]) for s in (False, True)]
        return tuple(sorted(filter(None, flows), key=lambda flow: -flow.seconds))

    def _flow(self, way: str, memory: str, *, small: bool, at: Integers) -> Flow | None:
        if not len(at):
            return None
        lasted = _united(self.work.copies, at)
        return Flow(
            kind=way,
            memory=memory,
            small=small,
            count=len(at),
            bytes=int(self.work.copies["bytes"][at].sum(dtype=np.int64)),
            seconds=length(lasted),
            hidden_seconds=seconds(lasted, self.kernels),
            best_bytes_per_second=self._best(at),
            where=origin(self.database, self.work.copies["call"][at], self.work.process),
        )

    def _best(self, at: Integers) -> float | None:
        """The rate of the fastest copy of 1 MiB or more, which a slow link limits too."""
        copies = self.work.copies
        at = at[copies["bytes"][at] >= LARGE]
        lasted = np.maximum(copies["end"][at] - copies["start"][at], 1)
        return float((copies["bytes"][at] / lasted).max()) * 1e9 if len(at) else None

    def managed(self, *, alone: bool) -> Managed | None:
        """Migrations; None where none of this GPU were recorded. alone: the process uses no other GPU."""
        moved = self.work.moved
        if not moved:
            return None
        at = starting(moved["start"], self.window)
        lasted = _united(moved, at)
        ranges, size = self._bouncing(at)
        cpu, gpu = self._faults(alone=alone)
        kernels = inside(self.kernels, lasted) > 0 if len(at) else NOTHING
        total = length(lasted)
        return Managed(
            migrations=tuple(self._migrations(at)),
            seconds=total,
            exposed_seconds=total - seconds(lasted, self.kernels),
            stalled_seconds=int((self.kernels[1] - self.kernels[0])[kernels].sum()) / 1e9,
            bouncing_ranges=ranges,
            bouncing_bytes=size,
            cpu_page_faults=cpu,
            gpu_page_faults=gpu,
        )

    def _migrations(self, at: Integers) -> Iterator[Migrations]:
        moved = {name: column[at] for name, column in self.work.moved.items()}
        for number, way, cause in move_kinds(self.database, moved):
            mine = moved["kind"] == number
            yield Migrations(
                direction=way,
                cause=cause,
                count=int(mine.sum()),
                bytes=int(moved["bytes"][mine].sum(dtype=np.int64)),
                seconds=int((moved["end"][mine] - moved["start"][mine]).sum()) / 1e9,
            )

    def _bouncing(self, at: Integers) -> tuple[int | None, int | None]:
        """Ranges that go both ways in most frames, and the bytes that moved in them."""
        moved = self.work.moved
        at = at[moved["range"][at] != UNKNOWN]
        if not len(at):
            return None, None
        at = at[np.lexsort((moved["start"][at], moved["range"][at]))]
        _, ranges = np.unique(moved["range"][at], return_inverse=True)
        same = ranges[1:] == ranges[:-1]
        sides = moved["kind"][at] // MOST_KINDS
        changed = same & (sides[1:] != sides[:-1])
        changes = np.bincount(ranges[1:][changed], minlength=int(ranges.max()) + 1)
        often = changes >= max(_CHANGES, _TURNS * self.units)
        return int(often.sum()), int(moved["bytes"][at][often[ranges]].sum(dtype=np.int64))

    def _faults(self, *, alone: bool) -> tuple[int | None, int | None]:
        """Page faults by the CPU, which belong to a process, and by the GPU; None where not recorded."""
        database, window = self.database, self.window
        during = f"start >= {int(window[0][0])} AND start <= {int(window[1][-1])} AND "
        during += f"globalPid / {THREAD_BITS} = {self.work.process}"
        found: list[int | None] = [None, None]
        if alone and database.has(Tables.CPU_FAULTS, "start", "globalPid"):
            ((found[0],),) = database.rows(f"SELECT COUNT(*) FROM {Tables.CPU_FAULTS} WHERE {during}")
        if database.has(Tables.GPU_FAULTS, "start", "globalPid", "deviceId", "numberOfPageFaults"):
            query = (
                f"SELECT TOTAL(numberOfPageFaults) FROM {Tables.GPU_FAULTS} WHERE {during} AND deviceId = "
            )
            ((total,),) = database.rows(f"{query}{self.work.device}")
            found[1] = int(total)
        return found[0], found[1]

    def host(self) -> tuple[HostTime, ...] | None:
        """The host's CUDA calls in the window by what they do; None where none were recorded."""
        if (calls := self.calls) is None:
            return None
        begun = starting(calls.columns["start"], self.window)
        of = {work: begun[calls.columns["work"][begun] == number] for number, work in enumerate(WORKS)}
        return tuple(self._host_time(calls, work, at) for work, at in of.items() if len(at))

    def _host_time(self, calls: Calls, work: HostWork, at: Integers) -> HostTime:
        lasted = _united(calls.columns, at)
        where = origin(self.database, calls.columns["call"][at], self.work.process)
        return HostTime(
            work=work,
            count=len(at),
            seconds=length(lasted),
            idle_seconds=seconds(lasted, self.idle),
            where=None if work == "copies" else where,
        )

    def idle_in_calls(self) -> tuple[float, float] | None:
        """Idle time in calls that copy, wait, allocate or page-lock; and without waits for other GPUs."""
        if self.calls is None:
            return None
        at = self.calls.of("waits")
        others = self.calls.of("page-locking", "allocation", "copies")
        waiting = union([self.calls.intervals(at), self.elsewhere])
        removable = seconds(self.idle, union([self.calls.intervals(others)]))
        removable += seconds(self.idle, waiting) - seconds(self.idle, self.elsewhere)
        return seconds(self.idle, union([self.calls.intervals()])), removable

    def light(self) -> Light:
        """For `add_launches`."""
        return Light(self.work.process, self.window, self.idle)

    def waits(self) -> tuple[int, float] | None:
        """Calls that wait for the GPU, and the idle time that begins while they wait, but for the longest of
        each frame: one wait at its end is needed."""
        if self.calls is None:
            return None
        columns = self.calls.columns
        at = starting(columns["start"], self.window)
        # Copies to the host whose call returns when they are done wait too; blocking uploads are copies.
        downloads = np.isin(columns["call"][at], self.work.copies.get("call", NOTHING)[self.copied(DOWN)])
        waiting = columns["work"][at] == WORKS.index("waits")
        ends = columns["end"][at[waiting | (downloads & (columns["blocking"][at] == 1))]]
        begins, stops = self.idle
        if not len(begins):
            return len(ends), 0.0
        # The idle interval that each wait ends in, once.
        behind, first = np.unique(np.searchsorted(begins, ends, side="right") - 1, return_index=True)
        ended = (behind >= 0) & (ends[first] < stops[behind])
        gaps = (stops - begins)[behind[ended]].tolist()
        spared = sum(sorted(gaps)[: max(len(gaps) - self.units, 0)])
        return len(ends), spared / 1e9

    def kernel_sums(self) -> tuple[Kernels, ...]:
        """The kernels that take longest."""
        columns = self.work.kernels
        at = starting(columns.get("start", NOTHING), self.window)
        if not len(at):
            return ()
        numbers, counts, lasted = _sums(columns["name"][at], columns["end"][at] - columns["start"][at])
        most = np.argsort(-lasted)[:_MOST_KERNELS]
        names = self.database.strings([int(numbers[i]) for i in most]) | OWN
        return tuple(
            Kernels(
                name=names.get(int(numbers[i]), "unnamed"),
                count=int(counts[i]),
                seconds=float(lasted[i]) / 1e9,
            )
            for i in most
        )

    def streams(self) -> tuple[Stream, ...]:
        """The busiest streams."""
        sums: dict[int, list[float]] = {}
        for kind, columns in enumerate((self.work.kernels, self.work.copies)):
            at = starting(columns.get("start", NOTHING), self.window)
            if len(at):
                lengths = columns["end"][at] - columns["start"][at]
                numbers, _, lasted = _sums(columns["stream"][at], lengths)
                for number, total in zip(numbers.tolist(), lasted.tolist(), strict=True):
                    sums.setdefault(number, [0.0, 0.0])[kind] += total / 1e9
        busiest = sorted(sums.items(), key=lambda item: -sum(item[1]))[:_MOST_STREAMS]
        return tuple(Stream(number=n, kernel_seconds=k, copy_seconds=c) for n, (k, c) in busiest)

    def timeline(self) -> Timeline | None:
        """The steady frame whose length is the median."""
        if self.marked is None:
            return None
        begins, ends = self.marked.steady
        middle = np.argsort(ends - begins, kind="stable")[len(begins) // 2]
        begin, end = int(begins[middle]), int(ends[middle])
        drawn = list(gpu_rows(self.database, self.work, begin, end))
        if self.calls is not None:
            drawn += rows("host", self.calls.columns, "work", dict(enumerate(WORKS)), begin, end)
        return timeline(drawn, begin, end)


def _sums(numbers: Integers, lengths: Integers) -> tuple[Integers, Integers, npt.NDArray[np.float64]]:
    """Each number that occurs, how often, and the sum of its lengths."""
    ordered = np.sort(numbers)
    kinds = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    which = np.searchsorted(kinds, numbers)
    return kinds, np.bincount(which).astype(np.int64), np.bincount(which, lengths).astype(np.float64)


def _united(columns: Columns, at: Integers) -> Intervals:
    """When any of these rows lasted."""
    return union([(columns["start"][at], columns["end"][at])])
