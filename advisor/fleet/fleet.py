"""A whole run: the request becomes tasks, their results rows, the rows a page.

workload -> package -> a task per device and value -> profile.json, row.json -> fleet.html, placements.toml
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import AdvisorError, NothingMeasured, UsageError
from advisor.fleet.planning import differing
from advisor.fleet.request import Request
from advisor.fleet.scheduling import Cluster, Dispatcher, SchedulerLost
from advisor.fleet.storage import Results, Write
from advisor.measure.progress import Progress
from advisor.profiles.fleets import FleetRecord, Row
from advisor.profiles.redaction import hidden


@dataclass(frozen=True)
class Outcome:
    """All rows, in order; `stopped` is why some were not run: interrupted, or the scheduler lost."""

    record: FleetRecord
    stopped: BaseException | None
    problems: tuple[AdvisorError, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.record.rows

    @property
    def profiled(self) -> bool:
        return any(row.status == "profiled" for row in self.rows)

    @property
    def has_figures(self) -> bool:
        return any(row.status == "profiled" and row.basis != "none" for row in self.rows)


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
    results = Results(request, directory, progress, write, tell)
    results.begin(resume=resume)
    dispatcher = Dispatcher(cluster, request, results, clock)
    stopped: BaseException | None = None
    try:
        dispatcher.run()
    except (KeyboardInterrupt, SchedulerLost) as end:
        stopped = end
    why = stopped.message if isinstance(stopped, AdvisorError) else "the run was interrupted"
    rows = [*results.rows.values(), *results.unfit_rows]
    rows += [results.row(item, "not run", why) for item in dispatcher.left]
    if not rows and stopped is None:
        raise _no_device(request, dispatcher)
    rows.sort(key=lambda row: (row.status != "profiled", row.kind, row.device))
    notes = tuple(differing(dispatcher.machines))
    record = results.record.model_copy(update={"rows": tuple(rows), "notes": notes})
    return Outcome(hidden(record, results.redactor), stopped, tuple(results.errors))


def _no_device(request: Request, dispatcher: Dispatcher) -> NothingMeasured:
    where = request.selection.where
    if where and dispatcher.machines:
        conditions = ", ".join(f"{key}={value}" for key, value in where.items())
        return NothingMeasured(
            f"no device of the cluster fits --where {conditions}", next_step="Omit it to see the devices."
        )
    return NothingMeasured(
        "the scheduler has no workers",
        next_step="Start some: dask worker ADDRESS, with the scheduler's address.",
    )


def connect(
    scheduler: str | None, file: Path | None, local: int | None, tls: Sequence[Path | None]
) -> AbstractContextManager[Cluster]:
    """The cluster to enter. Raises `UsageError` unless one was given, `NothingMeasured` without Dask."""
    options = {"--scheduler": scheduler, "--scheduler-file": file, "--local": local}
    given = [option for option, value in options.items() if value]
    if len(given) != 1:
        raise UsageError(
            f"{' and '.join(given)} contradict each other" if given else "no cluster was given",
            next_step="Give one of --scheduler ADDRESS, --scheduler-file FILE or --local NUMBER.",
        )
    try:
        from advisor.fleet import dask_cluster  # Dask is an extra, and takes a second to import
    except ImportError as missing:
        raise NothingMeasured(
            f"`advisor fleet` needs dask.distributed, which is not installed ({missing})",
            next_step="Install the extra: pip install 'gpu-memory-advisor[fleet]'",
        ) from None
    security = dask_cluster.make_security(*tls)
    return dask_cluster.local(local, security) if local else dask_cluster.connected(scheduler, file, security)
