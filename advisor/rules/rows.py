"""The figures that rules compare: a strategy's figures and placements, kernels' reads, what nsys recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby, pairwise

from advisor import stats, units
from advisor.profiles.conclusions import Advice, Evidence, Gain, Unit
from advisor.profiles.schema import (
    BufferRecord,
    Measured,
    MemoryClass,
    Predicted,
    Profile,
    StageRecord,
    WorkloadRecord,
)
from advisor.profiles.traces import Direction, StrategyTrace
from advisor.strategies.placement import Movement, Placement
from advisor.strategies.registry import BASELINE, STRATEGIES, Strategy
from advisor.strategies.registry import shared as shared
from advisor.strategies.schedule import doubled, stage_uses
from advisor.verdicts.scores import bytes_of, seconds_of

_ratio = lru_cache(maxsize=512)(stats.ratio_interval)
"""Many rules ask about the same pair."""


@dataclass(frozen=True)
class Row:
    """A strategy's figures, measured or predicted, and how it places the buffers that both sides use."""

    result: Measured | Predicted
    workload: WorkloadRecord
    memory_class: MemoryClass | None
    known: Strategy | None
    """None for a strategy that this version does not know."""
    budget: int | None = None
    """Bytes of memory that a proposed strategy may need."""

    @property
    def strategy(self) -> str:
        return self.result.strategy

    @property
    def measured(self) -> Measured | None:
        return self.result if isinstance(self.result, Measured) else None

    @property
    def predicted(self) -> bool:
        return self.measured is None

    @property
    def seconds(self) -> float:
        return seconds_of(self.result)[0]

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the median when measured; the model's low and high when predicted."""
        return seconds_of(self.result)[1:]

    @cached_property
    def rounds(self) -> tuple[tuple[float, ...], ...]:
        """Raw frames of each process; empty when predicted."""
        return self.measured.rounds if self.measured else ()

    @property
    def physical_bytes(self) -> int:
        return bytes_of(self.result) or 0

    @property
    def fits(self) -> bool:
        """Within the memory budget, so that it may be proposed."""
        return self.budget is None or self.physical_bytes <= self.budget

    @cached_property
    def terms(self) -> Mapping[str, float]:
        """Seconds of each part of a frame, named as a prediction's."""
        if not isinstance(self.result, Measured):
            return self.result.terms
        seconds, copied = self.result.stage_seconds, self.result.host_copy_seconds
        parts = {"to-device": self.result.transfer_seconds, "synchronize": self.result.synchronize_seconds}
        parts |= {f"{s.side}:{s.name}": seconds.get(s.name, 0.0) for s in self.workload.frame_stages()}
        return parts if copied is None else {**parts, "host-copy": copied}

    @property
    def host_stages(self) -> dict[str, float]:
        return {name.removeprefix("host:"): s for name, s in self.terms.items() if name.startswith("host:")}

    @property
    def device_seconds(self) -> float:
        """Kernels alone: the sum of the device stages."""
        return sum(seconds for name, seconds in self.terms.items() if name.startswith("device:"))

    @property
    def transfer_seconds(self) -> float:
        return self.terms.get("to-device", 0.0) + self.terms.get("to-host", 0.0)

    @property
    def transfer_bytes(self) -> int | None:
        """Copied in one frame, both directions; None where it was not recorded."""
        return sum(self.measured.transfer_bytes.values()) or None if self.measured else None

    @property
    def host_copy_seconds(self) -> float | None:
        """The host's copies to and from external buffers; None where there are none."""
        return self.terms.get("host-copy")

    @cached_property
    def placements(self) -> Mapping[str, Placement]:
        return placements(self.known, self.workload)

    @property
    def pinned_bytes(self) -> int:
        """Page-locked memory: taken when measured, by the placements when predicted."""
        if self.measured:
            return self.measured.footprint.reserved.get("pinned", 0)
        twice = doubled(stage_uses(self.workload, "frame")) if self.known and self.known.pipelined else []
        locked = [buffer for buffer in shared(self.workload) if self.placements[buffer.name].locks]
        return sum(buffer.bytes * (2 if buffer.name in twice else 1) for buffer in locked)

    def places(self, fact: Callable[[Placement], bool]) -> bool:
        return any(fact(placement) for placement in self.placements.values())

    def places_all(self, fact: Callable[[Placement], bool]) -> bool:
        """Whether that holds of every buffer's placement, and there are buffers."""
        return bool(self.placements) and all(fact(placement) for placement in self.placements.values())

    @property
    def movements(self) -> set[Movement]:
        """How the contents of its buffers get from side to side."""
        return {placement.movement(self.memory_class) for placement in self.placements.values()}

    @property
    def write_combined(self) -> set[str]:
        return {name for name, placed in self.placements.items() if placed.own.write_combined}

    @property
    def alike(self) -> tuple[object, ...]:
        """How frames follow one another and how each buffer is placed, write-combining apart."""
        facts = []
        for name, p in self.placements.items():
            own = (p.own.host_kind, p.own.device_kind, p.own.registered, p.own.hints)
            facts.append((name, p.host_kind, *own, p.between_gpus))
        return self.overlaps, *facts

    @property
    def locks(self) -> bool:
        return self.places(lambda placement: placement.locks)

    @property
    def overlaps(self) -> bool:
        return self.result.latency_seconds is not None

    @property
    def in_place(self) -> bool:
        return self.movements == {"in-place"}

    @property
    def gpu_caches(self) -> bool:
        """The GPU's caches serve what kernels read again of every buffer."""
        return self.places_all(lambda placement: placement.gpu_caches(self.memory_class))

    @property
    def host_seconds(self) -> float:
        return sum(self.host_stages.values())

    @property
    def path_seconds(self) -> float:
        """Kernels, copies, and the host's copies to external buffers: what a memory strategy decides."""
        return self.device_seconds + self.transfer_seconds + (self.host_copy_seconds or 0.0)

    @property
    def parts_seconds(self) -> float:
        """All parts of a frame one after another, as they are timed: its own time, but for the overlap and
        for the waits that timing each part adds."""
        return self.host_seconds + self.path_seconds + self.terms.get("synchronize", 0.0)

    def part(self, seconds: float) -> float:
        """Seconds as a share of a frame, whose parts together make 1; 0 where none was timed.

        Parts are timed in frames that are broken down, which take longer than those that are not: over the
        median of the latter they would add up to more than the whole.
        """
        return seconds / self.parts_seconds if self.parts_seconds else 0.0

    def over(self, other: Row) -> stats.Ratio:
        """This time over the other's. Predicted: as drawn, else from the two ranges, the widest it can be."""
        if self.rounds and other.rounds:
            return _ratio(self.rounds, other.rounds).around(self.seconds / other.seconds)
        low, high = self.interval[0] / other.interval[1], self.interval[1] / other.interval[0]
        # Where frames overlap, the draws count the latency, `seconds` the time between frames.
        if not (self.overlaps or other.overlaps):
            mine, its = (r.result.over if isinstance(r.result, Predicted) else {} for r in (self, other))
            least, most = its.get(self.strategy, (0.0, 0.0))
            low, high = (1 / most, 1 / least) if least and most else (low, high)
            low, high = mine.get(other.strategy, (low, high))
        return stats.Ratio(self.seconds / other.seconds, low, high)

    def beats(self, other: Row) -> bool:
        """Clearly faster when measured; likely, by more than the equivalence margin, when predicted.

        The model errs alike for all strategies of a device, so its ranges may overlap where the order is
        plain; measured intervals may not.
        """
        ratio = self.over(other)
        likely = self.predicted or other.predicted
        return ratio.value < 1 / (1 + stats.EQUIVALENCE) if likely else ratio.high < 1

    def no_slower(self, other: Row) -> bool:
        """Equal within the margin or better; measured rows to the end of their interval."""
        ratio = self.over(other)
        return (ratio.value if self.predicted or other.predicted else ratio.high) <= 1 + stats.EQUIVALENCE

    def compared(self, other: Row) -> str:
        """ "pinned takes 1.00 ms a frame and pageable 2.00 ms: 2.00× (1.98× to 2.02×) as fast."

        And whose cost the gain is counted against, where that is not the code in use.
        """
        both = f"{self.takes} a frame and {other.strategy} {units.seconds(other.seconds)}"
        whose = "" if other.strategy == BASELINE else f" The gain is relative to {other.strategy}."
        return f"{both}: {units.times(other.over(self))} as fast.{whose}"

    def gain(self, other: Row) -> Gain:
        """The gain of changing to this one from the other; bytes only where fewer are needed."""
        saved = other.physical_bytes - self.physical_bytes
        return Gain(
            seconds_per_frame=other.seconds - self.seconds,
            bytes=saved if saved > 0 else None,
            basis="estimated" if self.predicted or other.predicted else "measured",
            over=other.strategy,
        )

    @property
    def take(self) -> str:
        return "are predicted to take" if self.predicted else "take"

    @property
    def takes(self) -> str:
        """ "pinned takes 1.23 ms", or that it is predicted to."""
        verb = "is predicted to take" if self.predicted else "takes"
        return f"{self.strategy} {verb} {units.seconds(self.seconds)}"

    def figure(self, label: str, value: float, unit: Unit = "seconds") -> Evidence:
        return Evidence(label=label, value=value, unit=unit, predicted=self.predicted)

    def frame(self) -> Evidence:
        return self.figure(f"{self.strategy}: one frame", self.seconds)

    def copies(self) -> Evidence:
        return self.figure(f"{self.strategy}: copies", self.transfer_seconds)

    def kernels(self) -> Evidence:
        return self.figure(f"{self.strategy}: kernels", self.device_seconds)

    def stages(self, names: Sequence[str] = ()) -> Evidence:
        """Time of some host stages, of all where none is named."""
        label = ", ".join(names) or "host stages"
        return self.figure(f"{self.strategy}: {label}", self.spent(names or self.host_stages))

    def spent(self, stages: Iterable[str]) -> float:
        return sum(self.host_stages.get(stage, 0.0) for stage in stages)

    def rate(self) -> list[Evidence]:
        """Bytes per second of its copies, where both are known."""
        if not (self.transfer_bytes and self.transfer_seconds):
            return []
        value = self.transfer_bytes / self.transfer_seconds
        return [self.figure(f"{self.strategy}: rate of the copies", value, "bytes_per_second")]


def fastness(row: Row) -> tuple[bool, float]:
    """The least is fastest: one whose frames overlap only where there is no other."""
    return row.overlaps, row.seconds


def fastest(rows: Iterable[Row]) -> Row | None:
    return min(rows, key=fastness, default=None)


@dataclass(frozen=True)
class Reads:
    """How often the kernels of one frame read a buffer that both sides use."""

    buffer: str
    bytes: int
    passes: float
    stages: tuple[str, ...]
    known: bool
    """Traced or declared; otherwise each stage that reads it is taken to do so once."""
    new_each_frame: bool
    """A stage of the frame writes it, so that it has to reach the device again."""
    calls: tuple[str, ...] = ()
    """Library calls that read it again where no cache serves them, and where they stand."""


NO_MIXES: Mapping[str, Strategy] = {}


def strategy_named(name: str, mixes: Mapping[str, Strategy] = NO_MIXES) -> Strategy | None:
    return mixes.get(name) or next((s for s in STRATEGIES if s.name == name), None)


def placements(known: Strategy | None, workload: WorkloadRecord) -> dict[str, Placement]:
    """How that strategy places each buffer that both sides use; nothing for one not known here."""
    placed = known.placements(workload) if known else {}
    return {buffer.name: placed[buffer.name] for buffer in shared(workload) if known}


def in_order(workload: WorkloadRecord) -> list[StageRecord]:
    """The stages of a frame in order, those of a loop twice: an iteration follows an iteration."""
    ordered: list[StageRecord] = []
    for loop, stages in groupby(workload.frame_stages(), key=lambda stage: stage.loop):
        ordered += list(stages) * (1 if loop is None else 2)
    return ordered


def changes_of_side(buffer: BufferRecord, workload: WorkloadRecord) -> int:
    """How often the side that touches the buffer changes from frame to frame, in one frame."""
    touched = [s.side for s in in_order(workload) if s.name in buffer.access]
    return sum(before != after for before, after in pairwise([*touched, *touched[:1]]))


# What a trace of nsys adds to the figures

_SEEN = "recorded by nsys, per frame"


@dataclass(frozen=True)
class Traced:
    strategies: tuple[str, ...]
    """It is about the first of these that was traced."""
    evidence: Callable[[StrategyTrace], Iterator[Evidence]]
    cause: Callable[[StrategyTrace], float | None] | None = None
    """Bytes a frame by which the cause shows; None where none was watched."""
    unseen: str = ""
    """The event that nsys did not see where that is 0."""

    def beside(self, advice: Advice, profile: Profile) -> Advice:
        """The advice, where it is on the measured device, with what nsys recorded."""
        traced = next(filter(None, map(profile.trace.of, self.strategies)), None)
        spoken = advice.device == profile.device.name and advice.outcome in ("advice", "pass")
        if traced is None or not spoken:
            return advice
        traced_evidence = {"evidence": (*advice.evidence, *self.evidence(traced))}
        if advice.outcome == "pass" or self.cause is None or self.cause(traced) != 0:
            return advice.model_copy(update=traced_evidence)
        text = f"{advice.detail} But nsys recorded {self.unseen} in its trace, so the cause may be different."
        certainty = "likely" if advice.certainty == "measured" else advice.certainty
        return advice.model_copy(update={**traced_evidence, "detail": text, "certainty": certainty})


def pageable_bytes(traced: StrategyTrace) -> float | None:
    """Bytes copied from or to pageable memory in a frame."""
    up, down = (traced.copied_bytes(way, "pageable") for way in ("host-to-device", "device-to-host"))
    return None if up is None or down is None else up + down


def migrations(traced: StrategyTrace) -> Iterator[Evidence]:
    directions: Mapping[Direction, str] = {"to-device": "the GPU", "to-host": "the host"}
    for direction, side in directions.items():
        if (moved := traced.migrated_bytes(direction)) is not None:
            yield _figure(traced, f"migrated to {side}", moved, "bytes")
    for who, faults in zip(("CPU", "GPU"), traced.faults(), strict=True):
        if faults is not None:
            yield _figure(traced, f"page faults by the {who}", faults, "count")


def copies(traced: StrategyTrace) -> Iterator[Evidence]:
    """Bytes by direction and by the kind of the host's memory, as the driver saw it."""
    for copies in traced.activity.copies or ():
        preposition = "into" if copies.kind == "device-to-host" else "from"
        way = f"{preposition} {copies.host_memory or 'unknown'} memory"
        yield _figure(traced, f"copied {copies.kind} {way}", copies.bytes / traced.frames, "bytes")


def idle(traced: StrategyTrace) -> Iterator[Evidence]:
    """Time without kernels and copies, beside the traced frame that it is of: tracing makes both longer."""
    if traced.idle_share is not None:
        yield _figure(traced, "GPU idle", traced.idle_share * traced.frame_seconds, "seconds")
        whole = f"{traced.strategy}: that frame, slowed by tracing"
        yield Evidence(label=whole, value=traced.frame_seconds, unit="seconds")


def _figure(traced: StrategyTrace, label: str, value: float, unit: Unit) -> Evidence:
    return Evidence(label=f"{traced.strategy}: {label}, {_SEEN}", value=value, unit=unit)
