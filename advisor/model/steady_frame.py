"""One steady frame of one strategy on one device: walks the plan's steps and adds up their terms.

Where frames overlap over two sets of buffers (measure/pipelined.py), the time per frame.

Managed memory that both sides touch in quick turns the driver stops moving: it counts faults on a page that
follow one another within half a millisecond; after some it leaves the page where it is and maps it for the
other side too (NVIDIA/open-gpu-kernel-modules, uvm_perf_thrashing.c: lapse 500 µs, threshold 3, pin threshold
10). Then kernels use it over the link, as mapped memory. A product of 64 x 64 matrices took 22 µs a frame so
on an H200, as with zero-copy, where faults would take 270 (measured by us).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from advisor.model import stages, terms
from advisor.model.context import Context
from advisor.model.host_stages import foreign_copy, host_seconds
from advisor.model.stages import asking_seconds, bytes_of
from advisor.model.terms import Values, constant
from advisor.profiles.schema import Side
from advisor.strategies.schedule import Step

_QUEUED = ("device", "to-device", "to-host")
_AHEAD = (*_QUEUED, "length")
LABELS = {"copy-in": "host-copy", "copy-out": "host-copy", "length": "synchronize", "until": "synchronize"}
Timed = tuple[Step, Values]
"""A step with its seconds."""
_PAGE = 4096
"""Bytes that come to the host with the element that ends a loop, of memory that migrates."""
LAPSE = 500e-6
"""Seconds between two faults on a page within which they count as thrashing (the driver's default)."""
PAST_THE_LAPSE = (1.0, 1.4)
"""Frame time over that lapse from which no page stays: pages are not all touched at the frame's ends."""
CLEARLY_FASTER = 1.5
"""Times as fast over the link as by faults, from which the driver leaves all pages on the link."""


def timed_steps(at: Context) -> list[Timed]:
    """The steps of a frame with their seconds, as the driver does them once it has found out.

    The range goes up to faults in every frame, since some pages may go on moving.
    """
    moved = Frame(at).period()
    managed = [b.name for b in at.workload.buffers if at.own(b.name).managed and at.migrates(b.name)]
    # Whether pages change side by faults alone, frame after frame.
    if at.first_frames or at.moves_whole or all(at.own(name).prefetched for name in managed):
        return _of_one_frame(at, moved)
    # All of the frame within the lapse, so that every turn is, however unequal they are.
    frame = _of_one_frame(at, moved)
    whole = _sum(frame)
    stay = terms.cached_share(whole, LAPSE, PAST_THE_LAPSE)
    if not stay.any():
        return frame
    stayed = Frame(replace(at, stays=True)).period()
    # Where the link is slower than faults, no two of them follow within the lapse.
    stay = stay * np.clip(np.log(whole / _sum(_of_one_frame(at, stayed))) / np.log(CLEARLY_FASTER), 0.0, 1.0)
    moving = 1 - stay * (1 - at.machine.model("still_moving"))
    mixed: dict[tuple[int, int], tuple[Timed, ...]] = {}
    for one, other in zip(moved, stayed, strict=True):
        if (id(one), id(other)) not in mixed:
            mixed[id(one), id(other)] = tuple(
                (step, np.asarray(terms.between(remote, seconds, moving)))
                for (step, seconds), (_, remote) in zip(one, other, strict=True)
            )
    return _of_one_frame(at, [mixed[id(one), id(other)] for one, other in zip(moved, stayed, strict=True)])


def _of_one_frame(at: Context, period: Sequence[tuple[Timed, ...]]) -> list[Timed]:
    """The steps of each different frame of a period with their share of a frame, in the order they come, and
    those of a loop as often as it runs."""
    times = Counter(map(id, period))
    different = {id(frame): frame for frame in period}
    return [
        (step, seconds * (times[key] / len(period) * step.times(at.iterations)))
        for key, frame in different.items()
        for step, seconds in frame
    ]


@dataclass(frozen=True)
class Pages:
    """Where the pages of a buffer are: bytes at the host, the side that touched it last, and how many bytes
    that side has touched since the other did."""

    at_host: float
    side: Side
    touched: float = 0.0


@dataclass
class Frame:
    """Follows where migrating memory is and what the caches hold of it, through the steps of a frame."""

    at: Context
    _pages: dict[str, Pages] = field(default_factory=dict)
    _dirty: float = 0.0
    _read_only: set[str] = field(default_factory=set)
    """Buffers whose pages the CPU sees mapped for reading alone."""
    _known: dict[tuple[object, ...], tuple[tuple[Timed, ...], Frame]] = field(default_factory=dict)
    """Frames by their steps and what was where before them, with what is where after them."""

    def period(self) -> list[tuple[Timed, ...]]:
        """The steps of each steady frame with their seconds, that of all stages first.

        Frames with the same steps that begin alike are one object.
        """
        period = self.at.plan.period
        for before in (self.at.plan.first, *period[1:]):
            self._run(before)
        return [self._run(steps) for steps in period]

    def _run(self, steps: tuple[Step, ...]) -> tuple[Timed, ...]:
        before = (id(steps), tuple(self._pages.items()), self._dirty, frozenset(self._read_only))
        if before not in self._known:
            timed = tuple(_asked(self.at, [(s, self._seconds(s)) for s in _with_waits(self.at, steps)]))
            after = replace(self, _pages=dict(self._pages), _read_only=set(self._read_only))
            self._known[before] = timed, after
        timed, after = self._known[before]
        self._pages, self._dirty, self._read_only = dict(after._pages), after._dirty, set(after._read_only)
        return timed

    def _seconds(self, step: Step) -> Values:
        if step.action == "host":
            return self._migrations(step.name, "host") + host_seconds(self.at, step.name)
        if step.action == "device":
            if self.at.moves_whole:  # also what the kernel does not use; not what is attached to the host
                owned = ((b.name, self.at.own(b.name)) for b in self.at.workload.buffers)
                whole = [name for name, own in owned if own.managed and not own.prefetched]
                moved = sum(map(self._arrive_whole, whole), constant(0.0))
            else:
                moved = self._migrations(step.name, "device")
            return moved + self._clean() + stages.kernel_seconds(self.at, step.name)
        if step.action == "synchronize":
            return self._synchronize()
        if step.action in ("copy-in", "copy-out"):
            return self._foreign(step)
        if step.action in ("length", "mark", "order"):
            return constant(0.0)
        if step.action == "to-peer":  # with peer access enabled
            machine = self.at.machine
            call, rate = machine.get("pinned_copy_call_seconds"), machine.get("peer_bytes_per_second")
            return np.asarray(terms.copy(self.at.moved(step), call, rate))
        if step.action == "until":
            page = constant(min(self.at.size(step.name), _PAGE))
            return constant(0.0) if self.at.is_foreign(step.name) else self._arrive(step.name, page, "host")
        to: Side = "device" if step.action == "to-device" else "host"
        if self.at.moves_whole and self.at.own(step.name).managed:
            moved = self._arrive_whole(step.name) if to == "device" else constant(0.0)
            return self.at.machine.get("prefetch_call_seconds") + moved
        size = self.at.size(step.name)
        self._pages[step.name] = Pages(size if to == "host" else 0.0, to, size)
        self._note_mapping(step.name, to, written=False)
        return stages.transfer(self.at, step, to)

    def _foreign(self, step: Step) -> Values:
        size = constant(self.at.moved(step))
        into = step.action == "copy-in"
        moved = self._arrive(step.name, size, "host", written=into)
        if into:
            moved = moved + self._first_writes(step.name, size)
        if into and self.at.own(step.name).managed:
            self._soil(self.at.moved(step))
        return moved + foreign_copy(self.at, step, out=step.action == "copy-out")

    def _migrations(self, stage: str, side: Side) -> Values:
        total = constant(0.0)
        for t in self.at.traffic(stage):
            if side == "host" and self.at.is_foreign(t.buffer):
                continue
            if side == "host" and self.at.own(t.buffer).managed:
                self._soil(t.bytes_written)
            read, written = bytes_of(self.at, t)
            # What a stage reads and what it writes of a buffer are taken to be the same pages.
            touched = np.maximum(read, written)
            total = total + self._arrive(t.buffer, touched, side, written=t.bytes_written > 0)
            if side == "host" and t.bytes_written:
                total = total + self._first_writes(t.buffer, written)
        return total

    def _arrive(self, buffer: str, count: Values, side: Side, *, written: bool = False) -> Values:
        """Pages that the other side has follow the one that touches them: no more than it has, and none of
        what this side touched before the other did."""
        if not self.at.migrates(buffer):
            return constant(0.0)
        size = self.at.size(buffer)
        all_here = Pages(size if side == "host" else 0.0, side, size)
        before = self._pages.get(buffer, all_here)
        known = before.touched if before.side == side else 0.0
        there = before.at_host if side == "device" else size - before.at_host
        wanted = np.minimum(count, size)
        moved = np.minimum(np.maximum(wanted - known, 0.0), there)
        change = float(moved[0]) * (1 if side == "host" else -1)
        self._pages[buffer] = Pages(before.at_host + change, side, max(known, float(wanted[0])))
        if not moved.any():
            return constant(0.0)
        self._note_mapping(buffer, side, written=written)
        return stages.migration(self.at, buffer, moved, side)

    def _arrive_whole(self, buffer: str) -> Values:
        size, before = self.at.size(buffer), self._pages.get(buffer)
        self._pages[buffer] = Pages(0.0, "device", size)
        if before is None or not before.at_host:
            return constant(0.0)
        return stages.migration(self.at, buffer, constant(size), "device")

    def _note_mapping(self, buffer: str, to: Side, *, written: bool) -> None:
        """Pages come back mapped for reading, unless a write fault fetched them (defaults.toml)."""
        if to == "host" and not written and self.at.migrates(buffer) and not self.at.moves_whole:
            self._read_only.add(buffer)
        else:
            self._read_only.discard(buffer)

    def _first_writes(self, buffer: str, count: Values) -> Values:
        """The host's faults at first writes to pages that came back to it mapped for reading alone."""
        fault = self.at.machine.find("write_fault_seconds")
        if buffer not in self._read_only or fault is None:
            return constant(0.0)
        self._read_only.discard(buffer)
        return stages.cpu_pages(self.at, np.minimum(count, self.at.size(buffer))) * fault

    # A shared DRAM behind two caches

    def _keeps_caches_coherent(self) -> bool:
        """In software, by maintenance: on a Jetson before Thor."""
        return self.at.machine.entry.memory_class in ("tegra", "tegra-io-coherent")

    def _soil(self, count: float) -> None:
        """The CPU's caches hold so much more of managed memory."""
        if self._keeps_caches_coherent():
            self._dirty = min(self._dirty + count, self.at.machine.exact("host_cache_bytes"))

    def _clean(self) -> Values:
        """At launch, the CPU's caches give up what they hold of managed memory."""
        if not self._dirty:
            return constant(0.0)
        count, self._dirty = self._dirty, 0.0
        machine = self.at.machine
        rate = machine.get("host_write_bytes_per_second")
        return constant(0.0) + terms.maintenance(count, machine.exact("host_cache_bytes"), rate)

    def _synchronize(self) -> Values:
        """The wait's own cost; the GPU's L2 gives up managed memory too."""
        machine = self.at.machine
        wait = machine.get("synchronize_seconds")
        if not self._keeps_caches_coherent() or not self.at.managed_bytes:
            return wait
        l2_bytes = machine.exact("l2_bytes")
        return wait + terms.maintenance(self.at.managed_bytes, l2_bytes, machine.memory_rate())


def _with_waits(at: Context, steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, and the waits in copies of pageable memory: the first after a kernel waits for it, since it
    returns once it is done (CUDA Runtime API, "API synchronization behavior")."""
    running: set[int] = set()
    for step in steps:
        if step.gpu in running and stages.blocks(at, step):
            yield replace(step, action="synchronize", name="", overwritten=False, part=None)
            running.discard(step.gpu)
        elif step.action == "device":
            running.add(step.gpu)
        elif step.action == "synchronize":
            running.discard(step.gpu)
        yield step


def _asked(at: Context, steps: Iterable[Timed]) -> Iterator[Timed]:
    """The steps, each longer by what the GPU waits for the host, whose calls are slower than its work.

    The host asks ahead of the GPU until it waits for it (CUDA C++ Programming Guide, "Asynchronous Concurrent
    Execution"): the last kernel of a stage begins when the host has asked for it and all before it is done.
    """
    ahead = constant(0.0)
    """Seconds from when the host has asked for a step to the end of that step."""
    for step, seconds in steps:
        if step.action not in _QUEUED or stages.blocks(at, step) or at.workload.gpus > 1:
            ahead = constant(0.0)
        else:
            work = at.work(step.name)
            ahead = ahead + seconds - asking_seconds(at, step)
            if work.issue_seconds is not None:
                last = np.maximum(seconds - at.machine.get("launch_seconds"), 0.0) / max(work.calls or 1, 1)
                waits = np.maximum(last - ahead, 0.0)
                seconds, ahead = seconds + waits, ahead + waits
        yield step, seconds


def label(step: Step) -> str:
    """The name of a step's term, as the NVTX range of a measured one."""
    if step.action in ("host", "device"):
        return f"{step.action}:{step.name}"
    return LABELS.get(step.action, step.action)


def by_part(steps: Sequence[Timed]) -> dict[str, Values]:
    totals: dict[str, Values] = {}
    for step, seconds in steps:
        totals[label(step)] = totals.get(label(step), 0.0) + seconds
    return totals


def overlapped(at: Context, steps: Sequence[Timed]) -> dict[str, Values]:
    """Seconds between finished frames, as the parts of the busiest resource and waiting.

    The slowest of host, upload link, kernels, download link, shared DRAM, and half of the whole chain.

    The host's calls keep it busy beside its stages: a launch or a copy call for each step. Kernels behind a
    wait of the host cannot overlap with the frame's other work: then only the uploads do.
    """
    # The steps by what they keep busy. One copy engine serves both directions where there is but one.
    resources: dict[str, list[Timed]] = {"host": [], "to-device": [], "device": [], "to-host": []}
    engines = at.machine.entry.attributes.get("async_engine_count")
    for step, seconds in steps:
        action = step.action if step.action in resources else "host"
        alone = action == "to-host" and engines is not None and engines.value == 1
        resources["to-device" if alone else action].append((step, seconds))
    chain = _sum(steps)
    actions = [step.action for step, _ in steps]
    queued = [(step, n) for steps, n in at.plan.kinds.items() for step in steps if step.action in _QUEUED]
    calls = sum((n / len(at.plan.period) * asking_seconds(at, step) for step, n in queued), constant(0.0))
    host, up, kernels, down = (_sum(resources[name]) for name in ("host", "to-device", "device", "to-host"))
    period = terms.overlapped(host + calls, up, kernels, down, chain)
    if at.machine.shares_memory:
        period = np.maximum(period, _shared_memory(at))
    # The first host stage or wait that follows a kernel: later kernels cannot overlap.
    actions = actions[: len(at.plan.steady)]
    first = actions.index("device")
    waits = next((i for i in range(first, len(actions)) if actions[i] not in _AHEAD), len(actions))
    if "device" in actions[waits:]:
        period = np.maximum(period, np.maximum(chain - up, up))
    lost = at.machine.model("overlap_lost")
    period = np.asarray(terms.between(period, np.maximum(period, chain), lost))
    busiest = max(resources.values(), key=lambda timed: float(_sum(timed)[0]))
    parts = by_part(busiest)
    parts["synchronize"] = parts.get("synchronize", 0.0) + (period - _sum(busiest))
    return parts


def _sum(steps: Iterable[Timed]) -> Values:
    return sum((seconds for _, seconds in steps), constant(0.0))


def _shared_memory(at: Context) -> Values:
    """All bytes of a frame over one DRAM, of which CPU and GPU together get no more than either alone: 162.9
    and 161.3 GB/s on GB10 (parallelArchitect/nvidia-uma-fault-probe)."""
    moved = constant(0.0)
    for step, times in Counter(chain(*at.plan.period)).items():
        if step.action in ("host", "device"):
            for t in at.traffic(step.name):
                read, written = bytes_of(at, t)
                moved = moved + times * (np.minimum(read, at.size(t.buffer)) + written)
        elif step.action not in ("length", "synchronize"):
            moved = moved + times * 2 * at.moved(step)
    return moved / len(at.plan.period) / at.machine.memory_rate()
