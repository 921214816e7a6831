"""The reference run: the results that all strategies must give, and whether the workload is what it says.

The workload runs twice from the same start. The first run's results are kept frame by frame. The second is
checked: what stages say they overwrite is filled with noise before. Where its results are others, the
workload goes by chance, or a stage reads what it says it overwrites; more runs from that start tell which.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from advisor.errors import WorkloadError
from advisor.measure.first_frames import first_frames
from advisor.measure.jobs import Job, ReferenceRun
from advisor.measure.kept_results import KeptResults, Repeated
from advisor.measure.sampling import Clock
from advisor.measure.stand import Stand
from advisor.measure.tasks import comparing_seconds, require_state, wrong_results
from advisor.measure.verification import LOOKS, Output, Poison, Written, noise
from advisor.strategies.backend import Array, Backend
from advisor.workloads.reads import line_reading

Begin = Callable[[], AbstractContextManager[Stand]]
"""The workload loaded afresh, on its buffers."""


def reference(job: Job, backend: Backend, begin: Begin, clock: Clock = time.perf_counter) -> ReferenceRun:
    """Keeps the results that all strategies must give, and checks the annotations.

    Raises `WorkloadError` where those do not hold, and where the user's check refuses the results.
    """
    kept = KeptResults(Path(job.reference))
    seconds = comparing_seconds(job)
    frames, wrong = _keep(begin, kept, backend, seconds, Path(job.file))
    unlike, unwritten = _checked(begin, kept, frames, clock, seconds)
    if unlike or unwritten:
        _require_unread(begin, min(max([1, *unlike.values()]) + 1, LOOKS))
    for error in filter(None, (unwritten, wrong)):  # a forgotten output makes results wrong
        raise error
    kept.close(Repeated(frames=frames, unlike=unlike))
    return ReferenceRun(unlike=unlike)


def _keep(
    begin: Begin, kept: KeptResults, backend: Backend, seconds: float, path: Path
) -> tuple[int, WorkloadError | None]:
    """The frames whose results were kept, and what the user's check says of the last of them."""
    with begin() as run:
        results = run.inspector.results

        def look(index: int, alone: bool) -> None:
            require_state(backend)  # what ran elsewhere may look like an output that was forgotten
            kept.keep(index, results(index, alone=alone))

        frames = first_frames(run.serial, look, seconds=seconds).count
        return frames, wrong_results(run.inspector, path, frames - 1)


def _checked(
    begin: Begin, kept: KeptResults, frames: int, clock: Clock, seconds: float
) -> tuple[dict[str, int], WorkloadError | None]:
    """The second run: for each buffer with other contents than in the first, since which frame, and an output
    that looks unwritten."""
    unlike: dict[str, int] = {}
    with begin() as run:
        run.serial.run_setup()
        inspector, end = run.inspector, clock() + seconds

        def look(index: int) -> bool:
            if index < frames:
                for name in kept.differences(index, inspector.results(index), inspector.lengths()):
                    unlike.setdefault(name, index)
            return index + 1 < frames and clock() < end

        return unlike, inspector.check_annotations(run.serial, look)


def _require_unread(begin: Begin, frames: int) -> None:
    """Raises `WorkloadError` for a stage whose outputs follow what its `Out` buffers held before."""
    once, again = (_outputs(begin, frames, noise) for _ in range(2))
    zeros = _outputs(begin, frames, lambda *output: np.zeros(output[-1], np.uint8))
    others = (key for key, made in once.items() if made.differs(zeros[key]) or made.differs(again[key]))
    found = next(others, None)
    if found is None or once[found].differs(again[found]):
        return  # by chance
    index, name, _ = found
    with begin() as run:
        stage = next(stage for stage in run.bound.frame if stage.name == name)
    outs = [buffer for buffer, mode in stage.access.items() if mode == "out"]
    for buffer in outs:
        alone = _outputs(begin, index + 1, _zeros_in(name, buffer))
        if len(outs) == 1 or any(once[key].differs(alone[key]) for key in once if key[:2] == found[:2]):
            raise WorkloadError(
                f"stage {name!r} reads buffer {buffer!r}, which it annotates Out, before it writes it"
                f"{line_reading(stage.stage.function, buffer)}",
                next_step=f"Annotate it {buffer}: InOut where it needs what was there, or write it first.",
            )


def _zeros_in(stage: str, buffer: str) -> Poison:
    """Noise everywhere but in that output."""

    def fill(filled: str, output: str, frame: int, size: int) -> Array:
        here = (filled, output) == (stage, buffer)
        return np.zeros(size, np.uint8) if here else noise(filled, output, frame, size)

    return fill


def _outputs(begin: Begin, frames: int, poison: Poison) -> Mapping[Output, Written]:
    """What stages wrote in the first frames, in order, their outputs filled like that before."""
    outputs: dict[Output, Written] = {}
    with begin() as run:
        run.serial.run_setup()
        for index in range(frames):
            run.inspector.checked_frame(run.serial, index, poison, outputs)
    return outputs
