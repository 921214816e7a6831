"""Exports of programs that never ran: a host and GPUs with copy engines, played in time and written as nsys
would, by the schema of its user guides. Each is made around one problem, or around none.

They are honest about that: nothing in them was recorded on a GPU. What nsys recorded is in tests/data/nsys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nsys_exports import PROCESS, THREAD, Export

US, MS = 1_000, 1_000_000
KIB, MIB = 1 << 10, 1 << 20
H100 = "NVIDIA H100 80GB HBM3"
RATES = {"PINNED": 55e9, "PAGEABLE": 11e9}
"""Bytes per second of copies of 1 MiB and more, as an H200 was seen to make them."""


class Program:
    """One host thread and GPUs, each with a stream, two copy engines and kernels."""

    def __init__(self, path: Path, *, gpus: int = 1, name: str = H100, backtraces: bool = False) -> None:
        self.export = Export(path)
        self.now = 10 * MS
        self.calls = 0
        self.backtraces = backtraces
        self.ready: dict[tuple[int, str], int] = {}
        """When an engine of a GPU is free."""
        for gpu in range(gpus):
            self.export.add("TARGET_INFO_GPU", id=gpu, name=name, isDiscrete=1, totalMemory=80 << 30)
            self.export.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=gpu, pid=PROCESS >> 24)

    def done(self) -> Path:
        return self.export.done()

    def host(self, ns: int) -> None:
        self.now += ns

    def call(self, name: str, ns: int = 5 * US) -> int:
        """A CUDA call that takes so long; its correlation id."""
        self.calls += 1
        values = {"start": self.now, "end": self.now + ns, "globalTid": THREAD, "correlationId": self.calls}
        number, calls = self.export.string(f"{name}_v3020"), "CUPTI_ACTIVITY_KIND_RUNTIME"
        self.export.add(calls, nameId=number, eventClass=self.export.shift, callchainId=None, **values)
        if self.backtraces:
            # nsys writes the call once more, with a backtrace of its own.
            kind = self.export.number("ENUM_NSYS_EVENT_CLASS", "_CUDABACKTRACE")
            number = self.export.string(name)
            self.export.add(calls, nameId=number, eventClass=kind, callchainId=self._chain(name), **values)
        self.now += ns
        return self.calls

    def _chain(self, name: str) -> int:
        """A backtrace: libcudart, then the program's own function of that call."""
        app, number = "/home/me/app", self.export.string
        chain = ((name, "/usr/lib/libcudart.so.12"), (f"load_{name}", app), ("main", app))
        for depth, (symbol, module) in enumerate(chain):
            frame = {"symbol": number(symbol), "module": number(module), "stackDepth": depth}
            self.export.add("CUDA_CALLCHAINS", id=self.calls, **frame)
        return self.calls

    def copy(
        self, way: str, nbytes: int, memory: str = "PINNED", *, gpu: int = 0, rate: float | None = None
    ) -> None:
        """HTOD, DTOH or PTOP, after the work on its stream; pageable memory keeps the host until then."""
        takes = 2 * US + round(nbytes / (rate or RATES.get(memory, 20e9)) * 1e9)
        call = self.call("cudaMemcpyAsync")
        begin = max(self.now, self.ready.get((gpu, "stream"), 0), self.ready.get((gpu, way), 0))
        pair = (memory, "_DEVICE") if way == "HTOD" else ("_DEVICE", "_DEVICE" if way == "PTOP" else memory)
        self.export.copy(begin, begin + takes, nbytes, way, *pair, deviceId=gpu, correlationId=call)
        self.ready[gpu, "stream"] = self.ready[gpu, way] = begin + takes
        if memory == "PAGEABLE":
            self.now = begin + takes

    def kernel(self, name: str, ns: int, *, gpu: int = 0) -> None:
        call = self.call("cudaLaunchKernel")
        begin = max(self.now, self.ready.get((gpu, "stream"), 0))
        self.export.kernel(begin, begin + ns, name, call, deviceId=gpu)
        self.ready[gpu, "stream"] = begin + ns

    def wait(self) -> None:
        until = max((each for (_, engine), each in self.ready.items() if engine == "stream"), default=0)
        self.call("cudaDeviceSynchronize", max(until - self.now, 0) + 8 * US)

    def migrate(self, way: str, nbytes: int, *, cause: str = "_COHERENCE", base: int = 1 << 40) -> None:
        """Pages in moves of 64 KiB, one after another from now on."""
        number = self.export.number("ENUM_CUDA_UNIF_MEM_MIGRATION", cause)
        for offset in range(0, nbytes, 64 * KIB):
            where = {"virtualAddress": base + offset, "migrationCause": number}
            self.export.copy(
                self.now, self.now + 6 * US, 64 * KIB, f"UVM_{way}", "MANAGED", "MANAGED", **where
            )
            self.now += 8 * US

    def stalled_kernel(self, name: str, nbytes: int) -> None:
        """A kernel that waits for the pages it touches."""
        call = self.call("cudaLaunchKernel")
        begin = self.now
        self.migrate("HTOD", nbytes)
        self.export.gpu_fault(begin, nbytes // (64 * KIB))
        self.export.kernel(begin, self.now, name, call)
        self.ready[0, "stream"] = self.now

    def graph(self, copies: int, kernels: int) -> None:
        """A CUDA graph, recorded node by node: all of it by one call."""
        call, begin = self.call("cudaGraphLaunch"), self.now
        for node in range(copies):
            nodes = {"graphNodeId": node + 1, "correlationId": call}
            self.export.copy(begin, begin + 1200, 4 * KIB, "HTOD", "PINNED", "_DEVICE", **nodes)
            begin += 1500
        for node in range(kernels):
            self.export.kernel(begin, begin + 40 * US, f"node{node}", call, graphNodeId=100 + node)
            begin += 41 * US
        self.ready[0, "stream"] = begin

    def range(self, name: str, begin: int) -> None:
        self.export.range(name, begin, self.now, domainId=0)


@dataclass(frozen=True)
class Planted:
    """A program, and what is known of it: the rules that give advice, and no others, and its frames."""

    name: str
    play: Callable[[Program], None]
    fires: frozenset[str]
    frames: int | None
    memory: str | None = "pinned"
    """The kind of host memory of its copies; None where GPUs differ."""
    gpus: int = 1
    device: str = H100
    frame: str | None = None
    """The NVTX range that is given as the frame."""


PROGRAMS: list[Planted] = []
Step = Callable[[Program, int], object]
"""A part of a frame; it gets the frame's index."""


def planted(
    name: str, fires: str, *steps: Step, frames: int | None = 20, before: Sequence[Step] = (), **more: Any
) -> None:
    """Adds a program that plays so many frames of these steps, or one that is none, to those that are tested.

    fires: rules, separated by spaces. before: what is played before the frames."""

    def play(p: Program) -> None:
        for index in range(-1, frames or 1):
            for step in before if index < 0 else steps:
                step(p, max(index, 0))

    PROGRAMS.append(Planted(name, play, frozenset(fires.split()), frames, **more))


def copy(way: str, mib: int, memory: str = "PINNED", **more: Any) -> Step:
    return lambda p, _: p.copy(way, mib * MIB, memory, **more)


up, down, peer = partial(copy, "HTOD"), partial(copy, "DTOH"), partial(copy, "PTOP", memory="_DEVICE")


def kernel(name: str, us: int, gpu: int = 0) -> Step:
    return lambda p, _: p.kernel(name, us * US, gpu=gpu)


def call(name: str, us: int) -> Step:
    return lambda p, _: p.call(name, us * US)


def host(us: int) -> Step:
    return lambda p, _: p.host(us * US)


def wait(p: Program, _: int) -> None:
    p.wait()


def managed(p: Program, _: int) -> None:
    p.export.allocation(8 * MIB, "MANAGED")


ordinary = partial(up, memory="PAGEABLE")
allocations = (call("cudaMalloc", 200), call("cudaHostAlloc", 900))
weights = (*allocations, *map(ordinary, (3, 5, 7)), kernel("fill", 50), wait, host(5000))

pageable = (ordinary(16), kernel("scale", 400), down(4, "PAGEABLE"), host(300))
planted("pageable", "pageable-transfer serial-copies", *pageable, memory="pageable", before=weights)


def layers(p: Program, index: int) -> None:
    """Kernels that vary with the data."""
    for layer in range(3 + index * 7 % 5):
        p.kernel(f"layer{layer * (index % 3)}", 40 * US)


half_link = (*(up(size, rate=27.7e9) for size in (96, 1, 12, 12, 7, 3, 3, 2)), layers, wait)
planted("unknown-card", "", *half_link, frames=28, device="Some GPU", before=weights)
planted("half-link", "link-below-best", *half_link, frames=28, before=weights)


small = (lambda p, _: [p.copy("HTOD", 4 * KIB) for _ in range(60)], kernel("gather", 200), wait)
planted("small", "small-transfers serial-copies", *small, frames=30, before=weights)
planted("serial", "serial-copies", up(64), kernel("filter", 1500), down(64), wait, frames=25, before=weights)
pins = (call("cudaHostRegister", 1500), up(16), kernel("scale", 300), wait, call("cudaHostUnregister", 800))
planted("pins", "pin-per-frame serial-copies", *pins, frames=15, before=weights)


def managed_both_ways(p: Program, _: int) -> None:
    p.stalled_kernel("step", 4 * MIB)
    p.wait()
    for page in range(16):
        p.export.cpu_fault(p.now + page * 10 * US)
    p.migrate("DTOH", 4 * MIB)


both = "page-fault-migration ping-pong-migration"
planted("both-ways", both, managed_both_ways, host(100), frames=12, memory="", before=[managed])


def prefetched(p: Program, _: int) -> None:
    """Managed memory that is prefetched to the GPU, for kernels much longer than that."""
    p.call("cudaMemPrefetchAsync", 10 * US)
    p.migrate("HTOD", 1 * MIB, cause="_USER")
    p.ready[0, "stream"] = p.now


planted("prefetched", "", prefetched, kernel("step", 4000), wait, frames=12, memory="", before=[managed])
shards = (step for gpu in (0, 1) for step in (up(2, gpu=gpu), kernel("shard", 3000, gpu)))
planted("balanced", "", *shards, wait, gpus=2)


def exchanges(rate: float) -> Iterator[Step]:
    for gpu in (0, 1):
        yield from (kernel("part", 2000, gpu), peer(64, gpu=gpu, rate=rate))
    yield wait


# Each GPU sends the other its part by way of the host: 38 GB/s were seen between two H200s.
planted("exchanges", "peer-access-off serial-copies", *exchanges(38e9), memory="device", gpus=2)
planted("directly", "", *exchanges(387e9), memory="device", gpus=2)
# What one GPU makes, the other uploads.
first = (up(2), kernel("first", 2000), down(32), wait)
second = (up(32, gpu=1), kernel("second", 2000, 1), down(1, gpu=1), wait)
planted("by-host", "serial-copies", *first, *second, gpus=2)


def marked(p: Program, index: int) -> None:
    """Frames that nothing but NVTX tells: uploads and kernels differ from one to the next."""
    begin = p.now
    for part in range(1 + index * 5 % 4):
        p.copy("HTOD", (3 + (index * 7 + part * 3) % 11) * MIB, "PAGEABLE")
    for part in range(2 + index * 3 % 5):
        p.kernel(f"k{(index * 11 + part) % 13}", 30 * US)
    p.wait()
    p.range("epoch", begin)


planted("marked", "pageable-transfer", marked, frames=14, memory="pageable", frame="epoch")


def generates(p: Program, index: int) -> None:
    """Tokens: kernels between the first and the last of a step grow in number, and a flag is read twice."""
    p.kernel("embed", 20 * US)
    for part in range(5 + index // 3):
        p.kernel(f"attention{(index * 7 + part * part) % 11}", 15 * US)
    p.kernel("sample", 10 * US)
    for _ in range(2):
        p.copy("DTOH", 1)
        p.wait()


planted("generates", "", generates, host(100), frames=30)
planted("graphs", "", lambda p, _: p.graph(60, 40), wait)
link = (ordinary(16), kernel("first", 500), up(64, gpu=1, rate=12e9), kernel("second", 500, 1), wait)
planted("two-problems", "pageable-transfer link-below-best", *link, memory=None, gpus=2)


def reduced(gpu: int, us: int) -> Iterator[Step]:
    """The GPU that has less to do waits for the other in a kernel."""
    yield from (up(16, gpu=gpu), kernel("gemm", us, gpu))
    yield kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10_000 - us, gpu)


planted("nccl", "unbalanced-split", *reduced(0, 9000), *reduced(1, 4000), wait, gpus=2)
# GPU 0 has the batch and the weights; GPU 1 waits for its part of them, and the host for both.
halves = [kernel(f"layer{i // 2}", (150, 110)[i % 2], i % 2) for i in range(40)]
data_parallel = (up(12), peer(48, rate=20e9), *halves, peer(1, gpu=1, rate=20e9), host(5000), wait)
planted("data-parallel", "peer-access-off serial-copies", *data_parallel, memory=None, gpus=2)


def nested_ranges(p: Program, _: int) -> None:
    begin = p.now
    p.copy("HTOD", 16 * MIB, "PAGEABLE")
    inner = p.now
    p.kernel("step", MS)
    p.wait()
    p.range("step", inner)
    p.range("step", begin)


nested = {"frames": 12, "memory": "pageable", "frame": "step"}
planted("nested", "pageable-transfer serial-copies", nested_ranges, host(200), **nested)
# No loop at all: upload, compute, download.
once = (ordinary(256), kernel("multiply", 2000), down(128, "PAGEABLE"), wait)
planted("once", "pageable-transfer", *once, frames=None, memory="pageable")


def written(planted: Planted, path: Path) -> Path:
    program = Program(path, gpus=planted.gpus, name=planted.device)
    planted.play(program)
    return program.done()
