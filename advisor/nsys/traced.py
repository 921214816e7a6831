"""A profile with what nsys recorded of its strategies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from advisor.measure.jobs import Job
from advisor.measure.progress import Progress
from advisor.measure.runner import job_of
from advisor.measure.settings import Settings
from advisor.nsys.capturing import Captures, frames_to_capture
from advisor.profiles.schema import Measured, Profile
from advisor.profiles.scripts import ScriptMeasured
from advisor.profiles.traces import NsysTrace
from advisor.strategies.mixes import Mix, strategies_of
from advisor.strategies.registry import BASELINE

NO_GPU_TO_TRACE = "nothing ran on a GPU, so nsys had nothing to record"


def traced(
    complete: Profile, settings: Settings, progress: Progress, scratch: Path, captures: Captures
) -> Profile:
    """With what nsys recorded of every measured strategy, in runs of its own after all that was timed."""
    if complete.device.kind == "cpu" and settings.nsys is None:
        return complete.model_copy(update={"trace": NsysTrace(reason=NO_GPU_TO_TRACE)})
    frames, runs = _in_order(complete), complete.script.measured if complete.script else ()
    known = _with_found(settings, complete)
    jobs = [_capture(known, row, scratch) for rows in (frames, runs) for row in rows]
    try:
        trace = captures(jobs, complete.device, progress.begin, progress.end)
    except KeyboardInterrupt:
        note = "Interrupted while tracing with nsys. The measurements are complete."
        trace = NsysTrace(reason="interrupted")
        return complete.model_copy(update={"trace": trace, "notes": (*complete.notes, note)})
    return complete.model_copy(update={"trace": trace})


def _in_order(complete: Profile) -> list[Measured]:
    """The baseline and the fastest first, since the time may not reach all."""
    rows = complete.measured().values()
    return sorted(rows, key=lambda row: (row.strategy != BASELINE, row.median_seconds))


def _with_found(settings: Settings, profile: Profile) -> Settings:
    """With the mixes that were searched for, which a worker knows by their short names only so."""
    there = {strategy.name for strategy in settings.strategies}
    mixes = (made for name, made in strategies_of(profile).items() if isinstance(made, Mix))
    found = tuple(made for made in mixes if made.name not in there)
    return replace(settings, strategies=(*settings.strategies, *found))


def _capture(settings: Settings, row: Measured | ScriptMeasured, scratch: Path) -> Job:
    """The set-up and a few frames, or the script once; in what that takes without a tool."""
    job = job_of(settings, "capture", row.strategy, scratch, f"capture-{row.strategy}")
    frames = frames_to_capture(row) if isinstance(row, Measured) else 1
    seconds = row.setup_seconds + 2 * frames * row.median_seconds
    return job.model_copy(update={"frames": frames, "seconds": seconds})
