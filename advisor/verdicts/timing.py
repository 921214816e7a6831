"""The figures of rows, from the blocks of the final: the estimate that the verdict compares, and no other."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.profiles.blocks import Block
from advisor.profiles.conclusions import Objective
from advisor.profiles.schema import Measured, Profile, Result
from advisor.verdicts.estimate import margins, times
from advisor.verdicts.scores import figures_of, scores

TOLERANCE = 1e-6
"""Smaller differences are rounding."""


@dataclass(frozen=True)
class Timing:
    """A contestant's frames. `seconds`: from one finished frame to the next; `latency`: of one, where frames
    overlap; `margin`: how far off both may be, as a logarithm; `counted`: what the objective counts."""

    seconds: float
    latency: float | None
    margin: float
    counted: float | None


def timings(blocks: Sequence[Block], objective: Objective, confidence: float) -> dict[str, Timing]:
    """The timing of every contestant that has blocks."""
    scored = scores(blocks, "throughput")
    periods, latencies, counted = (
        times(scored),
        times(scores(blocks, "time")),
        times(scores(blocks, objective)),
    )
    overlapping = {block.contestant for block in blocks if block.latency_seconds is not None}
    off = margins(scored, tuple(periods), confidence)
    return {
        name: Timing(seconds, latencies[name] if name in overlapping else None, off[name], counted.get(name))
        for name, seconds in periods.items()
    }


def timed(row: Measured, found: Timing, objective: Objective, hosts: Collection[str], gpus: int) -> Measured:
    """The row with these figures; `hosts` are its host stages."""
    ends = (found.seconds * math.exp(-found.margin), found.seconds * math.exp(found.margin))
    update: dict[str, Any] = {"median_seconds": found.seconds, "interval_seconds": ends}
    if found.latency is not None:
        update["latency_seconds"] = found.latency
    if objective == "latency-p99" and row.p99 and found.counted:
        low, high = min(row.p99.low_seconds, found.counted), max(row.p99.high_seconds, found.counted)
        p99 = {"seconds": found.counted, "low_seconds": low, "high_seconds": high}
        update["p99"] = row.p99.model_copy(update=p99)
    if objective == "energy" and row.energy and found.counted:
        update["energy"] = row.energy.model_copy(update={"joules": found.counted})
    return accounted(row.model_copy(update=update), hosts, gpus)


def timed_again(profile: Profile) -> Profile:
    """The rows with what this version makes of the blocks, and no verdict where it was of other times.

    Verdicts of earlier versions compared means and showed medians.
    """
    made = _of_blocks(profile) if profile.final is not None and profile.blocks else profile.results
    chosen, objective = profile.recommendation, profile.preferences.objective
    same = all(_same(old, new) for old, new in zip(profile.results, made, strict=True))
    shown = figures_of([row for row in made if isinstance(row, Measured)], objective)
    if same and chosen and chosen.speedup and {chosen.strategy, chosen.baseline} <= shown.keys():
        ratio = shown[chosen.baseline or ""] / shown[chosen.strategy or ""]
        same = math.isclose(chosen.speedup, ratio, rel_tol=TOLERANCE)
    return profile if same else profile.model_copy(update={"results": made, "recommendation": None})


def _of_blocks(profile: Profile) -> tuple[Result, ...]:
    objective, workload = profile.preferences.objective, profile.workload
    hosts = [stage.name for stage in workload.frame_stages("host")]
    found = timings(profile.blocks, objective, profile.method.confidence)

    def again(row: Result) -> Result:
        if not isinstance(row, Measured) or row.samples != "blocks" or row.strategy not in found:
            return row
        return timed(row, found[row.strategy], objective, hosts, workload.gpus)

    return tuple(map(again, profile.results))


def _same(old: Result, new: Result) -> bool:
    if not isinstance(old, Measured) or not isinstance(new, Measured):
        return True
    return math.isclose(old.median_seconds, new.median_seconds, rel_tol=TOLERANCE)


def accounted(row: Measured, hosts: Collection[str], gpus: int = 1) -> Measured:
    """With what its time leaves for launching, synchronising and waiting, and for all but host stages.

    hosts: the names of the host stages. Where frames overlap, their parts do, and nothing is left. The parts
    of several GPUs overlap too: all that is not the host's is their path.
    """
    host = sum(row.stage_seconds.get(name, 0.0) for name in hosts)
    device = sum(seconds for name, seconds in row.stage_seconds.items() if name not in hosts)
    path = device + row.transfer_seconds + (row.host_copy_seconds or 0.0)
    rest = 0.0 if row.latency_seconds else max(row.median_seconds - host - path, 0.0)
    if gpus > 1:
        path = max(row.median_seconds - host - rest, 0.0)
    return row.model_copy(update={"synchronize_seconds": rest, "device_path_seconds": path + rest})
