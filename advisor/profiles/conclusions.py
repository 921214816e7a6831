"""Conclusions: preferences, recommendation, advice with its evidence; the doctor's findings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from advisor.profiles.amounts import Amount, Interval, Positive, PositiveSeconds
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
    indifference: Annotated[float, Field(gt=0, lt=1)] = optional("How near the fastest counts as equal", 0.05)
    memory_budget_bytes: Annotated[int, Field(gt=0, le=2**63 - 1)] | None = optional("The largest footprint")
    thresholds: dict[Word, float] = table("RULE.THRESHOLD to the value that replaces its default")
    ignored: dict[Word, Text] = table("The id of a silenced rule to the place that silenced it")

    @property
    def choice(self) -> tuple[Objective, int | None, float]:
        """The preferences that the recommendation depends on; the others are the rules'."""
        return self.objective, self.memory_budget_bytes, self.indifference

    @property
    def by_time(self) -> bool:
        """Whether times alone decide, and so what one strategy for several devices or values costs."""
        return self.objective in ("time", "throughput") and not self.memory_budget_bytes


Verdict = Literal["fastest", "near", "keep", "open", "untrusted"]
UNDECIDED: tuple[Verdict, ...] = ("open", "untrusted")
Certainty = Literal["measured", "likely", "predicted"]
Unit = Literal["seconds", "bytes", "bytes_per_second", "ratio", "count"]


class Faster(Record):
    """A mix that looks faster than the recommended uniform strategy, which is simpler."""

    strategy: Word
    buffers: tuple[Word, ...] = Field(description="Buffers that it places otherwise")
    ratio: Positive = Field(description="The recommended one's time over its own: 1.09 is 9 % faster")
    interval: Interval

    @property
    def is_sure(self) -> bool:
        return self.interval[0] > 1


class Recommendation(Record, extra="ignore"):  # earlier profiles have mix_bound
    """Which strategy, how sure. `strategy` is None where none fits the memory budget."""

    strategy: Word | None
    verdict: Verdict = Field(
        description="fastest: every other is slower (95 %). near: within the indifference of the fastest. "
        "keep: so is the baseline. open: more measuring could change it. untrusted: a strategy under "
        "two names differed from itself"
    )
    bound: Amount | None = optional("How much slower than the fastest it is at most: 0.014 is 1.4 %")
    groups: tuple[tuple[Word, ...], ...] = optional("Strategies, fastest first; equal ones grouped", ())
    fastest: Word | None = optional("The one that looks fastest")
    saved_bytes: int | None = optional("Memory that it saves over that one")
    faster_mix: Faster | None = optional("Where the one that looks fastest is a mix, and this one is not")
    noise: Interval | None = optional("A strategy's time over its own under a second name, with its interval")
    seconds_more: PositiveSeconds | None = optional("How much longer an open one would take to settle")
    speedup: Positive | None = optional("Baseline's time over that of the recommended one")
    interval: Interval | None = None
    baseline: Word | None = None
    tied_with: tuple[Word, ...] = ()
    headline: Text = optional("The sentence that the report begins with; names in backquotes", "")
    reason: Text
    next_step: Text = ""
    objective: Objective = "time"
    steps: tuple[Text, ...] = optional("How it was arrived at, one sentence each", ())
    excluded: dict[Word, Text] = table("Strategies left out for their memory, and how much they need")

    @property
    def least_memory(self) -> bool:
        """Whether the objective is memory, and this strategy alone needs the least."""
        return self.objective == "footprint" and self.groups == ((self.strategy,),)


PAGE_LOCKED = "saved by page-locked arrays"
"""The figure of advice that spares copies altogether."""


class Evidence(Record):
    """A figure of this run that a rule rests on."""

    label: Text
    value: float
    unit: Unit
    predicted: bool = False


class Gain(Record):
    """The gain from following the advice, measured where the proposed strategy ran too."""

    seconds_per_frame: float | None = None
    bytes: Annotated[int, Field(ge=-(2**63), le=2**63 - 1)] | None = None
    basis: Literal["measured", "estimated"]
    over: Word | None = optional("The strategy that it is counted from")
    estimated_seconds_per_frame: float | None = optional("The model's own estimate of a measured gain")


class Advice(Record):
    """The conclusion of one rule."""

    rule: Word
    device: Word = Field(description="The device it is about: measured, or one that was predicted")
    outcome: Literal["advice", "pass", "not-applicable", "error", "silenced"]
    title: Text
    detail: Text
    strategy: Word | None = optional("The strategy it proposes")
    evidence: tuple[Evidence, ...] = ()
    gain: Gain | None = None
    snippet: Text | None = None
    variants: dict[Word, Text] = table("The snippet for other libraries, by the library's name")
    certainty: Certainty | None = optional(
        "Only for advice. measured: cause and worth are figures of this run; likely: the effect was "
        "measured and its cause inferred; predicted: it rests on computed figures"
    )
    sources: tuple[Text, ...] = ()
    lines: tuple[Text, ...] = optional("Where the code declares what it is about: workload.py:34", ())


State = Literal["ok", "limited", "missing", "info"]
"""limited and missing cost something, which `means` says; info is a fact that has no better."""


class Finding(Record):
    """One line: what was found, what it means for the user, how to get the rest."""

    subject: str
    state: State
    found: str
    means: str
    next_step: str = ""


class Checkup(Record):
    """All findings. `ready`: `advisor profile` can do its job here."""

    ready: bool
    verdict: str
    findings: tuple[Finding, ...]
