"""`advisor fleet`: one workload on every distinct device of a Dask cluster."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from advisor.cli import options
from advisor.cli.console import say, say_written, summarize, text
from advisor.errors import INTERRUPTED, UsageError
from advisor.measure.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from advisor.fleets.fleet import Cluster, Outcome
    from advisor.fleets.request import Request

_SCRIPTS = ("arguments", "module", "frame", "count_bytes", "tries", "checked")
_LEFT_OUT = (*_SCRIPTS, "workload", "gpu", "gpus", "trace", "nsys", "keep_nsys", "out", "save", "apply")
"""Options of `advisor profile` that concern scripts, one machine, or its files."""
_cluster = partial(typer.Option, rich_help_panel="Cluster")
_file = partial(_cluster, metavar="FILE")
File = Path | None
_ADDRESS = "A Dask scheduler: tcp://host:8786 (default: the variable DASK_SCHEDULER_ADDRESS)."
Scheduler = Annotated[str | None, _cluster(metavar="ADDRESS", help=_ADDRESS)]
SchedulerFile = Annotated[File, _file(help="The file that `dask scheduler --scheduler-file` writes.")]
_LOCAL = "Start this many workers on this machine instead.  [1 to 256]"
_WORKERS = options.number("--local", 1, 256, whole=True)
Local = Annotated[int | None, _cluster(metavar="NUMBER", parser=_WORKERS, help=_LOCAL)]
Each = Annotated[bool, _cluster("--each", help="Profile every GPU, not one of each model.")]
OnePerHost = Annotated[bool, _cluster("--one-per-host", help="Run one profile at a time on each host.")]
_WHERE = "Only devices with this memory_class, kind, name, host or cpu. Repeatable."
Where = Annotated[list[str] | None, _cluster(metavar="KEY=VALUE", help=_WHERE)]
_SEND = "Also send this file or folder to the workers. Repeatable."
Send = Annotated[list[Path] | None, _cluster(metavar="PATH", help=_SEND)]
_seconds = partial(_cluster, metavar="SECONDS")
_TASK_SECONDS = (
    "Time limit of one device's profile (default: three times --max-seconds, plus 120).  [1 to 100000000]"
)
_LIMIT = options.number("--task-seconds", 1, 10**8)
TaskSeconds = Annotated[float | None, _seconds(parser=_LIMIT, help=_TASK_SECONDS)]
_WAIT = "How long to wait for the first worker.  [default: 30.0; 0 to 1000000]"
Wait = Annotated[float, _seconds(parser=options.number("--wait", 0, 10**6), help=_WAIT, show_default=False)]
Resume = Annotated[bool, _cluster("--resume", help="Keep the results in --out and run the rest.")]
TlsCaFile = Annotated[File, _file(help="TLS: certificate of the trusted authority.")]
TlsCert = Annotated[File, _file(help="TLS: this client's certificate.")]
TlsKey = Annotated[File, _file(help="TLS: this client's private key.")]
Workloads = Annotated[
    list[str], typer.Argument(metavar="FILE[::NAME]", help="Workload files. Several run one after another.")
]
_EMIT = "Write each device's strategy as TOML."
Emit = Annotated[File, typer.Option(metavar="FILE.toml", help=_EMIT, rich_help_panel="Output")]


@options.takes(*(name for name in OPTIONS if name not in _LEFT_OUT))
def fleet(
    workloads: Workloads,
    scheduler: Scheduler = None,
    scheduler_file: SchedulerFile = None,
    local: Local = None,
    each: Each = False,
    one_per_host: OnePerHost = False,
    where: Where = None,
    send: Send = None,
    task_seconds: TaskSeconds = None,
    wait: Wait = 30.0,
    resume: Resume = False,
    tls_ca_file: TlsCaFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    out: options.Out = Path("advisor-fleet"),
    emit: Emit = None,
    **values: Any,
) -> None:
    """Profile workloads on every distinct device of a Dask cluster.

    Sends each workload's file and the modules that it imports from its folder to the workers. Several
    workloads get a folder each in --out. Needs the extra `fleet`.
    """
    from advisor import configuration
    from advisor.fleets import api
    from advisor.fleets.planning import parse_where
    from advisor.fleets.request import Selection, make_request

    selection = Selection(each, parse_where(where or ()), one_per_host=one_per_host)
    limits: Any = {"send": send or (), "wait": wait, "task_seconds": task_seconds}
    sources = (configuration.command_line(workload=workload, **values) for workload in workloads)
    requests = [make_request(source, selection, sys.argv[1:], **limits) for source in sources]
    outcomes, folders = [], _folders(out, requests, emit)
    cluster = api.clusters(scheduler, scheduler_file, local, (tls_ca_file, tls_cert, tls_key))
    with ExitStack() as stack:
        reach = cache(partial(stack.enter_context, cluster))  # one for all workloads
        for request, folder in zip(requests, folders, strict=True):
            # With several workloads, the earlier command may not have reached this one.
            again = resume and (len(requests) == 1 or folder.exists())
            outcomes.append((_run(request, reach, folder, emit, resume=again), folder))
            if outcomes[-1][0].stopped:
                break
    for outcome, folder in reversed(outcomes):  # what stopped the command comes first
        _end(outcome, folder)


def _folders(out: Path, requests: Sequence[Request], emit: Path | None) -> tuple[Path, ...]:
    """The folder of each workload's results; with several workloads, one named after each."""
    if str(out) == "-":
        wrong = "advisor fleet writes a folder and cannot print to stdout"
        raise UsageError(wrong, next_step="Give a directory: --out DIR.")
    if len(requests) == 1:
        return (out,)
    if emit is not None:
        raise UsageError("--emit writes the strategies of one workload", next_step="Omit it, or give one.")
    titles = [request.title for request in requests]
    if len(set(titles)) < len(titles):
        wrong = f"two workloads have the same name: {', '.join(titles)}"
        raise UsageError(wrong, next_step="Run them in separate commands, each with its own --out.")
    return tuple(out / title for title in titles)


def _run(
    request: Request, reach: Callable[[], Cluster], out: Path, emit: Path | None, *, resume: bool
) -> Outcome:
    from advisor.fleets import storage
    from advisor.fleets.fleet import run
    from advisor.profiles import outputs

    quiet = request.options.quiet
    tell: Callable[[str], None] = (lambda _: None) if quiet else say
    tell(f"to the workers: {request.package.contents}")
    if emit is not None:
        outputs.require_free(emit.parent, [emit.name], "--emit")
    outcome = run(request, reach, out, resume=resume, tell=tell)
    print(text(outcome.page, details=request.options.details, quiet=quiet))
    say_written(outcome.files, quiet=quiet)
    if emit is not None:
        say_written([storage.write_placements(emit, outcome.record)], quiet=quiet)
    summarize(outcome.page)
    return outcome


def _end(outcome: Outcome, out: Path) -> None:
    """Exits with 130 after Ctrl-C; raises a lost scheduler's error, or the first device's if all failed."""
    from advisor.fleets.api import require_figures

    if isinstance(outcome.stopped, KeyboardInterrupt):
        say(f"interrupted: results so far are in {out}; continue with --resume", written=True)
        sys.exit(INTERRUPTED)
    require_figures(outcome)
