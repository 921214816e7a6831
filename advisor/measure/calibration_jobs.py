"""What a calibrating process is told and what it answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from advisor.profiles.base import Record
from advisor.profiles.schema import Device

Positive = Annotated[float, Field(gt=0)]


class CalibrationJob(Record):
    """One process's work: one group of measurements."""

    group: str
    backend: Literal["cpu", "cuda"]
    gpu: int
    directory: str


class Reading(Record):
    """A figure in the unit its key ends in, its range over the repeats, and what was measured how often."""

    value: Positive
    low: Positive
    high: Positive
    repeats: Annotated[int, Field(gt=0)]
    what: str


class GroupRun(Record):
    """What one process measured. `absent` has the reason for each figure that it should have and has not;
    `curves` have median seconds by bytes."""

    task: Literal["calibrate"] = "calibrate"
    device: Device
    gpu: dict[str, str | int | float]
    readings: dict[str, Reading]
    absent: dict[str, str]
    curves: dict[str, tuple[tuple[int, Positive], ...]]
