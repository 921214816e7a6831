"""Which strategy is recommended of measured and of predicted rows, how sure, and with which reason."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from builders import MIB, apart, final_block, final_record, footprint, measured, predicted, profile
from hypothesis import given
from hypothesis import strategies as st
from rendering import Accepted

from advisor.profiles.conclusions import Preferences, Recommendation
from advisor.profiles.schema import Measured, Profile
from advisor.verdicts.measured import recommend
from advisor.verdicts.predicted import recommend_predicted

WHOLE = footprint(pageable=192 * MIB, device=192 * MIB)
HALF = footprint(pinned=192 * MIB)
AGAIN = "pinned (again)"
FINAL = {"pageable": 0.040, "pinned": 0.020, "zero-copy": 0.019}
BOTH_WAYS = (
    measured("pageable", 0.040),
    measured("pinned", 0.020),
    measured("pinned-pipelined", 0.012, latency_seconds=0.024),
)
LEAN = (
    measured("pageable", 0.040, footprint=WHOLE),
    measured("pinned", 0.010, footprint=WHOLE),
    measured("zero-copy", 0.030, footprint=HALF),
    measured("managed", 0.035, footprint=HALF),
)
BASE, SLOW_BASE = measured("pageable", 0.040), measured("pageable", 0.080)
WILD = apart("managed", 0.015, 0.022, 0.030, footprint=HALF)


def run(*rows: Measured, **preferences: Any) -> Profile:
    return profile(results=rows, preferences=Preferences(**preferences))


def in_a_final(rows: tuple[Measured, ...], seconds: dict[str, float], **fields: Any) -> Profile:
    """Three processes of five rounds, which differ by a third; contestants of one round by 0.2 %."""
    latencies, blocks = {row.strategy: row.latency_seconds for row in rows}, []
    for process, number in product(range(3), range(5)):
        for place, (name, time) in enumerate(seconds.items()):
            noise = 1 + 0.3 * ((process + number) % 2)
            noise *= 1 + 0.002 * ((process + 2 * number + 3 * place) % 3 - 1)
            more = {"latency_seconds": latencies.get(name), "frame_seconds": (time,) * 10}
            blocks.append(
                final_block(process, number, name, 10 * time * noise, place=place, frames=10, **more)
            )
    contestants = {name: name.partition(" ")[0] for name in seconds}
    record = final_record((), contestants=contestants, alias=AGAIN if AGAIN in seconds else "", frames=10)
    return profile(results=rows, final=record, blocks=tuple(blocks), **fields)


APART = tuple(apart(name, 0.8 * s, s, 1.2 * s) for name, s in FINAL.items())
ROWS = tuple(measured(name, seconds) for name, seconds in FINAL.items())
LATE = (BASE, measured("pinned-pipelined", 0.030, latency_seconds=0.050))
LATE_SECONDS = {row.strategy: row.median_seconds for row in LATE}
MEASURED: dict[str, Profile] = {
    "the fastest": run(BASE, measured("pinned", 0.020), measured("managed", 0.030)),
    "near, with a smaller footprint": run(
        BASE, measured("pinned", 0.0200), measured("zero-copy", 0.0203, footprint=HALF)
    ),
    "open": run(SLOW_BASE, apart("pinned", 0.018, 0.020, 0.022), apart("managed", 0.0185, 0.0205, 0.0225)),
    "open, the one that risks least though it needs more": run(
        SLOW_BASE, apart("pinned", 0.0199, 0.0200, 0.0201), WILD
    ),
    "one process each": run(measured("pageable", 0.040, rounds=1), measured("pinned", 0.020, rounds=1)),
    "results that were not compared": run(BASE, measured("pinned", 0.020, verified=False)),
    "a strategy of another version": run(measured("pinned", 0.02), measured("from-the-future", 0.02)),
    "frames that overlap, by time": run(*BOTH_WAYS),
    "by throughput": run(*BOTH_WAYS, objective="throughput"),
    "by footprint": run(*LEAN, objective="footprint"),
    "by footprint, the baseline": run(
        LEAN[0], measured("pinned", 0.010, footprint=footprint(device=400 * MIB)), objective="footprint"
    ),
    "a budget": run(*LEAN, memory_budget_bytes=200 * MIB),
    "a budget that nothing fits": run(*LEAN, memory_budget_bytes=MIB),
    "a budget that all fit": run(*LEAN, memory_budget_bytes=384 * MIB),
    "processes that differ": run(*APART),
    "their final": in_a_final(APART, FINAL, preferences=Preferences(indifference=0.02)),
    "a control that differs from itself": in_a_final(ROWS, {**FINAL, AGAIN: 0.022}),
    "one that does not": in_a_final(ROWS, {**FINAL, AGAIN: 0.020}),
    **{
        f"a final of frames that overlap, by {objective}": in_a_final(
            LATE, LATE_SECONDS, preferences=Preferences(objective=objective)
        )
        for objective in ("time", "throughput")
    },
}
SHARED = np.exp(np.linspace(-1, 1, 200))
"""An uncertainty that all strategies share: a factor of e either way."""
ALIKE = {"pinned": 0.020, "zero-copy": 0.0205, "managed": 0.0205, "pageable": 0.025}
FOUR = {"pageable": 0.04, "pinned": 0.01, "zero-copy": 0.02, "managed": 0.03}
Rows = tuple[dict[str, float], dict[str, Any], dict[str, int], Preferences]


def drawn(
    likely: dict[str, float], memory: dict[str, int] | None = None, wanted: Any = None, **draws: Any
) -> Rows:
    """Likely times, bytes where they are not 384 MiB, and draws where they are not the shared ones."""
    named = {name.replace("_", "-"): values for name, values in draws.items()}
    return likely, named, memory or {}, Preferences(**(wanted or {}))


def but(seconds: float, first: int, others: float) -> np.ndarray:
    """So many devices first on which it takes that long, of 200."""
    return np.where(np.arange(200) < first, seconds, others)


def constant(**seconds: float) -> dict[str, np.ndarray]:
    return {name: np.full(200, each) for name, each in seconds.items()}


def certain(gain: float, saved: int) -> Rows:
    """pageable beside a strategy that gains and saves so much, on most of the devices more."""
    likely, memory = {"pageable": 0.02 * gain, "zero-copy": 0.02}, {"pageable": 8 * MIB}
    slow, fast = but(0.03, 110, 0.02 * gain), np.full(200, 0.02)
    return drawn(likely, {**memory, "zero-copy": 8 * MIB - saved}, pageable=slow, zero_copy=fast)


def equal(slow: int, seconds: float) -> Rows:
    """managed, with half the memory, takes longer on so many devices."""
    draws = {"pinned": np.full(200, 0.02), "managed": but(seconds, slow, 0.0205)}
    return drawn({"pinned": 0.020, "managed": 0.0205}, {"managed": 192 * MIB}, **draws)


def losing(lost: int) -> Rows:
    draws = {"pageable": but(0.01, lost, 0.04), **constant(managed=0.2, pinned=0.02)}
    return drawn({"pageable": 0.04, "managed": 0.2, "pinned": 0.02}, **draws)


LEANER = {"zero-copy": 192 * MIB, "managed": 192 * MIB}
PREDICTED: dict[str, Rows] = {
    "what all share cancels out": drawn({"pageable": 0.04, "pinned": 0.02}),
    "the fastest on 95 % of the devices": losing(10),
    "on fewer": losing(11),
    "a tie, by memory, then by code": drawn(ALIKE, LEANER),
    "a tie of two": drawn({"pageable": 0.04, "pinned": 0.02, "zero-copy": 0.0203}, LEANER),
    **{
        f"{seconds * 1e3:g} ms on {slow} of 200": equal(slow, seconds)
        for seconds in (0.0215, 0.1)
        for slow in (90, 110)
    },
    "neither time nor memory that shows": certain(1.01, 200 << 10),
    "memory": certain(1.01, 3 << 20),
    "time": certain(1.06, 200 << 10),
    "the baseline, by luck": drawn({"pageable": 0.02, "pinned": 0.1}, pinned=0.1 / SHARED),
    "the baseline": drawn({"pageable": 0.02, "pinned": 0.1}),
    "a bound": drawn(
        {"pageable": 0.04, "pinned": 0.02, "managed": 0.2},
        pageable=but(0.05, 10, 0.02 / 1.03),
        **constant(pinned=0.02, managed=0.2),
    ),
    "the least average loss": drawn(
        {"pinned": 0.02, "managed": 0.018}, managed=but(0.08, 80, 0.018), **constant(pinned=0.02)
    ),
    "alone": drawn({"pinned": 0.02}),
    "whatever the memory": drawn(FOUR, LEANER),
    "the least memory": drawn(FOUR, LEANER, {"objective": "footprint"}),
    "within a budget": drawn(FOUR, LEANER, {"memory_budget_bytes": 200 * MIB}),
    "nothing within it": drawn(FOUR, LEANER, {"memory_budget_bytes": MIB}),
}


def told(chosen: Recommendation | None) -> Iterator[str]:
    """All that is saved of it, figures to four digits."""
    assert chosen is not None
    for name, value in chosen.model_dump(exclude_defaults=True, exclude={"steps"}).items():
        values = value if isinstance(value, tuple) else (value,)
        yield f"{name}: " + ", ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in values)


@pytest.mark.parametrize("basis", ["measured", "predicted"])
def test_what_is_recommended(basis: str, accepted: Accepted) -> None:
    text = []
    for name, rows in MEASURED.items() if basis == "measured" else ():
        text += [f"## {name}", *told(recommend(rows)), ""]
    for name, (likely, named, memory, wanted) in PREDICTED.items() if basis == "predicted" else ():
        made = [predicted(n, s, physical_bytes=memory.get(n, 384 * MIB)) for n, s in likely.items()]
        draws = {n: named.get(n, seconds * SHARED) for n, seconds in likely.items()}
        text += [f"## {name}", *told(recommend_predicted(made, draws, wanted)[0]), ""]
    accepted("\n".join(text), f"recommended-{basis}.txt")


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=5), st.integers(0, 2**32 - 1))
def test_the_interval_holds_the_speedup_and_the_chosen_loses_least(likely: list[float], seed: int) -> None:
    names = ("pageable", "pinned", "zero-copy", "managed", "system")[: len(likely)]
    generator, times = np.random.default_rng(seed), dict(zip(names, likely, strict=True))
    draws = {name: s * np.exp(generator.normal(0, 0.5, 200)) for name, s in times.items()}
    chosen, _ = recommend_predicted([predicted(name, s) for name, s in times.items()], draws)
    assert chosen is not None
    assert chosen.interval[0] <= chosen.speedup <= chosen.interval[1]
    fastest = np.min(list(draws.values()), axis=0)
    losses = {name: float(np.mean(seconds / fastest)) for name, seconds in draws.items()}
    best = min(losses, key=losses.__getitem__)
    as_fast = chosen.strategy == "pageable" and times["pageable"] <= 1.05 * times[best]
    assert losses[chosen.strategy or ""] <= 1.05 * losses[best] or as_fast
