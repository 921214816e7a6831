"""What the user asked the conclusions to go by, where that is not the default."""

from __future__ import annotations

from advisor import units
from advisor.profiles.schema import Profile
from advisor.report import words
from advisor.report.methods import Entry
from advisor.rules.advise import silences
from advisor.rules.limits import changed
from advisor.rules.registry import RULES

_OBJECTIVES = {
    "time": "time, from begin to end of a frame",
    "latency-p99": "latency-p99: the 99th percentile, from begin to end of a frame",
    "energy": "energy: joules of a frame, above the idle power",
    "footprint": "footprint: the least memory, then time",
    "throughput": "throughput: frames per second",
}


def preferences(profile: Profile) -> tuple[Entry, ...]:
    """Objective, memory budget, changed thresholds and silenced rules; nothing where all is by default."""
    wanted = profile.preferences
    return (
        *(Entry("Objective", _OBJECTIVES[wanted.objective]) for _ in (1,) if wanted.objective != "time"),
        *(Entry("Memory budget", units.size(b)) for b in (wanted.memory_budget_bytes,) if b),
        *_left_out(profile),
        *(
            Entry(f"Threshold {name}", f"{t.written(value)} (default {t.written(t.default)})")
            for name, (t, value) in changed(wanted, RULES).items()
        ),
        *(
            Entry("Silenced", f"{words.name(rule)}, by {words.line(by, 200)}")
            for rule, by in silences(profile).items()
        ),
    )


def _left_out(profile: Profile) -> tuple[Entry, ...]:
    """What the budget excludes, on the measured device and on each that was predicted."""
    chosen = [(profile.device, profile.recommendation)]
    chosen += [(p.device, p.recommendation) for p in profile.predictions]
    return tuple(
        Entry(
            f"Over the budget on {words.name(device.name)}",
            "; ".join(f"{words.name(name)} {why}" for name, why in recommendation.excluded.items()),
        )
        for device, recommendation in chosen
        if recommendation and recommendation.excluded
    )
