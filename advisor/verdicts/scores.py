"""The number that a verdict counts of a block, a row or a profile: a period, a latency, a 99th percentile, or
joules.

A block has too few frames for a 99th percentile. Blocks of one process that follow one another are put
together until every contestant has as many frames as an upper bound needs, and the percentile of such a batch
is what counts. Batches are of the same rounds for all contestants, so the differences are paired as those of
blocks are, and what few frames misjudge is the same for all (batching: Nakayama, "Confidence intervals for
quantiles using sectioning when applying variance-reduction techniques", ACM TOMACS 24, 2014).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from advisor import stats
from advisor.profiles import figures as saved
from advisor.profiles.amounts import held
from advisor.profiles.conclusions import Objective, counts_latency
from advisor.profiles.schema import Measured, Predicted, Profile
from advisor.verdicts.estimate import Block, margins, times

AnyRow = TypeVar("AnyRow")
TAIL = 0.99
"""The quantile of the objective latency-p99."""


def scores(blocks: Iterable[saved.Block], objective: Objective) -> list[Block]:
    """One for each block that has one; of percentiles one for each batch. `seconds` are joules for energy."""
    listed = tuple(blocks)
    if objective == "latency-p99":
        return _percentiles(listed)
    if objective == "energy":
        return [Block(b.process, b.round, b.contestant, b.joules) for b in listed if b.joules is not None]
    found = []
    for block in listed:
        latency = block.latency_seconds if counts_latency(objective) else None
        stretch = 1.0 if latency is None else latency / block.period_seconds
        seconds = block.period_seconds * stretch
        found.append(Block(block.process, block.round, block.contestant, seconds, stretch))
    return found


def rounds_of_a_score(blocks: Iterable[saved.Block], objective: Objective) -> int:
    """How many rounds it takes to have one more score of every contestant."""
    frames = min((len(block.delays) for block in blocks if block.delays), default=0)
    if objective != "latency-p99" or not frames:
        return 1
    return math.ceil(stats.fewest_frames(TAIL) / frames)


def percentile(frames: Sequence[float]) -> float | None:
    """The 99th of these frames; None of too few."""
    if len(frames) < stats.fewest_frames(TAIL):
        return None
    return float(np.sort(frames)[math.ceil(TAIL * len(frames)) - 1])


def _percentiles(blocks: Sequence[saved.Block]) -> list[Block]:
    together, batches = rounds_of_a_score(blocks, "latency-p99"), dict[tuple[int, int, str], list[float]]()
    for block in blocks:
        key = (block.process, block.round // together, block.contestant)
        batches.setdefault(key, []).extend(block.delays)
    values = ((key, percentile(frames)) for key, frames in batches.items())
    return [Block(*key, value) for key, value in values if value is not None]


def seconds_of(row: Measured | Predicted) -> tuple[float, float, float]:
    """Median or likely time of a frame, and the ends of its interval or range."""
    if isinstance(row, Predicted):
        return row.likely_seconds, row.low_seconds, row.high_seconds
    return row.median_seconds, *row.interval_seconds


def bytes_of(row: object) -> int | None:
    """Physical memory of a row with figures; None if nobody saw it."""
    if isinstance(row, Measured):
        return row.footprint.physical_bytes
    return row.physical_bytes if isinstance(row, Predicted) else None


def figures_of(rows: Sequence[Measured], objective: Objective) -> dict[str, float]:
    figures = {row.strategy: figure_of(row, objective) for row in rows}
    return {strategy: figure[0] for strategy, figure in figures.items() if figure}


def figure_of(row: Measured, objective: Objective) -> tuple[float, float, float] | None:
    """The row's figure that the objective counts, and its interval."""
    if objective == "energy":
        return (row.energy.joules,) * 3 if row.energy else None
    if objective == "latency-p99":
        return (row.p99.seconds, row.p99.low_seconds, row.p99.high_seconds) if row.p99 else None
    return seconds_of(counted_row(row) if counts_latency(objective) else row)


def counted(profile: Profile, objective: Objective | None = None) -> Profile:
    """The profile with the rows of frames that overlap as the objective counts them: its own or that one.

    That is the latency of a frame in place of the time between finished frames, except for throughput. Of
    measured frames only the median latency is kept; its spread is taken to be theirs.
    """
    if not counts_latency(objective or profile.preferences.objective):
        return profile
    predictions = []
    for prediction in profile.predictions:
        rows = tuple(map(counted_row, prediction.results))
        predictions.append(prediction.model_copy(update={"results": rows}))
    results = tuple(map(counted_row, profile.results))
    return profile.model_copy(update={"results": results, "predictions": tuple(predictions)})


def counted_row(row: AnyRow) -> AnyRow:
    """The row with its latency as its time, where frames overlap."""
    if not isinstance(row, (Measured, Predicted)) or row.latency_seconds is None:
        return row
    middle, low, high = seconds_of(row)
    longer = row.latency_seconds / middle
    ends = low * longer, high * longer
    if isinstance(row, Predicted):
        update: dict[str, Any] = dict(zip(("low_seconds", "high_seconds"), ends, strict=True))
        return row.model_copy(update={"likely_seconds": row.latency_seconds, **update})
    frames = tuple(seconds * longer for seconds in row.frame_seconds)
    update = {"frame_seconds": frames, "median_seconds": row.latency_seconds, "interval_seconds": ends}
    return row.model_copy(update=update)


@dataclass(frozen=True)
class Timing:
    """A contestant's frames. `seconds`: from one finished frame to the next; `latency`: of one, where frames
    overlap; `margin`: how far off both may be, as a logarithm; `counted`: what the objective counts."""

    seconds: float
    latency: float | None
    margin: float
    counted: float | None


def timings(blocks: Sequence[saved.Block], objective: Objective, confidence: float) -> dict[str, Timing]:
    scored = scores(blocks, "throughput")
    periods = times(scored)
    latencies = times(scores(blocks, "time"))
    counted = times(scores(blocks, objective))
    overlapping = {block.contestant for block in blocks if block.latency_seconds is not None}
    off = margins(scored, tuple(periods), confidence)
    return {
        name: Timing(seconds, latencies[name] if name in overlapping else None, off[name], counted.get(name))
        for name, seconds in periods.items()
    }


def timed(row: Measured, timing: Timing, objective: Objective, hosts: Collection[str], gpus: int) -> Measured:
    """The row with these figures; `hosts` are its host stages."""
    ends = held(timing.seconds * math.exp(-timing.margin), timing.seconds * math.exp(timing.margin))
    update: dict[str, Any] = {"median_seconds": timing.seconds, "interval_seconds": ends}
    if timing.latency is not None:
        update["latency_seconds"] = timing.latency
    if objective == "latency-p99" and row.p99 and timing.counted:
        low, high = min(row.p99.low_seconds, timing.counted), max(row.p99.high_seconds, timing.counted)
        p99 = {"seconds": timing.counted, "low_seconds": low, "high_seconds": high}
        update["p99"] = row.p99.model_copy(update=p99)
    if objective == "energy" and row.energy and timing.counted:
        update["energy"] = row.energy.model_copy(update={"joules": timing.counted})
    return accounted(row.model_copy(update=update), hosts, gpus)


def timed_again(profile: Profile) -> Profile:
    """The profile of a final whose rows have what its objective, which may be another one now, counts."""
    objective, workload = profile.preferences.objective, profile.workload
    if profile.final is None or not profile.blocks:
        return profile
    timing_of = timings(profile.blocks, objective, profile.method.confidence)
    hosts = [stage.name for stage in workload.frame_stages("host")]
    rows = list(profile.results)
    for i, row in enumerate(rows):
        if isinstance(row, Measured) and row.samples == "blocks" and row.strategy in timing_of:
            rows[i] = timed(row, timing_of[row.strategy], objective, hosts, workload.gpus)
    return profile.model_copy(update={"results": tuple(rows)})


def accounted(row: Measured, hosts: Collection[str], gpus: int = 1) -> Measured:
    """The row with the time left for launching, synchronising and waiting, and that of all but host stages.

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
