"""From options to a request and a way to a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from advisor import configuration
from advisor.devices.environment import command_line
from advisor.errors import NothingMeasured, UsageError
from advisor.fleet import parcels
from advisor.fleet.cluster import Cluster
from advisor.fleet.fleet import Request
from advisor.fleet.planning import parse_where as where
from advisor.fleet.running import Limits, Wanted
from advisor.measure.option_values import Said
from advisor.measure.options import OPTIONS, Options
from advisor.sweep import Sweep, parse_sweep
from advisor.workloads import scripts
from advisor.workloads.outline import defaults_of, workloads

__all__ = ["reach", "request", "where"]
_HERE = ("workload", "sweep", "no_gpu", "gpu", "quiet")
"""Options that concern the command, not the task."""


def request(
    found: Sequence[Said], wanted: Wanted, limits: Limits, send: Sequence[Path], arguments: Sequence[str]
) -> Request:
    """What is to be profiled. Raises `AdvisorError`."""
    asked = configuration.merged(found)
    file, name = configuration.file_and_name(asked.workload)
    parcel = parcels.gather(file, send)
    if scripts.is_script(file, name, ()):
        raise UsageError(
            f"{file} has no @workload, so it is a script; a fleet profiles workloads",
            next_step="Write a workload: advisor new mine.py.",
        )
    if own := [target for target in asked.targets if target.endswith(".toml")]:
        raise UsageError(
            f"--target {own[0]}: fleet workers predict only devices of the catalogue",
            next_step=f"Predict afterwards: advisor predict DIR/DEVICE/profile.json --target {own[0]}.",
        )
    sweep, parameters = _swept(asked)
    options = {n: v for n, v in _changed(asked).items() if n not in _HERE}
    options["parameters"] = list(parameters)
    # Wrong options are told here, before anything travels.
    configuration.make_settings(
        [configuration.arguments(**{**options, "workload": asked.workload})], backend="cpu"
    )
    return Request(
        parcel,
        name,
        name or next(iter(workloads(file)), file.stem),
        options,
        tuple(f"{sweep.parameter}={value}" for value in sweep.values) if sweep else ("",),
        wanted,
        limits,
        command_line(arguments),
        include_host=asked.include_host,
        no_environment=asked.no_environment,
        shown=_labels(sweep) if sweep else {},
    )


def _labels(sweep: Sweep) -> dict[str, str]:
    return {f"{sweep.parameter}={value}": f"{sweep.parameter}={told}" for value, told in sweep.shown.items()}


def _swept(asked: Options) -> tuple[Sweep | None, tuple[str, ...]]:
    """The sweep, by --sweep or by --set n=1,2 of a number, and what is set besides."""
    defaults = defaults_of(asked.workload)
    lists = [p for p in asked.parameters if "," in p and isinstance(defaults.get(_name(p)), (int, float))]
    rest = tuple(p for p in asked.parameters if p not in lists)
    sweep = parse_sweep((*asked.sweep, *lists), defaults)
    if sweep and sweep.parameter in map(_name, rest):
        raise UsageError(
            f"--sweep {sweep.parameter} and --set {sweep.parameter} contradict each other",
            next_step="Omit one of them.",
        )
    return sweep, rest


def _name(assignment: str) -> str:
    return assignment.partition("=")[0].strip()


def _changed(asked: Options) -> dict[str, Any]:
    """Options with another value than their default, as JSON has them and `advisor.profile` takes them."""
    values = {name: getattr(asked, name) for name, option in OPTIONS.items() if option.call}
    changed = {name: value for name, value in values.items() if value not in (OPTIONS[name].default, {}, ())}
    plain: dict[str, Any] = to_jsonable_python(changed)
    return plain


def reach(
    scheduler: str | None, file: Path | None, local: int | None, tls: Sequence[Path | None]
) -> AbstractContextManager[Cluster]:
    """The cluster to enter. Raises `UsageError` unless one was given, `NothingMeasured` without Dask."""
    given = [
        name
        for name, value in (("--scheduler", scheduler), ("--scheduler-file", file), ("--local", local))
        if value
    ]
    if len(given) != 1:
        what = f"{' and '.join(given)} contradict each other" if given else "no cluster was given"
        raise UsageError(
            what, next_step="Give one of --scheduler ADDRESS, --scheduler-file FILE or --local NUMBER."
        )
    try:
        from advisor.fleet import dask_cluster  # Dask is an extra, and takes a second to import
    except ImportError as missing:
        raise NothingMeasured(
            f"`advisor fleet` needs dask.distributed, which is not installed ({missing})",
            next_step="Install the extra: pip install 'gpu-memory-advisor[fleet]'",
        ) from None
    ours = dask_cluster.Tls(*tls)
    ours.security()
    if local:
        return dask_cluster.local(local, ours)
    return dask_cluster.connected(scheduler, file, ours)
