"""The frame loop over two sets of buffers: frame i+1 is produced and uploaded while frame i computes.

A frame is cut in three: `head`, its host stages up to the first copy; `body`, copies and kernels up to the
first wait; `tail`, the rest. Each turn runs the head of the next frame, queues its body, and then waits for
this frame's body and runs its tail. A set is used again only after its last frame has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from advisor.backends.base import Backend
from advisor.binding import BoundWorkload
from advisor.frames import Action, FrameLoop
from advisor.placements.base import Placed
from advisor.ranges import Ranges
from advisor.schedule import Plan, StageUse

SETS = 2


def obstacle(setup: Sequence[StageUse], frame: Sequence[StageUse]) -> str | None:
    """Why the frames of a workload cannot overlap, or None."""
    if not any(stage.side == "device" for stage in frame):
        return "no stage runs on the device"
    doubled = set(per_frame(frame))
    written = {name for stage in frame for name in stage.writes()}
    for stage in frame:
        for name in stage.access:
            if stage.side == "host" and name in written and name not in doubled:
                return (
                    f"host stage {stage.name!r} uses buffer {name!r}, which carries data from frame to frame, "
                    "so that a frame cannot begin before the last one ended"
                )
    del setup
    return None


def per_frame(frame: Sequence[StageUse]) -> list[str]:
    """Buffers that each frame overwrites before it reads them: those of which there can be two."""
    first: dict[str, str] = {}
    for stage in frame:
        for name, mode in stage.access.items():
            first.setdefault(name, mode)
    return [name for name, mode in first.items() if mode == "out"]


class PipelinedLoop:
    """Runs frames as `FrameLoop` does, two at a time. `sets` holds the placed buffers of either set."""

    def __init__(
        self,
        bound: BoundWorkload,
        plan: Plan,
        sets: Sequence[Mapping[str, Placed]],
        backend: Backend,
        *,
        seed: int,
        ranges: Ranges,
    ) -> None:
        self._backend = backend
        self._uploads, self._downloads = backend.new_stream(), backend.new_stream()
        self._loops = [
            FrameLoop(bound, plan, placed, backend, seed=seed, ranges=ranges) for placed in sets
        ]
        self._parts = [_cut(loop.steady) for loop in self._loops]
        self._movers = [_movers(plan, placed) for placed in sets]
        self._started: dict[int, float] = {}
        self._ends: dict[int, Any] = {}
        self._kernels_late = any(action.label.startswith("device:") for action in self._parts[0][2])
        self.latencies: list[float] = []
        """Seconds from the begin of a frame's head to the end of its tail."""
