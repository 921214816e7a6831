"""Records of a fleet: fleet.json, and the row of each device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from advisor.profiles.amounts import Amount
from advisor.profiles.base import Record, Text, Word, optional, table
from advisor.profiles.files import read_bytes
from advisor.profiles.schema import Kind, MemoryClass, Profile

ROW = "row.json"
LARGEST = 1_000_000
"""Bytes of a record."""

ShortText = Annotated[Text, Field(max_length=2000)]
ShortWord = Annotated[Word, Field(max_length=2000)]
RowStatus = Literal["profiled", "failed", "unfit", "not run"]
"""unfit: the machine cannot run it, such as by its versions. not run: interrupted, or the scheduler lost."""


class PredictedChoice(Record):
    """The prediction for a device in a profile made without a GPU."""

    device: ShortWord
    strategy: ShortWord
    verdict: ShortWord


class Row(Record):
    """One device and one value of the swept parameter."""

    task: ShortWord = Field(description="The device's key and the value, by which a run is resumed")
    device: ShortText = Field(description="Its name, numbered where several have the same")
    kind: Kind = "cuda"
    memory_class: MemoryClass | None = None
    value: ShortText = optional("The swept parameter, as NAME=VALUE; empty without a sweep", "")
    status: RowStatus
    reason: ShortText = ""
    next_step: ShortText = ""
    folder: ShortText = optional("Folder of its report, relative to the fleet's", "")
    strategy: ShortWord | None = optional("The recommended strategy")
    verdict: ShortWord | None = None
    basis: Literal["measured", "predicted", "none"] = "none"
    costs: dict[Word, Annotated[float, Field(ge=1)]] = table("Measured: median time over the fastest one's")
    predicted: tuple[PredictedChoice, ...] = ()
    seconds: Amount = optional("From sending the task to its result", 0.0)

    @property
    def key(self) -> str:
        """The device's, without the value."""
        return self.task.partition(" ")[0]


class FleetRecord(Record):
    """fleet.json: the run so far. `request` identifies what was asked: the files sent and the options."""

    format: Literal[1] = 1
    request: ShortWord
    workload: ShortText
    created: ShortWord
    command: Text = ""
    parameter: ShortWord = optional("The swept parameter", "")
    rows: tuple[Row, ...] = ()
    notes: tuple[ShortText, ...] = ()


def with_devices_numbered(loaded: Sequence[tuple[Path, Profile]]) -> list[tuple[Path, Profile]]:
    """Profiles with their files; where a fleet left several devices of one name, each from the second on with
    a number, as on the fleet's page."""
    rows: dict[Path, Row] = {}
    for path, _ in loaded:
        with suppress(OSError, ValidationError):
            rows[path] = Row.model_validate_json(read_bytes(path.with_name(ROW), LARGEST))
    numbers: dict[tuple[Path, str], dict[str, int]] = {}
    """By the fleet's folder and a device's name: the number of each device, by its key."""
    of_fleets = [(rows[path], path, profile) for path, profile in loaded if path in rows]
    for row, path, profile in sorted(of_fleets, key=lambda each: (len(each[0].device), each[0].device)):
        alike = numbers.setdefault((_fleet(path, row), profile.device.name), {})
        alike.setdefault(row.key, len(alike) + 1)

    def named(path: Path, profile: Profile) -> Profile:
        if (row := rows.get(path)) is None:
            return profile
        number = numbers[_fleet(path, row), profile.device.name][row.key]
        if number == 1:
            return profile
        name = f"{profile.device.name} #{number}"
        device = profile.device.model_copy(update={"name": name})
        advice = (
            each.model_copy(update={"device": name}) if each.device == profile.device.name else each
            for each in profile.advice
        )
        return profile.model_copy(update={"device": device, "advice": tuple(advice)})

    return [(path, named(path, profile)) for path, profile in loaded]


def _fleet(path: Path, row: Row) -> Path:
    """The fleet's folder: above that of the device, which after a sweep has one for each value."""
    above = path.resolve().parent.parent
    return above.parent if row.value else above
