"""The strategies of strategies.toml: each places every shared buffer and names the change it costs.

CONTRIBUTING.md has the steps to add one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from advisor.errors import UsageError, nearest
from advisor.profiles.files import read_toml
from advisor.profiles.schema import BufferRecord, Device, Side, WorkloadRecord
from advisor.strategies import kinds
from advisor.strategies.kinds import DEVICE_ONLY, HOST_ONLY, External
from advisor.strategies.placement import Placement
from advisor.strategies.planning import plan_of
from advisor.strategies.schedule import Traits, obstacle, stage_uses
from advisor.texts import from_markdown

AnyStrategy = TypeVar("AnyStrategy")
SearchedFor = Literal["cards", "one-memory", "external", "between-gpus"]
"""Buffers that the search for a mix tries a placement for: any on a card, any where CPU and GPU share one
DRAM, external ones, and those that one GPU writes and another reads."""


@dataclass(frozen=True)
class Strategy:
    name: str
    summary: str
    placement: Placement
    code_change: int
    """A rank: 0 is none."""
    description: str
    searched: tuple[SearchedFor, ...] = ()
    """Where the search for a mix tries its placement; empty for a variant of one that is tried."""
    pipelined: bool = False
    """Two sets of buffers, so that frames overlap."""
    several_gpus: bool = False
    """Only for workloads on several GPUs; reports of others do not mention it."""

    def unavailable(self, device: Device) -> str | None:
        return self.placement.unavailable(device)

    def unsuited(self, workload: WorkloadRecord) -> str | None:
        if self.several_gpus and workload.gpus == 1:
            return "the workload runs on one GPU"
        if self.several_gpus and not crossing(workload):
            return "no GPU reads what another one writes, so `peer` is the same as `pinned`"
        return obstacle(stage_uses(workload, "frame")) if self.pipelined else None

    def placements(self, workload: WorkloadRecord) -> dict[str, Placement]:
        """Where each buffer goes; one that a single side uses stays on that side."""
        used = sides(workload)
        return {b.name: self._place(b, workload, used[b.name]) for b in workload.buffers}

    def _place(self, buffer: BufferRecord, workload: WorkloadRecord, sides: set[Side]) -> Placement:
        if sides == {"device"} and len(gpus_of(buffer, workload)) == 1:
            return DEVICE_ONLY
        if sides <= {"host"}:
            return HOST_ONLY
        placement = self._chosen(buffer).adapted(buffer, workload)
        if sides == {"device"}:
            return replace(DEVICE_ONLY, between_gpus=True) if placement.between_gpus else placement
        if buffer.external and not placement.takes_foreign_memory:
            return External.before(placement)
        return placement

    def _chosen(self, buffer: BufferRecord) -> Placement:
        """Before it is adapted to the buffer."""
        del buffer
        return self.placement


def sides(workload: WorkloadRecord) -> dict[str, set[Side]]:
    """By buffer the sides that use it, in set-up or in a frame: the host looks at one that ends a loop, and
    at the length of one that both sides use."""
    side = {stage.name: stage.side for stage in workload.stages}
    sides_of = {b.name: {side[name] for name in b.access if name in side} for b in workload.buffers}
    lengths = {b.valid for b in workload.buffers if len(sides_of[b.name]) == 2}
    for name in sides_of.keys() & (lengths | {loop.until for loop in workload.loops}):
        sides_of[name].add("host")
    return sides_of


def crossing(workload: WorkloadRecord) -> frozenset[str]:
    """The buffers of which some GPU reads what another one makes."""
    traits = dict.fromkeys((buffer.name for buffer in workload.buffers), Traits(moves="copies", peer=True))
    planned = plan_of(workload, traits)
    steps = (*planned.setup, *planned.first, *planned.steady)
    return frozenset(step.name for step in steps if step.action == "to-peer")


def gpus_of(buffer: BufferRecord, workload: WorkloadRecord) -> tuple[int, ...]:
    """The workload's GPUs whose stages use the buffer, in set-up or in a frame."""
    return tuple(sorted({s.gpu for s in workload.stages if s.side == "device" and s.name in buffer.access}))


def shared(workload: WorkloadRecord) -> list[BufferRecord]:
    used = sides(workload)
    return [buffer for buffer in workload.buffers if len(used[buffer.name]) == 2]


def to_place(workload: WorkloadRecord) -> list[BufferRecord]:
    """Buffers that there is more than one way to place: both sides use them, or several GPUs do."""
    used = sides(workload)
    return [b for b in workload.buffers if len(used[b.name]) == 2 or len(gpus_of(b, workload)) > 1]


BASELINE = "pageable"


def _strategies() -> Iterator[Strategy]:
    placements: dict[str, Placement] = {}
    for name, facts in read_toml(Path(__file__).with_name("strategies.toml")).items():
        placement = facts["placement"]
        if beside := placement.get("where_host_reads"):
            placement["where_host_reads"] = placements[beside]
        kind = getattr(kinds, placement.pop("class", "Placement"))
        placements[name] = kind(**_with_tuples(placement))
        yield Strategy(name, **_with_tuples(facts) | {"placement": placements[name]})


def _with_tuples(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}


STRATEGIES = tuple(_strategies())


def by_name(name: str) -> Strategy:
    """The strategy of that name. Raises `UsageError`, with the nearest names."""
    for strategy in STRATEGIES:
        if strategy.name == name:
            return strategy
    names = [strategy.name for strategy in STRATEGIES]
    step = f"Choose from {', '.join(names)} (see `advisor strategies`)."
    raise UsageError(f"there is no strategy {name!r}{nearest(name, names, 2)}", next_step=step)


def choose(names: Iterable[str]) -> tuple[Strategy, ...]:
    """The named strategies in the order of the table; all of them when none is named."""
    wanted = {by_name(name).name for name in names}
    return tuple(s for s in STRATEGIES if not wanted or s.name in wanted)


def concerning(strategies: Sequence[AnyStrategy], workload: WorkloadRecord) -> tuple[AnyStrategy, ...]:
    """The strategies that a profile of the workload lists: without a choice, none for several GPUs on one."""
    if workload.gpus > 1 or len(strategies) < len(STRATEGIES):
        return tuple(strategies)
    return tuple(s for s in strategies if not getattr(s, "several_gpus", False))


def describe() -> str:
    """All strategies as plain text: name, summary, and what each is good and bad for."""
    return from_markdown("\n\n".join(f"- {s.name}: {s.summary}. {s.description}" for s in STRATEGIES))
