"""Records of a fleet: fleet.json, and the row of each device."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from advisor.profiles.amounts import Amount
from advisor.profiles.base import Record, Text, Word, optional, table
from advisor.profiles.schema import Kind, MemoryClass

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
