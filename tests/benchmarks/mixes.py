"""On a CUDA GPU: the mix that the search finds against all mixes, measured exhaustively, and its gain.

Each workload has a run with `--search auto` and, where it shares two or three buffers, one with `--search
exhaustive`. The regret is told by finals of their own: the mix found, and the one that the exhaustive run put
first, each beside the best uniform strategy. The blocks that chose a mix do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from tests.benchmarks.timing import command, show

AUTO_SECONDS, EXHAUSTIVE_SECONDS, DUEL_SECONDS = 35, 45, 14
REGRET, GAIN = 0.02, 1.5
EXHAUSTIVE = ("weights_reuse", "mapped_output", "solver_turns", "streaming", "vector_add")
SEARCHED = ("embedding_lookup", "detector")
UNIFORM = ("pageable", "pinned", "registered", "zero-copy", "managed", "managed-prefetch")


def run(name: str, reports: Path) -> None:
    """One workload: what was found, what there is to be had."""
    found = _profiled(name, reports / f"mixes-{name}", "auto", AUTO_SECONDS)
    if name == "embedding_lookup":
        gain = _gain(found)
        what = f"{name}: {_chosen(found)} over the best uniform strategy"
        show(what, f"{gain:.2f}", f">= {GAIN}", met=gain >= GAIN)
        _duels(found, reports)
    if name not in EXHAUSTIVE:
        show(f"{name}: {_chosen(found)}", _told(found), "a choice", met=_chosen(found) != "nothing")
        return
    every = _profiled(name, reports / f"mixes-{name}-exhaustive", "exhaustive", EXHAUSTIVE_SECONDS)
    tried = every.search.tried if every.search else ()
    first = tried[0].placements if tried else {}
    print(f"    auto: {_told(found)}; exhaustive: {_told(every)}; first of {len(tried)}: {first}")
    ours = _placements(found)
    over = found.search.over if found.search and found.search.over else _best_uniform(every)
    best = time_over(over, first, reports / f"mixes-{name}-best")
    mine = best if ours == first else time_over(over, ours, reports / f"mixes-{name}-ours")
    regret = mine / min(best, mine, 1.0) - 1
    show(f"{name}: {_chosen(found)}, regret", f"{regret:.1%}", f"<= {REGRET:.0%}", met=regret <= REGRET)


def _duels(found: Profile, reports: Path) -> None:
    """What there is to be had on `embedding_lookup`: each mix that can matter beside the best uniform one.

    Its table four ways, what is small in two; its weights move once, whatever holds them on the host. All
    1,020 mixes would take hours.
    """
    small = product(("pinned", "zero-copy"), repeat=2)
    every = product(("pageable", "pinned", "zero-copy", "managed-prefetch"), small)
    rest = {"first": "pinned", "second": "pinned"}
    placed = [{"table": table, "ids": ids, "scores": scores} | rest for table, (ids, scores) in every]
    tried = [each for each in placed if len(set(each.values())) > 1]
    over = _best_uniform(found)
    out = [reports / f"mixes-embedding_lookup-duel{number}" for number in range(len(tried))]
    gains = [1 / time_over(over, placed, at) for placed, at in zip(tried, out, strict=True)]
    best = max(range(len(tried)), key=gains.__getitem__)
    show(
        f"embedding_lookup: best of {len(tried)} mixes", f"{gains[best]:.2f} {tried[best]}", "told", met=True
    )


def time_over(
    uniform: str, placements: dict[str, str], out: Path, run: Callable[[list[str]], float] = command
) -> float:
    """A mix's time over that of the uniform strategy, in a final of their own: fresh paired blocks."""
    if not placements:
        return 1.0
    placed = [word for item in placements.items() for word in ("--placement", "=".join(item))]
    options = ["--strategy", uniform, *placed, "--search", "off", "--max-seconds", str(DUEL_SECONDS)]
    name = out.name.removeprefix("mixes-").rsplit("-", 1)[0]
    run(["-m", "advisor", "profile", f"workloads/{name}.py", *options, "--out", str(out), "-q"])
    fresh = load(out / "profile.json")
    rows = fresh.measured()
    mix = next(row for row in rows.values() if row.placements)
    told = "" if fresh.final else ", of screening"
    ratio = mix.median_seconds / rows[uniform].median_seconds
    print(f"    {placements}: {ratio:.3f} times {uniform}{told}")
    return ratio


def _best_uniform(profile: Profile) -> str:
    rows = {name: row for name, row in profile.measured().items() if not row.placements}
    return min(rows, key=lambda name: rows[name].median_seconds)


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
    tried = "" if search is None else f", {len(search.tried)} mixes in {search.seconds:.0f} s {search.reason}"
    return f"{said.verdict if said else '-'}{tried}"
