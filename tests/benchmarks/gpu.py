"""On a CUDA GPU: whole profiles of the examples, what their verdicts are worth, and the frame loop by hand.

The profiles are kept under reports/<device>/, so that they are the sample reports too, and every line that is
printed is added to bench.txt there, with its date: parts may be run on different days.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import advisor
from advisor.errors import UsageError
from advisor.measure.backends import gpu_count
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from tests.benchmarks import frame_loop, mixes, recording, two_gpus
from tests.benchmarks.timing import command, kept_in, show

CASES: dict[str, tuple[str, ...]] = {
    "vector_add": ("vector_add.py",),
    **{f"reread-{n}": ("reread.py", "--set", f"passes={n}") for n in (2, 8, 64)},
    **{f"matrix_multiply-{n}": ("matrix_multiply.py", "--set", f"n={n}") for n in (64, 256, 1024, 4096)},
    **{
        name: (f"{name}.py",)
        for name in (
            "bandwidth", "debayer_resize", "host_reads_back", "inference", "mapped_output", "solver_turns",
            "sparse_access", "streaming", "strided_reads", "weights_reuse",
        )
    },
}  # fmt: skip
REPEATED = ("reread-8", "matrix_multiply-256")
DUELS = ("vector_add", "weights_reuse", "mapped_output")
NAMED, WITHIN, ALIAS = 0.95, 0.95, 1 / 40
"""Goals: runs that name a choice; choices whose bound is within the indifference; aliases outside +-1 %."""


def run(reports: Path, only: Sequence[str]) -> None:
    """Everything, or the parts that are named; the profiles go under `reports`."""
    parts: dict[str, Callable[[], None]] = {
        **{name: partial(whole_profile, name, reports) for name in CASES},
        "verdicts": partial(verdicts, reports),
        **{f"duel-{name}": partial(duel, name, reports) for name in DUELS},
        **{f"agreement-{name}": partial(runs_agree, name, reports) for name in REPEATED},
        **{f"mixes-{name}": partial(mixes.run, name, reports) for name in mixes.SEARCHED + mixes.EXHAUSTIVE},
        "recording": partial(recording.run, gpu=True),
        # from here on this process is on the GPU too
        "frame-loop-small": lambda: frame_loop.small("cuda"),
        "frame-loop-large": lambda: frame_loop.large("cuda"),
        **({"two-gpus": two_gpus.run} if "two-gpus" in only or gpu_count() > 1 else {}),
    }
    mixed = [part for part in parts if part.startswith("mixes-")]
    only = [part for name in only for part in (mixed if name == "mixes" else [name])]
    if unknown := set(only) - set(parts):
        raise UsageError(
            f"there is no part {', '.join(sorted(unknown))}", next_step=f"Choose from {', '.join(parts)}."
        )
    with kept_in(reports / "bench.txt"):
        for name in only or parts:
            parts[name]()


def whole_profile(name: str, reports: Path) -> None:
    """One case under all strategies, kept under `reports`."""
    seconds, profile = profiled(reports / name, CASES[name])
    said = profile.recommendation
    decided = said is not None and said.verdict in ("fastest", "near", "keep")
    show(f"{name}, {seconds:.0f} s", told(said), "named", met=decided and seconds <= 60)
    for row in profile.results:
        if row.status == "failed":
            print(f"    failed: {row.strategy}: {row.reason}")


def told(said: Recommendation | None) -> str:
    if said is None or said.strategy is None:
        return "nothing"
    bound = "" if said.bound is None else f", U {said.bound:.1%}"
    return f"{said.verdict} {said.strategy}{bound}"


def verdicts(reports: Path) -> None:
    every = [load(path / "profile.json") for path in sorted(reports.iterdir()) if path.is_dir()]
    said = [profile.recommendation for profile in every if profile.final and profile.recommendation]
    named = [one for one in said if one.verdict in ("fastest", "near", "keep")]
    near = [one for one in said if one.bound is not None and one.bound <= 0.05]
    outside = [one for one in said if one.noise and (one.noise[0] > 1.01 or one.noise[1] < 1 / 1.01)]
    for what, some, goal, met in (
        ("named a choice", named, f">= {NAMED:.0%}", len(named) >= NAMED * len(said)),
        ("U within the indifference", near, f">= {WITHIN:.0%}", len(near) >= WITHIN * len(said)),
        ("an alias surely outside +-1 %", outside, "<= 1 of 40", len(outside) <= max(1, ALIAS * len(said))),
    ):
        show(f"{len(said)} runs: {what}", f"{len(some)} of {len(said)}", goal, met=met and bool(said))


def duel(name: str, reports: Path) -> None:
    """The chosen strategy against its nearest rival for a minute: its true regret."""
    said = load(reports / name / "profile.json").recommendation
    if said is None or said.strategy is None or not said.groups:
        show(f"{name}: no choice to hold", "-", "a choice", met=False)
        return
    rival = next(other for other in chain.from_iterable(said.groups) if other != said.strategy)
    file, *options = CASES[name]
    again = advisor.profile(
        f"workloads/{file}",
        dict(value.split("=") for value in options[1::2]),
        strategy=[said.strategy, rival],
        indifference=0.001,
        quiet=True,
    )
    best = again.recommendation
    regret = 0.0 if best is None or best.strategy == said.strategy else (best.bound or 0.0)
    what = f"{name}: {said.strategy} against {rival}"
    show(what, f"{told(best)}; regret {regret:.1%}", "<= 5 %", met=regret <= 0.05)


def runs_agree(name: str, reports: Path, runs: int = 4) -> None:
    """Whole runs choose strategies within the indifference of one another."""
    first = load(reports / name / "profile.json")
    seen = [first, *(profiled(Path(tempfile.mkdtemp()) / name, CASES[name])[1] for _ in range(runs))]
    chosen = {
        one.recommendation.strategy for one in seen if one.recommendation and one.recommendation.strategy
    }
    times = first.measured()
    known = [times[strategy].median_seconds for strategy in chosen if strategy in times]
    apart = max(known) / min(known) - 1 if known else float("inf")
    what = f"{name}: {runs + 1} runs choose {', '.join(sorted(chosen))}"
    show(what, f"{apart:.1%} apart", "<= 5 %", met=apart <= 0.05)


def profiled(out: Path, arguments: tuple[str, ...]) -> tuple[float, Profile]:
    shutil.rmtree(out, ignore_errors=True)
    file, *options = arguments
    seconds = command(["-m", "advisor", "profile", f"workloads/{file}", *options, "--out", str(out), "-q"])
    return seconds, load(out / "profile.json")
