"""From what the processes measured to a catalogue entry and the text of its file. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from advisor import units
from advisor.calibration.device_rates import MEMORY
from advisor.calibration.fitting import METHOD
from advisor.devices.catalogue import invalid
from advisor.devices.entries import ATTRIBUTES, FLAGS, CatalogueEntry, Figure, Figures
from advisor.errors import NothingMeasured
from advisor.measure.calibration_jobs import GroupRun, Reading
from advisor.profiles.schema import Device
from advisor.version import __version__

_DIGITS = 4
"""Significant digits of a written figure: more than any repeat agrees on."""

_TOLD = {"memory_bytes": "total_global_mem", "l2_bytes": "l2_cache_size"}
"""Figures that the device itself tells, by the attribute that does."""


@dataclass(frozen=True)
class Machine:
    """Where and when, in words for the sources."""

    cpu: str
    date: str
    host_cache_bytes: int | None = None


@dataclass(frozen=True)
class Findings:
    """Everything the processes told, and the reason for each figure that is missing."""

    machine: Machine
    runs: Sequence[GroupRun]
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def device(self) -> Device | None:
        """The GPU, once a process has opened it."""
        return next((run.device for run in self.runs if run.device.kind == "cuda"), None)

    @property
    def gpu(self) -> dict[str, str | int | float]:
        """Its driver and runtime."""
        return next((run.gpu for run in self.runs if run.device.kind == "cuda"), {})

    @property
    def readings(self) -> dict[str, Reading]:
        """All figures by key."""
        return {key: reading for run in self.runs for key, reading in run.readings.items()}

    def missing_by_reason(self) -> dict[str, list[str]]:
        """The figures that are missing, by what they are missing for."""
        found: dict[str, list[str]] = {}
        for key, reason in self.missing.items():
            found.setdefault(reason, []).append(key)
        return found

    def figures(self) -> dict[str, Figure]:
        """The readings with their sources; the CPU's cache among them."""
        found = {key: self._figure(key, reading) for key, reading in self.readings.items()}
        if self.machine.host_cache_bytes is not None:
            source = f"Linux on {self.machine.cpu}, read on {self.machine.date}"
            found["host_cache_bytes"] = Figure(value=self.machine.host_cache_bytes, source=source)
        return found

    def _figure(self, key: str, reading: Reading) -> Figure:
        of_cpu = key.startswith("host_") or self.device is None
        where = self.machine.cpu if of_cpu else self.device.name if self.device else ""
        return Figure(
            value=_rounded(reading.value),
            low=_rounded(reading.low),
            high=_rounded(reading.high),
            source=f"measured by advisor {__version__} on {where}, {self.machine.date}: {reading.what}, "
            f"{reading.repeats} {'repeats' if reading.repeats > 1 else 'value'}",
        )


def entry_of(findings: Findings, device: Device, name: str | None) -> CatalogueEntry:
    """The entry of a measured GPU. Raises `NothingMeasured` where what every entry needs is missing."""
    source = f"CUDA on this device, read by advisor {__version__} on {findings.machine.date}"
    told = {key: device.attributes.get(attribute, 0) for key, attribute in _TOLD.items()}
    known = {key: float(n) for key, n in told.items() if isinstance(n, (int, float)) and n > 0}
    figures = {key: Figure(value=value, source=source) for key, value in known.items()} | findings.figures()
    if memory := figures.get(MEMORY):
        # 1, and the range of the measured rate: the model takes the rate itself as exact.
        low = min(_rounded((memory.low or memory.value) / memory.value), 1.0)
        share = f"of the measured rate, 1 by definition; range: {memory.source}"
        figures["achievable_share"] = Figure(value=1.0, low=low, high=1.0, source=share)
        figures[MEMORY] = memory.model_copy(update={"low": None, "high": None})
    # Those a catalogue file has; a count of 0 is one that is not known.
    attributes = {
        key: {"value": value, "source": source}
        for key, value in device.attributes.items()
        if key in ATTRIBUTES and (key in FLAGS or value not in (0, ""))
    }
    content = {
        "name": name or device.name,
        "memory_class": device.memory_class,
        "attributes": attributes,
        "figures": {key: figure.model_dump(exclude_none=True) for key, figure in figures.items()},
        "origin": "measured",
    }
    try:
        return CatalogueEntry.model_validate(content)
    except ValidationError as problem:
        reasons = "\n".join(f"{', '.join(k)}: {why}" for why, k in findings.missing_by_reason().items())
        raise NothingMeasured(
            f"too few figures were measured for a catalogue entry: {invalid(problem)}",
            next_step="The missing figures and their reasons are listed below. Fix them and run again.",
            detail=reasons,
        ) from None


def merged(base: CatalogueEntry, findings: Findings, name: str | None) -> CatalogueEntry:
    """A catalogue's device with the CPU that was measured here in place of its own.

    What else the base says of its CPU is left out: it was another one, unless the CPU is part of the device.
    """
    part_of_device = bool(base.attributes["integrated"].value)
    known = {key: getattr(base.figures, key) for key in type(base.figures).model_fields}
    kept = {
        key: figure
        for key, figure in known.items()
        if figure is not None and (part_of_device or not key.startswith("host_"))
    }
    figures = type(base.figures)(**{**kept, **findings.figures()})
    return base.model_copy(update={"name": name or f"{base.name} (this host)", "figures": figures})


def comments(findings: Findings) -> list[str]:
    """What the file's reader should know beyond the figures: how, with what, what is missing, the curves."""
    driver = ", ".join(f"{key} {value}" for key, value in findings.gpu.items() if key.startswith("cuda"))
    lines = [
        f"Made by `advisor devices calibrate`, version {__version__}, on {findings.machine.date}.",
        f"CPU: {findings.machine.cpu}.{f' CUDA: {driver}.' if driver else ''}",
        "low and high are the 10th and 90th percentiles of the repeats. Copies and launches:",
        f"{METHOD}.",
    ]
    if findings.device is not None:
        lines.append("The memory rate is measured, not the specified peak, so achievable_share is 1.")
    for reason, keys in findings.missing_by_reason().items():
        lines.append(f"Missing: {', '.join(keys)}: {reason}.")
    for run in findings.runs:
        for name, points in run.curves.items():
            times = (f"{units.size(size)} {units.seconds(seconds)}" for size, seconds in points)
            lines.append(f"{name}: {', '.join(times)}")
    return lines


def write(entry: CatalogueEntry, comments: Sequence[str] = ()) -> str:
    """TOML that `advisor.devices.catalogue.load` reads as an equal entry, the comments as lines on top."""
    lines = ["# " + "".join(c if c.isprintable() else " " for c in comment) for comment in comments]
    lines = [line.rstrip() for line in lines]
    lines += ["", f"name = {_text(entry.name)}", f"memory_class = {_text(entry.memory_class)}"]
    lines += ["", "[attributes]"]
    for key, attribute in entry.attributes.items():
        value = _text(attribute.value) if isinstance(attribute.value, str) else str(attribute.value)
        lines.append(f"{key} = {{ value = {value}, source = {_text(attribute.source)} }}")
    lines += ["", "[figures]"]
    for key in Figures.model_fields:
        figure: Figure | None = getattr(entry.figures, key)
        if figure is not None:
            numbers = {"value": figure.value, "low": figure.low, "high": figure.high}
            told = ", ".join(f"{name} = {number!r}" for name, number in numbers.items() if number is not None)
            lines.append(f"{key} = {{ {told}, source = {_text(figure.source)} }}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _text(text: str) -> str:
    """A basic string: TOML's escapes are JSON's, and DEL, which JSON leaves alone, needs one."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
