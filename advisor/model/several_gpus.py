"""One steady frame on several GPUs: each GPU's copies and kernels on a stream of its own, beside the host.

The plan says what waits for what: `synchronize` holds the host until a GPU is done, `order` one GPU's stream
until another's has come to a `mark`. What nothing orders overlaps. The frame's time is its longest path,
whose parts add up to it, in every draw for itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from advisor.model.context import Context
from advisor.model.machines import Machine
from advisor.model.stages import asking_seconds, blocks
from advisor.model.steady_frame import Timed, label
from advisor.model.terms import Values, constant
from advisor.profiles.schema import WorkloadRecord
from advisor.strategies.registry import Strategy
from advisor.strategies.schedule import Step

_SEVERAL = re.compile(r"^\d+x")
"""Stands before the name of a device of which there are several in one machine."""
_QUEUED = ("device", "to-device", "to-host", "to-peer")
"""Steps that go onto a GPU's stream; everything else keeps the host busy."""


def unknown(workload: WorkloadRecord, machine: Machine) -> str | None:
    """Why nothing can be predicted of so many GPUs, or None."""
    entry, wanted = machine.entry, workload.gpus
    if entry.gpus > 1 and machine.shares_memory:
        return f"{entry.name}: a board whose CPU and GPU share one memory, as a Jetson, has one GPU"
    if wanted <= entry.gpus:
        return None
    why = f"the workload runs on {wanted} GPUs, and"
    if machine.shares_memory:
        return f"{why} {entry.name} has one"
    name = _SEVERAL.sub("", entry.origin)
    way = f"set gpus = {wanted} in its file" if name.endswith(".toml") else f"use --target {wanted}x{name}"
    return f"{why} the target {entry.name} {'is one GPU' if entry.gpus == 1 else f'has {entry.gpus}'}: {way}"


def unknown_strategy(strategy: Strategy, workload: WorkloadRecord, machine: Machine) -> str | None:
    """Why the strategy cannot be predicted on these GPUs, or None; one GPU is no matter of this module."""
    if workload.gpus == 1:
        return None
    placed = [placement.own for placement in strategy.placements(workload).values()]
    if any(placement.managed for placement in placed):
        return "how managed memory moves between several GPUs is not known"
    if any(placement.between_gpus for placement in placed) and not machine.has("peer_bytes_per_second"):
        return f"how fast {machine.entry.name} copies from GPU to GPU is not known (peer_bytes_per_second)"
    return None


@dataclass(frozen=True)
class Reached:
    """A moment of a frame: the seconds by part on the longest path that leads to it."""

    parts: Mapping[str, Values] = field(default_factory=dict)

    @property
    def seconds(self) -> Values:
        return sum(self.parts.values(), constant(0.0))

    def plus(self, part: str, seconds: Values) -> Reached:
        return Reached({**self.parts, part: self.parts.get(part, 0.0) + seconds})


def latest(*moments: Reached) -> Reached:
    """The last of them, in every draw."""
    last = moments[0]
    for moment in moments[1:]:
        if moment.parts and moment is not last:
            one, other, later = last.parts, moment.parts, moment.seconds > last.seconds
            names = dict.fromkeys((*one, *other))
            last = Reached({n: np.where(later, other.get(n, 0.0), one.get(n, 0.0)) for n in names})
    return last


def frame_on_several(at: Context, period: Sequence[Sequence[Timed]]) -> dict[str, Values]:
    """Seconds by part of a frame, the mean of a period's."""
    totals: dict[str, Values] = defaultdict(lambda: constant(0.0))
    for steps in period:
        for part, seconds in _Walk(at).through(steps).parts.items():
            totals[part] = totals[part] + seconds / len(period)
    return dict(totals)


@dataclass(frozen=True)
class _Busy:
    """A GPU's link in use, in seconds from the frame's begin."""

    gpu: int
    ways: frozenset[str]
    begin: Values
    end: Values


@dataclass
class _Walk:
    """Follows the host, each GPU's stream and, where GPUs share it, the link's two directions."""

    at: Context
    host: Reached = Reached()
    streams: defaultdict[int, Reached] = field(default_factory=lambda: defaultdict(Reached))
    link: defaultdict[str, Reached] = field(default_factory=lambda: defaultdict(Reached))
    marks: dict[str, Reached] = field(default_factory=dict)
    busy: list[_Busy] = field(default_factory=list)

    def through(self, steps: Sequence[Timed]) -> Reached:
        """The end of the frame, for which the host waits for all GPUs."""
        for step, seconds in steps:
            self._take(step, seconds * step.times(self.at.iterations))
        return latest(self.host, *self.streams.values())

    def _take(self, step: Step, seconds: Values) -> None:
        stream = self.streams[step.gpu]
        if step.action == "mark":
            self.marks[step.name] = stream
        elif step.action == "order":
            self.streams[step.gpu] = latest(stream, self.marks[step.name])
        elif step.action in _QUEUED:
            self._queue(step, seconds)
        else:
            waited = latest(self.host, stream) if step.action == "synchronize" else self.host
            self.host = waited.plus(label(step), seconds)

    def _queue(self, step: Step, seconds: Values) -> None:
        """The step begins once the host has asked for it and what is before it on its stream is done."""
        lanes = self._ways(step) if self.at.machine.entry.gpus_share_link else ()  # of one link for all GPUs
        begin = latest(self.host, self.streams[step.gpu], *(self.link[lane] for lane in lanes))
        end = begin.plus(label(step), self._beside_others(step, begin.seconds, seconds))
        self.streams[step.gpu] = end
        self.link.update(dict.fromkeys(lanes, end))
        if blocks(self.at, step):
            self.host = end
        else:
            self.host = self.host.plus(label(step), np.minimum(asking_seconds(self.at, step), seconds))

    def _beside_others(self, step: Step, begin: Values, seconds: Values) -> Values:
        """The step's seconds while links of other GPUs are busy. A copy that began before keeps its time: of
        two that overlap the later one is on the longest path."""
        ways = self._ways(step)
        if not ways or self.at.machine.entry.gpus_share_link:
            return seconds
        lost: dict[int, Values] = defaultdict(lambda: constant(0.0))
        for other in self.busy:
            if other.gpu != step.gpu:
                both = np.minimum(begin + seconds, other.end) - np.maximum(begin, other.begin)
                name = "links_share" if len(ways | other.ways) == 1 else "links_both_ways_share"
                lost[other.gpu] += np.maximum(both, 0.0) * (1 / self.at.machine.model(name) - 1)
        longer = seconds + reduce(np.maximum, lost.values(), constant(0.0))
        self.busy.append(_Busy(step.gpu, ways, begin, begin + longer))
        return longer

    def _ways(self, step: Step) -> frozenset[str]:
        """The directions of its GPU's link that the step keeps busy."""
        if step.action in ("to-device", "to-host"):
            return frozenset((step.action,))
        if step.action != "device":
            return frozenset()
        linked = [t for t in self.at.traffic(step.name) if self.at.path(t.buffer) == "link"]
        read, written = any(t.bytes_read for t in linked), any(t.bytes_written for t in linked)
        return frozenset(["to-device"] * read + ["to-host"] * written)
