"""Gives each device its tasks: one at a time at a place, once more elsewhere after a worker was lost.

Workers may come and go meanwhile. Nothing here knows Dask, profiles or files.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from pydantic import ValidationError

from advisor.fleet.cluster import Cluster, Ended, Given
from advisor.fleet.planning import NO_PACKAGE, Device, Unfit, devices, fits, unfit
from advisor.fleet.records import Answer, Machine, wrong

_TURN_SECONDS = 0.25
Value = TypeVar("Value")


@dataclass(frozen=True)
class Item(Generic[Value]):
    """One profile to make: of a device, or another one like it, at one value of the swept parameter."""

    device: Device
    value: Value
    tried: tuple[str, ...] = ()
    """Workers that were lost with it."""
    reason: str = ""
    since: float = 0.0
    """When a worker with such a device was last there."""


@dataclass
class _Running(Generic[Value]):
    item: Item[Value]
    device: Device
    began: float


@dataclass(frozen=True)
class Limits:
    """Seconds of a task, and those that a lost one waits for another worker with such a device."""

    task: float
    another: float = 15.0
    look: float = 60.0
    no_worker: float = 30.0
    slack: float = 10.0
    """More than `task`, in which a worker ends it by itself and says what it printed."""
    tries: int = 2


class Events(Protocol[Value]):
    """Hears how it goes."""

    def values(self, device: Device) -> Sequence[Value]:
        """What is to be profiled on a device that was found; nothing where it is all done."""

    def unfit(self, worker: str, host: str, why: Unfit) -> None:
        """A worker cannot take part."""

    def begun(self, item: Item[Value]) -> None:
        """A task was given out."""

    def ended(self, item: Item[Value], answer: Answer, seconds: float) -> None:
        """It ended: profiled, failed, or lost for good."""


@dataclass(frozen=True)
class Wanted:
    """Which devices take part."""

    each: bool = False
    where: dict[str, str] = field(default_factory=dict)
    no_gpu: bool = False
    alone: bool = False
    """One profile at a time on a host, whatever GPUs it has."""


class Dispatcher(Generic[Value]):
    """One run of a fleet. `text` makes a task's text for a device."""

    def __init__(
        self,
        cluster: Cluster,
        wanted: Wanted,
        limits: Limits,
        events: Events[Value],
        text: Callable[[Device, Value], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._wanted, self._limits, self._events = cluster, wanted, limits, events
        self._text, self._clock = text, clock
        self._looking: dict[Given, float] = {}
        self._devices: dict[str, tuple[Device, ...]] = {}
        """By worker; empty for one that is looked at, or cannot take part."""
        self._keys: set[str] = set()
        self._waiting: list[Item[Value]] = []
        self._running: dict[Given, _Running[Value]] = {}
        self.machines: dict[str, Machine] = {}
        self._seats: dict[str, int] = {}
        self._began = clock()

    def run(self) -> None:
        """Until every device's tasks ended. Ctrl-C and a lost scheduler end the calls and are raised on."""
        try:
            while self._turn():
                for ended in self._cluster.ended(_TURN_SECONDS):
                    self._take(ended)
        finally:
            for given in (*self._running, *self._looking):
                self._cluster.drop(given)

    @property
    def left(self) -> Iterator[Item[Value]]:
        """What was not ended."""
        yield from (running.item for running in self._running.values())
        yield from self._waiting

    def _turn(self) -> bool:
        """Looks around and gives out what can be; whether anything is left to wait for."""
        there = self._cluster.workers()
        for worker in set(self._devices) - set(there):
            self._gone(worker)
        for worker in sorted(set(there) - set(self._devices)):
            self._devices[worker] = ()
            self._looking[self._cluster.give(worker, "look")] = self._clock()
        self._end_late_ones()
        self._give_out()
        starting = not self._devices and self._clock() - self._began < self._limits.no_worker
        return bool(self._looking or self._running or self._waiting or starting)

    def _take(self, ended: Ended) -> None:
        if ended.given in self._looking:
            del self._looking[ended.given]
            self._seen(ended)
        elif ended.given in self._running:
            running = self._running.pop(ended.given)
            self._answered(ended.given.worker, running, _answer(ended))

    def _seen(self, ended: Ended) -> None:
        """A worker said what its machine is."""
        worker = ended.given.worker
        if worker not in self._devices:
            return
        machine, why = _machine(ended)
        why = why or (unfit(machine, no_gpu=self._wanted.no_gpu) if machine else None)
        if why or machine is None:
            self._events.unfit(worker, machine.host if machine else "", why or NO_PACKAGE)
            return
        self.machines[worker] = machine
        self._seats[worker] = self._free_seat(machine.host)
        found = devices(machine, self._seats[worker], no_gpu=self._wanted.no_gpu)
        self._devices[worker] = tuple(
            replace(d, place=f"host {d.host}") if self._wanted.alone else d
            for d in found
            if fits(d, self._wanted.where)
        )
        for device in self._devices[worker]:
            key = device.key(each=self._wanted.each)
            if key not in self._keys:
                self._keys.add(key)
                self._waiting += [Item(device, value) for value in self._events.values(device)]

    def _free_seat(self, host: str) -> int:
        """The lowest number among the host's workers: one that is started again has that of the lost one."""
        taken = {
            self._seats[w] for w, told in self.machines.items() if told.host == host and w in self._seats
        }
        return next(n for n in itertools.count(1) if n not in taken)

    def _give_out(self) -> None:
        taken = {running.device.place for running in self._running.values()}
        busy = {given.worker for given in self._running}
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            home = self._home(item, taken, busy)
            if home is None:
                self._wait_on(item)
                continue
            worker, device = home
            taken.add(device.place)
            busy.add(worker)
            given = self._cluster.give(worker, "profile", self._text(device, item.value))
            self._running[given] = _Running(item, device, self._clock())
            self._events.begun(item)

    def _home(
        self, item: Item[Value], taken: Collection[str], busy: Collection[str]
    ) -> tuple[str, Device] | None:
        """A free worker with this device, or one like it, that has not lost the task before."""
        for worker, device in self._homes(item):
            if worker not in busy and device.place not in taken:
                return worker, device
        return None

    def _homes(self, item: Item[Value]) -> Iterator[tuple[str, Device]]:
        key = item.device.key(each=self._wanted.each)
        for worker, found in self._devices.items():
            for device in found:
                if worker not in item.tried and device.key(each=self._wanted.each) == key:
                    yield worker, device

    def _wait_on(self, item: Item[Value]) -> None:
        """Keeps it, unless there has been no such device for too long: it has failed then."""
        now = self._clock()
        if next(self._homes(item), None) is not None or self._looking:
            self._waiting.append(replace(item, since=now))
        elif now - (item.since or now) < self._limits.another:
            self._waiting.append(replace(item, since=item.since or now))
        else:
            answer = Answer(
                status="lost",
                reason=f"{item.reason or 'the worker was lost'}; no other worker has this device",
                next_step="Start its worker again, then run the same command with --resume.",
            )
            self._events.ended(item, answer, 0.0)

    def _gone(self, worker: str) -> None:
        del self._devices[worker]
        self.machines.pop(worker, None)
        self._seats.pop(worker, None)
        for given in [each for each in self._looking if each.worker == worker]:
            self._cluster.drop(given)
            del self._looking[given]
        for given in [each for each in self._running if each.worker == worker]:
            self._cluster.drop(given)
            self._answered(
                worker, self._running.pop(given), Answer(status="lost", reason="the worker was lost")
            )

    def _end_late_ones(self) -> None:
        now = self._clock()
        for given, since in list(self._looking.items()):
            if now - since > self._limits.look:
                self._cluster.drop(given)
                del self._looking[given]
                what = f"it did not report its devices within {self._limits.look:g} s"
                self._events.unfit(
                    given.worker, "", Unfit(what, "Check whether it is busy with other tasks.")
                )
        for given, running in list(self._running.items()):
            if now - running.began > self._limits.task + self._limits.slack:
                self._cluster.drop(given)
                del self._running[given]
                late = Answer(status="lost", reason=f"no answer within {self._limits.task:g} s")
                self._answered(given.worker, running, late)

    def _answered(self, worker: str, running: _Running[Value], answer: Answer) -> None:
        """Profiled and failed are for good; what was lost is tried once more elsewhere."""
        item, now = running.item, self._clock()
        tried = (*item.tried, worker)
        if answer.status == "lost" and len(tried) < self._limits.tries:
            self._waiting.append(replace(item, tried=tried, reason=answer.reason, since=now))
            return
        self._events.ended(item, answer, now - running.began)


def _answer(ended: Ended) -> Answer:
    if ended.text is None:
        return Answer(status="lost", reason=ended.reason)
    try:
        return Answer.model_validate_json(ended.text)
    except ValidationError as problem:
        return Answer(status="failed", reason=f"the worker's answer cannot be read: {wrong(problem)}")


def _machine(ended: Ended) -> tuple[Machine | None, Unfit | None]:
    if ended.no_package:
        return None, NO_PACKAGE
    if ended.text is None:
        return None, Unfit(f"it cannot report its devices: {ended.reason}", "Check the worker's log.")
    try:
        return Machine.model_validate_json(ended.text), None
    except ValidationError as problem:
        return None, Unfit(
            f"its report of its devices cannot be read: {wrong(problem)}",
            "Install the same version of advisor there.",
        )
