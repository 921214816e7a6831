"""Several profiles for one page: the values of a sweep, devices, or workloads, as a command leaves them or
`advisor report` puts saved ones together.

Data only: nothing here runs a workload.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, TypeGuard
from urllib.parse import quote

from advisor.errors import UsageError
from advisor.profiles.fleets import with_devices_numbered
from advisor.profiles.redaction import here
from advisor.profiles.schema import Device, Profile, WorkloadRecord

Value = int | float | bool | str
Values = Value | tuple[Value, ...]
"""A value of the swept parameter; where two are swept, a value of each."""
Loaded = Sequence[tuple[Path, Profile]]
"""Profiles with the files that they were read from."""
_TOGETHER = "Give profiles of one workload on one device that differ in one parameter, or in two."
_PER_DEVICE = "Give profiles of one workload with the same parameters, one per device."
_EACH = "Give one profile of each workload, all from one device; or profiles of one workload, one per device."


@dataclass(frozen=True)
class Point:
    """One value of a sweep, device or workload: its profile, or the reason why there is none.

    `href` is the page of this profile alone, relative to the combined page; empty where there is none.
    """

    value: Values
    profile: Profile | None = None
    status: Literal["profiled", "failed", "not run"] = "profiled"
    reason: str = ""
    detail: str = ""
    href: str = ""


@dataclass(frozen=True)
class ProfileSet:
    """The points of one page. Of a sweep, `parameters` are one or two, and `notes` limits of the whole."""

    workload: str
    parameters: tuple[str, ...]
    points: Sequence[Point]
    command: str = ""
    notes: Sequence[str] = ()
    kind: Literal["sweep", "devices", "workloads"] = "sweep"

    @property
    def parameter(self) -> str:
        return pair(self.parameters) if self.is_grid else self.parameters[0]

    @property
    def is_grid(self) -> bool:
        """Whether each value of one parameter is combined with each of another."""
        return len(self.parameters) > 1

    @property
    def profiles(self) -> tuple[Profile, ...]:
        return tuple(point.profile for point in self.points if point.profile)

    @cached_property
    def machines(self) -> list[tuple[Device, tuple[Point, ...]]]:
        return by_device(self.points)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C left values without their profile, or with half of one."""
        unfinished = any(point.status == "not run" for point in self.points)
        return unfinished or any(map(was_interrupted, self.profiles))

    @property
    def has_figures(self) -> bool:
        """Whether anything was measured or predicted at any value."""
        return any(
            profile.measured()
            or any(row.status == "predicted" for p in profile.predictions for row in p.results)
            for profile in self.profiles
        )


def was_interrupted(run: Any) -> bool:
    """Whether Ctrl-C ended the run (a profile, or what becomes one) before all was measured, by its notes."""
    return any(note.startswith("Interrupted") for note in run.notes)


def are_numbers(values: Sequence[Values]) -> TypeGuard[Sequence[float]]:
    """Whether each value is an int or a finite float; a bool is neither."""
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in values)


def pair(parts: Iterable[object]) -> str:
    return f"({', '.join(map(str, parts))})"


def in_order(points: Sequence[Point]) -> Sequence[Point]:
    """Numbers rise, and pairs of them; other values stay in the order given."""
    values = [point.value if isinstance(point.value, tuple) else (point.value,) for point in points]
    numbers = are_numbers([part for parts in values for part in parts])
    return sorted(points, key=attrgetter("value")) if numbers else points


def values_of(profile: Profile, parameters: Sequence[str]) -> Values:
    values = tuple(profile.workload.parameters[name] for name in parameters)
    return values if len(values) == 2 else values[0]


def by_device(points: Sequence[Point]) -> list[tuple[Device, tuple[Point, ...]]]:
    """The measured devices and CPUs, each with its points; a point without a profile is of each."""
    devices = {_device(p.profile): p.profile.device for p in points if p.profile}
    return [
        (device, tuple(p for p in points if p.profile is None or _device(p.profile) == key))
        for key, device in devices.items()
    ]


def combine(loaded: Loaded, directory: Path) -> ProfileSet:
    """A list of different workloads; of one, a sweep where a device has several profiles, else a comparison
    of devices. Links are relative to `directory`, where the page will be.

    Raises `UsageError`, which says what differs, where they belong together in neither way.
    """
    script = next((path for path, profile in loaded if profile.script is not None), None)
    if script is not None:
        raise UsageError(
            f"{script} is a profile of a script; a combined page needs profiles of a workload",
            next_step=f"Report it alone: advisor report {script}.",
        )
    loaded = with_devices_numbered(loaded)
    profiles = [profile for _, profile in loaded]

    def points(values: Iterable[Values]) -> list[Point]:
        pages = [path.parent / "report.html" for path, _ in loaded]
        links = [link(os.path.relpath(page, directory)) if page.is_file() else "" for page in pages]
        return [Point(v, p, href=href) for v, p, href in zip(values, profiles, links, strict=True)]

    workload, command = profiles[0].workload.name, profiles[0].command
    works = [profile.workload for profile in profiles]
    names, files, contents = ({getattr(w, key) for w in works} for key in ("name", "file", "sha256"))
    if len(names) > 1 or (len(files) > 1 and len(contents) > 1):
        _require_each(loaded)
        command = "" if _unlike(loaded, lambda profile: profile.command) else command
        named = [work.name for work in works]
        labels = [w.name if named.count(w.name) == 1 else f"{w.file}::{w.name}" for w in works]
        return ProfileSet("", ("workload",), points(labels), command, kind="workloads")
    if _unlike(loaded, _device) and not (_unlike(loaded, _parameters) and _alike(loaded, _device)):
        _require_per_device(loaded)
        return ProfileSet(workload, ("device",), points(p.device.name for p in profiles), kind="devices")
    _require_same_version(loaded, _TOGETHER)
    swept = _swept(loaded)
    ordered = in_order(points(values_of(profile, swept) for profile in profiles))
    notes = []
    if other := _unlike(loaded, lambda profile: profile.command):
        (path, first), (second, profile) = loaded[0], other
        runs = f"{path} is of `{first.command}`, {second} of `{profile.command}`"
        notes = [f"These profiles are from different runs: {here().hide(runs)}."]
    return ProfileSet(workload, swept, ordered, command, notes)


def _require_each(loaded: Loaded) -> None:
    """Raises `UsageError` unless they are one profile of each workload, all from one device."""
    wrong = ""
    if twice := _alike(loaded, lambda profile: (profile.workload.name, profile.workload.file)):
        wrong = f"{twice[0]} and {twice[1]} are both of {twice[2].workload.name}"
    elif other := _unlike(loaded, _device):
        devices = f"{loaded[0][1].device.name} and {other[1].device.name}"
        wrong = f"{loaded[0][0]} and {other[0]} are from two devices: {devices}"
    if wrong:
        raise UsageError(f"the profiles are of different workloads, but {wrong}", next_step=_EACH)


def _require_per_device(loaded: Loaded) -> None:
    """Raises `UsageError` unless they are one profile from each device, with the same parameters."""
    _require_same_version(loaded, _PER_DEVICE)
    if other := _unlike(loaded, _parameters):
        ours, theirs = (profile.workload.parameters for profile in (loaded[0][1], other[1]))
        differing = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        differences = ", ".join(f"{name} = {ours.get(name)} and {theirs.get(name)}" for name in differing)
        wrong = f"{loaded[0][0]} and {other[0]} are from different devices and also differ in {differences}"
        raise UsageError(wrong, next_step=_PER_DEVICE)
    if twice := _alike(loaded, _device):
        step = "Omit one of them, or compare the two: advisor compare."
        raise UsageError(f"{twice[0]} and {twice[1]} are both of {twice[2].device.name}", next_step=step)


def _alike(loaded: Loaded, key: Callable[[Profile], object]) -> tuple[Path, Path, Profile] | None:
    """The first two files that are the same in that, and the profile of the second."""
    paths: dict[object, Path] = {}
    for path, profile in loaded:
        if (at := key(profile)) in paths:
            return paths[at], path, profile
        paths[at] = path
    return None


def _unlike(loaded: Loaded, key: Callable[[Profile], object]) -> tuple[Path, Profile] | None:
    """The first profile that differs in that from the first of all, with its file."""
    return next((each for each in loaded if key(each[1]) != key(loaded[0][1])), None)


def _device(profile: Profile) -> tuple[str, str]:
    return profile.device.kind, profile.device.name


def _parameters(profile: Profile) -> Mapping[str, Value]:
    return profile.workload.parameters


def _require_same_version(loaded: Loaded, next_step: str) -> None:
    if other := _unlike(loaded, lambda profile: profile.workload.sha256):
        (path, first), what = loaded[0], "its SHA-256 differs"
        raise UsageError(
            f"{path} and {other[0]} are of different versions of {first.workload.file}: {what}",
            next_step=next_step,
        )


def _swept(loaded: Loaded) -> tuple[str, ...]:
    """The one or two parameters in which the profiles differ, each profile at other values."""
    workloads = [profile.workload for _, profile in loaded]
    values = {name: {_typed(w, name) for w in workloads} for w in workloads for name in w.parameters}
    differing = [name for name, several in values.items() if len(several) > 1]
    cells = math.prod(len(several) for several in values.values())
    if len(differing) > 2 or (len(differing) == 2 and 2 * len(loaded) <= cells):
        raise UsageError(
            f"the profiles differ in {' and '.join(differing)}; a sweep varies one parameter or combines two",
            next_step=_TOGETHER,
        )
    if twice := _alike(loaded, lambda p: (_device(p), *(_typed(p.workload, name) for name in differing))):
        parameters = twice[2].workload.parameters
        same = [f"{name} = {parameters.get(name)}" for name in differing]
        shared = " and ".join(same) or "the same parameters"
        raise UsageError(f"{twice[0]} and {twice[1]} both have {shared}", next_step="Omit one of them.")
    return tuple(differing)


def _typed(workload: WorkloadRecord, name: str) -> tuple[str, str]:
    """A value that tells True from 1 and "1"."""
    value = workload.parameters.get(name)
    return type(value).__name__, str(value)


def common_parent(files: Sequence[Path]) -> Path:
    """The folder that holds all files, in it or in folders of it; of one file, where it is."""
    if len(files) == 1:
        return files[0].parent
    return Path(os.path.commonpath([file.resolve().parent for file in files]))


def link(relative: str) -> str:
    """A relative path as a link, which no name can turn into one to elsewhere."""
    return "./" + quote(relative)
