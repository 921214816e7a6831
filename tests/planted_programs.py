"""Exports of programs that never ran: a host and GPUs with copy engines, played in time and written as nsys
would, by the schema of its user guides. Each is made around one problem, or around none.

They are honest about that: nothing in them was recorded on a GPU. What nsys recorded is in tests/data/nsys.
"""

from __future__ import annotations

from collections.abc import Callable
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
Frame = Callable[[Program, int], object]


def planted(
    name: str, fires: str = "", frames: int | None = 20, *, before: Frame | None = None, **more: Any
) -> Callable[[Frame], Frame]:
    """Adds a program that plays so many frames, or one that is none, to those that are tested.

    fires: rules, separated by spaces. before: what is played before the frames."""

    def add(frame: Frame) -> Frame:
        def play(p: Program) -> None:
            if before:
                before(p, 0)
            for index in range(frames or 1):
                frame(p, index)

        PROGRAMS.append(Planted(name, play, frozenset(fires.split()), frames, **more))
        return frame

    return add


def weights(p: Program, _: int) -> None:
    p.call("cudaMalloc", 200 * US)
    p.call("cudaHostAlloc", 900 * US)
    for size in (3, 5, 7):
        p.copy("HTOD", size * MIB, "PAGEABLE")
    p.kernel("fill", 50 * US)
    p.wait()
    p.host(5 * MS)


def managed(p: Program, _: int) -> None:
    p.export.allocation(8 * MIB, "MANAGED")


@planted("pageable", "pageable-transfer serial-copies", memory="pageable", before=weights)
def pageable(p: Program, _: int) -> None:
    p.copy("HTOD", 16 * MIB, "PAGEABLE")
    p.kernel("scale", 400 * US)
    p.copy("DTOH", 4 * MIB, "PAGEABLE")
    p.host(300 * US)


@planted("half-link", "link-below-best", frames=28, before=weights)
@planted("unknown-card", frames=28, device="Some GPU", before=weights)
def half_link(p: Program, index: int) -> None:
    """Eight tensors a frame, kernels that vary with the data."""
    for size in (96, 1, 12, 12, 7, 3, 3, 2):
        p.copy("HTOD", size * MIB, rate=27.7e9)
    for layer in range(3 + index * 7 % 5):
        p.kernel(f"layer{layer * (index % 3)}", 40 * US)
    p.wait()


@planted("small", "small-transfers serial-copies", frames=30, before=weights)
def many_small(p: Program, _: int) -> None:
    for _ in range(60):
        p.copy("HTOD", 4 * KIB)
    p.kernel("gather", 200 * US)
    p.wait()


@planted("serial", "serial-copies", frames=25, before=weights)
def serial(p: Program, _: int) -> None:
    p.copy("HTOD", 64 * MIB)
    p.kernel("filter", 1500 * US)
    p.copy("DTOH", 64 * MIB)
    p.wait()


@planted("pins", "pin-per-frame serial-copies", frames=15, before=weights)
def pins(p: Program, _: int) -> None:
    p.call("cudaHostRegister", 1500 * US)
    p.copy("HTOD", 16 * MIB)
    p.kernel("scale", 300 * US)
    p.wait()
    p.call("cudaHostUnregister", 800 * US)


@planted("both-ways", "page-fault-migration ping-pong-migration", frames=12, memory="", before=managed)
def managed_both_ways(p: Program, _: int) -> None:
    p.stalled_kernel("step", 4 * MIB)
    p.wait()
    for page in range(16):
        p.export.cpu_fault(p.now + page * 10 * US)
    p.migrate("DTOH", 4 * MIB)
    p.host(100 * US)


@planted("prefetched", frames=12, memory="", before=managed)
def prefetched(p: Program, _: int) -> None:
    """Managed memory that is prefetched to the GPU, for kernels much longer than that."""
    p.call("cudaMemPrefetchAsync", 10 * US)
    p.migrate("HTOD", 1 * MIB, cause="_USER")
    p.ready[0, "stream"] = p.now
    p.kernel("step", 4 * MS)
    p.wait()


@planted("balanced", gpus=2)
def balanced(p: Program, _: int) -> None:
    for gpu in (0, 1):
        p.copy("HTOD", 2 * MIB, gpu=gpu)
        p.kernel("shard", 3 * MS, gpu=gpu)
    p.wait()


@planted("exchanges", "peer-access-off serial-copies", memory="device", gpus=2)
def exchanges(p: Program, _: int, rate: float = 38e9) -> None:
    """Each GPU sends the other its part by way of the host: 38 GB/s were seen between two H200s."""
    for gpu in (0, 1):
        p.kernel("part", 2 * MS, gpu=gpu)
        p.copy("PTOP", 64 * MIB, "_DEVICE", gpu=gpu, rate=rate)
    p.wait()


planted("directly", memory="device", gpus=2)(partial(exchanges, rate=387e9))


@planted("by-host", "serial-copies", gpus=2)
def by_way_of_the_host(p: Program, _: int) -> None:
    """What one GPU makes, the other uploads."""
    for gpu, (up, kernel, down) in enumerate(((2, "first", 32), (32, "second", 1))):
        p.copy("HTOD", up * MIB, gpu=gpu)
        p.kernel(kernel, 2 * MS, gpu=gpu)
        p.copy("DTOH", down * MIB, gpu=gpu)
        p.wait()


@planted("marked", "pageable-transfer", frames=14, memory="pageable", frame="epoch")
def marked(p: Program, index: int) -> None:
    """Frames that nothing but NVTX tells: uploads and kernels differ from one to the next."""
    begin = p.now
    for part in range(1 + index * 5 % 4):
        p.copy("HTOD", (3 + (index * 7 + part * 3) % 11) * MIB, "PAGEABLE")
    for part in range(2 + index * 3 % 5):
        p.kernel(f"k{(index * 11 + part) % 13}", 30 * US)
    p.wait()
    p.range("epoch", begin)


@planted("generates", frames=30)
def generates(p: Program, index: int) -> None:
    """Tokens: kernels between the first and the last of a step grow in number, and a flag is read twice."""
    p.kernel("embed", 20 * US)
    for part in range(5 + index // 3):
        p.kernel(f"attention{(index * 7 + part * part) % 11}", 15 * US)
    p.kernel("sample", 10 * US)
    for _ in range(2):
        p.copy("DTOH", 1)
        p.wait()
    p.host(100 * US)


@planted("graphs")
def small_in_graphs(p: Program, _: int) -> None:
    p.graph(60, 40)
    p.wait()


@planted("two-problems", "pageable-transfer link-below-best", memory=None, gpus=2)
def two_problems(p: Program, _: int) -> None:
    p.copy("HTOD", 16 * MIB, "PAGEABLE")
    p.kernel("first", 500 * US)
    p.copy("HTOD", 64 * MIB, gpu=1, rate=12e9)
    p.kernel("second", 500 * US, gpu=1)
    p.wait()


@planted("nccl", "unbalanced-split", gpus=2)
def waits_in_nccl(p: Program, _: int) -> None:
    """GPU 1 has less to do, and waits for GPU 0 in a kernel."""
    for gpu, ns in ((0, 9 * MS), (1, 4 * MS)):
        p.copy("HTOD", 16 * MIB, gpu=gpu)
        p.kernel("gemm", ns, gpu=gpu)
        p.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10 * MS - ns, gpu=gpu)
    p.wait()


@planted("data-parallel", "peer-access-off serial-copies", memory=None, gpus=2)
def data_parallel(p: Program, _: int) -> None:
    """GPU 0 has the batch and the weights; GPU 1 waits for its part of them, and the host for both."""
    p.copy("HTOD", 12 * MIB)
    p.copy("PTOP", 48 * MIB, "_DEVICE", rate=20e9)
    for layer in range(20):
        p.kernel(f"layer{layer}", 150 * US)
        p.kernel(f"layer{layer}", 110 * US, gpu=1)
    p.copy("PTOP", MIB, "_DEVICE", gpu=1, rate=20e9)
    p.host(5 * MS)
    p.wait()


@planted("nested", "pageable-transfer serial-copies", frames=12, memory="pageable", frame="step")
def nested_ranges(p: Program, _: int) -> None:
    begin = p.now
    p.copy("HTOD", 16 * MIB, "PAGEABLE")
    inner = p.now
    p.kernel("step", MS)
    p.wait()
    p.range("step", inner)
    p.range("step", begin)
    p.host(200 * US)


@planted("once", "pageable-transfer", frames=None, memory="pageable")
def once(p: Program, _: int) -> None:
    """No loop at all: upload, compute, download."""
    p.copy("HTOD", 256 * MIB, "PAGEABLE")
    p.kernel("multiply", 2 * MS)
    p.copy("DTOH", 128 * MIB, "PAGEABLE")
    p.wait()


def written(planted: Planted, path: Path) -> Path:
    program = Program(path, gpus=planted.gpus, name=planted.device)
    planted.play(program)
    return program.done()
