"""Parts of buffers: so much of the first dimension as a length says, or a region with constant bounds.

What moves is the part that a stage touches. In memory a part is one span of bytes, or rows of a pitch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise, product
from typing import Any, TypeAlias, TypeVar

import numpy as np

from advisor.profiles.schema import AccessMode

Bounds: TypeAlias = tuple[tuple[int, int], ...]
"""Where a part starts and stops in each dimension; those that it leaves out are whole."""
WHOLE: Bounds = ()
NAME_THE_LENGTH = (
    "If the number of rows varies from frame to frame, name the buffer that holds it: "
    'Buffer(..., valid="count").'
)
"""A way out of errors about outputs that are written in part."""


@dataclass(frozen=True)
class Region:
    """A box of a buffer of that shape: where it starts and stops in each dimension."""

    bounds: Bounds
    shape: tuple[int, ...]

    @property
    def index(self) -> tuple[slice, ...]:
        return index_of(self.bounds)

    @property
    def share(self) -> float:
        return math.prod(stop - start for start, stop in self.bounds) / math.prod(self.shape)

    @property
    def contiguous(self) -> Region:
        """The least region around it that is contiguous."""
        pairs = list(zip(self.bounds, self.shape, strict=True))
        cut = next((i for i, ((start, stop), _) in enumerate(pairs) if stop - start > 1), len(pairs))
        rest = tuple((0, length) for length in self.shape[cut + 1 :])
        return Region((*self.bounds[: cut + 1], *rest), self.shape)

    def __str__(self) -> str:
        return f"[{', '.join(f'{start}:{stop}' for start, stop in self.bounds)}]"

    def spans(self, itemsize: int) -> tuple[Span, ...]:
        return spans(self.bounds, self.shape, itemsize)

    def covers(self, other: Region) -> bool:
        pairs = zip(self.bounds, other.bounds, strict=True)
        return all(start <= first and last <= stop for (start, stop), (first, last) in pairs)


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
        return self.offset + (self.height - 1) * self.pitch + self.width


def region_of(key: Any, shape: tuple[int, ...]) -> Region:
    """The region that integers, slices and `...` select in that shape. Raises `ValueError` for others."""
    keys = list(key if isinstance(key, tuple) else (key,))
    text = f"[{', '.join(map(_written, keys))}]"
    missing = len(shape) - sum(part is not ... for part in keys)
    if keys.count(...) > 1:
        raise ValueError(f"{text} has more than one `...`")
    if missing < 0:
        raise ValueError(f"{text} has more indices than the {len(shape)} dimensions of the buffer")
    place = keys.index(...) if ... in keys else len(keys)
    keys[place : place + 1] = [slice(None)] * missing
    bounds = []
    for part, length in zip(keys, shape, strict=True):
        whole = isinstance(part, (int, np.integer)) and not isinstance(part, bool)
        if isinstance(part, slice) and part.step in (None, 1):
            bounds.append(part.indices(length)[:2])
        elif whole and -length <= part < length:
            bounds.append((int(part) % length, int(part) % length + 1))
        else:
            wrong = "is out of range for" if whole else "is neither an integer nor a slice of"
            wrong = "has a step, which is not supported, in" if isinstance(part, slice) else wrong
            raise ValueError(f"{text}: {_written(part)} {wrong} a dimension of length {length}")
    if any(stop <= start for start, stop in bounds):
        raise ValueError(f"{text} selects nothing of the shape {shape}")
    return Region(tuple(bounds), shape)


def _written(part: Any) -> str:
    if isinstance(part, slice):
        ends = (part.start, part.stop) if part.step is None else (part.start, part.stop, part.step)
        return ":".join("" if end is None else str(end) for end in ends)
    return "..." if part is ... else repr(part)


def cells(regions: Iterable[Region]) -> tuple[Region, ...]:
    """The buffer of these regions, cut wherever one begins or ends: each holds all of a cell or nothing."""
    boxes = tuple(regions)
    shape = boxes[0].shape
    cuts = [sorted({0, length, *chain(*(b.bounds[i] for b in boxes))}) for i, length in enumerate(shape)]
    return tuple(Region(bounds, shape) for bounds in product(*(tuple(pairwise(cut)) for cut in cuts)))


def joined(regions: Iterable[Region]) -> tuple[Region, ...]:
    """The boxes, with neighbours joined wherever they fill one box."""
    boxes = list(regions)
    for axis in reversed(range(len(boxes[0].shape))):
        rows: dict[Any, list[Region]] = {}
        for box in boxes:
            rows.setdefault(box.bounds[:axis] + box.bounds[axis + 1 :], []).append(box)
        boxes = []
        for row in rows.values():
            begun, *others = sorted(row, key=lambda box: box.bounds[axis])
            for box in others:
                (start, stop), (first, last) = begun.bounds[axis], box.bounds[axis]
                if first == stop:
                    bounds = (*begun.bounds[:axis], (start, last), *begun.bounds[axis + 1 :])
                    begun = Region(bounds, begun.shape)
                else:
                    boxes.append(begun)
                    begun = box
            boxes.append(begun)
    return tuple(boxes)


def index_of(bounds: Bounds) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in bounds)


def overlapping(one: Bounds, other: Bounds) -> bool:
    return all(a < d and c < b for (a, b), (c, d) in zip(one, other, strict=False))


@lru_cache(maxsize=1024)
def spans(part: Bounds, shape: tuple[int, ...], itemsize: int) -> tuple[Span, ...]:
    """Where that part of an array in C order lies: one span wherever it is contiguous or rows of a pitch.

    Kept, since it is asked for whenever the part moves.
    """
    bounds = [*part, *((0, length) for length in shape[len(part) :])]
    if any(stop <= start for start, stop in bounds):
        return ()
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
    every = product(*(range(*bound) for bound in bounds[: max(outer, 0)]))
    offsets = (sum(p * stride for p, stride in zip(places, strides, strict=False)) for places in every)
    return tuple(Span(starts + offset, width, pitch, height) for offset in offsets)


def _last_cut(bounds: list[tuple[int, int]], shape: tuple[int, ...]) -> int:
    """The last dimension of which not all is taken; the first one where all of it is."""
    return max((i for i, bound in enumerate(bounds) if bound != (0, shape[i])), default=0)


Value = TypeVar("Value")


@dataclass(frozen=True)
class Cells:
    """For each buffer of which stages touch regions, its cells by name: `state[0]`, `state[1]` and so on."""

    of: Mapping[str, Mapping[str, Region]]

    @classmethod
    def among(cls, parts: Iterable[Mapping[str, Part]]) -> Cells:
        regions: dict[str, list[Region]] = {}
        for each in parts:
            for name, part in each.items():
                if isinstance(part, Region):
                    regions.setdefault(name, []).append(part)
        return cls(
            {
                name: {f"{name}[{number}]": cell for number, cell in enumerate(cells(boxes))}
                for name, boxes in regions.items()
            }
        )

    def each(self, table: Mapping[str, Value]) -> dict[str, Value]:
        return {cell: value for name, value in table.items() for cell in self.of.get(name, (name,))}

    def touched(self, access: Mapping[str, AccessMode], parts: Mapping[str, Part]) -> dict[str, AccessMode]:
        """The stage's access to each cell, where it touches these parts of buffers."""
        regions = {name: part for name, part in parts.items() if isinstance(part, Region)}
        return {
            cell: mode
            for name, mode in access.items()
            for cell in self.of.get(name, (name,))
            if name not in regions or regions[name].covers(self.of[name][cell])
        }

    def boxes(self, names: Iterable[str]) -> Iterator[Region | None]:
        """The boxes of their buffer that these cells fill; None where they are all of it."""
        named = list(names)
        table = self.of[buffer_of(named[0])]
        for box in joined(table[name] for name in named):
            yield None if box.share == 1 else box


def buffer_of(name: str) -> str:
    return name.partition("[")[0]
