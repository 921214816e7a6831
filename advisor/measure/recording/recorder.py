"""Takes note of crossings as they happen: by line, kind of memory and loop, not one by one."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from copy import copy
from typing import Any
from weakref import ref as weakref

from advisor.measure.recording.copy_costs import CopyCosts
from advisor.measure.recording.host_memory import Contents, LineContents, Origins
from advisor.measure.recording.loops import LAUNCH_SAMPLE, Clock, Lines, Loop, Loops, Site
from advisor.measure.recording.records import Event, InLoop, Location, Record, alike
from advisor.profiles.crossings import CrossingKind, HostMemory


class _Alone:
    def references(*self: Any) -> int:
        """To an object that has one name, in a method called on it."""
        return sys.getrefcount(self[0])


_alone = _Alone()
_REFERENCES = _alone.references()


class Depth(threading.local):
    """How many recorded calls each thread is inside of. `with` it, calls are not the script's own."""

    value = 0

    def __enter__(self) -> None:
        self.value += 1

    def __exit__(self, *_: object) -> None:
        self.value -= 1


MOST_MARKS = 64
"""Pairs of CUDA events of a line that wait to be read."""
FIRST_DETAILED = 16
"""Calls of a line that are measured in detail in any case."""
STEPS = ((256, 13, 1), (1300, 13, 13), (9700, 97, 31), (math.inf, 389, 97))
"""Up to so many calls of a line, one in so many is measured in detail, and one in so many is timed at all:
much of what recording costs. Primes, since programs do something every second, fourth or eighth time; early
calls are slower than later ones, so most of those measured do not lie there."""
FIRST_LOOKED, THEN_LOOKED = 32, 97
"""Crossings of a line whose origin is looked up; then that of one in so many."""
LOOKS = 3
"""Crossings of each line whose bytes are looked at in any case."""
LOOKING = 0.0025
"""Share of the time so far that further ones may take."""
UNREAD_LAUNCHES = 256
"""After so many launches, uploads that none of them read are no longer watched: nothing is said of them."""
NEW = object()
_COPIES = ("upload", "download")
_THREADS = "The lines that allocate host arrays in other threads than the first"
_LIBRARY_THREADS = "{} crossings ({} bytes) in threads that run no line of the script"


class ScriptRecorder:
    """Collects the events of the libraries' recorders in a run."""

    def __init__(
        self, loops: Loops, lines: Lines, origins: Origins, contents: Contents, clock: Clock, *, has_gpu: bool
    ) -> None:
        self.has_gpu = has_gpu
        self.records: dict[tuple[Any, ...], Record] = {}
        self.recording = False
        self.depth = Depth()
        """A call is the script's own where this is 0: not inside another that is being recorded."""
        self.readers: dict[str, Callable[[Any, Any], float]] = {}
        """By library: seconds between two marks."""
        self._loops, self._lines, self._origins, self._contents = loops, lines, origins, contents
        self._clock, self._began = clock, clock()
        self._waiting: list[Record] = []
        self._unseen: Counter[str] = Counter()
        self._elsewhere = [0, 0]
        self._uploads: dict[int, tuple[Record, weakref[Any] | None]] = {}
        self.kinds: dict[int, tuple[weakref[Any], HostMemory]] = {}
        """Kinds of memory of host arrays, by their id."""
        self.launches: Counter[Loop | None] = Counter()
        """Work given to the GPU in each loop and (None) in all, of a sample."""
        self.launch_overhead: defaultdict[Loop | None, float] = defaultdict(float)
        """Seconds spent on noting it."""
        self.listens, self._launches = False, 0
        """Whether it has to know of every launch and read, else one launch in `LAUNCH_SAMPLE` is enough; and
        launches since the last upload that is watched."""
        self._looking = self._look_seconds = 0.0
        """Seconds of all looks, and of the last one."""
        self._thread = threading.get_ident()
        self.copy_costs = CopyCosts(clock)
        os.register_at_fork(after_in_child=self.stop)

    def stop(self) -> None:
        """Nothing is recorded from here on: the script is over, or this is a child that it forked."""
        self.recording = False

    def is_sampled(self, event: Event) -> bool:
        """Whether to measure this one in detail: the first of each line, then a sample. One that is not even
        timed loses `created`."""
        event.site = site = self._lines.site(sys._getframe(3))  # none of the first three is the script's
        if site is None:
            return False
        site.crossings = number = site.crossings + 1
        if self.copy_costs.is_on and self.copy_costs.is_around(site):
            if event.kind not in _COPIES:
                event.created = None
            elif self.copy_costs.keeps_copies:
                event.is_compared = True
            else:
                event.is_subtracted = True
            return False
        detailed, timed = _steps(number)
        is_detailed = number <= FIRST_DETAILED or number % detailed == 0
        if is_detailed or number % timed == 0:
            self.copy_costs.consider(site)
        else:
            event.created = None
        return is_detailed

    def repeated(
        self, kind: CrossingKind, size: int, call: Callable[..., Any], args: Any, options: Any
    ) -> Any:
        """The result of a call that crosses and only has to be counted; NEW, before it is called, if there is
        more to note: the line's crossings were not all alike, or this one is to be timed or looked at."""
        if not self.has_gpu:  # every crossing is looked at
            return NEW
        site = self._lines.site(sys._getframe(2))  # neither of the first two is the script's
        if site is None:
            return NEW
        record, site.asked = site.only, size
        if record is None or site.crossings >= site.repeats_until or site.size != size or site.kind != kind:
            return NEW
        if self._uploads or self._waiting or self.copy_costs.is_on:
            return NEW
        depth = self.depth
        depth.value = 1
        try:
            result = call(*args, **options)
        finally:
            depth.value = 0
        site.crossings += 1
        record.count += 1
        record.repeats += 1
        record.bytes += size
        for each in record.loops:
            each.cross(site)
        return result

    def crossed(self, event: Event) -> None:
        """Takes note of a crossing on the script's line that is running."""
        site = event.site or self._lines.site(sys._getframe(1))
        if site is None:
            self._elsewhere[0] += 1
            self._elsewhere[1] += event.bytes
            return
        key = alike(event)
        record = None if site.at_head else site.records.get(key)
        if record is None:
            record = self._record(site, event, key)
        record.count = count = record.count + 1
        record.bytes += event.bytes
        for each in record.loops:
            each.cross(site)
        if event.host_seconds is not None and self.has_gpu and not event.is_compared:
            self._time(record, event, event.host_seconds)
        if event.kind == "upload":
            self._resume(site)
        looks = count >= record.next_look and not (self.copy_costs.is_on and self.copy_costs.is_around(site))
        if looks:
            self._look(record, event)
            record.overhead += self._look_seconds
        elif self._uploads and event.device is not None:
            self._overwrite(event.locate(event.device))
        if event.is_compared:
            self.copy_costs.lock_for_nothing(site, event.host)
        if event.created is not None:
            self._subtract(record, event, event.created, looks * self._look_seconds)
        self._plan_repeats(site, record, event)

    def _plan_repeats(self, site: Site, record: Record, event: Event) -> None:
        """Sets until which crossing of the line others like this one are only counted, if all were alike."""
        if site.only is not record or site.asked != event.bytes or not self.has_gpu:
            return
        site.kind, site.size = event.kind, event.bytes
        number = site.crossings
        until = min(number - number % step + step for step in _steps(number + 1))
        site.repeats_until = min(until, number + record.next_look - record.count) - 1

    def _subtract(self, record: Record, event: Event, created: float, looked: float) -> None:
        """Takes recording, and a copy that is subtracted, off its frame: all since `created` but the call.
        `looked` is noted already."""
        seconds = self._clock() - created - (event.host_seconds or 0.0) - (event.kernel_seconds or 0.0)
        for each in record.loops:
            each.loop.subtracted_seconds += seconds
        if event.is_subtracted or event.is_compared:
            self.copy_costs.seconds += seconds
        elif event.marks is not None:
            record.detailed += 1
            record.overhead += seconds - looked
        else:
            record.noted += 1
            record.noting += seconds - looked

    def _record(self, site: Site, event: Event, key: tuple[Any, ...]) -> Record:
        """The one of this line for such crossings, in the loops that are running."""
        loops = tuple(loop for loop in site.loops if loop.open)
        whole = (site.file, site.line, loops, *key)
        record = self.records.get(whole)
        if record is None:
            first = copy(event)
            first.marks = first.host = first.device = first.site = None
            record = Record(site, first, tuple(map(InLoop, loops)))
            record = self.records.setdefault(whole, record)  # another thread may have been faster
            if event.kind == "wait":
                self._waiting.append(record)
                self.listens = True
        site.records[key] = record
        site.only = record if len(site.records) == 1 and not site.at_head else None
        return record

    def _time(self, record: Record, event: Event, seconds: float) -> None:
        innermost = record.loops[-1] if record.loops else None
        times = record.times[innermost is None or innermost.last > innermost.first]
        times.calls += 1
        times.seconds += seconds + (event.kernel_seconds or 0.0)
        if event.kernel_seconds is not None:
            times.apart += 1
            times.host_seconds += seconds
        if times is record.times[1]:
            for each in record.loops:
                each.loop.is_timed = True
        if event.marks is not None:
            record.marks.append((*event.marks, times))
            if len(record.marks) >= MOST_MARKS:
                self.read_marks(record, MOST_MARKS // 2)

    def read_marks(self, record: Record, most: int | None = None) -> None:
        """Adds up the oldest: their copies are long done, so that nothing waits."""
        between, oldest = self.readers[record.event.library], record.marks[:most]
        del record.marks[:most]  # first, since other threads read them too, and events are reused
        for begin, end, times in oldest:
            times.stream_seconds += max(between(begin, end), 0.0)
            times.timed += 1

    def _resume(self, site: Site) -> None:
        """This line gives the GPU work after a wait."""
        while self._waiting:
            self._waiting.pop().holds_back = site

    def _look(self, record: Record, event: Event) -> None:
        """Where the bytes come from, whether they are the same again and whether they are read, of a sample:
        the first ones of a line, and further ones as long as looking takes little of the time."""
        begin, number = self._clock(), record.count
        affordable = not self.has_gpu or self._looking + self._look_seconds <= LOOKING * (begin - self._began)
        record.next_look = number + (1 if affordable or number < FIRST_LOOKED else THEN_LOOKED)
        if event.host is not None:
            if record.looked < FIRST_LOOKED or number % THEN_LOOKED == 0:
                self._find_source(record, event)
            if event.kind in _COPIES and event.bytes and (affordable or number <= LOOKS):
                record.contents = record.contents or LineContents(record.site)
                self._contents.look(record.contents, event.kind, event.host, number)
        if event.device is not None:
            self._watch(record, event)
        self._look_seconds = self._clock() - begin
        self._looking += self._look_seconds

    def _find_source(self, record: Record, event: Event) -> None:
        record.looked += 1
        record.varies |= event.bytes != record.event.bytes
        if event.kind == "download":
            if len(record.held) == 2:  # the last but one may be a name's that the last has not replaced yet
                oldest = record.held.pop(0)()
                record.kept += oldest is not None and oldest is not event.host
            record.held.append(weakref(event.host))
        source, allocation = self._origins.of(event.host)
        record.sources[source] += 1
        record.fresh += record.looked > 1 and allocation > record.allocated
        record.allocated = self._origins.large
        if threading.get_ident() != self._thread:
            self._unseen[_THREADS] = 1

    def _watch(self, record: Record, event: Event) -> None:
        """Waits for what reads an upload."""
        location = event.locate(event.device)
        self._overwrite(location)
        if location is not None:
            self._uploads[location[0]] = record, location[1]
            record.watched += 1
            self.listens, self._launches = True, 0

    def _overwrite(self, location: Location | None) -> None:
        before = self._uploads.pop(location[0], None) if location is not None else None
        if before is not None:
            before[0].unread += 1

    def resizing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Around numpy.ndarray.resize, which refuses an array that has weak references."""

        def resize(*arguments: Any, refcheck: bool = True) -> None:
            self.kinds.pop(id(arguments[0]), None)
            for record in list(self.records.values()):  # other threads add to them
                record.held = [each for each in record.held if each() is not arguments[0]]
            # NumPy would count the references of this call, too.
            shared = sys.getrefcount(arguments[0]) > _REFERENCES
            call(*arguments, refcheck=refcheck and shared)

        return resize

    def read(self, *devices: int) -> None:
        """Allocations on the GPU that may be read from now on, by their address: views, other libraries."""
        for device in devices if self._uploads else ():
            record, array = self._uploads.pop(device, (None, None))
            if record is not None and array is not None and array() is None:  # others have its memory
                record.unread += 1

    def settle(self) -> None:
        """At the end of the script: arrays that are gone were never read."""
        self.read(*self._uploads)

    def launched(self, reads: tuple[int, ...] = ()) -> None:
        """The GPU was given work by the script's line that is running; `reads`: see `read`."""
        begin = self._clock()
        self.read(*reads)
        site = self._lines.site(sys._getframe(1))
        loops = (None, *site.loops) if site is not None else (None,)
        for loop in loops:
            self.launches[loop] += 1 if self.listens else LAUNCH_SAMPLE
        if site is not None:
            for each in site.loops:
                each.active = True
            self._resume(site)
        self._launches += 1
        if self._launches >= UNREAD_LAUNCHES:
            self.settle()
        self.listens = bool(self._waiting or self._uploads)
        spent = self._clock() - begin
        for loop in loops:
            self.launch_overhead[loop] += spent

    def not_seen(self, what: str) -> None:
        """Something that cannot be recorded, in words for the report's list."""
        self._unseen[what] += 1

    def unseen(self) -> tuple[str, ...]:
        elsewhere = (_LIBRARY_THREADS.format(*self._elsewhere),) if self._elsewhere[0] else ()
        texts = (what if times == 1 else f"{what} ({times} times)" for what, times in self._unseen.items())
        return (*texts, *elsewhere)


def _steps(number: int) -> tuple[int, int]:
    """One call in how many is measured in detail, and one in how many is timed."""
    return next((detailed, timed) for last, detailed, timed in STEPS if number <= last)
