"""What it takes to read a report of any program of 500 MB: two GPUs, 46,000 frames, no ranges of ours."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from advisor.nsys.exports import read
from tests.benchmarks.timing import show

GOAL_SECONDS = 15.0
GOAL_MEGABYTES = 500.0
FRAMES = 46_000
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
PERIOD = 1_000_000
"""In ns."""


def run() -> None:
    """Builds the file, then reads it in a process of its own; the seconds are the processor's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.sqlite"
        build(path)
        size = path.stat().st_size / 1e6
        command = [sys.executable, "-m", "tests.benchmarks.program_reports", str(path)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    seconds, megabytes, frames = float(told[0]), float(told[1]), int(told[2])
    what = f"reading a program's report of {size:.0f} MB"
    show(what, f"{seconds:.1f} s", f"<= {GOAL_SECONDS:.0f} s", met=seconds <= GOAL_SECONDS)
    goal = f"<= {GOAL_MEGABYTES:.0f} MB"
    show(f"{what}: memory", f"{megabytes:.0f} MB", goal, met=megabytes <= GOAL_MEGABYTES)
    show(f"{what}: frames", str(frames), f"== {FRAMES}", met=frames == FRAMES)


def build(path: Path, frames: int = FRAMES) -> None:
    """In each frame, on each of two GPUs: 3 uploads, 40 kernels, 4 migrations, a download; a wait."""
    from nsys_exports import Export

    export = Export(path)
    names = [export.string(name) for name in ("cudaMemcpyAsync_v3020", "cudaLaunchKernel_v7000")]
    kernels = [export.string(f"kernel{i}") for i in range(40)]
    wait = export.string("cudaStreamSynchronize_v3020")
    calls = "CUPTI_ACTIVITY_KIND_RUNTIME"
    export.add_many(calls, _calls(frames, *names, wait))
    export.add_many("CUPTI_ACTIVITY_KIND_KERNEL", _kernels(frames, kernels))
    export.add_many("CUPTI_ACTIVITY_KIND_MEMCPY", _copies(frames))
    export.done()


def _calls(frames: int, copy: int, launch: int, wait: int) -> Iterator[dict[str, Any]]:
    for frame in range(frames):
        for step in range(89):
            begin = frame * PERIOD + step * 10_000
            name = wait if step == 88 else copy if step < 8 else launch
            yield {
                "start": begin,
                "end": begin + 3000,
                "globalTid": 77 << 24 | 5,
                "nameId": name,
                "correlationId": frame * 100 + step + 1,
            }


def _kernels(frames: int, names: list[int]) -> Iterator[dict[str, Any]]:
    for frame in range(frames):
        for step in range(80):
            begin = frame * PERIOD + 100_000 + step // 2 * 18_000
            yield {
                "start": begin,
                "end": begin + 16_000,
                "globalPid": 77 << 24,
                "deviceId": step % 2,
                "streamId": 7,
                "correlationId": frame * 100 + step + 9,
                "shortName": names[step // 2],
                **_LAUNCH,
            }


def _copies(frames: int) -> Iterator[dict[str, Any]]:
    for frame in range(frames):
        for step in range(16):
            begin = frame * PERIOD + step // 2 * 12_000
            moved = {
                "copyKind": 4,
                "srcKind": 3,
                "dstKind": 3,
                "migrationCause": 2,
                "correlationId": None,
                "virtualAddress": (1 << 40) + step * (1 << 21),
            }
            copied = {
                "copyKind": 2 if step in (6, 7) else 1,
                "srcKind": 1,
                "dstKind": 2,
                "correlationId": frame * 100 + step + 1,
                "migrationCause": None,
            }
            yield {
                "start": begin,
                "end": begin + 10_000,
                "globalPid": 77 << 24,
                "deviceId": step % 2,
                "streamId": 7,
                "bytes": 65536 * (1 + step // 2),
                **(copied if step < 8 else moved),
            }


if __name__ == "__main__":
    started = time.process_time()
    program = read(Path(sys.argv[1])).program
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (most,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    assert program
    frames = program.gpus[0].frames
    print(time.process_time() - started, most * 1024 / 1e6, frames.count if frames else 0)
