"""Many profiles in one folder by one process, as a notebook or a service makes them: what they leave behind.

`python -m tests.soak 500` prints it; see `make soak`.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import psutil

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))

from fakes import RecordingBackend, bench  # noqa: E402
from test_frames import FRESH  # noqa: E402

import advisor  # noqa: E402
from advisor.strategies.registry import STRATEGIES  # noqa: E402

WORKLOAD = TESTS / "workload_files" / "counter.py"
LOCKED = ("pinned", "mapped", "registered")
WARM = 3
"""Profiles until everything is imported and cached."""
MOST_GROWTH = 16 << 20
"""Bytes that the process may take more afterwards: what its allocator keeps."""


def real(folder: Path) -> None:
    """A profile with worker processes, saved and shown."""
    made = advisor.profile(WORKLOAD, no_gpu=True, targets=["h100-sxm"], rounds=1, max_seconds=6, quiet=True)
    made.save(folder / "profile.json")
    made._repr_html_()


def frames(backend: RecordingBackend, strategy: str) -> None:
    """Two frames under that strategy on the stand-in for a GPU."""
    with bench(FRESH, strategy, backend) as run:
        run.start(2)


def soak(
    count: int,
    folder: Path,
    profile: Callable[[Path], None] = real,
    run: Callable[[RecordingBackend, str], None] = frames,
) -> list[str]:
    """What is left behind by that many profiles in this folder, in words; nothing, if all is well."""
    temporary, process = folder / "tmp", psutil.Process()
    temporary.mkdir()
    before, held, found = set(process.children(recursive=True)), 0, list[str]()
    with mock.patch("tempfile.tempdir", str(temporary)):
        for number in range(count):
            profile(folder)
            for strategy in STRATEGIES:
                backend = RecordingBackend()
                run(backend, strategy.name)
                kinds = [kind for kind, _ in backend.live.values() if kind.startswith(LOCKED)]
                found += [f"{strategy.name} leaves {kind} memory" for kind in kinds]
            if number == WARM - 1:
                gc.collect()
                held = process.memory_info().rss
    gc.collect()
    grown = process.memory_info().rss - held
    left = psutil.wait_procs(set(process.children(recursive=True)) - before, timeout=1)[1]
    found += [f"a process is left: {child.name()}" for child in left]
    found += [f"a temporary file is left: {path.name}" for path in temporary.iterdir()]
    found += [f"a part of a file is left: {path.name}" for path in folder.glob(".*")]
    if count > WARM and grown > MOST_GROWTH:
        found.append(f"the process holds {grown / 1e6:.0f} MB more")
    return found


if __name__ == "__main__":
    profiles, begin = int(sys.argv[1]), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        left = soak(profiles, Path(folder))
    print(
        *left, f"{profiles} profiles in {time.monotonic() - begin:.0f} s, {len(left)} things left", sep="\n"
    )
    sys.exit(bool(left))
