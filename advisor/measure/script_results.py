"""What the processes of a script say of each strategy: a row with figures, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from advisor import stats
from advisor.errors import WorkloadError
from advisor.measure.jobs import Problem
from advisor.measure.launcher import Ended
from advisor.measure.verification import differences
from advisor.profiles.schema import Failed
from advisor.profiles.scripts import ScriptCell, ScriptMeasured
from advisor.strategies.scripts import UNCHANGED

RESULTS = "results"
_ARGUMENTS = "Give the script's own arguments after --: advisor profile {} -- --epochs 1."
_USAGE = 2
"""What argparse exits with."""


@dataclass(frozen=True)
class Reference:
    """The unchanged script's first run. `stdout` is None where it is not the same in every run."""

    results: Path
    names: tuple[str, ...]
    stdout: str | None

    @property
    def compared(self) -> tuple[str, ...]:
        """What can be held against it, in words."""
        told = [f"{len(self.names)} arrays given to advisor.result"] if self.names else []
        return (*told, *(("what it prints",) if self.stdout else ()), "its exit status")


def require_success(ended: Ended, file: Path) -> ScriptCell:
    """The cell of a run of the unchanged script. Raises `WorkloadError` where it fails by itself."""
    cell = ended.outcome
    if isinstance(cell, Problem):
        raise cell.as_error()
    if not isinstance(cell, ScriptCell):
        raise WorkloadError(
            f"the script did not come to its end: {ended.reason}", next_step=_dead(ended), detail=ended.log
        )
    if cell.exit_code:
        raise WorkloadError(
            f"the script ended with exit code {cell.exit_code}" + (f": {cell.error}" if cell.error else ""),
            next_step=_exit_step(cell, file),
            detail=ended.log,
        )
    return cell


def failure(strategy: str, ended: Ended, reference: Reference, directory: Path) -> Failed | None:
    """Why a run counts for nothing; None where it does count."""
    cell = ended.outcome
    if isinstance(cell, Problem):
        return Failed(
            strategy=strategy, reason=cell.message, detail=cell.detail or ended.log, next_step=cell.next_step
        )
    if not isinstance(cell, ScriptCell):
        return Failed(strategy=strategy, reason=ended.reason, detail=ended.log, next_step=_dead(ended))
    reason, next_step = _wrong(strategy, cell, reference, directory)
    return Failed(strategy=strategy, reason=reason, detail=ended.log, next_step=next_step) if reason else None


def _wrong(strategy: str, cell: ScriptCell, reference: Reference, directory: Path) -> tuple[str, str]:
    """The reason and the next step; both empty where all is well."""
    if cell.allocator_changed and strategy != UNCHANGED:
        return (
            f"the script sets CuPy's allocator itself ({cell.allocator_changed}), which undoes the strategy",
            "Leave that call out to have strategies compared, or write a @workload.",
        )
    if cell.exit_code:
        said = f": {cell.error}" if cell.error else ""
        return f"the script ended with exit code {cell.exit_code}{said}", "Its own message is in the report."
    if cell.results != reference.names:
        return "it gave other arrays to advisor.result than the unchanged script", ""
    told = [f for f in _differences(cell, reference, directory) if f]
    if told:
        return "its results are wrong: " + "; ".join(told), ""
    if reference.stdout and cell.stdout_sha256 != reference.stdout:
        return (
            "it prints something else than the unchanged script",
            "If rounding explains it, print fewer digits, or compare arrays with advisor.result instead.",
        )
    return "", ""


def _differences(cell: ScriptCell, reference: Reference, directory: Path) -> list[str]:
    found = []
    for name in cell.results:
        mine = np.load(directory / RESULTS / f"{name}.npy")
        theirs = np.load(reference.results / f"{name}.npy", mmap_mode="r")
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            found.append(f"result {name} is {mine.dtype} {mine.shape}, not {theirs.dtype} {theirs.shape}")
        else:
            found.extend(differences({name: mine}, reference.results))
    return found


def row(
    strategy: str, observed: ScriptCell, timed: Sequence[ScriptCell], reference: Reference, confidence: float
) -> ScriptMeasured:
    """The row of a strategy: times of the plain runs, the rest from the observed one."""
    assert observed.copies is not None
    rounds = [(cell.seconds,) for cell in timed]
    return ScriptMeasured(
        strategy=strategy,
        run_seconds=tuple(cell.seconds for cell in timed),
        median_seconds=stats.median(rounds),
        interval_seconds=stats.median_interval(rounds, confidence=confidence),
        setup_seconds=median(cell.setup_seconds for cell in timed),
        ranges=observed.ranges,
        copies=observed.copies,
        memory=observed.memory,
        verified=bool(reference.names or reference.stdout),
        notes=tuple(_notes(observed)),
    )


def _notes(cell: ScriptCell) -> list[str]:
    notes = []
    if cell.allocator_changed:
        notes.append(f"The script sets CuPy's allocator itself ({cell.allocator_changed}); this is with it.")
    if cell.forks:
        notes.append(
            f"The script forked {cell.forks} times. CUDA cannot be used in a forked child, and what children "
            "allocate or copy is not seen."
        )
    return notes


def _exit_step(cell: ScriptCell, file: Path) -> str:
    """argparse says 2, a script that takes sys.argv[1] an IndexError."""
    if cell.exit_code == _USAGE or cell.error.startswith("IndexError"):
        return _ARGUMENTS.format(file)
    return "Does it run by itself with python? What it printed is below."


def _dead(ended: Ended) -> str:
    if ended.how == "timeout":
        return "Give more time with --timeout SECONDS, or the script less to do."
    if ended.how == "memory":
        return "Give the script less to do."
    return "Does it run by itself with python? It has to end by its last line or sys.exit, not by os._exit."
