"""`advisor.fleet` for programs, and what the command shares with it: the cluster, and when a run failed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, ValidationError

from advisor import configuration
from advisor.api import Profile, Shown, assignments, load, naming_arguments
from advisor.errors import NothingMeasured, UsageError
from advisor.fleets.fleet import Cluster, Outcome, run
from advisor.fleets.planning import parse_where
from advisor.fleets.request import Selection, make_request
from advisor.profiles.fleets import FleetRecord, Row
from advisor.report.several_pages import fleet_page

if TYPE_CHECKING:
    from distributed import Client


class _Arguments(BaseModel):
    """Arguments of `fleet` that `configuration` does not check, each with what it should be."""

    workload: str | Path = Field(description="a path")
    local: int | None = Field(strict=True, ge=1, le=256, description="a whole number from 1 to 256")
    out: Path = Field(description="a path")
    where: dict[str, str] | None = Field(description="a dict of texts")
    send: tuple[Path, ...] = Field(description="a list of paths")
    wait: float = Field(strict=True, ge=0, le=1e6, description="a number from 0 to 1000000")


class Fleet(Shown, FleetRecord):
    """The devices of a cluster, each with its row; the profiles are in `folder`."""

    folder: Path = Path()
    _page = fleet_page

    def profile(self, row: Row) -> Profile:
        """The profile of a device. Raises `AdvisorError` for a row without one."""
        return load(self.folder / row.folder / "profile.json")


def fleet(
    workload: str | Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    scheduler: str | Client | None = None,
    local: int | None = None,
    out: str | Path = "advisor-fleet",
    each: bool = False,
    one_per_host: bool = False,
    where: Mapping[str, str] | None = None,
    send: Sequence[str | Path] = (),
    wait: float = 30.0,
    resume: bool = False,
    **arguments: Any,
) -> Fleet:
    """Profiles a workload on every distinct device of a Dask cluster, as `advisor fleet` does.

    scheduler: an address, or a `distributed.Client`, which stays open. `arguments` are those of
    `advisor.profile`, and `sweep`. Raises `AdvisorError`; KeyboardInterrupt after the results were saved.
    """
    if unknown := {"gpu", "gpus"} & arguments.keys():
        raise TypeError(f"fleet() got an unexpected keyword argument {unknown.pop()!r}")
    given = {"workload": workload, "local": local, "out": out, "where": where, "send": send, "wait": wait}
    with naming_arguments():
        try:
            own = _Arguments.model_validate(given)
        except ValidationError as problem:
            name = str(problem.errors()[0]["loc"][0])
            expected = _Arguments.model_fields[name].description
            raise UsageError(
                f"advisor.fleet: {name}={given[name]!r} is not {expected}",
                next_step="docs/fleet.md and help(advisor.fleet) list the arguments.",
            ) from None
        values = {"workload": str(workload), "parameters": assignments(parameters or {}), **arguments}
        conditions = parse_where([f"{key}={value}" for key, value in (own.where or {}).items()])
        selection = Selection(each, conditions, one_per_host=one_per_host)
        source, command = configuration.arguments(**values), ["fleet", str(workload)]
        request = make_request(source, selection, command, send=own.send, wait=wait)
        reach = clusters(scheduler, None, local, (None, None, None))
        with ExitStack() as stack:
            outcome = run(request, partial(stack.enter_context, reach), own.out, resume=resume)
        require_figures(outcome)
    return Fleet(**dict(outcome.record), folder=own.out)


def clusters(
    scheduler: str | Client | None, file: Path | None, local: int | None, tls: Sequence[Path | None]
) -> AbstractContextManager[Cluster]:
    """The cluster. Raises `UsageError` unless exactly one was given, `NothingMeasured` without Dask."""
    options = {"--scheduler": scheduler, "--scheduler-file": file, "--local": local}
    named = [option for option, value in options.items() if value]
    scheduler = scheduler or (None if named else os.environ.get("DASK_SCHEDULER_ADDRESS"))
    if len(named) > 1 or not (named or scheduler):
        raise UsageError(
            f"{' and '.join(named)} contradict each other" if named else "no cluster was given",
            next_step="Give one of --scheduler ADDRESS, --scheduler-file FILE or --local NUMBER, or set "
            "DASK_SCHEDULER_ADDRESS.",
        )
    try:
        import distributed

        from advisor.fleets import dask_cluster  # Dask is an extra, and takes a second to import
    except ImportError as missing:
        raise NothingMeasured(
            f"`advisor fleet` needs dask.distributed, which is not installed ({missing})",
            next_step="Install the extra: pip install 'gpu-memory-advisor[fleet]'",
        ) from None
    if isinstance(scheduler, distributed.Client):
        return nullcontext(dask_cluster.DaskCluster(scheduler))
    if scheduler and not isinstance(scheduler, str):
        raise UsageError(
            f"scheduler={scheduler!r} is neither an address nor a distributed.Client",
            next_step='Give "tcp://host:8786", or the Client of a running cluster.',
        )
    security = dask_cluster.make_security(*tls)
    return dask_cluster.local(local, security) if local else dask_cluster.connected(scheduler, file, security)


def require_figures(outcome: Outcome) -> None:
    """Raises what stopped the run, the error of the first device where all failed, `NothingMeasured` without
    any figure."""
    if outcome.stopped is not None:
        raise outcome.stopped
    bases = {row.basis for row in outcome.record.rows if row.status == "profiled"}
    if bases == {"none"}:
        step = "The report of each device lists the reasons."
        raise NothingMeasured("no strategy could be measured or predicted on any device", next_step=step)
    if not bases:
        unfit = next((row for row in outcome.record.rows if row.status == "unfit"), None)
        if outcome.problems or unfit is None:
            raise next(iter(outcome.problems), NothingMeasured("no device could be profiled"))
        raise NothingMeasured(f"no worker can take part: {unfit.reason}", next_step=unfit.next_step)
