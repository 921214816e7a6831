"""What is saved of several profiles: sweep.json, workloads.json and devices.json, and a fleet's fleet.json.

Raw samples are in each profile. The JSON Schema of the first three is docs/combined.schema.json.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field

from advisor.profiles.amounts import Amount, Interval, PositiveSeconds
from advisor.profiles.base import Name, Record, Text, Word, optional, table
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Kind, MemoryClass


class Time(Record):
    """Time per frame of one strategy: measured with its interval, or predicted with its range.

    Where frames overlap, the latency of one, unless the objective is throughput.
    """

    seconds: PositiveSeconds
    interval_seconds: Interval


class CombinedRow(Record):
    """One workload at its parameters on one device."""

    workload: Text
    parameters: dict[Word, int | float | bool | Text]
    status: Literal["profiled", "failed", "not run"]
    reason: Text = optional("Why it has no profile", "")
    report: Text = optional("Its own page, relative to this file; empty where there is none", "")
    device: Word | None = optional("None where nothing was measured or predicted")
    kind: Literal["measured", "predicted"] | None = optional("What the row's figures are")
    recommendation: Recommendation | None = optional("The verdict on that device")
    times: dict[Name, Time] = table("Of each strategy that has figures there")


class Combined(Record):
    """The figures of a page about several profiles."""

    format: Literal[1] = 1
    kind: Literal["sweep", "workloads", "devices"] = Field(description="The page's kind, and the file's name")
    command: Text = ""
    swept: tuple[Word, ...] = optional("The parameters of a sweep", ())
    notes: tuple[Text, ...] = optional("What limits the whole of it", ())
    rows: tuple[CombinedRow, ...]

    def to_json(self) -> str:
        return self.model_dump_json(indent=1) + "\n"


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
    folder: ShortText = optional("Of its report, relative to the fleet's", "")
    strategy: ShortWord | None = optional("The recommended one")
    verdict: ShortWord | None = None
    basis: Literal["measured", "predicted", "none"] = "none"
    costs: dict[Word, Annotated[float, Field(ge=1)]] = table("Measured: median time over the fastest one's")
    predicted: tuple[PredictedChoice, ...] = ()
    seconds: Amount = optional("From giving out the task to its result", 0.0)


class FleetRecord(Record):
    """fleet.json: the run so far. `request` identifies what was asked: the files sent and the options."""

    format: Literal[1] = 1
    request: ShortWord
    workload: ShortText
    created: ShortWord
    command: ShortText = ""
    parameter: ShortWord = optional("The swept one", "")
    rows: tuple[Row, ...] = ()
    notes: tuple[ShortText, ...] = ()


if __name__ == "__main__":
    print(json.dumps(Combined.model_json_schema(), indent=1))  # docs/combined.schema.json
