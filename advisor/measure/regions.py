"""Parts of buffers: the regions that stages may touch, and the rows that the buffer with their length says
are valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from advisor.errors import WorkloadError
from advisor.strategies.backend import Array
from advisor.strategies.parts import Region
from advisor.workloads.binding import BoundWorkload
from advisor.workloads.stage_code import located


class RegionViolation(WorkloadError):
    """A stage touched elements outside the region that it annotates. `line`: file and line, where known."""

    def __init__(
        self, stage: str, buffer: str, what: Literal["reads", "writes"], part: Region, line: str | None = None
    ) -> None:
        super().__init__(
            f"stage {stage!r} {what} elements of buffer {buffer!r} outside the region that it declares, "
            f"{part}{f' ({line})' if line else ''}",
            next_step=f"Widen the slice, or remove it to annotate all of {buffer!r}.",
        )
        self.access, self.line = (stage, buffer, what, part), line


def extent(array: Array) -> tuple[int, int]:
    """First address and one past the last of the memory an array spans."""
    low: int = array.__array_interface__["data"][0]
    high = low
    for length, stride in zip(array.shape, array.strides, strict=True):
        if length == 0:
            return low, low
        low += min(0, (length - 1) * stride)
        high += max(0, (length - 1) * stride)
    return low, high + int(array.itemsize)


class Watched:
    """The region of a buffer that a stage may touch, as a mask over the buffer's memory."""

    def __init__(self, region: Region, buffer: Array) -> None:
        self.region = region
        self._start = int(buffer.ctypes.data)
        self._itemsize = buffer.itemsize
        self._inside = np.zeros(region.shape, bool)
        self._inside[region.index] = True

    def owns(self, array: Array) -> bool:
        """Whether it is a view of this very memory: a buffer may be in two."""
        low, high = extent(array)
        return self._start <= low and high <= self._start + self._inside.size * self._itemsize

    def holds(self, array: Array, key: Any = None) -> bool:
        """Whether what the key selects of that view of the buffer, or all of it, lies in the region.

        Views of another element size are not judged.
        """
        if array.itemsize != self._itemsize or not array.size:
            return True
        first = (int(array.ctypes.data) - self._start) // self._itemsize
        strides = tuple(stride // self._itemsize for stride in array.strides)
        inside = np.lib.stride_tricks.as_strided(self._inside.reshape(-1)[first:], array.shape, strides)
        return bool(np.all(inside if key is None else inside[key]))


Regions = Mapping[tuple[str, str], Region]
"""By stage and buffer."""


@dataclass(frozen=True)
class Most:
    """The smallest buffer of a length, its first dimension, and the stages that write the length."""

    buffer: str
    rows: int
    writers: str


MostRows = Mapping[str, Most]
"""By length."""


def most_rows(bound: BoundWorkload) -> MostRows:
    """The upper limit of each length of a workload."""
    most_of: dict[str, Most] = {}
    for name, buffer in bound.workload.buffers.items():
        rows, length = buffer.dimensions[0], buffer.valid
        if length is not None and (length not in most_of or rows < most_of[length].rows):
            written = (stage for stage in bound.stages if length in stage.use.writes())
            writers = (located(stage.name, stage.stage.function) for stage in written)
            most_of[length] = Most(name, rows, " or ".join(writers))
    return most_of


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
