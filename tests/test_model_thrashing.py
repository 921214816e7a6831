"""Managed memory that both sides touch in quick turns stays where it is; in slow turns it moves by faults."""

from __future__ import annotations

import numpy as np
import pytest
from published_cases import vector

from advisor.devices.catalogue import load
from advisor.model.machines import Machine
from advisor.model.simulate import Simulated, simulate
from advisor.model.steady_frame import LAPSE
from advisor.model.terms import Values
from advisor.strategies.registry import by_name

pytestmark = pytest.mark.usefixtures("constants_as_read")

SMALL, LARGE = 1 << 14, 1 << 26
CHOSEN = tuple(by_name(name) for name in ("managed", "zero-copy", "managed-prefetch"))


def seconds(size: int, device: str = "rtx-4090", *, first_frames: bool = False) -> dict[str, Values]:
    profile = vector(size)
    found = simulate(
        profile.workload, profile.traffic, Machine(load(device)), CHOSEN, first_frames=first_frames
    )
    return {name: s.seconds for name, s in found.items() if isinstance(s, Simulated)}


def test_pages_that_thrash_or_move() -> None:
    steady, first = seconds(SMALL), seconds(SMALL, first_frames=True)
    assert first["managed"][0] < LAPSE
    assert steady["managed"][0] < 2 * steady["zero-copy"][0] < first["managed"][0] / 3
    # The range goes on to faults in every frame.
    assert np.percentile(steady["managed"], 95) > 5 * steady["managed"][0]
    for name in ("zero-copy", "managed-prefetch"):
        assert (steady[name] == first[name]).all()
    steady, first = seconds(LARGE), seconds(LARGE, first_frames=True)
    assert steady["managed"].min() > LAPSE
    assert (steady["managed"] == first["managed"]).all()
    for device in ("orin-nano", "agx-thor"):
        assert (
            seconds(SMALL, device)["managed"] == seconds(SMALL, device, first_frames=True)["managed"]
        ).all()
