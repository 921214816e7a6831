"""The strategies, in the order they are shown: each places every shared buffer and names the change it costs.

To add one: write its placement in `placements/`, and list it here (CONTRIBUTING.md has all steps).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
from advisor.strategies.schedule import obstacle, stage_uses


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
    pipelined: bool = False
    """Two sets of buffers, so that frames overlap."""

    def unavailable(self, device: Device) -> str | None:
        """Why it cannot be used on that device, or None."""
        return self.placement.unavailable(device)

    def unsuited(self, workload: WorkloadRecord) -> str | None:
        """Why the workload cannot be run under it, or None."""
        return obstacle(stage_uses(workload, "frame")) if self.pipelined else None

    def placements(self, workload: WorkloadRecord) -> dict[str, Placement]:
        """Where each buffer goes; one that a single side uses stays on that side."""
        return {buffer.name: self._place(buffer, workload) for buffer in workload.buffers}

    def _place(self, buffer: BufferRecord, workload: WorkloadRecord) -> Placement:
        sides = sides_of(buffer, workload)
        if sides == {"device"}:
            return DeviceOnly()
        if sides <= {"host"}:
            return HostOnly()
        placement = self.placement.adapted(buffer, workload)
        if buffer.external and not placement.takes_foreign_memory:
            return External(placement)
        return placement


def sides_of(buffer: BufferRecord, workload: WorkloadRecord) -> set[Side]:
    """The sides whose stages use the buffer, in set-up or in a frame."""
    return {stage.side for stage in workload.stages if stage.name in buffer.access}


def shared(workload: WorkloadRecord) -> list[BufferRecord]:
    """Buffers that both sides use."""
    return [buffer for buffer in workload.buffers if len(sides_of(buffer, workload)) == 2]


BASELINE = "pageable"

STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        BASELINE,
        "ordinary memory, synchronous copies: the baseline",
        Pageable(),
        code_change=0,
        description="""
        The driver stages each copy through page-locked memory of its own, so the link is not fully used and
        the CPU waits. Good for code that must not change: any NumPy array will do. Bad for large transfers on
        a card, where these copies are the slowest, and for a shared DRAM, where every buffer takes twice its
        memory. Source: CUDA C++ Best Practices Guide, "Pinned Memory".""",
    ),
    Strategy(
        "staged",
        "ordinary memory, copied through CuPy's pinned pool",
        Staged(),
        code_change=0,
        description="""
        What cupy.asarray and cupy.asnumpy do: an upload is a CPU copy into CuPy's pinned pool and then an
        asynchronous copy; a download goes straight to ordinary memory. Good for CuPy code as it is. Bad for
        large uploads, each of which costs a pass over the data on the CPU, and for tight memory: the pool
        rounds up to powers of two and keeps what it took. Source: CuPy issues 3625, 6360, 8090, 8111.""",
    ),
    Strategy(
        "pinned",
        "page-locked memory, asynchronous copies",
        Pinned(),
        code_change=2,
        description="""
        Good for transfers at the full rate of the link while the CPU goes on with other work. Bad for buffers
        that are allocated in every frame, because pinning is slow (pin once and reuse), and for machines with
        little memory, because nobody else can use the locked pages. Before compute capability 7.2 a Jetson's
        CPU does not cache this memory. Sources: CUDA C++ Best Practices Guide, "Pinned Memory"; CUDA for
        Tegra, "Memory Types".""",
    ),
    Strategy(
        "write-combined",
        "pinned, write-combined where the host only writes",
        WriteCombined(),
        code_change=3,
        description="""
        Good for buffers that the CPU fills in order and never reads: transfers do not snoop the CPU's caches
        and can be up to 40 % faster over PCIe on x86. A measured H200 gained nothing, and on GH200 the
        transfers ran at half the rate. Bad for any buffer that the CPU reads, at a sixth of the usual rate or
        less; those stay plain pinned memory here. Sources: CUDA C++ Programming Guide, "Write-Combining
        Memory"; CUDA Handbook 5.1.4; reports/h200.""",
    ),
    Strategy(
        "registered",
        "ordinary memory, page-locked afterwards, asynchronous copies",
        Registered(),
        code_change=2,
        description="""
        Good for memory that a camera driver, a decoder or another library allocated: transfers at the full
        rate of the link without a copy into memory of your own. Bad for buffers that are registered in every
        frame, because registering costs more than one copy (register once and keep it). Unsupported on
        Jetsons before compute capability 7.2. Sources: CUDA C++ Programming Guide, "Page-Locked Host Memory";
        CUDA for Tegra, "Memory Types".""",
    ),
    Strategy(
        "pinned-pipelined",
        "two sets of pinned buffers, frames overlap",
        Pinned(),
        code_change=6,
        pipelined=True,
        description="""
        The CPU produces and uploads the next frame while the GPU computes this one, with separate streams for
        uploads, kernels and downloads. Good for throughput where copies, kernels and CPU stages take similar
        times. Bad for latency, because a frame begins in one turn of the loop and ends in the next, and for
        tight memory, because buffers that the CPU uses exist twice. Impossible where a CPU stage needs data
        of the frame before. Source: CUDA C++ Best Practices Guide, "Asynchronous and Overlapping Transfers
        with Computation".""",
    ),
    Strategy(
        "zero-copy",
        "page-locked memory that kernels use in place",
        ZeroCopy(),
        code_change=3,
        description="""
        Good for a shared DRAM, where nothing is copied and every buffer exists once, and on a card for small
        buffers and for data that kernels read once. Bad for data that kernels read again: on a card it
        crosses the link again, and a Jetson's GPU does not cache it. Before compute capability 7.2 the CPU
        does not cache it either. Sources: CUDA for Tegra, "Memory Types"; CUDA C++ Best Practices Guide,
        "Zero Copy".""",
    ),
    Strategy(
        "zero-copy-wc",
        "the same, write-combined where only written",
        ZeroCopyWriteCombined(),
        code_change=4,
        description="""
        Good for the same as zero-copy, where the CPU fills buffers in order and never reads them: its writes
        bypass its caches. Bad for data that kernels read again, as zero-copy, and for any buffer that the CPU
        reads; those stay plain mapped memory here. Source: CUDA C++ Programming Guide, "Write-Combining
        Memory".""",
    ),
    Strategy(
        "zero-copy-registered",
        "ordinary memory, registered, used in place",
        ZeroCopyRegistered(),
        code_change=3,
        description="""
        Good for zero-copy on memory that somebody else allocated, and for Thor, where the GPU's L2 caches
        registered memory but not memory of cudaHostAlloc. Bad for data that kernels read again on a card or
        an earlier Jetson, and for buffers that are registered in every frame. Unsupported on Jetsons before
        compute capability 7.2. Sources: CUDA for Tegra, "Memory Types"; CUDA C++ Programming Guide,
        "Page-Locked Host Memory".""",
    ),
    Strategy(
        "managed",
        "one address for both sides, moved by the driver",
        Managed(),
        code_change=1,
        description="""
        Good for Jetsons before Thor, where CPU and GPU both cache it and every buffer exists once, and for
        the smallest change to code. Bad for cards, where each change of side migrates pages by faults of 10
        to 50 µs. Where concurrentManagedAccess is 0 the CPU must not touch it while any kernel runs; Thor's
        GPU does not cache it. Sources: CUDA C++ Programming Guide, "Unified Memory"; CUDA for Tegra, "Memory
        Types"; ObservUVM.""",
    ),
    Strategy(
        "managed-prefetch",
        "the same, moved before it is needed",
        ManagedPrefetch(),
        code_change=4,
        description="""
        Good for managed memory on a card: pages arrive before kernels touch them, without faults (GTX 1080:
        kernels at 242 GB/s instead of 8). Bad for small buffers, since each change of side costs a call per
        buffer, and of no use where CPU and GPU share one DRAM. Where concurrentManagedAccess is 0 a stream
        attachment takes the place of the prefetch. Sources: CUDA C++ Programming Guide, "Data Prefetching";
        parallelArchitect/pascal-um-benchmark.""",
    ),
    Strategy(
        "managed-advised",
        "the same, with hints on its use",
        ManagedAdvised(),
        code_change=5,
        description="""
        Prefetched managed memory with hints from the annotations: read-mostly for what is written in set-up
        only; for the rest the GPU as preferred location, accessed by the CPU where CPU stages use it. Good
        for data that both sides read, which is then kept on both (up to 25 % gained in a published suite).
        Bad for data that changes: a write to a read-mostly page drops its copies. Needs
        concurrentManagedAccess. Sources: CUDA C++ Programming Guide, "Data Usage Hints"; Chien, Peng and
        Markidis, MCHPC 2019.""",
    ),
    Strategy(
        "system",
        "ordinary memory that kernels reach by themselves",
        System(),
        code_change=0,
        description="""
        Good for coherent hardware (GH200, Thor, GB10): nothing to allocate, register or copy. Bad for a card
        with HMM, where the first touch of every page is a fault, and impossible on all other devices. To CuPy
        it is memory that somebody else owns. Source: CUDA C++ Programming Guide, "Full CUDA Unified Memory
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
