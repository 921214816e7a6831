"""The subject of a prediction: the workload's traffic, where each buffer lies, and the steps of a frame."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeVar

from advisor.devices.entries import moves_whole
from advisor.model.machines import Machine
from advisor.model.terms import Values
from advisor.profiles.base import Record
from advisor.profiles.schema import BufferRecord, MemoryClass, Trace, WorkloadRecord
from advisor.profiles.traces import StageWork, Traffic
from advisor.strategies.placement import Placement
from advisor.strategies.planning import plan_of
from advisor.strategies.registry import Strategy, gpus_of, shared
from advisor.strategies.schedule import Plan, Step, doubled, stage_uses

Path = Literal["memory", "uncached", "link"]
"""memory: the GPU's own or the shared DRAM, behind its L2. uncached: the shared DRAM without. link: the
host's memory over PCIe or a coherent link."""


@dataclass(frozen=True)
class Learned:
    """Results of measured stages: host stages' times in the trace, and kernels as a factor on the model's."""

    trace: Trace | None = None
    kernel_factor: Mapping[str, Values] = field(default_factory=dict)
    """Measured time of device stages over the model's, on the device that was measured."""
    same_device: bool = False
    """The host stages' times were measured beside this very device."""
    unexplained: float = 1.0
    """How much is left of what the terms do not explain (simulate.py), as an exponent: 1 all, 0 nothing."""
    sentences: tuple[str, ...] = ()
    host_spread: float = 0.0
    """How far host stages' times may be from an idle machine's (measured.py): 0.1 is 10 % either way."""


NOTHING = Learned()
AnyRecord = TypeVar("AnyRecord", bound=Record)


def scaled(record: AnyRecord, factor: float, *figures: str) -> AnyRecord:
    """The record with these figures times the factor, where it has them."""
    known = {name: value for name in figures if (value := getattr(record, name)) is not None}
    return record.model_copy(update={name: value * factor for name, value in known.items()})


@dataclass(frozen=True)
class Context:
    """One strategy of one workload on one device."""

    workload: WorkloadRecord
    trace: Trace
    strategy: Strategy
    machine: Machine
    learned: Learned = NOTHING
    first_frames: bool = False
    """Few frames: the driver has not found out yet which pages thrash."""
    stays: bool = False
    """The driver leaves managed pages at the host (steady_frame.py)."""

    @property
    def memory_class(self) -> MemoryClass:
        return self.machine.entry.memory_class

    @cached_property
    def placements(self) -> Mapping[str, Placement]:
        return self.strategy.placements(self.workload)

    @cached_property
    def plan(self) -> Plan:
        device = self.machine.entry.device()
        traits = {name: placement.traits(device) for name, placement in self.placements.items()}
        return plan_of(self.workload, traits)

    @cached_property
    def iterations(self) -> list[float]:
        return [self.trace.times(loop) for loop in self.workload.loops]

    def own(self, buffer: str) -> Placement:
        """Where the program's own memory of a buffer lies."""
        return self.placements[buffer].own

    def is_foreign(self, buffer: str) -> bool:
        """Whether host stages work on memory that is not the program's own."""
        return self.placements[buffer] is not self.own(buffer)

    def path(self, buffer: str) -> Path:
        placement = self.own(buffer)
        if placement.device_kind == "device":
            return "memory"
        if self.machine.shares_memory:
            return "memory" if placement.gpu_caches(self.memory_class) else "uncached"
        return "memory" if self.migrates(buffer) else "link"

    def migrates(self, buffer: str) -> bool:
        """Whether its pages move to the side that touches them."""
        return not self.stays and self._migrates(buffer)

    def _migrates(self, buffer: str) -> bool:
        if self.machine.shares_memory:
            return False
        return self.own(buffer).movement(self.memory_class) in ("migrated", "prefetched")

    @cached_property
    def moves_whole(self) -> bool:
        return moves_whole(self.machine.entry.device().attributes)

    def shares(self, traffic: Traffic, path: Path) -> float:
        """How much of what a kernel touches of a buffer it reaches by that path.

        Of pages that stay at the host (steady_frame.py) only those are there that a host stage touches.
        """
        buffer = traffic.buffer
        if not self.stays or not self._migrates(buffer):
            return float(self.path(buffer) == path)
        host = {stage.name for stage in self.workload.frame_stages("host")}
        theirs = (t for t in self.trace.traffic if t.buffer == buffer and t.stage in host)
        own = self.touched(traffic)
        at_host = min(max(map(self.touched, theirs), default=0.0) / own, 1.0) if own else 1.0
        return {"link": at_host, "memory": 1 - at_host}.get(path, 0.0)

    def touched(self, traffic: Traffic) -> float:
        """Bytes of the buffer that the stage reads or writes, once each."""
        return min(max(traffic.bytes_read, traffic.bytes_written), self.size(traffic.buffer))

    def physical_bytes(self) -> int:
        """Memory of all buffers, every copy where there are several, managed memory beside a card's own on
        both sides; shared memory once."""
        return sum(b.bytes * self._copies(b.name) for b in self.workload.buffers)

    def device_bytes(self) -> int:
        """Memory on the device alone, with memory that migrates there as a whole; of several, the fullest."""
        sizes = [
            (b.bytes * self._sets(b.name), self._gpus(b.name))
            for b in self.workload.buffers
            if self.own(b.name).device_kind == "device" or self.migrates(b.name)
        ]
        return max(sum(n for n, gpus in sizes if gpu in gpus) for gpu in range(self.workload.gpus))

    def _copies(self, buffer: str) -> int:
        placement = self.own(buffer)
        two_sides = placement.managed and not self.machine.shares_memory
        there = len(self._gpus(buffer)) if placement.device_kind == "device" else 1
        both = 2 if two_sides else there + (placement.host_kind != placement.device_kind)
        # The pinned pool between the two.
        return (both + placement.staged) * self._sets(buffer) + self.is_foreign(buffer)

    def _gpus(self, buffer: str) -> tuple[int, ...]:
        return gpus_of(self.buffers[buffer], self.workload) or (0,)

    def _sets(self, buffer: str) -> int:
        return 2 if buffer in self._twice else 1

    @cached_property
    def _twice(self) -> list[str]:
        return doubled(stage_uses(self.workload, "frame")) if self.strategy.pipelined else []

    @cached_property
    def buffers(self) -> dict[str, BufferRecord]:
        return {b.name: b for b in self.workload.buffers}

    def size(self, buffer: str) -> float:
        """Bytes of a buffer; of one with a length, those that are valid on average."""
        return self.trace.valid_bytes.get(buffer, self.buffers[buffer].bytes)

    def item_bytes(self, buffer: str) -> float:
        record = self.buffers[buffer]
        return record.bytes / max(math.prod(record.shape), 1)

    def moved(self, step: Step) -> float:
        return step.moved(self.buffers[step.name], self.trace.valid_bytes)

    def placement_of(self, step: Step) -> Placement:
        """Where the data of a step lies: the buffer that it moves, or the largest that its stage shares."""
        moved = step.action not in ("host", "device", "length", "synchronize")
        of_all = next(iter(self._shared), None)
        if moved:
            largest = step.name if step.name in self._shared else of_all
        else:
            largest = self._largest.get(step.name, of_all)
        return self.own(largest) if largest else self.strategy.placement

    @cached_property
    def _shared(self) -> dict[str, BufferRecord]:
        by_size = sorted(shared(self.workload), key=lambda buffer: -buffer.bytes)
        return {buffer.name: buffer for buffer in by_size}

    @cached_property
    def _largest(self) -> dict[str, str]:
        return {stage: b.name for b in reversed(self._shared.values()) for stage in b.access}

    def traffic(self, stage: str) -> list[Traffic]:
        return self._traffic.get(stage, [])

    @cached_property
    def _traffic(self) -> dict[str, list[Traffic]]:
        by_stage: dict[str, list[Traffic]] = {}
        for traffic in self.trace.traffic:
            by_stage.setdefault(traffic.stage, []).append(traffic)
        return by_stage

    def work(self, stage: str) -> StageWork:
        return next((w for w in self.trace.work if w.stage == stage), None) or StageWork(stage=stage)

    @cached_property
    def host_bytes(self) -> int:
        """Bytes of all buffers that host stages of a frame touch, and of both sets where there are two."""
        stages = {stage.name for stage in self.workload.frame_stages("host")}
        touched = (b for b in self.workload.buffers if stages & set(b.access))
        return sum(b.bytes * self._sets(b.name) for b in touched)

    @cached_property
    def managed_bytes(self) -> int:
        return sum(b.bytes for b in self.workload.buffers if self.own(b.name).managed)
