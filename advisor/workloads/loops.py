"""`repeat`: a loop over stages, within a frame, that the host ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor.errors import WorkloadError
from advisor.profiles.row_figures import MOST_ITERATIONS
from advisor.workloads.definition import Repeat, Stage

_WRITE = 'Write repeat([device(step), host(check)], until="done", at_most=100), with a buffer "done".'


def repeat(stages: Sequence[Stage], *, until: str, at_most: int) -> Repeat:
    """A loop over stages, as an element of `frame`, that the host ends.

    until: the buffer whose first element, once it is not 0 (True) on the host after an iteration, ends it.
    Where a device stage wrote it, each iteration copies it to the host and waits. at_most: iterations after
    which the loop ends in any case, which is no error. Raises `WorkloadError` on parts that make no loop.
    """
    if not isinstance(stages, (list, tuple)) or not stages:
        raise WorkloadError(f"repeat was given {stages!r}; it must be a list of stages", next_step=_WRITE)
    for index, stage in enumerate(stages):
        if isinstance(stage, Repeat):
            raise WorkloadError(
                f"element {index} of a repeat is another repeat, and loops cannot be nested",
                next_step="Write the inner loop as a Python loop inside one stage.",
            )
        if not isinstance(stage, Stage):
            raise WorkloadError(
                f"element {index} of a repeat is {stage!r}, which is not a stage", next_step=_WRITE
            )
        if stage.every > 1:
            raise WorkloadError(
                f"stage {stage.name!r} has every={stage.every} and is in a repeat, whose stages run in every "
                "iteration of every frame",
                next_step="Omit every=, or list the stage in the frame outside of the repeat.",
            )
    if not isinstance(until, str):
        raise WorkloadError(f"repeat: until is {until!r}; it must be a buffer's name", next_step=_WRITE)
    counts = isinstance(at_most, (int, np.integer)) and not isinstance(at_most, bool)
    if not counts or not 1 <= at_most <= MOST_ITERATIONS:
        raise WorkloadError(
            f"repeat until {until!r}: at_most is {at_most!r}; it must be an integer from 1 to "
            f"{MOST_ITERATIONS}",
            next_step="It is the number of iterations after which your program gives up.",
        )
    return Repeat(tuple(stages), until, int(at_most))
