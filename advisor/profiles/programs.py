"""Any program in an Nsight Systems report: GPU by GPU, in its steady frames where it has frames.

Times are those of the report; recording slows a program. What nsys did not record is None, never 0.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from advisor.profiles.amounts import Bytes, Number, Positive, PositiveSeconds, Seconds, Share
from advisor.profiles.base import Name, Record, Text, Word, optional, table
from advisor.profiles.conclusions import Advice
from advisor.profiles.traces import Allocations, Kernels, Migrations, Timeline

HostWork = Literal["page-locking", "allocation", "copies", "waits", "launches", "other"]
"""Kinds of the host's CUDA calls."""
FrameSource = Literal["nvtx", "all work", "uploads", "kernels as often", "uploads by size", "downloads"]
SMALL = 65536
"""Bytes up to which a copy counts as small: the threshold of the rule small-transfers."""


LARGE = 1 << 20
"""Bytes from which a copy's rate is the link's: at 25 GB/s it takes eight times its 5 µs call."""


class Flow(Record):
    """Copies in one direction with one kind of host memory, small ones (up to 64 KiB) apart."""

    kind: Word = Field(description="host-to-device, device-to-host, peer-to-peer (to another GPU)")
    memory: Word = Field(description="The host's: pageable, pinned (also registered), managed, unknown, ...")
    small: bool
    count: Number
    calls: Number = Field(description="The host's calls that made them: one for all copies of a CUDA graph")
    bytes: Bytes
    seconds: Seconds = Field(description="Time in which at least one of them ran")
    hidden_seconds: Seconds = Field(description="While a kernel ran on the same GPU")
    staging_seconds: Seconds = optional("The GPU idle and the host in calls of pageable copies", 0.0)
    best_bytes_per_second: float | None = optional("Rate of the fastest one of 1 MiB or more")
    where: Text | None = optional("The function that called for most of them, by the report's backtraces")

    @property
    def bytes_per_second(self) -> float | None:
        return self.bytes / self.seconds if self.seconds > 0 else None

    @property
    def exposed_seconds(self) -> float:
        return self.seconds - self.hidden_seconds

    def spared(self, rate: float | None) -> float:
        """Seconds without kernels that copies at that rate would save; with None, all of them."""
        faster = 1 - min(self.bytes / rate / self.seconds, 1.0) if rate and self.seconds else 1.0
        return self.exposed_seconds * faster + self.staging_seconds


class HostTime(Record):
    """CUDA calls of one kind by the GPU's processes."""

    work: HostWork
    count: Number
    seconds: Seconds = Field(description="Time with a thread in such a call; launches and others added up")
    idle_seconds: Seconds = Field(description="While the GPU did nothing")
    where: Text | None = None


class Managed(Record):
    """Migrations and faults of managed memory; bytes that changed sides often, by ranges of 2 MiB."""

    migrations: tuple[Migrations, ...]
    seconds: Seconds = Field(description="Time in which at least one page moved")
    exposed_seconds: Seconds = Field(description="While no kernel ran")
    stalled_seconds: Seconds = Field(description="Whole kernels in which pages moved")
    bouncing_bytes: Bytes | None = optional("Moved in ranges that went both ways in every frame")
    bouncing_ranges: int | None = None
    cpu_page_faults: int | None = None
    gpu_page_faults: int | None = None

    @property
    def bytes(self) -> int:
        return sum(moved.bytes for moved in self.migrations)

    def by_fault(self) -> float:
        """The share of the bytes that no prefetch of the program asked for."""
        prefetched = sum(m.bytes for m in self.migrations if m.cause == "user prefetch")
        return 1 - prefetched / self.bytes if self.bytes else 0.0


class Frames(Record):
    """The frames of a program; the first ones that take longer are warm-up."""

    source: FrameSource
    name: Name = Field(description="Name of the range, or how the frames were found")
    count: Number
    alike: Share = Field(description="Share of them with the same work as most")
    steady_count: Number = Field(description="Without the first ones that took longer")
    steady: tuple[PositiveSeconds, ...] = Field(description="Length of each steady one, of the first 1000")
    uploads: tuple[tuple[int, int], ...] = optional("Bytes and number of the uploads in most of them", ())
    downloads: tuple[tuple[int, int], ...] = ()


class Stream(Record):
    """One stream of a GPU in the same time."""

    number: int
    kernel_seconds: Seconds
    copy_seconds: Seconds


class Link(Record):
    """The best rate at which the device copies page-locked memory."""

    bytes_per_second: Positive
    source: Text


class Ceiling(Record):
    """What memory can change: not the wait for kernels, nor the time that other lines lose to copies."""

    seconds: Seconds
    share: Share


class GpuTrace(Record):
    """One GPU. Figures are of its steady frames, else from its first work to its last."""

    label: Word
    name: Text | None = None
    process: int
    shares_dram: bool | None = optional("Whether CPU and GPU use one DRAM")
    seconds: PositiveSeconds
    frames: Frames | None = None
    kernel_seconds: Seconds
    collective_seconds: Seconds = optional("While only NCCL's kernels ran", 0.0)
    copy_seconds: Seconds
    hidden_seconds: Seconds = Field(description="Copies while a kernel ran")
    up_seconds: Seconds | None = optional("Copies while an upload ran")
    down_seconds: Seconds | None = optional("Copies while a download ran")
    both_seconds: Seconds | None = optional("Copies while both ran")
    copy_engines: int | None = optional("Copies that the GPU can run at once")
    idle_seconds: Seconds
    idle_in_calls_seconds: Seconds | None = optional("Idle in calls that copy, wait, allocate or page-lock")
    removable_seconds: Seconds | None = optional("The same without waits for other GPUs")
    outside_seconds: Seconds | None = optional("Idle with the host in no CUDA call and no other GPU at work")
    flows: tuple[Flow, ...] | None = None
    managed: Managed | None = None
    host: tuple[HostTime, ...] | None = None
    waits: int | None = optional("Calls in which the host waited for the GPU")
    wait_gap_seconds: Seconds | None = optional("Idle time behind those, but for the longest of each frame")
    kernels: tuple[Kernels, ...] = ()
    streams: tuple[Stream, ...] = ()
    links: dict[Word, Link] = table("By direction: to-device, to-host")
    set_up: tuple[Flow, ...] = optional("Copies outside these frames", ())
    timeline: Timeline | None = None
    ceiling: Ceiling | None = None

    @property
    def units(self) -> int:
        """How many frames the figures are of; 1 where there are none."""
        return self.frames.steady_count if self.frames else 1

    def host_time(self, work: HostWork) -> HostTime | None:
        return next((each for each in self.host or () if each.work == work), None)

    def copies(self, kind: str, memory: str | None = None) -> list[Flow]:
        """Copies above 64 KiB."""
        flows = (flow for flow in self.flows or () if flow.kind == kind and not flow.small)
        return [flow for flow in flows if memory in (None, flow.memory)]


class ProgramTrace(Record):
    """A whole report, with what the rules say of it."""

    gpus: tuple[GpuTrace, ...]
    allocations: tuple[Allocations, ...] | None = None
    ranges: tuple[tuple[Name, int], ...] = optional("NVTX ranges that recur, and how often", ())
    advice: tuple[Advice, ...] = ()
    questions: tuple[Text, ...] = optional("What a report cannot answer, and is worth asking", ())
    absent: dict[Text, Text] = table("What was not recorded, and the options of nsys that record it")
