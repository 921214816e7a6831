"""Loops of a frame that the host ends: what holds before and after any number of their iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Protocol, TypeAlias, TypeVar

from advisor.profiles.schema import Loop
from advisor.strategies.schedule import Place, Step, gpu_of

Places: TypeAlias = dict[str, set[Place]]
Pending: TypeAlias = dict[str, set[int]]
"""Buffers, and the GPUs whose streams are at work on their host memory."""
State: TypeAlias = tuple[Places, Places, Pending, Pending, set[int], Places, Places]
"""Where buffers are current, in our own memory and in foreign memory; which are being read and written;
the GPUs with kernels under way; where each was written last; and the lengths that the host has read."""


def merged(one: State, other: State) -> State:
    """What holds after either: the sides that are current in both, and all that may be under way."""
    places = [
        {name: (before.get(name, set()) & sides) or sides for name, sides in after.items()}
        for before, after in zip(one[:2], other[:2], strict=True)
    ]
    moving = strayed(one, other)
    coming = {name: {gpu_of(to)} for name, to in moving if to != "host"}
    leaving = {name: {0} for name, to in moving if to == "host"}
    reading, writing = _either(one[2], other[2], coming), _either(one[3], other[3], leaving)
    told = {name: sides for name, sides in other[6].items() if name in one[6]}
    under_way = one[4].union(other[4], *coming.values(), *leaving.values())
    return places[0], places[1], reading, writing, under_way, other[5], told


def _either(*pending: Pending) -> Pending:
    found: Pending = {}
    for each in pending:
        for name, gpus in each.items():
            found[name] = found.get(name, set()) | gpus
    return found


def add(pending: Pending, name: str, gpu: int) -> None:
    """Records that this GPU's stream also uses the buffer's host memory."""
    pending[name] = pending.get(name, set()) | {gpu}


def migration(name: str, to: Place) -> Step:
    return Step("to-host", name) if to == "host" else Step("to-device", name, gpu=gpu_of(to))


def strayed(one: State, other: State) -> list[tuple[str, Place]]:
    """Memory that migrates and lies elsewhere after one than after the other: it is moved to that place."""
    return [
        (name, "host" if "host" in places else min(places))
        for name, places in other[0].items()
        if not places & one[0].get(name, set())
    ]


class InLoop(Protocol):
    """What stands in a frame, or in a loop of it."""

    @property
    def loop(self) -> Loop | None:
        """The loop."""

    @property
    def again(self) -> bool:
        """It is of the iterations after the first."""


Part = TypeVar("Part", bound=InLoop)


def parts(steps: Sequence[Part]) -> Iterator[tuple[Loop | None, bool, list[Part]]]:
    """The steps in a row that are done equally often: the loop, whether again, and they."""
    for (loop, again), row in groupby(steps, key=lambda step: (step.loop, step.again)):
        yield loop, again, list(row)
