"""The strategies, in the order they are shown: each places every shared buffer and names the change it costs.

To add one: write its placement in `advisor/placements/`, and list it here.
"""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from advisor.errors import UsageError
from advisor.profiles.schema import BufferRecord, Device, MemoryKind, WorkloadRecord
from advisor.strategies.overlap import obstacle
from advisor.strategies.placements.base import Placement
from advisor.strategies.placements.external import External
from advisor.strategies.placements.managed import Managed
from advisor.strategies.placements.managed_hinted import ManagedAdvised, ManagedPrefetch
from advisor.strategies.placements.one_sided import DeviceOnly, HostOnly
from advisor.strategies.placements.pageable import Pageable
from advisor.strategies.placements.pinned import Pinned
from advisor.strategies.placements.registered import Registered, ZeroCopyRegistered
from advisor.strategies.placements.staged import Staged
from advisor.strategies.placements.system import System
from advisor.strategies.placements.write_combined import WriteCombined, ZeroCopyWriteCombined
from advisor.strategies.placements.zero_copy import ZeroCopy
from advisor.strategies.schedule import Traits, stage_uses


@dataclass(frozen=True)
class Strategy:
    """A named way to place all buffers that both sides use."""

    name: str
    summary: str
    placement: Placement
    code_change: int
    """How much of the user's code changes, as a rank: 0 is none. Breaks ties between equal strategies."""
    pipelined: bool = False
    """Two sets of buffers, so that frames overlap."""

    def unavailable(self, device: Device) -> str | None:
        """Why it cannot be used on that device, or None."""
        return self.placement.unavailable(device)

    def unsuited(self, workload: WorkloadRecord) -> str | None:
        """Why the workload cannot be run under it, or None."""
        return obstacle(stage_uses(workload, "frame")) if self.pipelined else None

    def traits(self, device: Device) -> Traits:
        """What the schedule must know of a shared buffer under this strategy."""
        return self.placement.traits(device)

    @property
    def host_kind(self) -> MemoryKind:
        """The kind of memory host stages work on."""
        return self.placement.host_kind

    @property
    def device_kind(self) -> MemoryKind:
        """The kind of memory device stages work on."""
        return self.placement.device_kind

    def placements(self, workload: WorkloadRecord) -> dict[str, Placement]:
        """Where each buffer goes; one that a single side uses stays on that side."""
        return {buffer.name: self._place(buffer, workload) for buffer in workload.buffers}

    def _place(self, buffer: BufferRecord, workload: WorkloadRecord) -> Placement:
        sides = {stage.side for stage in workload.stages if stage.name in buffer.access}
        if sides == {"device"}:
            return DeviceOnly()
        if sides <= {"host"}:
            return HostOnly()
        placement = self.placement.adapted(buffer, workload)
        if buffer.external and not placement.takes_foreign_memory:
            return External(placement)
        return placement


BASELINE = "pageable"

STRATEGIES: tuple[Strategy, ...] = (
    Strategy(BASELINE, "ordinary memory, synchronous copies: the baseline", Pageable(), 0),
    Strategy("staged", "ordinary memory, copied through CuPy's pinned pool", Staged(), 0),
    Strategy("pinned", "page-locked memory, asynchronous copies", Pinned(), 2),
    Strategy("write-combined", "pinned, write-combined where the host only writes", WriteCombined(), 3),
    Strategy("registered", "ordinary memory, page-locked afterwards, asynchronous copies", Registered(), 2),
    Strategy("pinned-pipelined", "two sets of pinned buffers, frames overlap", Pinned(), 6, pipelined=True),
    Strategy("zero-copy", "page-locked memory that kernels use in place", ZeroCopy(), 3),
    Strategy("zero-copy-wc", "the same, write-combined where only written", ZeroCopyWriteCombined(), 4),
    Strategy("zero-copy-registered", "ordinary memory, registered, used in place", ZeroCopyRegistered(), 3),
    Strategy("managed", "one address for both sides, moved by the driver", Managed(), 1),
    Strategy("managed-prefetch", "the same, moved before it is needed", ManagedPrefetch(), 4),
    Strategy("managed-advised", "the same, with hints on its use", ManagedAdvised(), 5),
    Strategy("system", "ordinary memory that kernels reach by themselves", System(), 0),
)


def by_name(name: str, strategies: Sequence[Strategy] = STRATEGIES) -> Strategy:
    """The strategy of that name. Raises `UsageError`, with the nearest names."""
    for strategy in strategies:
        if strategy.name == name:
            return strategy
    names = [strategy.name for strategy in strategies]
    near = difflib.get_close_matches(name, names, n=2)
    raise UsageError(
        f"there is no strategy {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""),
        next_step=f"Choose from {', '.join(names)} (see `advisor strategies`).",
    )


def choose(names: Iterable[str]) -> tuple[Strategy, ...]:
    """The named strategies in the order of the table; all of them when none is named."""
    wanted = {by_name(name).name for name in names}
    return tuple(s for s in STRATEGIES if not wanted or s.name in wanted)


def describe() -> str:
    """All strategies as text of 80 columns: name, summary, and what it is good and bad for."""
    return "\n\n".join(
        f"{strategy.name}: {strategy.summary}\n"
        + textwrap.fill(
            " ".join(inspect.cleandoc(type(strategy.placement).__doc__ or "").split()),
            width=80,
            initial_indent="  ",
            subsequent_indent="  ",
        )
        for strategy in STRATEGIES
    )
