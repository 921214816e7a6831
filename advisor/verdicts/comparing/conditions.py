"""Are two profiles comparable? What was the same around them, what differs, what nobody knows."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from advisor import stats, units
from advisor.profiles.redaction import WITHHELD
from advisor.profiles.schema import Profile

CLOCK_MARGIN = stats.EQUIVALENCE
"""Clocks within 5 % count as the same: a time follows a clock at most in proportion, and times that differ by
less count as the same."""

Status = Literal["same", "differs", "not known"]
Kind = Literal["subject", "condition"]


@dataclass(frozen=True)
class Condition:
    """One thing that may differ. Subjects (workload, parameters, device) are what one may vary on purpose."""

    what: str
    status: Status
    base: str
    head: str
    kind: Kind = "condition"


def conditions(base: Profile, head: Profile) -> tuple[Condition, ...]:
    """Everything that both could differ in: what decides comparability first, then the rest that differs."""
    here, there = base.environment.packages, head.environment.packages
    return (
        *(_condition(what, read(base), read(head), "subject") for what, read in _SUBJECTS.items()),
        *([_condition("arguments", arguments(base), arguments(head), "subject")] if head.script else []),
        *(_condition(what, read(base), read(head), "condition") for what, read in _CONDITIONS.items()),
        _clocks(base, head),
        *(
            Condition(name, "differs", here.get(name, "not installed"), there.get(name, "not installed"))
            for name in sorted({*here, *there})
            if here.get(name) != there.get(name)
        ),
    )


def differing(compared: Iterable[Condition], kind: Kind | None = None) -> tuple[Condition, ...]:
    return tuple(c for c in compared if c.status == "differs" and kind in (None, c.kind))


def _condition(what: str, base: str | None, head: str | None, kind: Kind) -> Condition:
    status: Status = "same" if base == head else "differs"
    if base is None or head is None:
        status = "not known"
    return Condition(what, status, base or "not known", head or "not known", kind)


def _parameters(profile: Profile) -> str:
    values = profile.workload.parameters.items()
    return ", ".join(f"{name} = {value}" for name, value in values) or "none"


def arguments(profile: Profile) -> str:
    """A script's own arguments, as a shell takes them."""
    return shlex.join(profile.script.arguments if profile.script else ()) or "none"


def _method(profile: Profile) -> str:
    method = profile.method
    rounds = f"{method.rounds} round{'' if method.rounds == 1 else 's'}"
    return f"{rounds}, {method.max_seconds:g} s in all, {units.percent(method.confidence)} intervals"


def _told(*texts: str) -> str | None:
    """The texts together; None where they were left out on request, so that nobody knows them."""
    return None if WITHHELD in texts else ", ".join(texts)


def _driver(profile: Profile) -> str | None:
    named = (state.driver for state in profile.environment.gpu_readings if state.driver)
    cuda = profile.environment.gpu.get("cuda_driver")
    release = next((state.l4t_release for state in profile.environment.tegra_readings), None)
    return next(named, None) or release or (None if cuda is None else f"CUDA {cuda}")


def _cpu(profile: Profile) -> str | None:
    cpu, count = profile.environment.cpu_model, profile.environment.cpu_count
    return None if cpu is None else cpu + (f", {count} cores" if count else "")


def _memory_class(profile: Profile) -> str:
    memory_class = profile.device.memory_class
    return f"{profile.device.name} ({memory_class})" if memory_class else profile.device.name


def _power(profile: Profile) -> str | None:
    mode = next((state.power_mode for state in profile.environment.tegra_readings if state.power_mode), None)
    limit = next((s.power_limit_watts for s in profile.environment.gpu_readings if s.power_limit_watts), None)
    return mode or (None if limit is None else f"{units.digits(limit)} W")


def _throttled(profile: Profile) -> str | None:
    states = profile.environment.gpu_readings
    readings = [state.throttle_reasons for state in states if state.throttle_reasons is not None]
    if not readings:
        return None
    return ", ".join(dict.fromkeys(reason for reasons in readings for reason in reasons)) or "nothing"


_SUBJECTS: dict[str, Callable[[Profile], str | None]] = {
    "device": _memory_class,
    "workload": lambda profile: profile.workload.name,
    "parameters": _parameters,
    "workload's code": lambda profile: f"SHA-256 {profile.workload.sha256[:12]}",
}
_CONDITIONS: dict[str, Callable[[Profile], str | None]] = {
    "method": _method,
    "advisor's version": lambda profile: profile.tool.version,
    "CPU": _cpu,
    "system": lambda profile: _told(profile.environment.system, profile.environment.machine),
    "Python": lambda profile: _told(profile.environment.python),
    "driver": _driver,
    "CUDA runtime": lambda profile: str(profile.environment.gpu.get("cuda_runtime") or "") or None,
    "power limit or mode": _power,
    "clock throttling": _throttled,
}


def _clocks(base: Profile, head: Profile) -> Condition:
    """The GPU's clock under load: an idle GPU clocks down."""
    hertz = []
    for machine in (base.environment, head.environment):
        clocks = [state.sm_hertz for state in machine.gpu_readings if state.moment == "under-load"]
        clocks += [state.gpu_hertz for state in machine.tegra_readings if state.moment == "under-load"]
        hertz.append(min(filter(None, clocks), default=None))
    status: Status = "not known"
    known = [each for each in hertz if each is not None]
    if len(known) == len(hertz):
        status = "differs" if max(known) / min(known) > 1 + CLOCK_MARGIN else "same"
    before, now = ("not known" if each is None else f"{each / 1e6:.0f} MHz" for each in hertz)
    return Condition("clocks", status, before, now)
