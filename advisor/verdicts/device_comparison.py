"""Profiles of one workload from several devices; and what several profiles given at once make together.

Data only, as in sweeps.py: nothing here runs a workload.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import UsageError
from advisor.profiles import sweeps
from advisor.profiles.reading import require_plausible
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import SweepResults

_TOGETHER = "Give profiles of one workload with the same parameters, one per device."


@dataclass(frozen=True)
class Member:
    """One device's profile. `href` is the page of it alone, relative to the combined page, if it is there."""

    profile: Profile
    href: str = ""

    @property
    def device(self) -> str:
        return self.profile.device.name


@dataclass(frozen=True)
class DeviceComparison:
    """One workload on several devices, in the order given."""

    members: tuple[Member, ...]

    @property
    def workload(self) -> str:
        return self.members[0].profile.workload.name


def combine(loaded: Sequence[tuple[Path, Profile]], directory: Path) -> SweepResults | DeviceComparison:
    """A list of different workloads; of one, a sweep of profiles from one device, a comparison of those from
    several. Pages will be in `directory`.

    Raises `UsageError`, which says what differs, where they belong together in neither way.
    """
    script = next((path for path, profile in loaded if profile.script is not None), None)
    if script is not None:
        raise UsageError(
            f"{script} is a profile of a script; a combined page needs profiles of a workload",
            next_step=f"Report it alone: advisor report {script}.",
        )
    if sweeps.are_workloads(loaded):
        return sweeps.gather_workloads(loaded, directory)
    devices = {(profile.device.kind, profile.device.name) for _, profile in loaded}
    return sweeps.gather(loaded, directory) if len(devices) == 1 else compare_devices(loaded, directory)


def compare_devices(loaded: Sequence[tuple[Path, Profile]], directory: Path) -> DeviceComparison:
    """One profile from each device. Raises `UsageError` as `combine` does."""
    for path, profile in loaded:
        require_plausible(profile, str(path))
    (first_path, first), *others = loaded
    for path, profile in others:
        sweeps.require_same_version(f"{first_path} and {path}", first, profile, _TOGETHER)
        ours, theirs = first.workload.parameters, profile.workload.parameters
        differing = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        if differing:
            differences = ", ".join(f"{name} = {ours.get(name)} and {theirs.get(name)}" for name in differing)
            names = f"{first_path} and {path}"
            raise UsageError(
                f"{names} are from different devices and also differ in {differences}", next_step=_TOGETHER
            )
    _require_different_devices(loaded)
    members = (Member(profile, sweeps.page_beside(path, directory)) for path, profile in loaded)
    return DeviceComparison(tuple(members))


def _require_different_devices(loaded: Sequence[tuple[Path, Profile]]) -> None:
    paths: dict[tuple[str, str], Path] = {}
    for path, profile in loaded:
        device = (profile.device.kind, profile.device.name)
        if device in paths:
            raise UsageError(
                f"{paths[device]} and {path} are both of {profile.device.name}",
                next_step="Omit one of them, or compare the two: advisor compare.",
            )
        paths[device] = path
