"""On a CUDA GPU: rates of our copies, whole profiles of the examples, and whether runs agree.

The profiles are kept under reports/<device>/, so that they are the sample reports too.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from advisor.errors import UsageError
from advisor.measure.backends import open_backend
from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.stats import ratio_interval
from advisor.strategies.backend import Backend
from advisor.strategies.placements.arena import Arena
from advisor.strategies.placements.base import Layout
from advisor.strategies.placements.kinds import Pinned
from advisor.verdicts.counting import counted
from tests.benchmarks import frame_loop
from tests.benchmarks.timing import command, show

MIB = 1 << 20
PUBLISHED = {"to-device": 55.4, "to-host": 55.1}
"""GB/s of an H200's copy engine with pinned memory: stas00/ml-engineering, network/README.md at 744d01e."""
CASES: dict[str, tuple[str, ...]] = {
    "vector_add": ("vector_add.py",),
    **{f"reread-{n}": ("reread.py", "--set", f"passes={n}") for n in (1, 2, 8, 64)},
    **{f"matrix_multiply-{n}": ("matrix_multiply.py", "--set", f"n={n}") for n in (64, 256, 1024, 4096)},
}
REPEATED = ("vector_add", "reread-8", "matrix_multiply-256")


def run(reports: Path, only: Sequence[str]) -> None:
    """Everything, or the parts that are named; the profiles go under `reports`."""
    parts: dict[str, Callable[[], None]] = {
        **{name: partial(whole_profile, name, reports) for name in CASES},
        **{f"agreement-{name}": partial(runs_agree, name, reports) for name in REPEATED},
        "frame-loop": lambda: frame_loop.run("cuda"),  # from here on this process is on the GPU too
        "copies": lambda: copies(open_backend("cuda")),
    }
    if unknown := set(only) - set(parts):
        raise UsageError(
            f"there is no part {', '.join(sorted(unknown))}", next_step=f"Choose from {', '.join(parts)}."
        )
    for name in only or parts:
        parts[name]()


def whole_profile(name: str, reports: Path) -> None:
    """One case under all strategies, kept under `reports`."""
    seconds, profile = profiled(reports / name, CASES[name])
    if name == "vector_add":
        show("advisor profile vector_add, all strategies", f"{seconds:.0f} s", "<= 90 s", met=seconds <= 90)
    recommended_is_fastest(name, profile)


def copies(backend: Backend) -> None:
    """Rates of a pinned placement's copies at 256 MiB, as a share of a bare loop of the same calls."""
    layout = Layout((256 * MIB,), np.dtype(np.uint8))
    with Arena(backend) as arena:
        placed = Pinned().place(arena, layout)
        assert placed.to_device is not None
        assert placed.to_host is not None
        upload, download = placed.to_device, placed.to_host
        host, device = int(placed.host.ctypes.data), int(placed.device.data.ptr)
        runtime, stream = backend.xp.cuda.runtime, backend.stream.ptr
        pairs: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "to-device": (
                lambda: upload(None),
                lambda: runtime.memcpyAsync(device, host, layout.nbytes, runtime.memcpyHostToDevice, stream),
            ),
            "to-host": (
                lambda: download(None),
                lambda: runtime.memcpyAsync(host, device, layout.nbytes, runtime.memcpyDeviceToHost, stream),
            ),
        }
        for direction, (ours, bare) in pairs.items():
            times = [(_synchronized(backend, ours), _synchronized(backend, bare)) for _ in range(30)]
            rates = [layout.nbytes / median(column) / 1e9 for column in zip(*times, strict=True)]
            share = rates[0] / rates[1]
            show(
                f"pinned {direction}, 256 MiB: share of a bare loop",
                f"{share:.3f}",
                ">= 0.97",
                met=share >= 0.97,
            )
            print(f"    {rates[0]:.1f} GB/s (published for an H200: {PUBLISHED[direction]} GB/s)")


def _synchronized(backend: Backend, call: Callable[[], None]) -> float:
    backend.synchronize()
    start = time.perf_counter()
    call()
    backend.synchronize()
    return time.perf_counter() - start


def profiled(out: Path, arguments: tuple[str, ...]) -> tuple[float, Profile]:
    """A whole run of the command, all strategies."""
    shutil.rmtree(out, ignore_errors=True)
    seconds = command(
        [
            "-m",
            "advisor",
            "profile",
            f"workloads/{arguments[0]}",
            *arguments[1:],
            "--out",
            str(out),
            "-q",
        ]
    )
    return seconds, load(out / "profile.json")


def recommended_is_fastest(name: str, profile: Profile) -> None:
    """No other strategy is surely faster than the recommended one."""
    measured, verdict = counted(profile).measured(), profile.recommendation
    fastest = min(measured.values(), key=lambda row: row.median_seconds)
    failed = [r.strategy for r in profile.results if r.status == "failed"]
    chosen = verdict.strategy if verdict else None
    if verdict is None or chosen is None:
        show(f"{name}: nothing recommended", "-", "a strategy", met=False)
        return
    if verdict.verdict == "open":
        among = {chosen, *verdict.tied_with}
        met = fastest.strategy in among and not failed
        show(f"{name}: {chosen} of {len(among)} looks best", "-", "fastest is among", met=met)
        return
    low = ratio_interval(measured[chosen].rounds, fastest.rounds).low
    met = (low <= 1.05 or chosen == fastest.strategy) and not failed
    show(f"{name}: {chosen} recommended, fastest {fastest.strategy}", f"{low:.3f}", "<= 1.05", met=met)
    for strategy in failed:
        print(f"    failed: {strategy}")


def runs_agree(name: str, reports: Path, runs: int = 4) -> None:
    """Whole runs recommend the same strategy as the kept one, or one that its verdict called as fast."""
    first = load(reports / name / "profile.json")
    accepted = _accepted(first)
    seen = []
    for _ in range(runs):
        _, again = profiled(Path(tempfile.gettempdir()) / "advisor-agreement" / name, CASES[name])
        seen.append(again.recommendation.strategy if again.recommendation else None)
        undecided = again.recommendation is None or again.recommendation.verdict == "open"
        accepted |= _accepted(again) if undecided else set()
    met = all(strategy is None or strategy in accepted for strategy in seen)
    show(
        f"{name}: {runs + 1} runs recommend {', '.join(sorted({str(s) for s in seen}))}",
        "-",
        "agree",
        met=met,
    )


def _accepted(profile: Profile) -> set[str]:
    verdict = profile.recommendation
    return (
        set() if verdict is None else {*verdict.tied_with, *([verdict.strategy] if verdict.strategy else [])}
    )
