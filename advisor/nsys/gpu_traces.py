"""One process's work on one GPU as figures: copies, migrations, idle time and what the host did in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from advisor.nsys.database import BLOCK, MOST_KINDS, THREAD_BITS, UNKNOWN, Database, Integers, Tables
from advisor.nsys.loops import Marked, by_ranges, by_repeats, numbered
from advisor.nsys.ranges import NOTHING, Intervals, between, inside, length, seconds, starting, union
from advisor.nsys.work import (
    OWN,
    WORKS,
    Calls,
    Columns,
    GpuWork,
    copy_kinds,
    gpu_rows,
    move_kinds,
    origin,
    rows,
    timeline,
)
from advisor.profiles.programs import (
    LARGE,
    SMALL,
    Flow,
    Frames,
    GpuTrace,
    HostTime,
    HostWork,
    Managed,
    Stream,
)
from advisor.profiles.traces import Kernels, Migrations, Timeline

UP, DOWN, PEER = "host-to-device", "device-to-host", "peer-to-peer"
_ARRAYS = {"host-to-array": UP, "array-to-host": DOWN}
"""Copies to and from texture memory cross the link as the others do."""
_MOST_LENGTHS, _MOST_KERNELS, _MOST_SIZES, _MOST_STREAMS = 1000, 10, 12, 8
_CHANGES = 3
"""Changes of side from which a range of managed memory goes back and forth: fewer are one round trip."""
_TURNS = 1.5
"""Changes of side per frame: a round trip is two, of which the first and the last frame can lack one."""


@dataclass
class GpuFigures:
    """The figures of one GPU; all of them are of `window`."""

    database: Database
    work: GpuWork
    calls: Calls | None
    named: tuple[str, Intervals] | None
    """The NVTX ranges that are its frames."""
    elsewhere: Intervals
    """When other GPUs of the process worked."""
    alone: bool
    """Whether the process uses no other GPU."""

    def __post_init__(self) -> None:
        # First, since it takes most memory.
        self.marked: Marked | None = (
            by_ranges(*self.named, self.work)
            if self.named
            else by_repeats(self.work, self.calls, self.copied(UP), self.copied(DOWN))
        )
        self.kernels, self.copies, moved = (union([each]) for each in self.work.busy())
        busy = union([self.kernels, self.copies, moved])
        # The steady frames; without frames, from the first work to the last.
        whole = busy[0][:1], np.maximum(busy[1][-1:], busy[0][:1] + 1)
        self.window = union([self.marked.steady]) if self.marked else whole
        self.units = len(self.marked.begins) - self.marked.first if self.marked else 1
        self.idle = between(busy, self.window)

    def trace(self) -> GpuTrace:
        """Without the attributes in the device's tables."""
        steady = self._at("copies")
        begins, ends = self.work.intervals("copies")
        others = np.setdiff1d(np.arange(len(begins)), steady, assume_unique=True)
        kernels, copies = (seconds(self.window, each) for each in (self.kernels, self.copies))
        either = seconds(self.window, union([self.kernels, self.copies]))
        ways = [union([(begins[at], ends[at])]) for at in (self.copied(UP), self.copied(DOWN))]
        up, down = (seconds(self.window, way) for way in ways)
        trace = GpuTrace(
            label="",
            process=self.work.process,
            seconds=max(length(self.window), 1e-9),
            frames=self._frames(),
            kernel_seconds=kernels,
            collective_seconds=self._collective(kernels),
            copy_seconds=copies,
            hidden_seconds=max(round(kernels + copies - either, 9), 0.0),
            up_seconds=up,
            down_seconds=down,
            both_seconds=max(round(up + down - seconds(self.window, union(ways)), 9), 0.0),
            idle_seconds=length(self.idle),
            flows=self._flows(steady) if self.database.copies_known() else None,
            set_up=self._flows(others),
            managed=self._managed(),
            kernels=self._kernels(),
            streams=self._streams(),
            timeline=self._timeline(),
        )
        return trace if self.calls is None else trace.model_copy(update=self._host(self.calls))

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

    def _collective(self, kernels: float) -> float:
        """Seconds of the window in which no kernel but NCCL's ran: they wait for the other GPUs."""
        if not self.work.kernels:
            return 0.0
        named = self.work.kernels["name"]
        names = self.database.strings(np.unique(named).tolist())
        nccl = [number for number, name in names.items() if name.startswith("nccl")]
        own = ~np.isin(named, nccl)
        begins, ends = self.work.intervals("kernels")
        return max(kernels - seconds(self.window, union([(begins[own], ends[own])])), 0.0) if nccl else 0.0

    def _at(self, kind: str) -> Integers:
        """Positions of the work in the window."""
        return starting(self.work.intervals(kind)[0], self.window)

    def _frames(self) -> Frames | None:
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
        moved = self.work.copies.get("bytes", NOTHING)[self.copied(way, self._at("copies"))]
        sizes, counts = np.unique(moved, return_counts=True)
        times = [(int(s), round(int(c) / self.units)) for s, c in zip(sizes, counts, strict=True)]
        return tuple(sorted((pair for pair in times if pair[1]), reverse=True)[:_MOST_SIZES])

    def _flows(self, at: Integers) -> tuple[Flow, ...]:
        """These copies by direction, memory and size; those that take longest first."""
        if not len(at):
            return ()
        kinds, small = self.work.copies["kind"][at], self.work.copies["bytes"][at] <= SMALL
        flows = []
        for way, memory in sorted({kind[1:] for kind in self.kinds if kind[1] in (UP, DOWN, PEER)}):
            mine = np.isin(kinds, [number for number, *each in self.kinds if each == [way, memory]])
            flows += [self._flow(way, memory, small=s, at=at[mine & (small == s)]) for s in (False, True)]
        return tuple(sorted(filter(None, flows), key=lambda flow: -flow.seconds))

    def _flow(self, way: str, memory: str, *, small: bool, at: Integers) -> Flow | None:
        if not len(at):
            return None
        copies = {name: column[at] for name, column in self.work.copies.items()}
        lengths, called = copies["end"] - copies["start"], copies["call"]
        lasted, large = union([(copies["start"], copies["end"])]), (copies["bytes"] >= LARGE) & (lengths > 0)
        rates = copies["bytes"] / np.maximum(lengths, 1)
        known, staging = np.unique(called[called > 0]), 0.0
        if memory == "pageable" and self.calls is not None:
            # The GPU's idle time in the calls, in which the host fills or empties a buffer.
            mine = np.isin(self.calls.columns["call"], known) & self.calls.of("copies")
            staging = seconds(self.idle, union([self.calls.intervals(mine)]))
        return Flow(
            kind=way,
            memory=memory,
            small=small,
            count=len(at),
            calls=len(known) + int((called <= 0).sum()),
            bytes=int(copies["bytes"].sum(dtype=np.int64)),
            seconds=length(lasted),
            hidden_seconds=seconds(lasted, self.kernels),
            staging_seconds=staging,
            best_bytes_per_second=float(rates[large].max()) * 1e9 if large.any() else None,
            where=origin(self.database, called, self.work.process),
        )

    def _managed(self) -> Managed | None:
        """Migrations; None where none of this GPU were recorded."""
        if not self.work.moved:
            return None
        moved = {name: column[self._at("moved")] for name, column in self.work.moved.items()}
        lasted = union([(moved["start"], moved["end"])])
        ranges, size = self._bouncing(moved)
        stalled = inside(self.kernels, lasted) > 0
        return Managed(
            migrations=tuple(self._migrations(moved)),
            seconds=length(lasted),
            exposed_seconds=length(lasted) - seconds(lasted, self.kernels),
            stalled_seconds=length((self.kernels[0][stalled], self.kernels[1][stalled])),
            bouncing_ranges=ranges,
            bouncing_bytes=size,
            # Those by the CPU belong to a process.
            cpu_page_faults=self._sum(Tables.CPU_FAULTS, "COUNT(*)") if self.alone else None,
            gpu_page_faults=self._sum(
                Tables.GPU_FAULTS, "TOTAL(numberOfPageFaults)", deviceId=self.work.device
            ),
        )

    def _migrations(self, moved: Columns) -> Iterator[Migrations]:
        for number, way, cause in move_kinds(self.database, moved):
            mine = moved["kind"] == number
            yield Migrations(
                direction=way,
                cause=cause,
                count=int(mine.sum()),
                bytes=int(moved["bytes"][mine].sum(dtype=np.int64)),
                seconds=length((moved["start"][mine], moved["end"][mine])),
            )

    def _bouncing(self, moved: Columns) -> tuple[int | None, int | None]:
        """Ranges that go both ways in most frames, and the bytes that moved in them."""
        known = np.flatnonzero(moved["range"] != UNKNOWN)
        if not len(known):
            return None, None
        at = known[np.lexsort((moved["start"][known], moved["range"][known]))]
        _, ranges = np.unique(moved["range"][at], return_inverse=True)
        sides = moved["kind"][at] // MOST_KINDS
        changed = (ranges[1:] == ranges[:-1]) & (sides[1:] != sides[:-1])
        changes = np.bincount(ranges[1:][changed], minlength=int(ranges.max()) + 1)
        often = changes >= max(_CHANGES, _TURNS * self.units)
        return int(often.sum()), int(moved["bytes"][at][often[ranges]].sum(dtype=np.int64))

    def _sum(self, table: str, counted: str, **of: int) -> int | None:
        if not (self.database.readable(table) and self.database.has(table, "globalPid", *of)):
            return None
        where = [f"start BETWEEN {self.window[0][0]} AND {self.window[1][-1]}"]
        where.append(f"globalPid / {THREAD_BITS} = {self.work.process}")
        where += [f"{column} = {value}" for column, value in of.items()]
        ((count,),) = self.database.rows(f"SELECT {counted} FROM {table} WHERE {' AND '.join(where)}")
        return int(count)

    def _host(self, calls: Calls) -> dict[str, object]:
        """The host's CUDA calls in the window, and what the GPU's idle time was spent in."""
        begun = starting(calls.columns["start"], self.window)
        of = {work: begun[calls.of(work)[begun]] for work in WORKS}
        heavy = [self._host_time(calls, work, at) for work, at in of.items() if len(at)]
        light = list(self._light(calls.light))
        in_calls = seconds(self.idle, union([calls.intervals()]))
        outside = length(self.idle) - seconds(self.idle, union([calls.intervals(), self.elsewhere]))
        waits, gaps = self._waits(calls, begun)
        work = calls.intervals(calls.of("page-locking", "allocation", "copies"))
        waiting = [calls.intervals(calls.of("waits")), gaps]
        # Waits and what is behind them count only while no other GPU works.
        removable, others, either = (
            seconds(self.idle, union(pieces))
            for pieces in ([work], [work, self.elsewhere], [work, self.elsewhere, *waiting])
        )
        return {
            "host": (*heavy, *light),
            "idle_in_calls_seconds": in_calls,
            "removable_seconds": max(removable + either - others, 0.0),
            "outside_seconds": max(round(outside - sum(c.idle_seconds for c in light), 9), 0.0),
            "waits": waits,
            "wait_gap_seconds": max(length(gaps) - seconds(gaps, self.elsewhere), 0.0),
        }

    def _host_time(self, calls: Calls, work: HostWork, at: Integers) -> HostTime:
        lasted, called = union([calls.intervals(at)]), calls.columns["call"][at]
        where = None if work == "copies" else origin(self.database, called, self.work.process)
        idle = seconds(lasted, self.idle)
        return HostTime(work=work, count=len(at), seconds=length(lasted), idle_seconds=idle, where=where)

    def _light(self, calls: Columns) -> Iterator[HostTime]:
        """Calls that launch work or do something else, added up over threads."""
        sums = np.zeros((3, len(WORKS)))
        for first in range(0, len(calls["start"]), BLOCK):
            part = {name: column[first : first + BLOCK] for name, column in calls.items()}
            at = starting(part["start"], self.window)
            begins, lengths = part["start"][at], part["length"][at]
            idle = inside((begins, begins + lengths), self.idle)
            sums += [np.bincount(part["work"][at], each, len(WORKS)) for each in (None, lengths, idle)]
        for work, (count, lasted, idled) in zip(WORKS, sums.T.tolist(), strict=True):
            if count:
                yield HostTime(work=work, count=int(count), seconds=lasted / 1e9, idle_seconds=idled / 1e9)

    def _waits(self, calls: Calls, at: Integers) -> tuple[int, Intervals]:
        """Calls that wait for the GPU, and the idle time that begins while they wait, but for the longest of
        each frame: one wait at its end is needed."""
        # Copies to the host whose call returns when they are done wait too; blocking uploads are copies.
        called = self.work.copies.get("call", NOTHING)[self.copied(DOWN)]
        downloads = np.isin(calls.columns["call"], called[called > 0]) & (calls.columns["blocking"] == 1)
        ends = calls.columns["end"][at[(calls.of("waits") | downloads)[at]]]
        begins, stops = self.idle
        if not len(begins) or not len(ends):
            return len(ends), (NOTHING, NOTHING)
        # The idle interval that each wait ends in, once.
        behind, first = np.unique(np.searchsorted(begins, ends, side="right") - 1, return_index=True)
        behind = behind[(behind >= 0) & (ends[first] < stops[behind])]
        begins, stops = begins[behind], stops[behind]
        frames = np.searchsorted(self.marked.begins if self.marked else NOTHING, begins, side="right")
        order = np.lexsort((begins - stops, frames))
        needed = order[np.append(True, np.diff(frames[order]) > 0)] if len(order) else order
        return len(ends), (np.delete(begins, needed), np.delete(stops, needed))

    def _kernels(self) -> tuple[Kernels, ...]:
        sums = _sums(self.work.kernels, "name", self._at("kernels"))
        most = sorted(sums.items(), key=lambda row: -row[1][1])[:_MOST_KERNELS]
        names = self.database.strings([number for number, _ in most]) | OWN
        named = ((names.get(number, "unnamed"), count, lasted) for number, (count, lasted) in most)
        return tuple(Kernels(name=name, count=count, seconds=lasted) for name, count, lasted in named)

    def _streams(self) -> tuple[Stream, ...]:
        kernels = _sums(self.work.kernels, "stream", self._at("kernels"))
        copies = _sums(self.work.copies, "stream", self._at("copies"))
        sums = {n: [each.get(n, (0, 0.0))[1] for each in (kernels, copies)] for n in {**kernels, **copies}}
        busiest = sorted(sums.items(), key=lambda item: -sum(item[1]))[:_MOST_STREAMS]
        return tuple(Stream(number=n, kernel_seconds=k, copy_seconds=c) for n, (k, c) in busiest)

    def _timeline(self) -> Timeline | None:
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


def _sums(columns: Columns, kind: str, at: Integers) -> dict[int, tuple[int, float]]:
    """How often each number of a column occurs in these rows, and the seconds of its rows."""
    if not len(at):
        return {}
    numbers, lasted = columns[kind][at], columns["end"][at] - columns["start"][at]
    kinds, which = numbered(numbers)
    counts, totals = np.bincount(which).tolist(), (np.bincount(which, lasted) / 1e9).tolist()
    return dict(zip(kinds.tolist(), zip(counts, totals, strict=True), strict=True))
