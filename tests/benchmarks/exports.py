"""What it takes to read exports of nsys of 500 MB: of frames of ours, and of any program on two GPUs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from advisor.nsys.exports import read
from tests.benchmarks.timing import at_most, peak_megabytes, show

GOAL_MEGABYTES = 500.0
ROWS = 2_850_000
FRAMES = 1000
PERIOD = 5_000_000
START = 1_000_000_000
"""In ns."""
PROGRAM_FRAMES = 46_000
PROGRAM_PERIOD = 1_000_000
_LAUNCH = {
    "contextId": 1,
    "demangledName": 70_001,
    "mangledName": 70_002,
    "launchType": 1,
    "registersPerThread": 40,
    **dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 1024),
    **dict.fromkeys(("dynamicSharedMemory", "sharedMemoryExecuted"), 49_152),
    "localMemoryTotal": 132_120_576,
    "gridId": 1_000_000,
}
"""What a kernel's row holds beside what is read of it."""


def run() -> None:
    """Builds each file, then reads it in a process of its own; the seconds are the processor's."""
    _read("an export", _build, 20)
    what, frames = "reading a program's report: frames", _read("a program's report", _build_program, 15)
    show(what, str(frames), f"== {PROGRAM_FRAMES}", met=frames == PROGRAM_FRAMES)


def _read(what: str, build: Callable[[Path], None], goal: float) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.sqlite"
        build(path)
        what = f"reading {what} of {path.stat().st_size / 1e6:.0f} MB"
        command = [sys.executable, "-m", "tests.benchmarks.exports", str(path)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    seconds, megabytes = float(told[0]), float(told[1])
    at_most(what, seconds, goal)
    at_most(f"{what}: memory", megabytes, GOAL_MEGABYTES, "{:.0f} MB")
    return int(told[2])


def _build(path: Path) -> None:
    from nsys_exports import PROCESS, THREAD, Export

    export = Export(path)
    export.domain()
    export.range("strategy:managed", 0, 10**13)
    for index in range(FRAMES):
        begin = START + index * PERIOD
        export.range("frame", begin, begin + PERIOD - 100_000, payload=index + 3)
        export.range("device:add", begin, begin + 1_000_000)
        export.range("synchronize", begin + 1_000_001, begin + PERIOD - 200_000)
    names = [export.string(f"kernel{i}") for i in range(50)]
    work = {"globalPid": PROCESS, "deviceId": 0, "contextId": 1, "streamId": 7}
    export.add_many("CUPTI_ACTIVITY_KIND_RUNTIME", _rows(globalTid=THREAD, nameId=5), correlated=True)
    export.add_many(
        "CUPTI_ACTIVITY_KIND_KERNEL", _rows(**work, shortName=names[0], gridX=1 << 16), correlated=True
    )
    moved = {"bytes": 65536, "copyKind": 4, "srcKind": 3, "dstKind": 3, "migrationCause": 2}
    export.add_many("CUPTI_ACTIVITY_KIND_MEMCPY", _rows(**work, **moved, virtualAddress=1 << 47))
    export.add_many(
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS", _rows(globalPid=PROCESS, numberOfPageFaults=9, address=1 << 47)
    )
    export.done()


def _rows(**values: Any) -> Iterator[dict[str, Any]]:
    for number in range(ROWS):
        begin = START + number * FRAMES * PERIOD // ROWS
        yield {**values, "start": begin, "end": begin + 1000}


def _build_program(path: Path) -> None:
    """In each frame, on each of two GPUs: 3 uploads, 40 kernels, 4 migrations, a download; a wait."""
    from nsys_exports import Export

    export = Export(path)
    names = [export.string(name) for name in ("cudaMemcpyAsync_v3020", "cudaLaunchKernel_v7000")]
    kernels = [export.string(f"kernel{i}") for i in range(40)]
    wait = export.string("cudaStreamSynchronize_v3020")
    calls = "CUPTI_ACTIVITY_KIND_RUNTIME"
    export.add_many(calls, _calls(*names, wait))
    export.add_many("CUPTI_ACTIVITY_KIND_KERNEL", _kernels(kernels))
    export.add_many("CUPTI_ACTIVITY_KIND_MEMCPY", _copies())
    export.done()


def _calls(copy: int, launch: int, wait: int) -> Iterator[dict[str, Any]]:
    for frame in range(PROGRAM_FRAMES):
        for step in range(89):
            begin = frame * PROGRAM_PERIOD + step * 10_000
            name = wait if step == 88 else copy if step < 8 else launch
            called = {"globalTid": 77 << 24 | 5, "nameId": name, "correlationId": frame * 100 + step + 1}
            yield {"start": begin, "end": begin + 3000, **called}


def _kernels(names: list[int]) -> Iterator[dict[str, Any]]:
    for frame in range(PROGRAM_FRAMES):
        for step in range(80):
            begin = frame * PROGRAM_PERIOD + 100_000 + step // 2 * 18_000
            launched = {"correlationId": frame * 100 + step + 9, "shortName": names[step // 2], **_LAUNCH}
            yield {"start": begin, "end": begin + 16_000, **_on_gpu(step), **launched}


def _copies() -> Iterator[dict[str, Any]]:
    """The last eight of a frame are migrations."""
    for frame in range(PROGRAM_FRAMES):
        for step in range(16):
            begin = frame * PROGRAM_PERIOD + step // 2 * 12_000
            kinds = (2 if step in (6, 7) else 1, 1, 2, None) if step < 8 else (4, 3, 3, 2)
            moved = dict(zip(("copyKind", "srcKind", "dstKind", "migrationCause"), kinds, strict=True))
            moved["correlationId"] = frame * 100 + step + 1 if step < 8 else None
            moved["virtualAddress"] = 0 if step < 8 else (1 << 40) + step * (1 << 21)
            moved["bytes"] = 65536 * (1 + step // 2)
            yield {"start": begin, "end": begin + 10_000, **_on_gpu(step), **moved}


def _on_gpu(step: int) -> dict[str, Any]:
    return {"globalPid": 77 << 24, "deviceId": step % 2, "streamId": 7}


if __name__ == "__main__":
    started = time.process_time()
    program = read(Path(sys.argv[1])).program
    frames = program.gpus[0].frames if program else None
    print(time.process_time() - started, peak_megabytes(), frames.count if frames else 0)
