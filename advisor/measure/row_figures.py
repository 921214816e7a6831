"""A row's figures beside its time, from the final's blocks and windows; what is absent has a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import mean, median
from typing import Any

from advisor import stats
from advisor.measure.jobs import ScriptSample
from advisor.profiles.blocks import Block, Energy
from advisor.profiles.row_figures import FrameEnergy, FrameFigures, Quantile, StrategyFigures

QUANTILES = {"p95": 0.95, "p99": 0.99}
OUTSIDE = "measured only in the final"


def frame_figures(
    parts: Sequence[FrameFigures], average: Callable[[Iterable[float]], float]
) -> dict[str, Any]:
    """The row's figures from those of samples or blocks: the average of numbers, else the first; none that
    no part has."""
    result: dict[str, Any] = {}
    for name in StrategyFigures.model_fields:
        known = [value for part in parts if (value := getattr(part, name, None)) is not None]
        if known:
            result[name] = average(known) if isinstance(known[0], float) else known[0]
    return result


def figures(blocks: Sequence[Block], windows: Sequence[Block], no_windows: str) -> dict[str, Any]:
    """Fields of `Measured` for one contestant.

    blocks: those that were timed. windows: those with energy. no_windows: why there are none of these.
    """
    found: dict[str, Any] = {name: _quantile(blocks, share) for name, share in QUANTILES.items()}
    found["energy"] = _energy(windows)
    kept = sum(len(block.delays) for block in blocks)
    few = "{} frames were kept; an upper bound needs the equivalent of {} independent frames"
    reasons = {
        name: few.format(kept, stats.fewest_frames(share)) if kept else "no single frame times were kept"
        for name, share in QUANTILES.items()
    }
    reasons["energy"] = "not distinguishable from the idle power" if windows else no_windows
    absent = {name: why for name, why in reasons.items() if found[name] is None}
    return {**found, **frame_figures(blocks, mean), "absent": absent}


def _quantile(blocks: Sequence[Block], share: float) -> Quantile | None:
    kept = [block.delays for block in blocks if block.delays]
    bounds = stats.quantile_by_blocks(kept, share) if kept else None
    if bounds is None:
        return None
    value, low, high = bounds
    return Quantile(seconds=value, low_seconds=low, high_seconds=high)


def _energy(windows: Sequence[Block]) -> FrameEnergy | None:
    """All windows together."""
    metered = [(block, block.energy) for block in windows if block.energy is not None]
    seconds, frames = sum(block.seconds for block, _ in metered), sum(block.frames for block, _ in metered)
    idle = sum(energy.idle_watts * block.seconds for block, energy in metered)
    taken = sum(energy.joules for _, energy in metered)
    if not metered or taken <= idle:
        return None
    found = above_idle(taken, idle, seconds, frames, metered[0][1].source)
    return found.model_copy(update={"gpus": _by_gpu(metered, frames)})


def _by_gpu(metered: Sequence[tuple[Block, Energy]], frames: int) -> tuple[float, ...]:
    """Joules of a frame above the idle power, of each of several GPUs."""
    above = (
        [gpu.joules - gpu.idle_watts * block.seconds for gpu in energy.gpus] for block, energy in metered
    )
    return tuple(max(sum(each), 0.0) / frames for each in zip(*above, strict=True))


def above_idle(taken: float, idle: float, seconds: float, frames: int, source: str) -> FrameEnergy:
    """Energy of a frame from the joules taken in all and those that the device takes idle in that time."""
    return FrameEnergy(
        joules=(taken - idle) / frames,
        watts=taken / seconds,
        idle_watts=idle / seconds,
        seconds=seconds,
        frames=frames,
        source=source,
    )


def of_runs(samples: Sequence[ScriptSample]) -> dict[str, Any]:
    """Fields of `ScriptMeasured`, from its timed runs."""
    found = frame_figures(samples, median)
    metered = [sample.energy for sample in samples if sample.energy is not None]
    if not metered:
        return {
            **found,
            "absent": {"energy": next(filter(None, (s.unmetered for s in samples)), "not asked for")},
        }
    seconds = sum(each.seconds for each in metered)
    taken, idle = (
        sum(getattr(each, name) * each.seconds for each in metered) for name in ("watts", "idle_watts")
    )
    return {**found, "energy": above_idle(taken, idle, seconds, len(metered), metered[0].source)}
