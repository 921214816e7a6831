"""What the user wants the conclusions to go by: it is saved, so that a report says what was changed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from advisor.profiles.base import Record, Text, Word, optional, table

Objective = Literal["time", "latency-p99", "throughput", "energy", "footprint"]


def counts_latency(objective: Objective) -> bool:
    """Whether frames that overlap count by latency, not by time between finished ones (decisions/0006)."""
    return objective != "throughput"


class Preferences(Record):
    """By what to recommend, how much memory there is, and which rules decide otherwise or are silent.

    Keys of rules that this version does not know are kept and have no effect.
    """

    objective: Objective = optional(
        "time: the latency of a frame. latency-p99: its 99th percentile. "
        "throughput: frames per second, where frames that overlap count as often as they are done. "
        "energy: joules of a frame, above the idle power. footprint: memory, then time",
        "time",
    )
    indifference: Annotated[float, Field(gt=0, lt=1)] = optional(
        "Strategies within this share of the fastest are near enough to be chosen", 0.05
    )
    memory_budget_bytes: Annotated[int, Field(gt=0, le=2**63 - 1)] | None = optional(
        "Strategies with a larger footprint are not recommended"
    )
    thresholds: dict[Word, float] = table("RULE.THRESHOLD to the value that replaces its default")
    ignored: dict[Word, Text] = table("The id of a silenced rule to the place that silenced it")

    @property
    def choice(self) -> tuple[Objective, int | None, float]:
        """What the recommendation depends on; the rest is of the rules alone."""
        return self.objective, self.memory_budget_bytes, self.indifference
