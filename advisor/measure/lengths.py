"""How much of buffers is valid: what the buffer that holds their length says, checked."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.errors import WorkloadError
from advisor.strategies.backend import Array
from advisor.workloads.binding import BoundWorkload

MostRows = Mapping[str, tuple[str, int]]
"""By length, the smallest buffer whose length it is, and its first dimension."""


def most_rows(bound: BoundWorkload) -> MostRows:
    """What each length of a workload may be at most."""
    found: dict[str, tuple[str, int]] = {}
    for name, buffer in bound.workload.buffers.items():
        rows = buffer.dimensions[0]
        if buffer.valid is not None and rows < found.get(buffer.valid, ("", rows + 1))[1]:
            found[buffer.valid] = name, rows
    return found


def valid_rows(length: str, held: Array, most: tuple[str, int], frame: int) -> int:
    """The length that the array holds. Raises `WorkloadError` where the buffer has not so many rows."""
    (buffer, dimension), rows = most, int(held.flat[0])
    if not 0 <= rows <= dimension:
        raise WorkloadError(
            f"buffer {length!r} holds {rows} in frame {frame}; as the valid length of {buffer!r} it must be "
            f"0 to {dimension}",
            next_step=f"Set it to a value from 0 to {dimension} before the stage that needs {buffer!r}.",
        )
    return rows
