"""Every placement on a real GPU: what the host writes the device sees, and the other way round."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.backends import Backend
from advisor.placements.arena import Arena
from advisor.placements.base import Layout
from advisor.placements.external import External
from advisor.strategies import STRATEGIES, Strategy

LAYOUT = Layout((1000, 1001), np.dtype(np.float32))


def skip_unavailable(strategy: Strategy, cuda: Backend) -> None:
    reason = strategy.unavailable(cuda.device())
    if reason:
        pytest.skip(reason)


@pytest.mark.parametrize("foreign", [False, True], ids=["own", "external"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_data_makes_the_round_trip(strategy: Strategy, foreign: bool, cuda: Backend) -> None:
    skip_unavailable(strategy, cuda)
    placement = External(strategy.placement) if foreign else strategy.placement
    expected = np.arange(1000 * 1001, dtype=np.float32).reshape(LAYOUT.shape)
    with Arena(cuda) as arena:
        placed = placement.place(arena, LAYOUT)
        assert placed.host is not None
        placed.host[...] = expected
        if placed.to_device:
            placed.to_device()
        cuda.xp.multiply(placed.device, 2, out=placed.device)
        if placed.to_host:
            placed.to_host()
        cuda.synchronize()
        np.testing.assert_array_equal(placed.host, expected * 2)
        del placed


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_memory_is_given_back(strategy: Strategy, cuda: Backend) -> None:
    skip_unavailable(strategy, cuda)
    large = Layout((64 << 20,), np.dtype(np.float32))
    with Arena(cuda) as arena:
        strategy.placement.place(arena, large)  # the driver keeps some of the first allocation
    before = cuda.free_memory()
    with Arena(cuda) as arena:
        strategy.placement.place(arena, large)
    after = cuda.free_memory()
    assert before is not None
    assert after is not None
    assert abs(before - after) < 8 << 20


def test_kinds_of_memory_are_what_the_driver_says(cuda: Backend) -> None:
    runtime = cuda.xp.cuda.runtime
    with Arena(cuda) as arena:
        kinds = {
            name: runtime.pointerGetAttributes(pointer).type
            for name, pointer in (
                ("pageable", arena.pageable(4096)),
                ("pinned", arena.pinned(4096)),
                ("mapped", arena.mapped(4096)),
                ("managed", arena.managed(4096)),
                ("device", arena.device(4096)),
            )
        }
    host, device, managed = (
        runtime.memoryTypeHost,
        runtime.memoryTypeDevice,
        runtime.memoryTypeManaged,
    )
    assert (kinds["pinned"], kinds["mapped"]) == (host, host)
    assert (kinds["managed"], kinds["device"]) == (managed, device)
    assert kinds["pageable"] not in (host, device, managed)
