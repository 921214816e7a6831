"""A whole run: the request becomes tasks, their results rows, the rows a page.

workload -> package -> a task per device and value -> profile.json, row.json -> fleet.html, placements.toml

Each device gets its tasks one at a time at a place, once more elsewhere after a worker was lost. Workers may
come and go meanwhile. Dask fixes a task's workers when it is submitted and knows nothing of a GPU that
several workers share, so its own placement and retries do not serve: each call goes to one worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from pydantic import ValidationError

from advisor.errors import AdvisorError, NothingMeasured
from advisor.fleets import planning
from advisor.fleets.planning import Answer, Device, Item, Machine
from advisor.fleets.request import Request
from advisor.fleets.storage import RECORD, Results
from advisor.measure.progress import make_progress
from advisor.profiles import outputs
from advisor.profiles.base import first_error
from advisor.profiles.fleets import FleetRecord
from advisor.profiles.redaction import hidden
from advisor.report import pages
from advisor.report.page import Page
from advisor.report.several_pages import fleet_page
from advisor.version import __version__

Clock = Callable[[], float]
Function = Literal["inspect", "profile"]
"""A function of `advisor.fleets.remote`."""
_TURN_SECONDS = 0.25
_TRIES = 2
_SAME_VERSION = "Install the same version of advisor there."


@dataclass(frozen=True)
class Reply:
    """The text that a call returned, or why there is none."""

    call: str
    worker: str
    text: str | None = None
    reason: str = ""
    not_installed: bool = False
    """advisor cannot be imported there."""


class SchedulerLost(NothingMeasured):
    """The connection to the scheduler is gone, for longer than it takes to come back."""


class Cluster(Protocol):
    """`dask_cluster.DaskCluster`, or a test's. Raises `SchedulerLost` from each of these."""

    def workers(self) -> Collection[str]:
        """Addresses of the live workers."""

    def start(self, worker: str, function: Function, text: str = "") -> str:
        """Starts a call on that worker alone, or on any ("": an adaptive cluster starts one). Its key."""

    def replies(self, seconds: float) -> Sequence[Reply]:
        """The calls that ended since the last time; waits at most so long for one."""

    def cancel(self, call: str) -> None:
        """Ends a call."""

    def lock(self, device: str) -> bool:
        """Locks the device against other commands of the cluster, until `unlock`; False if one has it."""

    def unlock(self, device: str) -> None: ...


@dataclass(frozen=True)
class _Running:
    worker: str
    began: float
    item: Item | None = None
    """None for an inspection."""
    device: Device | None = None

    @property
    def place(self) -> str:
        return self.device.place if self.device else ""


class Dispatcher:
    def __init__(
        self, cluster: Cluster, request: Request, results: Results, clock: Clock = time.monotonic
    ) -> None:
        self._cluster, self._request, self._results, self._clock = cluster, request, results, clock
        self._calls: dict[str, _Running] = {}
        self._devices: dict[str, tuple[Device, ...]] = {}
        """By worker; empty for one that is being inspected, or cannot take part."""
        self._keys: set[str] = set()
        self._waiting: list[Item] = []
        self.machines: dict[str, Machine] = {}
        self._scaling = ""
        """The call on any worker, while there is none."""
        self._began = self._joined = clock()

    def run(self) -> BaseException | None:
        """Returns when every device's tasks have ended, or what cancelled them: Ctrl-C, a lost scheduler."""
        try:
            while self._turn():
                for reply in self._cluster.replies(_TURN_SECONDS):
                    running = self._end(reply.call) if reply.call in self._calls else None
                    if running is not None and running.item is None:
                        self._inspected(reply)
                    elif running is not None:
                        self._answered(running, _answer(reply))
        except (KeyboardInterrupt, SchedulerLost) as end:
            return end
        finally:
            for call in (*self._calls, self._scaling):
                self._cluster.cancel(call)
                if call in self._calls and (device := self._calls[call].device):
                    self._cluster.unlock(device.lock)
        return None

    @property
    def unfinished(self) -> Iterator[Item]:
        yield from (running.item for running in self._calls.values() if running.item)
        yield from self._waiting

    def _turn(self) -> bool:
        """Starts what can be started. Returns whether anything is left to wait for."""
        present = set(self._cluster.workers())
        for worker in self._devices.keys() - present:
            del self._devices[worker]
            self.machines.pop(worker, None)
            for call in [call for call, running in self._calls.items() if running.worker == worker]:
                self._cluster.cancel(call)
                self._answered(self._end(call), Answer(status="lost", reason="the worker was lost"))
        for worker in sorted(present - self._devices.keys()):
            self._devices[worker] = ()
            self._joined = self._clock()
            self._calls[self._cluster.start(worker, "inspect")] = _Running(worker, self._joined)
        self._assign()
        now = self._clock()
        if self._devices:
            return bool(self._calls or self._waiting or now - self._joined < self._request.joining)
        starting = now - self._began < self._request.wait
        if starting and not self._scaling:
            self._scaling = self._cluster.start("", "inspect")
        return bool(self._calls or self._waiting or starting)

    def _inspected(self, reply: Reply) -> None:
        """Adds the devices of a worker's machine, and tasks for the new ones."""
        worker, selection, no_gpu = reply.worker, self._request.selection, self._request.template.no_gpu
        machine = None
        try:
            machine = _machine(reply)
            planning.require_fit(machine, no_gpu=no_gpu)
        except NothingMeasured as why:
            self._results.unfit(worker, machine.host if machine else "", why)
            return
        self.machines[worker] = machine
        self._devices[worker] = tuple(
            device.model_copy(update={"place": f"host {device.host}"} if selection.one_per_host else {})
            for device in machine.devices(no_gpu=no_gpu)
            if planning.fits(device, selection.where)
        )
        for device in self._devices[worker]:
            key = self._request.key(device)
            if key not in self._keys:
                self._keys.add(key)
                self._waiting += self._results.unprofiled(device)

    def _assign(self) -> None:
        places = {running.place for running in self._calls.values()}
        busy = {running.worker for running in self._calls.values()}
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            free = [(w, d) for w, d in self._homes(item) if w not in busy and d.place not in places]
            home = next(((w, d) for w, d in free if self._cluster.lock(d.lock)), None)
            if free and home is None:
                self._results.waits(f"another command uses {item.device.name}")
            if home is None:
                self._wait_on(item)
                continue
            worker, device = home
            places.add(device.place)
            busy.add(worker)
            task = self._request.task(device, item.value)
            call = self._cluster.start(worker, "profile", task.model_dump_json())
            self._calls[call] = _Running(worker, self._clock(), item, device)
            self._results.begun(item)

    def _homes(self, item: Item) -> Iterator[tuple[str, Device]]:
        """Workers with such a device that have not lost the item before."""
        key = self._request.key(item.device)
        for worker, own in self._devices.items():
            for device in own:
                if worker not in item.tried and self._request.key(device) == key:
                    yield worker, device

    def _wait_on(self, item: Item) -> None:
        """Keeps the item waiting; it fails if there has been no such device for too long."""
        now = self._clock()
        inspecting = any(running.item is None for running in self._calls.values())
        if inspecting or next(self._homes(item), None) is not None:
            self._waiting.append(replace(item, since=now))
        elif now - (item.since or now) < self._request.another:
            self._waiting.append(replace(item, since=item.since or now))
        else:
            answer = Answer(
                status="lost",
                reason=f"{item.reason or 'the worker was lost'}; no other worker has this device",
                next_step="Start its worker again, then run the same command with --resume.",
            )
            self._results.ended(item, answer, 0.0)

    def _end(self, call: str) -> _Running:
        running = self._calls.pop(call)
        if running.device:
            self._cluster.unlock(running.device.lock)
        return running

    def _answered(self, running: _Running, answer: Answer) -> None:
        """Records the answer; a lost task is tried once more elsewhere."""
        item, now = running.item, self._clock()
        if item is None:
            return
        tried = (*item.tried, running.worker)
        if answer.status == "lost" and len(tried) < _TRIES:
            self._waiting.append(replace(item, tried=tried, reason=answer.reason, since=now))
        else:
            self._results.ended(item, answer, now - running.began)


def _answer(reply: Reply) -> Answer:
    if reply.text is None:
        return Answer(status="lost", reason=reply.reason)
    try:
        return Answer.model_validate_json(reply.text)
    except ValidationError as problem:
        reason = f"the worker's answer cannot be read: {first_error(problem)}"
        return Answer(status="failed", reason=reason, next_step=_SAME_VERSION)


def _machine(reply: Reply) -> Machine:
    if reply.not_installed:
        step = f"Install it: pip install 'gpu-memory-advisor[fleet]=={__version__}'"
        raise NothingMeasured("advisor is not installed there", next_step=step)
    if reply.text is None:
        what = f"it cannot report its devices: {reply.reason}"
        raise NothingMeasured(what, next_step="Check the worker's log.")
    try:
        return Machine.model_validate_json(reply.text)
    except ValidationError as problem:
        what = f"its report of its devices cannot be read: {first_error(problem)}"
        raise NothingMeasured(what, next_step=_SAME_VERSION) from None


@dataclass(frozen=True)
class Outcome:
    """All rows, in order; `stopped` is why some were not run: interrupted, or the scheduler lost."""

    record: FleetRecord
    stopped: BaseException | None
    problems: tuple[AdvisorError, ...]
    page: Page
    files: Sequence[Path]
    """What the page was written to."""


def run(
    request: Request,
    reach: Callable[[], Cluster],
    out: Path,
    *,
    tell: Callable[[str], None] = lambda _: None,
    resume: bool = False,
    clock: Clock = time.monotonic,
) -> Outcome:
    """Runs a request and writes its folder. Raises `NothingMeasured` where there is no device.

    reach: connects to the cluster, or starts it, once the folder is known to be free.
    """
    names = [RECORD, *pages.names("fleet", request.formats)]
    with outputs.output_directory(out, names) as directory:
        with make_progress(quiet=request.options.quiet) as progress:
            results = Results(request, directory, progress, tell)
            results.begin(resume=resume)
            dispatcher = Dispatcher(reach(), request, results, clock)
            stopped = dispatcher.run()
        why = stopped.message if isinstance(stopped, AdvisorError) else "the run was interrupted"
        rows = [*results.rows.values(), *results.unfit_rows]
        rows += [item.row.model_copy(update={"reason": why}) for item in dispatcher.unfinished]
        if not rows and stopped is None:
            if (where := request.selection.where) and dispatcher.machines:
                wrong = f"no device of the cluster fits --where {', '.join(map('='.join, where.items()))}"
                raise NothingMeasured(wrong, next_step="Omit it to see the devices.")
            step = "Start some: dask worker ADDRESS, with the scheduler's address."
            raise NothingMeasured("the scheduler has no workers", next_step=step)
        rows.sort(key=lambda row: (row.status != "profiled", row.kind, row.device))
        notes = tuple(planning.differing(dispatcher.machines))
        record = results.record.model_copy(update={"rows": tuple(rows), "notes": notes})
        record = hidden(record, results.redactor)
        page = fleet_page(record)
        written = pages.write(page, directory, request.formats)
    return Outcome(record, stopped, tuple(results.errors), page, written)
