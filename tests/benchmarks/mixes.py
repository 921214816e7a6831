"""On a CUDA GPU: the mix that the search finds against all mixes, measured exhaustively, and its gain.

Each workload has a run with `--search auto` and, where it shares two or three buffers, one with `--search
exhaustive`. The regret is told by the exhaustive run's paired blocks: the best mix's gain over that of the
mix found, or of the best uniform strategy where none was recommended.
"""

from __future__ import annotations

from pathlib import Path

from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from tests.benchmarks.timing import command, show

AUTO_SECONDS, EXHAUSTIVE_SECONDS = 30, 45
REGRET, GAIN = 0.02, 1.5
EXHAUSTIVE = ("weights_reuse", "mapped_output", "solver_turns", "streaming", "vector_add")
SEARCHED = ("embedding_lookup", "detector")
UNIFORM = ("pageable", "pinned", "registered", "zero-copy", "managed", "managed-prefetch")


def run(name: str, reports: Path) -> None:
    """One workload: what was found, what there is to be had."""
    found = _profiled(name, reports / f"mixes-{name}", "auto", AUTO_SECONDS)
    if name == "embedding_lookup":
        gain = _gain(found)
        show(
            f"{name}: {_chosen(found)} over the best uniform strategy",
            f"{gain:.2f}",
            f">= {GAIN}",
            met=gain >= GAIN,
        )
    if name not in EXHAUSTIVE:
        show(f"{name}: {_chosen(found)}", _told(found), "a choice", met=_chosen(found) != "nothing")
        return
    every = _profiled(name, reports / f"mixes-{name}-exhaustive", "exhaustive", EXHAUSTIVE_SECONDS)
    tried = {
        tuple(sorted(one.placements.items())): one for one in (every.search.tried if every.search else ())
    }
    best = max((one.gain for one in tried.values()), default=1.0)
    ours = tried.get(tuple(sorted(_placements(found).items())))
    regret = max(best, 1.0) / (ours.gain if ours else 1.0) - 1
    first = max(tried.values(), key=lambda one: one.gain, default=None)
    print(f"    best of {len(tried)}: {first.placements if first else '-'}, gain {best:.3f}")
    show(f"{name}: {_chosen(found)}, regret", f"{regret:.1%}", f"<= {REGRET:.0%}", met=regret <= REGRET)
    print(f"    auto: {_told(found)}; exhaustive: {_told(every)}")


def _profiled(name: str, out: Path, search: str, seconds: int) -> Profile:
    strategies = [word for strategy in UNIFORM for word in ("--strategy", strategy)]
    given = ["--search", search, "--max-seconds", str(seconds), *strategies, "--out", str(out), "-q"]
    took = command(["-m", "advisor", "profile", f"workloads/{name}.py", *given])
    show(f"{name}, {search}", f"{took:.0f} s", f"<= {seconds} s", met=took <= seconds + 1)
    return load(out / "profile.json")


def _chosen(profile: Profile) -> str:
    said = profile.recommendation
    if said is None or said.strategy is None:
        return "nothing"
    return str(_placements(profile) or said.strategy)


def _placements(profile: Profile) -> dict[str, str]:
    """Of the recommended mix; empty where it is a uniform strategy."""
    name = profile.recommendation.strategy if profile.recommendation else None
    return next((row.placements for row in profile.results if row.strategy == name), {})


def _gain(profile: Profile) -> float:
    """The best uniform strategy's time over that of the recommendation."""
    times = {name: row.median_seconds for name, row in profile.measured().items() if not row.placements}
    name = profile.recommendation.strategy if profile.recommendation else None
    return min(times.values()) / profile.measured()[name].median_seconds if name else 0.0


def _told(profile: Profile) -> str:
    said, search = profile.recommendation, profile.search
    gain = "" if said is None or said.mix_bound is None else f", no mix gains more than {said.mix_bound:.1%}"
    tried = "" if search is None else f", {len(search.tried)} mixes in {search.seconds:.0f} s {search.reason}"
    return f"{said.verdict if said else '-'}{gain}{tried}"
