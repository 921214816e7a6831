"""The strategies, in the order they are shown: each places every shared buffer and names the change it costs.

To add one: write its placement in `placements/`, and list it here (CONTRIBUTING.md has all steps).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from advisor.errors import UsageError, nearest
from advisor.profiles.schema import BufferRecord, Device, Side, WorkloadRecord
from advisor.strategies.placements.base import Placement
from advisor.strategies.placements.kinds import (
    DeviceOnly,
    External,
    HostOnly,
    Managed,
    ManagedAdvised,
    ManagedPrefetch,
    Pageable,
    Pinned,
    Registered,
    Staged,
    System,
    WriteCombined,
    ZeroCopy,
    ZeroCopyRegistered,
    ZeroCopyWriteCombined,
)
from advisor.strategies.placements.peers import Peer
from advisor.strategies.planning import plan
from advisor.strategies.schedule import Traits, obstacle, stage_uses

AnyStrategy = TypeVar("AnyStrategy")
SearchedFor = Literal["cards", "one-memory", "external", "between-gpus"]
"""Buffers that the search for a mix tries a placement for: any on a card, any where CPU and GPU share one
DRAM, external ones, and those that one GPU writes and another reads."""


@dataclass(frozen=True)
class Strategy:
    """A named way to place all buffers that both sides use."""

    name: str
    summary: str
    placement: Placement
    code_change: int
    """How much of the user's code changes, as a rank: 0 is none. Breaks ties between equal strategies."""
    description: str
    """What it is good and bad for, and where that is written; `advisor strategies` prints it."""
    searched: tuple[SearchedFor, ...]
    """Where the search for a mix tries its placement; empty for a variant of one that is tried."""
    pipelined: bool = False
    """Two sets of buffers, so that frames overlap."""
    several_gpus: bool = False
    """Only for workloads on several GPUs; of others nothing is told of it."""

    def unavailable(self, device: Device) -> str | None:
        return self.placement.unavailable(device)

    def unsuited(self, workload: WorkloadRecord) -> str | None:
        if self.several_gpus and workload.gpus == 1:
            return "the workload runs on one GPU"
        if self.several_gpus and not crossing(workload):
            return "no GPU reads what another one writes, so `peer` is the same as `pinned`"
        return obstacle(stage_uses(workload, "frame")) if self.pipelined else None

    def placements(self, workload: WorkloadRecord) -> dict[str, Placement]:
        """Where each buffer goes; one that a single side uses stays on that side."""
        used = sides(workload)
        return {b.name: self._place(b, workload, used[b.name]) for b in workload.buffers}

    def _place(self, buffer: BufferRecord, workload: WorkloadRecord, sides: set[Side]) -> Placement:
        if sides == {"device"} and len(gpus_of(buffer, workload)) == 1:
            return DeviceOnly()
        if sides <= {"host"}:
            return HostOnly()
        placement = self._chosen(buffer).adapted(buffer, workload)
        if sides == {"device"}:
            return placement.among_gpus()
        if buffer.external and not placement.takes_foreign_memory:
            return External(placement)
        return placement

    def _chosen(self, buffer: BufferRecord) -> Placement:
        """Before it is adapted to the buffer."""
        del buffer
        return self.placement


def sides(workload: WorkloadRecord) -> dict[str, set[Side]]:
    """By buffer the sides that use it, in set-up or in a frame: the host looks at one that ends a loop, and
    at the length of one that both sides use."""
    side = {stage.name: stage.side for stage in workload.stages}
    found = {b.name: {side[name] for name in b.access if name in side} for b in workload.buffers}
    lengths = {b.valid for b in workload.buffers if len(found[b.name]) == 2}
    for name in found.keys() & (lengths | {loop.until for loop in workload.loops}):
        found[name].add("host")
    return found


def crossing(workload: WorkloadRecord) -> frozenset[str]:
    """The buffers of which some GPU reads what another one makes."""
    traits = dict.fromkeys((buffer.name for buffer in workload.buffers), Traits(moves="copies", peer=True))
    made = plan(stage_uses(workload, "setup"), stage_uses(workload, "frame"), traits)
    steps = (*made.setup, *made.first, *made.steady)
    return frozenset(step.name for step in steps if step.action == "to-peer")


def gpus_of(buffer: BufferRecord, workload: WorkloadRecord) -> tuple[int, ...]:
    """The workload's GPUs whose stages use the buffer, in set-up or in a frame."""
    return tuple(sorted({s.gpu for s in workload.stages if s.side == "device" and s.name in buffer.access}))


def shared(workload: WorkloadRecord) -> list[BufferRecord]:
    used = sides(workload)
    return [buffer for buffer in workload.buffers if len(used[buffer.name]) == 2]


def to_place(workload: WorkloadRecord) -> list[BufferRecord]:
    """Buffers that there is more than one way to place: both sides use them, or several GPUs do."""
    used = sides(workload)
    return [b for b in workload.buffers if len(used[b.name]) == 2 or len(gpus_of(b, workload)) > 1]


BASELINE = "pageable"

STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        BASELINE,
        "pageable memory, synchronous copies: the baseline",
        Pageable(),
        code_change=0,
        searched=("cards", "one-memory"),
        description="""
        The driver stages each copy through its own page-locked buffers, so transfers stay below the rate
        of the link and the CPU waits. Good for code that must not change: any NumPy array works. Bad for
        large transfers to a card, where these copies are the slowest, and for shared DRAM, where every
        buffer is held twice. Source: CUDA C++ Best Practices Guide, "Pinned Memory".""",
    ),
    Strategy(
        "staged",
        "pageable memory, copied through CuPy's pinned pool",
        Staged(),
        code_change=0,
        searched=(),
        description="""
        What cupy.asarray and cupy.asnumpy do: an upload is a CPU copy into CuPy's pinned pool and then an
        asynchronous copy; a download goes directly to pageable memory. Good for unchanged CuPy code. Bad
        for large uploads, each of which costs a CPU pass over the data, and where memory is scarce: the
        pool rounds up to powers of two and never returns memory. Source: CuPy issues 3625, 6360, 8090,
        8111.""",
    ),
    Strategy(
        "pinned",
        "page-locked memory, asynchronous copies",
        Pinned(),
        code_change=2,
        searched=("cards", "one-memory"),
        description="""
        Good for transfers at the full rate of the link while the CPU does other work. Bad for buffers that
        are allocated in every frame, because pinning is slow (pin once and reuse), and for machines with
        little memory, because locked pages are unavailable to everything else. Before compute capability
        7.2 a Jetson's CPU does not cache this memory. Sources: CUDA C++ Best Practices Guide, "Pinned
        Memory"; CUDA for Tegra, "Memory Types".""",
    ),
    Strategy(
        "write-combined",
        "pinned, write-combined where the host only writes",
        WriteCombined(),
        code_change=3,
        searched=(),
        description="""
        Good for buffers that the CPU fills sequentially and never reads: transfers do not snoop the CPU's
        caches and can be up to 40 % faster over PCIe on x86. A measured H200 gained nothing, and on GH200
        the transfers ran at half the rate. Bad for any buffer that the CPU reads, at a sixth of the usual
        rate or less; advisor keeps those in plain pinned memory. Sources: CUDA C++ Programming Guide,
        "Write-Combining Memory"; CUDA Handbook 5.1.4; reports/h200.""",
    ),
    Strategy(
        "registered",
        "pageable memory, page-locked after allocation, asynchronous copies",
        Registered(),
        code_change=2,
        searched=("external",),
        description="""
        Good for memory that a camera driver, a decoder or another library allocated: transfers at the full
        rate of the link without an extra copy. Bad for buffers that are registered in every frame, because
        registering costs more than one copy (register once and keep it). Unsupported on Jetsons before
        compute capability 7.2. Sources: CUDA C++ Programming Guide, "Page-Locked Host Memory"; CUDA for
        Tegra, "Memory Types".""",
    ),
    Strategy(
        "peer",
        "pinned, copied from GPU to GPU without the host",
        Peer(),
        code_change=3,
        searched=("between-gpus",),
        several_gpus=True,
        description="""
        Only for workloads on several GPUs. What one GPU made and another reads is copied between them by
        cudaMemcpyPeerAsync, with peer access enabled where the GPUs have it; everything else is as pinned.
        Good for pipelines of GPUs, above all over NVLink: two H200s copy 387 GB/s that way, and 38 GB/s
        until peer access is enabled. Bad for GPUs without a path between them: the driver then stages these
        copies in host memory. Source: CUDA C++ Programming Guide, "Peer-to-Peer Memory Access".""",
    ),
    Strategy(
        "pinned-pipelined",
        "two sets of pinned buffers, overlapping frames",
        Pinned(),
        code_change=6,
        searched=(),
        pipelined=True,
        description="""
        The CPU produces and uploads the next frame while the GPU computes this one, with separate streams
        for uploads, kernels and downloads. Good for throughput where copies, kernels and CPU stages take
        similar times. Bad for latency, because a frame starts in one iteration and ends in the next, and
        where memory is scarce, because buffers that the CPU uses are held twice. Not possible where a CPU
        stage needs data of the previous frame. Source: CUDA C++ Best Practices Guide, "Asynchronous and
        Overlapping Transfers with Computation".""",
    ),
    Strategy(
        "zero-copy",
        "page-locked memory that kernels use in place",
        ZeroCopy(),
        code_change=3,
        searched=("cards", "one-memory"),
        description="""
        Good for shared DRAM, where nothing is copied and every buffer is held once, and on a card for
        small buffers and data that kernels read once. Bad for data that kernels re-read: on a card it
        crosses the link each time, and a Jetson's GPU does not cache it. Before compute capability 7.2 the
        CPU does not cache it either. Sources: CUDA for Tegra, "Memory Types"; CUDA C++ Best Practices
        Guide, "Zero Copy".""",
    ),
    Strategy(
        "zero-copy-wc",
        "zero-copy, write-combined where the host only writes",
        ZeroCopyWriteCombined(),
        code_change=4,
        searched=(),
        description="""
        Good for zero-copy buffers that the CPU fills sequentially and never reads: writes bypass the
        CPU's caches. Bad for data that kernels re-read, like zero-copy, and for any buffer that the CPU
        reads; advisor keeps those in plain mapped memory. Source: CUDA C++ Programming Guide,
        "Write-Combining Memory".""",
    ),
    Strategy(
        "zero-copy-registered",
        "pageable memory, registered, used in place",
        ZeroCopyRegistered(),
        code_change=3,
        searched=("one-memory", "external"),
        description="""
        Good for zero-copy on memory that another library allocated, and for Thor, where the GPU's L2
        caches registered memory but not cudaHostAlloc memory. Bad for data that kernels re-read on a card
        or an earlier Jetson, and for buffers that are registered in every frame. Unsupported on Jetsons
        before compute capability 7.2. Sources: CUDA for Tegra, "Memory Types"; CUDA C++ Programming Guide,
        "Page-Locked Host Memory".""",
    ),
    Strategy(
        "managed",
        "one pointer for both sides, migrated by the driver",
        Managed(),
        code_change=1,
        searched=("one-memory",),
        description="""
        Good for Jetsons before Thor, where CPU and GPU both cache it and every buffer is held once, and
        for minimal code changes. Bad for cards, where pages migrate by faults of 10 to 50 µs whenever the
        other side touches them. Where concurrentManagedAccess is 0 the CPU must not touch it while any
        kernel runs; Thor's GPU does not cache it. Sources: CUDA C++ Programming Guide, "Unified Memory";
        CUDA for Tegra, "Memory Types"; ObservUVM.""",
    ),
    Strategy(
        "managed-prefetch",
        "managed memory, prefetched before use",
        ManagedPrefetch(),
        code_change=4,
        searched=("cards",),
        description="""
        Good for managed memory on a card: pages arrive before kernels touch them, without faults (GTX
        1080: kernels at 242 GB/s instead of 8). Bad for small buffers, since each prefetch is a call per
        buffer, and useless where CPU and GPU share one DRAM. Where concurrentManagedAccess is 0, stream
        attachment replaces the prefetch. Sources: CUDA C++ Programming Guide, "Data Prefetching";
        parallelArchitect/pascal-um-benchmark.""",
    ),
    Strategy(
        "managed-advised",
        "managed memory, prefetched, with usage hints",
        ManagedAdvised(),
        code_change=5,
        searched=(),
        description="""
        Prefetched managed memory with hints from the annotations: read-mostly for what is written in
        set-up only; for the rest the GPU as preferred location, accessed by the CPU where CPU stages use
        it. Good for data that both sides read, which is then duplicated on both (up to 25 % gained in a
        published suite). Bad for data that changes: a write to a read-mostly page invalidates its copies.
        Needs concurrentManagedAccess. Sources: CUDA C++ Programming Guide, "Data Usage Hints"; Chien, Peng
        and Markidis, MCHPC 2019.""",
    ),
    Strategy(
        "system",
        "pageable memory that kernels access directly",
        System(),
        code_change=0,
        searched=(),
        description="""
        Good for coherent hardware (GH200, Thor, GB10): nothing to allocate, register or copy. Bad for a
        card with HMM, where the first access to each page faults, and not possible on other devices. In
        CuPy it is unowned memory. Source: CUDA C++ Programming Guide, "Full CUDA Unified Memory
        Support".""",
    ),
)


def by_name(name: str, strategies: Sequence[Strategy] = STRATEGIES) -> Strategy:
    """The strategy of that name. Raises `UsageError`, with the nearest names."""
    for strategy in strategies:
        if strategy.name == name:
            return strategy
    names = [strategy.name for strategy in strategies]
    raise UsageError(
        f"there is no strategy {name!r}{nearest(name, names, 2)}",
        next_step=f"Choose from {', '.join(names)} (see `advisor strategies`).",
    )


def choose(names: Iterable[str]) -> tuple[Strategy, ...]:
    """The named strategies in the order of the table; all of them when none is named."""
    wanted = {by_name(name).name for name in names}
    return tuple(s for s in STRATEGIES if not wanted or s.name in wanted)


def concerning(strategies: Sequence[AnyStrategy], workload: WorkloadRecord) -> tuple[AnyStrategy, ...]:
    """The strategies that a profile of the workload lists: without a choice, none for several GPUs on one."""
    if workload.gpus > 1 or len(strategies) < len(STRATEGIES):
        return tuple(strategies)
    return tuple(s for s in strategies if not getattr(s, "several_gpus", False))


def describe() -> str:
    """All strategies as text of 80 columns: name, summary, and what it is good and bad for."""
    return "\n\n".join(
        f"{strategy.name}: {strategy.summary}\n"
        + textwrap.fill(
            " ".join(strategy.description.split()),
            width=80,
            initial_indent="  ",
            subsequent_indent="  ",
        )
        for strategy in STRATEGIES
    )
