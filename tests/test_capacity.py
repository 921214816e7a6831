"""What asks for more memory than there is is refused before anything is allocated."""

from __future__ import annotations

import pytest
from builders import cuda_device
from every import every
from fakes import RecordingBackend, bench
from mixing import FRESH, made

from advisor.measure.backends import CpuBackend
from advisor.strategies.placements.arena import AllocationFailed
from advisor.strategies.placements.base import Placement, require_memory
from advisor.strategies.placements.kinds import (
    DeviceOnly,
    External,
    HostOnly,
    Managed,
    Pageable,
    Pinned,
    ZeroCopy,
)

MIB = 1 << 20


def asked(
    placements: list[Placement],
    *,
    mib: int = 40,
    free: int | None = 100,
    oversubscribe: bool = False,
    integrated: int = 0,
    available: int = 0,
) -> None:
    backend = RecordingBackend(device=cuda_device(integrated=integrated))
    backend.free_bytes = None if free is None else free * MIB
    named = {str(number): placement for number, placement in enumerate(placements)}
    require_memory(
        backend,
        named,
        dict.fromkeys(named, mib * MIB),
        oversubscribe=oversubscribe,
        available=lambda: available * MIB,
    )
    assert backend.calls == []


@every("placement", [Pageable(), Pinned(), DeviceOnly(), Managed(), External(Managed())])
def test_more_than_is_free_is_refused_with_the_figures(placement: Placement) -> None:
    asked([placement] * 2)
    with pytest.raises(AllocationFailed, match=r"need 120 MiB of device memory; 100 MiB are free"):
        asked([placement] * 3)


@every("placement", [ZeroCopy(), HostOnly(), External(ZeroCopy())])
def test_memory_of_the_host_is_not_counted(placement: Placement) -> None:
    asked([placement] * 3)


def test_memory_that_is_not_known_or_oversubscribed() -> None:
    asked([Pinned()] * 3, free=None)
    require_memory(CpuBackend(), {"a": Pageable()}, {"a": 1 << 60}, oversubscribe=False)
    asked([Managed()] * 3, oversubscribe=True)
    asked([Managed()] * 3 + [DeviceOnly()] * 2, oversubscribe=True)
    with pytest.raises(AllocationFailed, match="120 MiB"):
        asked([Managed()] * 3 + [DeviceOnly()] * 3, oversubscribe=True)


@every(
    ("placement", "oversubscribe", "offered"),
    [(Managed(), False, True), (Pinned(), False, False), (Pinned(), True, False)],
)
def test_the_option_is_offered_where_it_would_help(
    placement: Placement, oversubscribe: bool, offered: bool
) -> None:
    with pytest.raises(AllocationFailed) as raised:
        asked([placement] * 3, oversubscribe=oversubscribe)
    assert ("--allow-oversubscription" in str(raised.value)) == offered


def test_where_memory_is_shared_what_the_system_could_free_counts() -> None:
    asked([Pinned()] * 3, integrated=1, available=150)
    with pytest.raises(AllocationFailed, match="160 MiB of device memory; 150 MiB are free"):
        asked([Pinned()] * 4, integrated=1, available=150)
    with pytest.raises(AllocationFailed, match="100 MiB are free"):
        asked([Pinned()] * 3, integrated=0, available=150)


@every(("strategy", "needed"), [("pinned", 2 * 48), ("pinned-pipelined", 4 * 48)])
def test_both_sets_of_buffers_count(strategy: str, needed: int) -> None:
    backend = RecordingBackend()
    backend.free_bytes = needed
    with bench(made(FRESH, {}), strategy, backend):
        pass
    backend = RecordingBackend()
    backend.free_bytes = needed - 1
    with pytest.raises(AllocationFailed, match=f"{needed} B"), bench(made(FRESH, {}), strategy, backend):
        pass
    assert backend.calls == []
