"""Buffers of which stages touch regions, as the schedule follows them: cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from advisor.profiles.schema import AccessMode
from advisor.strategies.parts import Part, Region, cells, joined

Value = TypeVar("Value")


@dataclass(frozen=True)
class Cells:
    """For each buffer of which stages touch regions, its cells by name: `state[0]`, `state[1]` and so on."""

    of: Mapping[str, Mapping[str, Region]]

    @classmethod
    def among(cls, parts: Iterable[Mapping[str, Part]]) -> Cells:
        """The cells of stages that touch these parts."""
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
        """The table with cells in the place of their buffer."""
        return {cell: value for name, value in table.items() for cell in self.of.get(name, (name,))}

    def touched(self, access: Mapping[str, AccessMode], parts: Mapping[str, Part]) -> dict[str, AccessMode]:
        """What a stage does to each cell, where it touches these parts of buffers."""
        regions = {name: part for name, part in parts.items() if isinstance(part, Region)}
        return {
            cell: mode
            for name, mode in access.items()
            for cell in self.of.get(name, (name,))
            if name not in regions or regions[name].covers(self.of[name][cell])
        }

    def boxes(self, names: Iterable[str]) -> Iterator[Region | None]:
        """What of their buffer these cells are, which it is all of; None where they are all of it."""
        named = list(names)
        table = self.of[buffer_of(named[0])]
        for box in joined(table[name] for name in named):
            yield None if box.share == 1 else box


def buffer_of(name: str) -> str:
    return name.partition("[")[0]
