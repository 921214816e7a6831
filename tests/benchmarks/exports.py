"""What it takes to read an export of nsys of 500 MB: 11 million rows, 1000 frames."""

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

GOAL_SECONDS = 20.0
GOAL_MEGABYTES = 500.0
ROWS = 2_850_000
FRAMES = 1000
PERIOD = 5_000_000
START = 1_000_000_000
"""In ns."""


def run() -> None:
    """Builds the file, then reads it in a process of its own; the seconds are the processor's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.sqlite"
        _build(path)
        size = path.stat().st_size / 1e6
        command = [sys.executable, "-m", "tests.benchmarks.exports", str(path)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    seconds, megabytes = float(told[0]), float(told[1])
    what = f"reading an export of {size:.0f} MB"
    show(what, f"{seconds:.1f} s", f"<= {GOAL_SECONDS:.0f} s", met=seconds <= GOAL_SECONDS)
    goal = f"<= {GOAL_MEGABYTES:.0f} MB"
    show(f"{what}: memory", f"{megabytes:.0f} MB", goal, met=megabytes <= GOAL_MEGABYTES)


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


if __name__ == "__main__":
    started = time.process_time()
    read(Path(sys.argv[1]))
    status = Path("/proc/self/status").read_text(
        encoding="utf-8"
    )  # getrusage tells the parent's, from before exec
    (most,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    print(time.process_time() - started, most * 1024 / 1e6)
