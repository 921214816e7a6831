"""From what processes left to the profile: the description, the trace, the row of each strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import mean, median
from typing import Any

from pydantic import ValidationError

from advisor import stats
from advisor.errors import NothingMeasured, WorkloadError
from advisor.measure.jobs import DESCRIPTION, Description, Problem, ReferenceRun, Sample, TraceRun
from advisor.measure.launcher import Ended
from advisor.measure.steps import named
from advisor.profiles.amounts import held
from advisor.profiles.figures import Block, FrameEnergy, FrameFigures, PageLocking, Quantile, StrategyFigures
from advisor.profiles.schema import RAISED, WRONG_RESULTS, Failed, Measured, Result, Trace, WorkloadRecord
from advisor.strategies.registry import BASELINE
from advisor.texts import listed
from advisor.verdicts.scores import accounted


@dataclass
class Preparation:
    """What runs before the strategies: a reference run that checks the workload, a traced run on the CPU."""

    notes: list[str] = field(default_factory=list)
    kernels_only: Problem | None = None
    """Why the workload cannot run on the CPU, where a kernel has no twin there."""

    def describe(self, ended: Ended, directory: Path) -> Description:
        """The workload, by the reference run in that folder. Raises `AdvisorError` where it cannot be run."""
        problem = ended.outcome if isinstance(ended.outcome, Problem) else None
        if problem and problem.cause in ("wrong", "raised", "bug"):
            raise problem.as_error()
        if ended.how in ("timeout", "late"):
            option = "--timeout" if ended.how == "timeout" else "--max-seconds"
            raise WorkloadError(
                f"checking the workload {ended.reason}",
                next_step=f"Raise {option} SECONDS, or set smaller parameters with --set; if the frame has a "
                "repeat, check that it ends, or lower at_most.",
                detail=ended.log,
            )
        reason = problem.message if problem else ended.reason
        description = _description(directory / DESCRIPTION, problem, ended, reason)
        if problem and problem.cause == "twin":
            self.kernels_only = problem
            self.notes.append(f"Nothing was run on the CPU: {reason}. {problem.next_step}")
        elif isinstance(ended.outcome, ReferenceRun):
            self.notes += _notes(ended.outcome)
        else:
            self.notes.append(f"The reference run failed ({reason}), so results could not be compared.")
        self.notes += description.cautions
        return description

    def trace(self, ended: Ended, *, on_cpu: bool) -> Trace | None:
        """What each stage reads and writes; None where that could not be traced. Raises `WorkloadError` if,
        without a GPU, CuPy would certainly refuse a device stage, or if a stage touches a buffer outside the
        region that it annotates."""
        result = ended.outcome if isinstance(ended.outcome, TraceRun) else TraceRun()
        if problems := (*(result.refused if on_cpu else ()), *result.wrong):
            first, *others = problems
            more = (f"Also: {each.message}\n  next: {each.next_step}\n{each.detail}" for each in others)
            detail = "\n\n".join((first.detail, *more))
            raise WorkloadError(first.message, next_step=first.next_step, detail=detail)
        if result.trace:
            return result.trace
        if self.kernels_only and on_cpu:
            raise self.kernels_only.as_error()
        problem = ended.outcome if isinstance(ended.outcome, Problem) else next(iter(result.refused), None)
        if problem and problem.error == "RegionViolation":
            raise problem.as_error()
        reason, step = (problem.message, problem.next_step) if problem else (ended.reason, "")
        self.notes.append(f"Traffic could not be traced on the CPU: {reason}. {step}".strip())
        return None


def _notes(run: ReferenceRun) -> Iterator[str]:
    if run.unlike:
        buffers = ", ".join(f"{name!r} from frame {frame} on" for name, frame in run.unlike.items())
        yield (
            f"Two runs under {BASELINE} from the same start gave different results: {buffers}. Those were "
            "not compared across strategies, so wrong ones would not be noticed. If stages draw random "
            "numbers, take them from the parameter `rng`, which gives the same in every run."
        )
    for loop, most in run.capped.items():
        yield (
            f"Only at_most={most} ended {loop}, in every frame that was compared. If it should end earlier, "
            "check that a stage of the loop sets the buffer."
        )
    for name, frame in run.nan.items():
        yield f"Buffer {name!r} has NaN from frame {frame} on; NaN is taken for equal to NaN."


def _description(file: Path, problem: Problem | None, ended: Ended, reason: str) -> Description:
    """The description that a process wrote. Raises `AdvisorError` where it is not there, or incomplete."""
    try:
        return Description.model_validate_json(file.read_text(encoding="utf-8"))
    except OSError:
        if problem:
            message, step = problem.message, problem.next_step
            raise NothingMeasured(message, next_step=step, detail=problem.detail) from None
        message = f"the workload could not be loaded: {ended.reason}"
        step = "Check that the file runs with python."
        raise WorkloadError(message, next_step=step, detail=ended.log) from None
    except ValidationError:
        message = "the description of the workload that its process wrote is incomplete"
        step = "Is the disk full, or does the workload limit the size of files (ulimit -f)?"
        raise NothingMeasured(f"{message}{f': {reason}' if reason else ''}", next_step=step) from None


CONFIDENCE = 0.95
_PREFIXES = {
    "differs": WRONG_RESULTS,
    "state": "the workload changed the device's state: ",
    "memory": "not enough memory: ",
    "raised": RAISED,
    "twin": "it cannot run without a GPU: ",
}
_NEXT_STEPS = {
    "differs": "Likely causes: work on another stream that the stage does not wait for (use the parameter "
    "`stream`), an array kept from an earlier frame, random numbers or times that differ between processes "
    "(use the parameter `rng`), or atomics whose order changes the result. To reproduce it, run this "
    "strategy alone: --strategy NAME.",
    "late": "Run again with a larger --max-seconds, or reduce the workload with --set NAME=VALUE.",
    "timeout": "Run again with a longer --timeout, or reduce the workload with --set NAME=VALUE.",
    "memory": "Reduce the workload with --set NAME=VALUE.",
    "died": "See the last output of the process. Check that the file runs with python.",
}


def combine(
    strategy: str, samples: Sequence[Sample], workload: WorkloadRecord, *, confidence: float
) -> Measured:
    rounds = tuple(sample.frame_seconds for sample in samples)
    frames = [frame for sample in samples for frame in sample.breakdown]
    names = {f"{stage.side}:{stage.name}": stage.name for stage in workload.frame_stages()}
    latencies = [sample.latency_seconds for sample in samples if sample.latency_seconds is not None]
    loops = zip(*(sample.iterations for sample in samples), strict=True)
    stages = {name: _median(frames, label) for label, name in names.items()}
    stages |= {name: mean(s.host_seconds[name] for s in samples) for name in samples[0].host_seconds}
    row = Measured(
        strategy=strategy,
        frame_seconds=tuple(seconds for round_ in rounds for seconds in round_),
        frames_per_round=tuple(len(round_) for round_ in rounds),
        median_seconds=stats.median(rounds),
        interval_seconds=held(*_interval(rounds, confidence=confidence)),
        stage_seconds=stages,
        transfer_seconds=sum(_median(frames, way) for way in ("to-device", "to-host", "to-peer")),
        synchronize_seconds=0.0,
        device_path_seconds=0.0,
        host_copy_seconds=_median(frames, "host-copy") if "host-copy" in frames[0] else None,
        latency_seconds=median(latencies) if latencies else None,
        iterations=tuple(
            each[0].model_copy(update={"mean": mean(process.mean for process in each)}) for each in loops
        ),
        **frame_figures(samples, median),
        footprint=max((sample.footprint for sample in samples), key=lambda f: f.peak_process_bytes or 0),
        verified=all(sample.verified for sample in samples),
    )
    return accounted(row, samples[0].host_seconds, workload.gpus)


_interval = lru_cache(maxsize=64)(stats.median_interval)
"""Cached: rows are made again after every process of any strategy."""


def late_nan(samples: Mapping[str, Sequence[object]]) -> Iterator[str]:
    """Says which results had NaN in the end that the compared frames had not, and under what."""
    measured = {n: all_[0] for n, all_ in samples.items() if all_ and isinstance(all_[0], Sample)}
    for name in dict.fromkeys(name for sample in measured.values() for name in sample.nan):
        where = [f"{sample.nan[name]} under {n}" for n, sample in measured.items() if name in sample.nan]
        clean = ", ".join(strategy for strategy, sample in measured.items() if name not in sample.nan)
        yield (
            f"Buffer {name!r} has NaN that it does not have in the compared frames: {listed(where, 3)}"
            f"{f'; none under {clean}' if clean else ''}. Check that its values stay finite."
        )


def failure(strategy: str, ended: Ended) -> Failed:
    reason, detail, next_step = ended.reason, ended.log, _NEXT_STEPS.get(ended.how, "")
    if isinstance(outcome := ended.outcome, Problem):
        reason, detail = f"{_PREFIXES.get(outcome.cause, '')}{outcome.message}", outcome.detail or detail
        next_step = outcome.next_step or _NEXT_STEPS.get(outcome.cause, "")
    return Failed(strategy=strategy, reason=reason, detail=detail, next_step=next_step)


def _median(frames: Sequence[dict[str, float]], label: str) -> float:
    return median(frame.get(label, 0.0) for frame in frames)


QUANTILES = {"p95": 0.95, "p99": 0.99}
OUTSIDE = "measured only in the final"


def frame_figures(
    parts: Sequence[FrameFigures], average: Callable[[Iterable[float]], float]
) -> dict[str, Any]:
    """The row's figures from those of samples or blocks: the average of numbers, also of page-locking's, else
    the first; none that no part has."""
    result: dict[str, Any] = {}
    for name in StrategyFigures.model_fields:
        known = [value for part in parts if (value := getattr(part, name, None)) is not None]
        if not known:
            continue
        result[name] = average(known) if isinstance(known[0], float) else known[0]
        if isinstance(known[0], PageLocking):
            calls = average(locks.calls for locks in known)
            result[name] = PageLocking(calls=calls, seconds=average(locks.seconds for locks in known))
    return result


def figures(blocks: Sequence[Block], windows: Sequence[Block], no_windows: str) -> dict[str, Any]:
    """Fields of `Measured` for one contestant. blocks: those that were timed. windows: those with energy.
    no_windows: why there are none of these."""
    delays = [block.delays for block in blocks if block.delays]
    values: dict[str, Any] = {"energy": _energy(windows)}
    reasons = {"energy": "not distinguishable from the idle power" if windows else no_windows}
    for name, share in QUANTILES.items():
        bounds = stats.quantile_by_blocks(delays, share) if delays else None
        values[name] = bounds and Quantile(seconds=bounds[0], low_seconds=bounds[1], high_seconds=bounds[2])
        too_few = (
            f"{sum(map(len, delays))} frames were kept; an upper bound needs the equivalent of "
            f"{stats.fewest_frames(share)} independent frames"
        )
        reasons[name] = too_few if delays else "no single frame times were kept"
    absent = {name: why for name, why in reasons.items() if values[name] is None}
    return {**values, **frame_figures(blocks, mean), "absent": absent}


def _energy(windows: Sequence[Block]) -> FrameEnergy | None:
    metered = [(block, block.energy) for block in windows if block.energy is not None]
    seconds, frames = sum(block.seconds for block, _ in metered), sum(block.frames for block, _ in metered)
    idle = sum(energy.idle_watts * block.seconds for block, energy in metered)
    joules = sum(energy.joules for _, energy in metered)
    if not metered or joules <= idle:
        return None
    by_gpu = ([gpu.joules - gpu.idle_watts * b.seconds for gpu in energy.gpus] for b, energy in metered)
    return FrameEnergy(
        joules=(joules - idle) / frames,
        watts=joules / seconds,
        idle_watts=idle / seconds,
        seconds=seconds,
        frames=frames,
        source=metered[0][1].source,
        gpus=tuple(max(sum(above), 0.0) / frames for above in zip(*by_gpu, strict=True)),
    )


UNEVEN = 1.05
"""Times as many iterations, on average, from which times over different frames are not compared."""


def uneven(rows: Sequence[Result]) -> tuple[str, ...]:
    means: dict[str, dict[str, float]] = {}
    for row in rows:
        for ran in row.iterations if isinstance(row, Measured) else ():
            means.setdefault(named(ran), {})[row.strategy] = ran.mean
    return tuple(
        f"Strategies were timed over different frames: {loop} averaged "
        f"{', '.join(f'{mean:.3g} ({name})' for name, mean in of_it.items())} iterations per frame, so their "
        "times cannot be compared. Run again with a larger --max-seconds: the final times the same frames."
        for loop, of_it in means.items()
        if max(of_it.values()) > UNEVEN * min(of_it.values())
    )
