"""Two runs apart in time: what moved all strategies is told from what moved alone, and where it is."""

from __future__ import annotations

import random
from collections.abc import Mapping

from builders import cpu_profile, measured, profile
from every import every
from test_comparing import LATER, later

from advisor.profiles.schema import Measured, Profile
from advisor.report.comparison_page import comparison_page
from advisor.report.pages import render
from advisor.verdicts.comparing.comparisons import compare
from advisor.verdicts.comparing.gates import judge, parse_gates
from advisor.verdicts.comparing.rows import Drift

SHARES = {"produce": 0.3, "add": 0.2, "consume": 0.2, "copies": 0.3}
TIMES = {"pageable": 0.040, "pinned": 0.020, "zero-copy": 0.030, "managed": 0.035, "registered": 0.022}


def run(
    seed: int,
    parts: Mapping[str, float] | None = None,
    strategies: Mapping[str, float] | None = None,
    restless: float = 0.1,
    names: tuple[str, ...] = tuple(TIMES),
) -> tuple[Measured, ...]:
    """A final of 6 processes, each up to 10 % faster or slower as a whole, and rows with 0.5 % of their own.

    `parts` take so many times as long in every strategy, `strategies` in all their parts.
    """
    noise = random.Random(seed)
    machine = [noise.lognormvariate(0, restless) for _ in range(6)]
    rows = []
    for name in names:
        factor = (strategies or {}).get(name, 1.0)
        # Stages take the same time under every strategy; the rest of a frame is copies.
        seconds = {part: share * min(TIMES.values()) for part, share in SHARES.items()}
        seconds["copies"] += TIMES[name] - min(TIMES.values())
        seconds = {part: s * factor * (parts or {}).get(part, 1.0) for part, s in seconds.items()}
        copies = seconds.pop("copies")
        time = copies + sum(seconds.values())
        taken = [time * all_of_it * noise.lognormvariate(0, 0.005) for all_of_it in machine]
        rows.append(
            measured(
                name,
                time,
                frame_seconds=tuple(taken),
                frames_per_round=(1,) * len(taken),
                interval_seconds=(min(taken), max(time, *taken)),
                stage_seconds=seconds,
                transfer_seconds=copies,
            )
        )
    return tuple(rows)


def drift(base: tuple[Measured, ...], head: tuple[Measured, ...]) -> Drift:
    found = compare(profile(results=base), later(results=head)).devices[0].drift
    assert found is not None
    return found


def said(base: tuple[Measured, ...], head: tuple[Measured, ...]) -> str:
    page = comparison_page(compare(profile(results=base), later(results=head)))
    return " ".join(render(page, "txt").split())


SLOW = dict.fromkeys(SHARES, 1.3)
QUIET = 0.01


@every("parts", [SLOW, {"produce": 3.0}, {"add": 3.0}, {"copies": 2.0}, {"produce": 1.9, "copies": 1.5}])
def test_what_moved_together_is_told(parts: Mapping[str, float]) -> None:
    """A part that is slower in every strategy: none of them is said to have changed alone."""
    base, head = run(1, restless=QUIET), run(2, parts, restless=QUIET)
    assert drift(base, head).together
    assert drift(base, head).alone == {}
    assert "All 5 strategies of the final are slower by" in said(base, head)
    (ruling,) = judge(compare(profile(results=base), later(results=head)), parse_gates(["slower=5%"]))
    assert ruling.status == "failed", "whose fault it is may be wrong, that it is slower is not"


def test_a_strategy_that_moved_alone_is_told_though_no_ratio_by_itself_is_clear() -> None:
    """Processes differ by tens of percent, but all strategies of one process alike."""
    base, head = run(1, restless=0.3), run(2, strategies={"pinned": 1.15}, restless=0.3)
    found = compare(profile(results=base), later(results=head))
    assert {row.outcome for row in found.rows} == {"cannot tell"}
    assert set(drift(base, head).alone) == {"pinned"}
    assert drift(base, head).alone["pinned"].low < 1.15 < drift(base, head).alone["pinned"].high
    assert not drift(base, head).together
    assert "`pinned` changed alone: slower by" in said(base, head)


@every("restless", [0.01, 0.3])
def test_of_the_same_code_nothing_is_claimed_to_have_moved_alone(restless: float) -> None:
    pairs = [(run(seed, restless=restless), run(1000 + seed, restless=restless)) for seed in range(8)]
    assert sum(bool(drift(*pair).alone) or drift(*pair).together for pair in pairs) <= 1


FOUR = ("pageable", "pinned", "zero-copy", "managed")
ONE_PROCESS = [tuple(measured(s, k * t, rounds=1) for s, t in TIMES.items()) for k in (1, 2)]
NO_MAJORITY = run(1, names=FOUR), run(2, strategies={"pinned": 1.5, "managed": 2.0}, names=FOUR)


@every(
    ("base", "head"),
    [
        (profile(), later()),
        (cpu_profile(), cpu_profile(created=LATER)),
        *((profile(results=base), later(results=head)) for base, head in (ONE_PROCESS, NO_MAJORITY)),
    ],
    ids=["two strategies", "predicted", "one process", "no majority"],
)
def test_where_nothing_can_be_told_nothing_is(base: Profile, head: Profile) -> None:
    assert {device.drift for device in compare(base, head).devices} == {None}
