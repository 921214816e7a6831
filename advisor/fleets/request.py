"""The request of a fleet: files, options, devices and limits; from them the task of a worker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from advisor import configuration
from advisor.configuration import OptionSource
from advisor.devices.environment import command_line
from advisor.errors import UsageError
from advisor.fleets.packaging import Package, gather
from advisor.fleets.planning import Device, Task
from advisor.measure.options import OPTIONS, Options
from advisor.profiles.combined import FleetRecord
from advisor.sweep import Sweep, parse_sweep
from advisor.version import __version__
from advisor.workloads import scripts
from advisor.workloads.outline import defaults_of, workloads

_NOT_SENT = ("workload", "sweep", "no_gpu", "gpu", "quiet")
"""Options that concern the command, not the task."""


@dataclass(frozen=True)
class Selection:
    each: bool = False
    where: dict[str, str] = field(default_factory=dict)
    no_gpu: bool = False
    one_per_host: bool = False


@dataclass(frozen=True)
class Limits:
    """In seconds. A worker ends its task by itself after `task`; the command waits `slack` more for what it
    printed, and `another` for a further worker with the device of a lost task. Workers join one after
    another: no run ends within `joining` of the last that did."""

    task: float
    another: float = 15.0
    inspection: float = 60.0
    joining: float = 3.0
    no_worker: float = 30.0
    slack: float = 10.0
    tries: int = 2


@dataclass(frozen=True)
class Request:
    """One run. `values` are NAME=VALUE of the swept parameter, "" alone without a sweep."""

    package: Package
    title: str
    """The workload's name on the pages."""
    template: Task
    """The task of every worker, but for its GPU and the value."""
    values: tuple[str, ...]
    selection: Selection
    limits: Limits
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of values on the pages, where they differ."""

    @property
    def digest(self) -> str:
        task, no_gpu = self.template, self.selection.no_gpu
        inputs = (self.package.digest, task.workload, task.options, self.values, no_gpu, __version__)
        return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()

    def key(self, device: Device) -> str:
        return device.key(each=self.selection.each)

    def task(self, device: Device, value: str) -> Task:
        options = dict(self.template.options)
        if value:
            options["parameters"] = [*options.get("parameters", ()), value]
        return self.template.model_copy(update={"gpu": device.uuid, "options": options})

    def record(self) -> FleetRecord:
        return FleetRecord(
            request=self.digest,
            workload=self.title,
            created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            command=self.template.command,
            parameter=self.values[0].partition("=")[0],
        )


def make_request(
    sources: Sequence[OptionSource],
    selection: Selection,
    limits: Limits,
    send: Sequence[Path],
    arguments: Sequence[str],
) -> Request:
    options = configuration.merged(sources)
    file, name = scripts.file_and_name(options.workload)
    package = gather(file, send)
    _require_profilable(package, file, name, options)
    sweep, parameters = _sweep_of(options)
    prefix = f"{sweep.parameter}=" if sweep else ""
    template = Task(
        no_gpu=selection.no_gpu,
        file=package.file,
        workload=name,
        options=_sent(options, parameters),
        include_host=options.include_host,
        no_environment=options.no_environment,
        command=command_line(arguments),
        files=package.packed(),
        seconds=limits.task,
    )
    return Request(
        package,
        name or next(iter(workloads(file)), file.stem),
        template,
        tuple(f"{prefix}{value}" for value in sweep.values) if sweep else ("",),
        selection,
        limits,
        labels={f"{prefix}{value}": f"{prefix}{label}" for value, label in sweep.labels.items()}
        if sweep
        else {},
    )


def _require_profilable(package: Package, file: Path, name: str | None, options: Options) -> None:
    marked = name is not None or any(b"workload" in content for content in package.files.values())
    if not marked or scripts.is_script(file, name, ()):
        raise UsageError(
            f"{file} has no function marked with @workload; a fleet profiles workloads",
            next_step="Write a workload: advisor new mine.py.",
        )
    if own := [target for target in options.targets if target.endswith(".toml")]:
        raise UsageError(
            f"--target {own[0]}: fleet workers predict only devices of the catalogue",
            next_step=f"Predict afterwards: advisor predict DIR/DEVICE/profile.json --target {own[0]}.",
        )


def _sent(options: Options, parameters: Sequence[str]) -> dict[str, Any]:
    """Options that differ from their defaults, as JSON, by the names of `advisor.profile`.

    Wrong ones are refused here, before anything is sent.
    """
    named = {key: getattr(options, key) for key, o in OPTIONS.items() if o.call and key not in _NOT_SENT}
    changed = {key: value for key, value in named.items() if value not in (OPTIONS[key].default, {}, ())}
    sent: dict[str, Any] = {**to_jsonable_python(changed), "parameters": list(parameters)}
    source = configuration.arguments(**{**sent, "workload": options.workload})
    configuration.make_settings([source], backend="cpu")
    return sent


def _sweep_of(options: Options) -> tuple[Sweep | None, tuple[str, ...]]:
    """The sweep of --sweep, or of --set n=1,2 for a numeric parameter, and the other parameters."""
    defaults = defaults_of(options.workload)
    lists = [p for p in options.parameters if "," in p and isinstance(defaults.get(_name(p)), (int, float))]
    rest = tuple(p for p in options.parameters if p not in lists)
    sweep = parse_sweep((*options.sweep, *lists), defaults)
    if sweep and sweep.across:
        raise UsageError("advisor fleet sweeps one parameter", next_step="Give the other with --set.")
    if sweep and sweep.parameter in map(_name, rest):
        raise UsageError(
            f"--sweep {sweep.parameter} and --set {sweep.parameter} contradict each other",
            next_step="Omit one of them.",
        )
    return sweep, rest


def _name(assignment: str) -> str:
    return assignment.partition("=")[0].strip()
