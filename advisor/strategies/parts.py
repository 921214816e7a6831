"""Parts of buffers: so much of the first dimension as a length says, or a region with constant bounds.

What moves is the part that a stage touches. In memory a part is one span of bytes, or rows of a pitch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

Index: TypeAlias = tuple[slice, ...]
"""What an array is indexed with; the dimensions that it leaves out are whole."""
WHOLE: Index = ()


@dataclass(frozen=True)
class Region:
    """A box of a buffer of that shape: where it starts and stops in each dimension."""

    bounds: tuple[tuple[int, int], ...]
    shape: tuple[int, ...]

    @property
    def index(self) -> Index:
        """The same as slices."""
        return tuple(slice(*bound) for bound in self.bounds)

    @property
    def share(self) -> float:
        """Of the buffer's elements."""
        return math.prod(stop - start for start, stop in self.bounds) / math.prod(self.shape)


Part: TypeAlias = "str | Region"
"""The name of the buffer that holds a length, or a region."""


@dataclass(frozen=True)
class Span:
    """Bytes of a buffer: `height` rows of `width`, each `pitch` after the one before, from `offset` on."""

    offset: int
    width: int
    pitch: int
    height: int = 1

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.offset + (self.height - 1) * self.pitch + self.width


def spans(index: Index, shape: tuple[int, ...], itemsize: int) -> Iterator[Span]:
    """Where that part of an array in C order lies: one span wherever it is contiguous or rows of a pitch."""
    bounds = [part.indices(length)[:2] for part, length in zip(index, shape, strict=False)]
    bounds += [(0, length) for length in shape[len(index) :]]
    if any(stop <= start for start, stop in bounds):
        return
    strides = [itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape))]
    inner, outer = _last_cut(bounds, shape), -1
    if inner > 0:
        outer = _last_cut(bounds[:inner], shape[:inner])
    pitch = strides[inner] * shape[inner]
    width = strides[inner] * (bounds[inner][1] - bounds[inner][0])
    height = 1 if inner == 0 else strides[outer] * (bounds[outer][1] - bounds[outer][0]) // pitch
    starts = sum(bounds[i][0] * strides[i] for i in {inner, max(outer, 0)})
    if width == pitch:
        width, height = width * height, 1
        pitch = width
    for places in product(*(range(*bound) for bound in bounds[: max(outer, 0)])):
        offset = sum(place * stride for place, stride in zip(places, strides, strict=False))
        yield Span(starts + offset, width, pitch, height)


def _last_cut(bounds: list[tuple[int, int]], shape: tuple[int, ...]) -> int:
    """The last dimension of which not all is taken; the first one where all of it is."""
    return max((i for i, bound in enumerate(bounds) if bound != (0, shape[i])), default=0)
