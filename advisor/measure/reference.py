"""The reference run: the results that all strategies must give, and whether the workload is what it says.

The workload runs twice from the same start. The first run is checked: what stages say they overwrite is
filled with random bytes before. Its results are kept frame by frame. Where the second run, which is not
checked, gives others, the workload is nondeterministic, or a stage reads what it says it overwrites; more
runs from that start tell which.
"""

from __future__ import annotations

import pickle
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

from advisor.errors import WorkloadError
from advisor.measure import tasks
from advisor.measure.cupy_mock.tracing import first_line
from advisor.measure.jobs import Job, ReferenceRun
from advisor.measure.kept_results import LEAST_FRAMES, MOST_FRAMES, KeptResults, Repeated, nans
from advisor.measure.placed_workload import PlacedWorkload
from advisor.measure.verification import LOOKS, Output, Poison, RegionViolation, Written, noise
from advisor.strategies.backend import Array, Backend
from advisor.workloads.definition import Definition
from advisor.workloads.stage_code import line_reading

_LOADS = 2
"""New imports in which results must repeat: with fewer, nondeterministic ones repeat more often."""


Begin = Callable[..., AbstractContextManager[PlacedWorkload]]
"""The workload loaded afresh, on its buffers; with `again=True` by a further call of its function."""


def reference(job: Job, backend: Backend, begin: Begin) -> ReferenceRun:
    """Keeps the results that all strategies must give, and checks the annotations. Raises `WorkloadError`
    where those do not hold, and where the user's check refuses the results."""
    checks = _Checks(job, KeptResults(Path(job.reference)), tasks.comparing_seconds(job))
    try:
        with begin() as run:
            unwritten = checks.first_run(run, backend)
    except RegionViolation as stray:
        with begin() as run:
            line = first_line(stray, run, job.seed, LEAST_FRAMES)
        raise RegionViolation(*stray.access, line) from None
    if unwritten:
        _require_unread(begin, LEAST_FRAMES)
        raise unwritten
    folder = Path(job.file).resolve().parent
    before = state_of(folder)
    with begin(again=True) as run:
        repeated, wrong = checks.second_run(run)
    unlike = repeated.unlike
    after = state_of(folder) if unlike else {}
    changed = [name for name, digest in after.items() if before.get(name) != digest]
    if changed:
        nondeterministic = set[str]()
        for _ in range(_LOADS):
            for module in neighbours(folder):
                sys.modules.pop(module.__name__, None)
            with begin() as run:
                nondeterministic |= {*checks.second_run(run)[0].unlike}
        _require_no_state({n: at for n, at in unlike.items() if n not in nondeterministic}, changed)
    if unlike:
        _require_unread(begin, min(max(unlike.values()) + LEAST_FRAMES, LOOKS))
    if wrong:
        raise wrong
    checks.results.close(repeated.model_copy(update={"nan": checks.nan}))
    return ReferenceRun(unlike=unlike, capped=checks.capped, nan=checks.nan)


@dataclass
class _Checks:
    """What the first run kept, which the second is compared with."""

    job: Job
    results: KeptResults
    seconds: float
    frames: int = 0
    counts: tasks.Counts = field(default_factory=dict)
    capped: dict[str, int] = field(default_factory=dict)
    nan: dict[str, int] = field(default_factory=dict)
    """Each result's first frame with NaN."""

    def first_run(self, run: PlacedWorkload, backend: Backend) -> WorkloadError | None:
        """The error of an output that looks unwritten."""
        run.loop.run_setup()
        end = perf_counter() + self.seconds

        def look(index: int) -> bool:
            tasks.require_state(backend)  # what ran elsewhere may look like an output that was forgotten
            results = run.inspector.results(index)
            self.results.keep(index, results)
            for name in (name for name, array in results.items() if nans(array)[0]):
                self.nan.setdefault(name, index)
            self.frames = index + 1
            return self.frames < MOST_FRAMES and perf_counter() < end

        unwritten = run.inspector.check_annotations(run.loop, look)
        self.counts, self.capped = tasks.counted(run.loop.iterations), tasks.capped(run.loop.iterations)
        return unwritten

    def second_run(self, run: PlacedWorkload) -> tuple[Repeated, WorkloadError | None]:
        """Results of the same frames unchecked, and the verdict of the user's check on the last."""
        others: dict[str, int] = {}
        lengths = run.inspector.lengths()

        def look(index: int, alone: bool) -> None:
            results = run.inspector.results(index, alone=alone)
            for name in self.results.differences(index, results, lengths):
                others.setdefault(name, index)

        tasks.first_frames(run.loop, look, most=self.frames, seconds=self.seconds)
        ran = run.loop.index
        uneven = tasks.unlike(tasks.counted(run.loop.iterations), self.counts)
        iterations = {name: tuple(all_[:ran]) for name, all_ in self.counts.items() if name not in uneven}
        repeated = Repeated(frames=ran, unlike=others | uneven, iterations=iterations, lengths=lengths)
        return repeated, tasks.wrong_results(run.inspector, Path(self.job.file), ran - 1)


def _require_no_state(unlike: Mapping[str, int], changed: Sequence[str]) -> None:
    """Raises `WorkloadError` for results that repeat in new imports of the file, but not in the same one."""
    if not unlike:
        return
    name, frame = next(iter(unlike.items()))
    raise WorkloadError(
        f"results depend on the frames that ran before: frames change the global "
        f"{' and '.join(map(repr, changed))}, and when the workload starts again in the same process, "
        f"buffer {name!r} differs from frame {frame} on",
        next_step="Keep it in a buffer (InOut), or create it in the workload's function, which is called "
        "for every strategy. Random numbers come from the parameter `rng`.",
    )


def _require_unread(begin: Begin, frames: int) -> None:
    """Raises `WorkloadError` for a stage whose outputs follow what its `Out` buffers held before."""
    once, again = (_outputs(begin, frames, noise) for _ in range(2))
    alike = list(takewhile(lambda key: not once[key].differs(again[key]), once))
    if not alike:
        return  # all of it is nondeterministic
    zeros, zeros_again = (_outputs(begin, alike[-1][0] + 1, _zeros) for _ in range(2))
    unequal = next((key for key in alike if once[key].differs(zeros[key])), None)
    if unequal is None or zeros[unequal].differs(zeros_again[unequal]):
        return
    index, name, _ = unequal
    with begin() as run:
        stage = next(stage for stage in run.bound.frame if stage.name == name)
    outs = [buffer for buffer, mode in stage.access.items() if mode == "out"]
    for buffer in outs:
        alone = _outputs(begin, index + 1, _zeros_in(name, buffer))
        if any(once[key].differs(alone[key]) for key in once if key[:2] == unequal[:2]):
            raise WorkloadError(
                f"stage {name!r} reads buffer {buffer!r}, which it annotates Out, before it writes it"
                f"{line_reading(stage.stage.function, buffer)}",
                next_step=f"Annotate it {buffer}: InOut if it needs the old contents, or write it first.",
            )


def _zeros(_: Output, size: int) -> Array:
    return np.zeros(size, np.uint8)


def _zeros_in(stage: str, buffer: str) -> Poison:
    return lambda output, size: (_zeros if output[1:] == (stage, buffer) else noise)(output, size)


def _outputs(begin: Begin, frames: int, poison: Poison) -> Mapping[Output, Written]:
    outputs: dict[Output, Written] = {}
    with begin() as run:
        run.loop.run_setup()
        for index in range(frames):
            run.inspector.checked_frame(run.loop, index, poison, outputs)
    return outputs


def state_of(folder: Path) -> dict[str, bytes]:
    """A digest of each global of the modules in a folder, of their functions' and classes' attributes too."""
    digests: dict[str, bytes] = {}
    for module in neighbours(folder):
        for name, value in list(vars(module).items()):
            if name.startswith("__") or isinstance(value, ModuleType):
                continue
            value = value.function if isinstance(value, Definition) else value
            if callable(value) and hasattr(value, "__dict__"):
                own = {k: v for k, v in list(vars(value).items()) if k[:2] != "__" and not callable(v)}
                digests |= {f"{name}.{key}": _digest(each) for key, each in own.items()}
            else:
                digests[name] = _digest(value)
    return digests


def neighbours(folder: Path) -> list[ModuleType]:
    files = [(each, str(getattr(each, "__file__", None) or "")) for each in list(sys.modules.values())]
    return [each for each, file in files if file.endswith(".py") and Path(file).parent == folder]


def _digest(value: Any) -> bytes:
    """Its contents; what cannot be pickled is taken for unchanged."""
    try:
        return zlib.crc32(pickle.dumps(value)).to_bytes(4, "big")
    except Exception:
        return b""
