"""A whole run: what was asked becomes tasks, their ends become rows, the rows a page.

workload -> parcel -> a task per device and value -> profile.json, row.json -> fleet.html, placements.toml
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from advisor.errors import AdvisorError, NothingMeasured
from advisor.fleet import keeping
from advisor.fleet.cluster import Cluster, SchedulerLost
from advisor.fleet.keeping import Folder, slug, task_of
from advisor.fleet.parcels import Parcel
from advisor.fleet.planning import Device, Unfit, differing
from advisor.fleet.records import Answer, Task
from advisor.fleet.running import Dispatcher, Item, Limits, Wanted
from advisor.measure.progress import Progress
from advisor.profiles.fleets import FleetRecord, Row
from advisor.profiles.redaction import here, hidden
from advisor.profiles.schema import Profile
from advisor.version import __version__

Write = Callable[[Profile, Path], object]


@dataclass(frozen=True)
class Request:
    """What was asked for. `values` are NAME=VALUE of the swept parameter, "" alone without a sweep."""

    parcel: Parcel
    workload: str | None
    title: str
    """The workload's name on the pages."""
    options: Mapping[str, Any]
    values: tuple[str, ...]
    wanted: Wanted
    limits: Limits
    command: str = ""
    include_host: bool = False
    no_environment: bool = False
    shown: Mapping[str, str] = field(default_factory=dict)
    """What pages call a value, where that differs."""

    @property
    def digest(self) -> str:
        """Hash of everything the profiles depend on."""
        told = (self.parcel.digest, self.workload, self.options, self.values, self.wanted.no_gpu, __version__)
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()

    def task(self, device: Device, value: str) -> Task:
        """What a worker is sent."""
        options = dict(self.options)
        if value:
            options["parameters"] = [*options.get("parameters", ()), value]
        return Task(
            gpu=device.uuid,
            no_gpu=self.wanted.no_gpu,
            file=self.parcel.file,
            workload=self.workload,
            options=options,
            include_host=self.include_host,
            no_environment=self.no_environment,
            command=self.command,
            files=self.parcel.packed(),
            seconds=self.limits.task,
        )

    def record(self) -> FleetRecord:
        """What fleet.json says of it."""
        return FleetRecord(
            request=self.digest,
            workload=self.title,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            command=self.command,
            parameter=self.values[0].partition("=")[0],
        )


@dataclass(frozen=True)
class Outcome:
    """All rows, in order; `stopped` is why some were not run: interrupted, or the scheduler lost."""

    record: FleetRecord
    stopped: BaseException | None
    problems: tuple[AdvisorError, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the record."""
        return self.record.rows

    @property
    def profiled(self) -> bool:
        """Whether anything was."""
        return any(row.status == "profiled" for row in self.rows)

    @property
    def has_figures(self) -> bool:
        """Whether a strategy was measured or predicted on any device."""
        return any(row.status == "profiled" and row.basis != "none" for row in self.rows)


def require_resumable(request: Request, directory: Path, *, resume: bool) -> None:
    """Raises `UsageError` or `FileProblem` where the folder has no run of this request to resume."""
    if resume:
        keeping.require_same(directory, request.record())


def run(
    request: Request,
    cluster: Cluster,
    directory: Path,
    progress: Progress,
    *,
    write: Write,
    tell: Callable[[str], None],
    resume: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Profiles every device, each result saved as it comes. Raises `AdvisorError` before anything runs."""
    sha256 = hashlib.sha256(request.parcel.files[request.parcel.file]).hexdigest()
    redactor = here(include_host=request.include_host)
    folder = Folder(directory, request.record(), sha256, write, redactor)
    if taken := folder.begin(resume=resume):
        tell(f"resumed: {taken} profiled before")
    events = _Events(request, folder, progress, tell)
    dispatcher = Dispatcher(cluster, request.wanted, request.limits, events, events.text, clock)
    stopped: BaseException | None = None
    try:
        dispatcher.run()
    except (KeyboardInterrupt, SchedulerLost) as end:
        stopped = end
    rows = [*folder.rows.values(), *events.unfit_rows]
    rows += [events.row(item.device, item.value, "not run", _why(stopped)) for item in dispatcher.left]
    notes = tuple(differing(dispatcher.machines))
    record = folder.record.model_copy(update={"rows": keeping.rows_in_order(rows), "notes": notes})
    record = hidden(record, redactor)
    if not rows and stopped is None:
        raise _no_device(request, dispatcher)
    return Outcome(record, stopped, tuple(folder.codes))


def _why(stopped: BaseException | None) -> str:
    return stopped.message if isinstance(stopped, AdvisorError) else "the run was interrupted"


def _no_device(request: Request, dispatcher: Dispatcher[str]) -> NothingMeasured:
    if request.wanted.where and dispatcher.machines:
        told = ", ".join(f"{key}={value}" for key, value in request.wanted.where.items())
        return NothingMeasured(
            f"no device of the cluster fits --where {told}",
            next_step="Omit it to see the devices.",
        )
    return NothingMeasured(
        "the scheduler has no workers",
        next_step="Start some: dask worker ADDRESS, with the scheduler's address.",
    )


class _Events:
    """Turns what the dispatcher hears into rows and progress."""

    def __init__(
        self, request: Request, folder: Folder, progress: Progress, tell: Callable[[str], None]
    ) -> None:
        self._request, self._folder, self._progress, self._tell = request, folder, progress, tell
        self._labels: dict[str, str] = {}
        self._total = 0
        self.unfit_rows: list[Row] = []

    def text(self, device: Device, value: str) -> str:
        """The task's text."""
        return self._request.task(device, value).model_dump_json()

    def values(self, device: Device) -> Sequence[str]:
        """The values that no earlier run has profiled."""
        each = self._request.wanted.each
        there = self._folder.rows
        found = [v for v in self._request.values if task_of(device, self._value(v), each=each) not in there]
        self._label(device)
        self._total += len(found)
        self._progress.start(self._total)
        return found

    def unfit(self, worker: str, host: str, why: Unfit) -> None:
        """A row, without the worker's address unless hosts may be told."""
        name = host if host and self._request.include_host else f"worker {len(self.unfit_rows) + 1}"
        self.unfit_rows.append(
            Row(task=worker, device=name, status="unfit", reason=why.reason, next_step=why.next_step)
        )
        self._tell(f"{worker}: {why.reason}\n  next: {why.next_step}")

    def begun(self, item: Item[str]) -> None:
        """See `advisor.fleet.running.Events`."""
        again = "again: " if item.tried else ""
        self._progress.begin(f"{again}{self._label(item.device)} {self._value(item.value)}".strip())

    def ended(self, item: Item[str], answer: Answer, seconds: float) -> None:
        """See `advisor.fleet.running.Events`."""
        row = self.row(item.device, item.value, "failed", seconds=seconds)
        row = self._folder.end(row, answer)
        self._progress.end()
        what = row.strategy or "profiled" if row.status == "profiled" else f"failed: {row.reason}"
        self._tell(f"{row.device} {row.value}".strip() + f": {what} ({seconds:.0f} s)")

    def row(self, device: Device, value: str, status: Any, reason: str = "", seconds: float = 0.0) -> Row:
        """The row of a task that has not been profiled, or not yet."""
        label, value = self._label(device), self._value(value)
        return Row(
            task=task_of(device, value, each=self._request.wanted.each),
            device=label,
            kind=device.kind,
            memory_class=device.memory_class,
            value=value,
            status=status,
            reason=reason,
            folder="/".join(filter(None, (slug(label), slug(value) if value else ""))),
            seconds=seconds,
        )

    def _value(self, value: str) -> str:
        return self._request.shown.get(value, value)

    def _label(self, device: Device) -> str:
        key = device.key(each=self._request.wanted.each)
        if key not in self._labels:
            name = f"{device.name} ({device.host})" if self._request.include_host else device.name
            self._labels[key] = self._folder.label(key, name, self._labels.values())
        return self._labels[key]
