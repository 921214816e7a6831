"""From the cells of a strategy to its row: raw samples kept, medians and intervals derived."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from advisor import stats
from advisor.measure.jobs import Cell, Problem
from advisor.measure.launcher import Ended
from advisor.profiles.schema import WRONG_RESULTS, Failed, Measured, PageLocking, WorkloadRecord

_SAYS: dict[str, str] = {
    "differs": WRONG_RESULTS,
    "state": "the workload changed the device's state: ",
    "memory": "not enough memory: ",
    "bug": "",
    "device": "",
    "raised": "the workload failed: ",
    "twin": "it cannot run without a GPU: ",
    "wrong": "",
}
_SMALLER = "Make the workload smaller with --set NAME=VALUE."
_NEXT = {
    "timeout": "Give more time with --timeout SECONDS, or make the workload smaller with --set NAME=VALUE.",
    "memory": _SMALLER,
    "died": "See what the process said last, in the report; does the file run by itself with python?",
}


def combine(strategy: str, cells: Sequence[Cell], workload: WorkloadRecord, *, confidence: float) -> Measured:
    """The row of a strategy from its processes, one cell each."""
    rounds = [cell.frame_seconds for cell in cells]
    frames = [frame for cell in cells for frame in cell.breakdown]
    hosts = [f"host:{stage.name}" for stage in workload.frame_stages("host")]
    names = {f"{stage.side}:{stage.name}": stage.name for stage in workload.frame_stages()}
    stages = {name: _median(frames, label) for label, name in names.items()}
    parts = [*names, "host-copy", "to-device", "to-host"]
    return Measured(
        strategy=strategy,
        frame_seconds=tuple(seconds for round_ in rounds for seconds in round_),
        frames_per_round=tuple(len(round_) for round_ in rounds),
        median_seconds=stats.median(rounds),
        interval_seconds=stats.median_interval(rounds, confidence=confidence),
        stage_seconds=stages,
        transfer_seconds=_median(frames, "to-device") + _median(frames, "to-host"),
        transfer_bytes=cells[0].transfer_bytes,
        synchronize_seconds=_median_rest(frames, parts),
        device_path_seconds=_median_rest(frames, hosts),
        host_copy_seconds=_median(frames, "host-copy") if "host-copy" in frames[0] else None,
        latency_seconds=_latency(cells),
        hints=cells[0].hints,
        page_locking=_page_locking(cells),
        setup_seconds=median(cell.setup_seconds for cell in cells),
        footprint=max((cell.footprint for cell in cells), key=lambda f: f.peak_process_bytes or 0),
        verified=all(cell.verified for cell in cells),
        stopped=tuple(cell.stopped for cell in cells),
        timeline=cells[-1].timeline,
    )


def failure(strategy: str, ended: Ended) -> Failed:
    """The row of a strategy whose process had no figures."""
    outcome = ended.outcome
    if isinstance(outcome, Problem):
        reason = f"{_SAYS[outcome.cause]}{outcome.message}"
        detail, next_step = outcome.detail or ended.log, outcome.next_step or _NEXT.get(outcome.cause, "")
        return Failed(strategy=strategy, reason=reason, detail=detail, next_step=next_step)
    return Failed(
        strategy=strategy, reason=ended.reason, detail=ended.log, next_step=_NEXT.get(ended.how, "")
    )


def _latency(cells: Sequence[Cell]) -> float | None:
    told = [cell.latency_seconds for cell in cells if cell.latency_seconds is not None]
    return median(told) if told else None


def _page_locking(cells: Sequence[Cell]) -> PageLocking | None:
    told = [cell.page_locking for cell in cells if cell.page_locking is not None]
    if not told:
        return None
    return PageLocking(calls=median(t.calls for t in told), seconds=median(t.seconds for t in told))


def _median(frames: Sequence[dict[str, float]], label: str) -> float:
    return median(frame.get(label, 0.0) for frame in frames)


def _median_rest(frames: Sequence[dict[str, float]], parts: Sequence[str]) -> float:
    """What is in a frame and in none of the parts; work that overlaps can leave nothing."""
    return median(max(frame["frame"] - sum(frame.get(p, 0.0) for p in parts), 0.0) for frame in frames)
