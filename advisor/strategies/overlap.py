"""Can the frames of a workload overlap, and which of its buffers must there be two of?

Pure functions of the annotations, for the runner and for the model.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.strategies.schedule import StageUse


def obstacle(frame: Sequence[StageUse]) -> str | None:
    """Why a frame cannot begin before the last one has ended, or None."""
    if not any(stage.side == "device" for stage in frame):
        return "no stage runs on the device"
    renewed = set(renewed_each_frame(frame))
    written = {name for stage in frame for name in stage.writes()}
    for stage in frame:
        for name in stage.access:
            if stage.side == "host" and name in written and name not in renewed:
                return (
                    f"host stage {stage.name!r} uses buffer {name!r}, which carries data from frame to "
                    "frame, so that no frame can begin before the last one has ended"
                )
    return None


def renewed_each_frame(frame: Sequence[StageUse]) -> list[str]:
    """Buffers that each frame overwrites before it reads them."""
    first: dict[str, str] = {}
    for stage in frame:
        for name, mode in stage.access.items():
            first.setdefault(name, mode)
    return [name for name, mode in first.items() if mode == "out"]


def doubled(frame: Sequence[StageUse]) -> list[str]:
    """Buffers of which overlapping frames need two: renewed each frame, and touched by the host.

    What only kernels touch is safe alone: kernels of successive frames run in order.
    """
    on_host = {name for stage in frame if stage.side == "host" for name in stage.access}
    return [name for name in renewed_each_frame(frame) if name in on_host]
