"""The JSON of several profiles: sweep.json, workloads.json, devices.json. A row for each on each device.

Raw samples are in each profile. The JSON Schema is published as docs/combined.schema.json.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import Field

from advisor.profiles.amounts import Interval, PositiveSeconds
from advisor.profiles.base import Name, Record, Text, Word, optional, table
from advisor.profiles.conclusions import Recommendation


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


if __name__ == "__main__":
    print(json.dumps(Combined.model_json_schema(), indent=1))  # docs/combined.schema.json
