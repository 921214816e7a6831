"""From the groups' measurements to a catalogue entry and the text of its file. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from advisor.calibration.bench import METHOD
from advisor.calibration.device_rates import MEMORY
from advisor.devices.catalogue import invalid
from advisor.devices.entries import ATTRIBUTES, FLAGS, CatalogueEntry, Figure, Figures
from advisor.errors import NothingMeasured
from advisor.measure.jobs import GroupRun, Reading
from advisor.profiles.schema import Device
from advisor.texts import in_a_line, toml_string
from advisor.version import __version__

_DIGITS = 4
"""Significant digits of a written figure: more than any repeat agrees on."""

_REPORTED = {"memory_bytes": "total_global_mem", "l2_bytes": "l2_cache_size"}
"""Figures that the device reports itself, by attribute."""


@dataclass(frozen=True)
class Machine:
    cpu: str
    date: str
    host_cache_bytes: int | None = None
    warnings: tuple[str, ...] = ()
    """What else used it meanwhile."""


@dataclass(frozen=True)
class Findings:
    """The measurements of all groups, and the reason for each figure that is missing."""

    machine: Machine
    runs: Sequence[GroupRun]
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def device(self) -> Device | None:
        return next((run.device for run in self.runs if run.device.kind == "cuda"), None)

    @property
    def gpu(self) -> dict[str, str | int | float]:
        return next((run.gpu for run in self.runs if run.device.kind == "cuda"), {})

    @property
    def readings(self) -> dict[str, Reading]:
        return {key: reading for run in self.runs for key, reading in run.readings.items()}

    def missing_by_reason(self) -> dict[str, list[str]]:
        keys: dict[str, list[str]] = {}
        for key, reason in self.missing.items():
            keys.setdefault(reason, []).append(key)
        return keys

    def figures(self) -> dict[str, Figure]:
        """The readings with their sources; the CPU's cache among them."""
        figures = {key: self._figure(key, reading) for key, reading in self.readings.items()}
        if self.machine.host_cache_bytes is not None:
            source = f"Linux on {self.machine.cpu}, read on {self.machine.date}"
            figures["host_cache_bytes"] = Figure(value=self.machine.host_cache_bytes, source=source)
        return figures

    def _figure(self, key: str, reading: Reading) -> Figure:
        where = self.machine.cpu if key.startswith("host_") or not self.device else self.device.name
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
    reported = {key: device.attributes.get(attribute, 0) for key, attribute in _REPORTED.items()}
    figures = {
        key: Figure(value=float(value), source=source)
        for key, value in reported.items()
        if isinstance(value, (int, float)) and value > 0
    } | findings.figures()
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
    """A device of the catalogue with the CPU measured here in place of its own.

    Other figures of its CPU are left out, unless that CPU is part of the device.
    """
    part_of_device = bool(base.attributes["integrated"].value)
    others = {
        key: figure
        for key, figure in base.figures
        if figure is not None and (part_of_device or not key.startswith("host_"))
    }
    figures = Figures(**{**others, **findings.figures()})
    return base.model_copy(update={"name": name or f"{base.name} (this host)", "figures": figures})


def comments(findings: Findings) -> list[str]:
    """The file's comments: method, versions, missing figures."""
    driver = ", ".join(f"{key} {value}" for key, value in findings.gpu.items() if key.startswith("cuda"))
    lines = [
        f"Made by `advisor devices calibrate`, version {__version__}, on {findings.machine.date}.",
        f"CPU: {findings.machine.cpu}.{f' CUDA: {driver}.' if driver else ''}",
        "low and high are the 10th and 90th percentiles of the repeats. Copies and launches:",
        f"{METHOD}.",
    ]
    if findings.device is not None:
        lines.append("The memory rate is measured, not the specified peak, so achievable_share is 1.")
    lines += findings.machine.warnings
    for reason, keys in findings.missing_by_reason().items():
        lines.append(f"Missing: {', '.join(keys)}: {reason}.")
    return lines


def write(entry: CatalogueEntry, comments: Sequence[str] = ()) -> str:
    """TOML that `advisor.devices.catalogue.load` reads as an equal entry, the comments as lines on top."""
    lines = [f"# {in_a_line(comment)}".rstrip() for comment in comments]
    lines += ["", f"name = {toml_string(entry.name)}", f"memory_class = {toml_string(entry.memory_class)}"]
    lines += ["", "[attributes]"]
    for key, attribute in entry.attributes.items():
        value = toml_string(attribute.value) if isinstance(attribute.value, str) else str(attribute.value)
        lines.append(f"{key} = {{ value = {value}, source = {toml_string(attribute.source)} }}")
    lines += ["", "[figures]"]
    for key, figure in entry.figures:
        if figure is not None:
            values = ((name, getattr(figure, name)) for name in ("value", "low", "high"))
            numbers = ", ".join(f"{name} = {value!r}" for name, value in values if value is not None)
            lines.append(f"{key} = {{ {numbers}, source = {toml_string(figure.source)} }}")
    return "\n".join(lines).lstrip("\n") + "\n"


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
