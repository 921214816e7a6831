"""How much of buffers is valid: what the buffer that holds their length says, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.errors import WorkloadError
from advisor.strategies.backend import Array
from advisor.workloads.binding import BoundWorkload
from advisor.workloads.reads import located


@dataclass(frozen=True)
class Most:
    """The smallest buffer of a length, its first dimension, and the stages that write the length."""

    buffer: str
    rows: int
    writers: str


MostRows = Mapping[str, Most]
"""By length."""


def most_rows(bound: BoundWorkload) -> MostRows:
    """What each length of a workload may be at most."""
    found: dict[str, Most] = {}
    for name, buffer in bound.workload.buffers.items():
        rows, length = buffer.dimensions[0], buffer.valid
        if length is not None and (length not in found or rows < found[length].rows):
            found[length] = Most(name, rows, _writers(bound, length))
    return found


def _writers(bound: BoundWorkload, length: str) -> str:
    named = (
        located(stage.name, stage.stage.function) for stage in bound.stages if length in stage.use.writes()
    )
    return " or ".join(named)


def valid_rows(length: str, held: Array, most: Most, frame: int) -> int:
    """The length that the array holds. Raises `WorkloadError` where the buffer has not so many rows."""
    rows, limits = int(held.flat[0]), f"0 to {most.rows}"
    if not 0 <= rows <= most.rows:
        raise WorkloadError(
            f"buffer {length!r} holds {rows} in frame {frame}; as the valid length of {most.buffer!r} it "
            f"must be {limits}",
            next_step=f"Set it to a value from {limits} where it is written, in stage {most.writers}.",
        )
    return rows
