"""One steady frame of one strategy on one machine: walks the plan's steps and adds up their terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.model import terms
from advisor.model.defaults import HOST_SLOWDOWN
from advisor.model.machines import Machine
from advisor.placements.base import Placement
from advisor.placements.external import External
from advisor.profiles import BufferRecord, Side, StageWork, Trace, Traffic, WorkloadRecord
from advisor.schedule import Plan, Step

ASSUMED_AGAIN = 2.0
"""Passes over a buffer at the slow end where tracing saw none: unknown, so one more than assumed."""


@dataclass(frozen=True)
class Setting:
    """What is to be predicted: the workload's traffic, where each buffer lies, and the steps of a frame."""

    workload: WorkloadRecord
    trace: Trace
    placements: Mapping[str, Placement]
    plan: Plan

    def physical_bytes(self) -> int:
        """Memory of all buffers, both copies where there are two; shared memory once."""
        return sum(b.bytes * self._copies(self.placements[b.name]) for b in self.workload.buffers)

    def device_bytes(self) -> int:
        """Memory on the device alone, with managed memory there as a whole."""
        return sum(
            b.bytes
            for b in self.workload.buffers
            if self.placements[b.name].device_kind in ("device", "managed")
        )

    def _copies(self, placement: Placement) -> int:
        if isinstance(placement, External):
            return 1 + self._copies(placement.inner)
        return 1 if placement.host_kind == placement.device_kind else 2


@dataclass
class Frame:
    """Follows where managed memory is and what the caches hold of it, through the steps of a frame."""

    setting: Setting
    machine: Machine
    _sides: dict[str, Side] = field(default_factory=dict)
    _dirty: float = 0.0
    _terms: dict[str, float] = field(default_factory=dict)

    def terms(self) -> dict[str, float]:
        """Seconds by part of a steady frame, named as the NVTX ranges of a measured one."""
        for steps in (self.setting.plan.first, self.setting.plan.steady):
            self._terms = {}
            for step in steps:
                self._take(step)
        return self._terms

    def _take(self, step: Step) -> None:
        if step.action == "host":
            self._add(f"host:{step.name}", self._host(step.name))
        elif step.action == "device":
            self._add(f"device:{step.name}", self._device(step.name))
        elif step.action == "synchronize":
            self._add("synchronize", self._synchronize())
        elif step.action in ("copy-in", "copy-out"):
            self._add("host-copy", self._hand_over(step.name, inwards=step.action == "copy-in"))
        else:
            self._add(step.action, self._move(step.name, to_device=step.action == "to-device"))

    def _add(self, term: str, seconds: float) -> None:
        self._terms[term] = self._terms.get(term, 0.0) + seconds

    # Transfers

    def _move(self, name: str, *, to_device: bool) -> float:
        placement, size = self.setting.placements[name], self._buffer(name).bytes
        inner = placement.inner if isinstance(placement, External) else placement
        return self._copy(inner, size, to_device=to_device)

    def _hand_over(self, name: str, *, inwards: bool) -> float:
        """Foreign memory to or from the program's own by the CPU."""
        machine, placement, size = self.machine, self.setting.placements[name], self._buffer(name).bytes
        assert isinstance(placement, External)
        own = placement.inner.host_kind
        uncached = machine.entry.memory_class == "tegra" and own == "pinned" and not inwards
        rate = machine.get(
            "host_uncached_read_bytes_per_second" if uncached else "host_copy_bytes_per_second"
        )
        seconds = terms.stream(size, rate)
        if own == "managed":
            seconds += self._migrate(name, size, "host")
        return seconds

    def _copy(self, placement: Placement, size: int, *, to_device: bool) -> float:
        machine = self.machine
        if placement.host_kind == "pageable":
            rate = machine.pageable_rate("to_device" if to_device else "to_host")
            return terms.copy(size, machine.get("pageable_copy_call_seconds"), rate)
        rate = machine.get(f"pinned_{'to_device' if to_device else 'to_host'}_bytes_per_second")
        return terms.copy(size, machine.get("pinned_copy_call_seconds"), rate)

    # Host stages

    def _host(self, stage: str) -> float:
        work, machine = self._work(stage), self.machine
        seconds = 0.0
        moved = 0.0
        for traffic in self._traffic(stage):
            read, written = self._bytes(traffic)
            if self._kind(traffic.buffer, "host") == "managed":
                moved += self._migrate(traffic.buffer, read + written, "host")
                self._dirty += written
            uncached = self._is_uncached_by_the_cpu(traffic.buffer)
            kind = "host_uncached" if uncached else "host"
            seconds += terms.stream(read, machine.get(f"{kind}_read_bytes_per_second"))
            seconds += terms.stream(written, machine.get(f"{kind}_write_bytes_per_second"))
        # Temporaries are written and read in turn.
        seconds += terms.stream(work.temporary_bytes / 2, machine.get("host_read_bytes_per_second"))
        seconds += terms.stream(work.temporary_bytes / 2, machine.get("host_write_bytes_per_second"))
        return moved + self._between_bounds(seconds, work.seconds)

    def _between_bounds(self, memory: float, measured: float | None) -> float:
        if measured is None or self.machine.scenario == "fast":
            return memory
        if self.machine.scenario == "likely":
            return terms.host_pass(memory, measured)
        slowdown = HOST_SLOWDOWN.get(self.machine.entry.memory_class, (1.0, ""))[0]
        return max(memory, measured * slowdown)

    def _is_uncached_by_the_cpu(self, buffer: str) -> bool:
        # CUDA for Tegra, "Memory Types": pinned memory before compute capability 7.2.
        return self.machine.entry.memory_class == "tegra" and self._kind(buffer, "host") == "pinned"

    # Device stages

    def _device(self, stage: str) -> float:
        machine, work = self.machine, self._work(stage)
        traffic = self._traffic(stage)
        rate = machine.find("flops_per_second")
        arithmetic = 0.0 if rate is None or work.flops is None else work.flops / rate
        memory = self._device_memory(traffic, work) + self._mapped_memory(traffic)
        managed = [t for t in traffic if self._kind(t.buffer, "device") == "managed"]
        moved = sum(self._migrate(t.buffer, sum(self._bytes(t)), "device") for t in managed)
        return moved + self._clean() + terms.kernel(machine.get("launch_seconds"), arithmetic, memory)

    def _device_memory(self, traffic: list[Traffic], work: StageWork) -> float:
        """Buffers that the GPU caches, and the stage's temporaries: memory first, then L2 or memory again."""
        machine = self.machine
        cached = [t for t in traffic if self._kind(t.buffer, "device") != "pinned"]
        touched = sum(min(max(self._bytes(t)), self._buffer(t.buffer).bytes) for t in cached)
        l2 = machine.find("l2_bytes") or 0.0
        from_memory, from_cache = work.temporary_bytes, 0.0
        for t in cached:
            read, written = self._bytes(t)
            # A kernel with declared passes mostly reads again what is near; NumPy sweeps over all of it.
            local = t.source == "declared" and machine.scenario != "slow" and l2 > 0
            size = self._buffer(t.buffer).bytes
            first, again = terms.split_passes(read, size, cached=local or touched <= l2)
            from_memory += first + written
            from_cache += again
        seconds = terms.stream(from_memory, machine.memory_rate())
        if from_cache:
            seconds += terms.stream(from_cache, machine.get("l2_bytes_per_second"))
        return seconds

    def _mapped_memory(self, traffic: list[Traffic]) -> float:
        """Mapped host memory, which the GPU does not cache: every pass, over the link or from the DRAM."""
        machine = self.machine
        pinned = [self._bytes(t) for t in traffic if self._kind(t.buffer, "device") == "pinned"]
        if not pinned:
            return 0.0
        read, written = (sum(counts) for counts in zip(*pinned, strict=True))
        if self._shares_memory():
            return terms.stream(read + written, machine.memory_rate())
        read_rate = machine.get("zero_copy_read_bytes_per_second")
        return terms.link_both_ways(read, written, read_rate, machine.get("zero_copy_write_bytes_per_second"))

    # Managed memory

    def _migrate(self, name: str, count: float, side: Side) -> float:
        """Page faults of a managed buffer that the other side had last; only where there are two memories."""
        before, self._sides[name] = self._sides.get(name, side), side
        if self._shares_memory() or before == side:
            return 0.0
        machine = self.machine
        touched = min(count, self._buffer(name).bytes)
        return terms.faults(touched, machine.get("migration_bytes"), machine.get("fault_seconds"))

    def _clean(self) -> float:
        """At launch, the CPU's caches give up what they hold of managed memory on a shared DRAM."""
        if not self._shares_memory() or not self._dirty:
            return 0.0
        count, self._dirty = self._dirty, 0.0
        machine = self.machine
        rate = machine.get("host_write_bytes_per_second")
        return terms.maintenance(count, machine.get("host_cache_bytes"), rate)

    def _synchronize(self) -> float:
        """The wait's own cost; on a shared DRAM the GPU's L2 gives up managed memory too."""
        machine = self.machine
        managed = sum(
            b.bytes for b in self.setting.workload.buffers if self._kind(b.name, "device") == "managed"
        )
        held = machine.find("l2_bytes") or 0.0
        flush = terms.maintenance(managed, held, machine.memory_rate()) if self._shares_memory() else 0.0
        return machine.get("synchronize_seconds") + flush

    # What the setting says

    def _shares_memory(self) -> bool:
        return self.machine.entry.memory_class.startswith("tegra")

    def _kind(self, buffer: str, side: Side) -> str:
        placement = self.setting.placements[buffer]
        return placement.host_kind if side == "host" else placement.device_kind

    def _buffer(self, name: str) -> BufferRecord:
        return next(b for b in self.setting.workload.buffers if b.name == name)

    def _traffic(self, stage: str) -> list[Traffic]:
        return [t for t in self.setting.trace.traffic if t.stage == stage]

    def _work(self, stage: str) -> StageWork:
        found = (w for w in self.setting.trace.work if w.stage == stage)
        return next(found, StageWork(stage=stage))

    def _bytes(self, traffic: Traffic) -> tuple[float, float]:
        """Read and written; more at the slow end where they are assumed."""
        again = traffic.source == "assumed" and self.machine.scenario == "slow"
        factor = ASSUMED_AGAIN if again else 1.0
        return traffic.bytes_read * factor, traffic.bytes_written * factor
