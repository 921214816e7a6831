"""No cliffs: a larger buffer never takes less time, and a little larger one takes a little more."""

from __future__ import annotations

import numpy as np
from builders import altered
from every import every
from hypothesis import assume, given
from hypothesis import strategies as st
from published_cases import DATA, matrix_product, simulated, touched, vector
from test_model_frames import host_stages

from advisor.devices.catalogue import load, names
from advisor.devices.entries import CatalogueEntry
from advisor.model import terms
from advisor.model.machines import Machine
from advisor.model.terms import span
from advisor.profiles.schema import Profile
from advisor.profiles.traces import Again
from advisor.strategies.registry import STRATEGIES

SECONDS_A_BYTE = 1e-10
STEEP = 2000.0
"""Percent of time for a percent of size: what a cache of a hundredth of the memory's time leaves behind."""

ENTRIES = {name: load(name) for name in names()}
ENTRIES["calibrated"] = load(str(DATA / "devices" / "h200-calibrated.toml"))


WORKLOADS = {
    "vector": vector,
    "in place": lambda size: vector(size, in_place=True),
    "measured": lambda size: host_stages(vector(size), size * SECONDS_A_BYTE),
    "read again": lambda size: touched(size, "inout", 20.0),
    "traced again": lambda size: altered(
        touched(size, "in"), "traffic.traffic.*", again=(Again(call="var", bytes=20 * size),)
    ),
    "product": lambda size: matrix_product(max(int(size**0.5) // 2, 1)),
}


def ends(profile: Profile, entry: CatalogueEntry, strategy: str, *, first: bool) -> np.ndarray:
    """Low end, likely value and high end of a frame; nothing where the device cannot do it."""
    found = simulated(profile, Machine(entry), strategy, first_frames=first)
    assume(strategy in found)
    return np.array(span(found[strategy].seconds))


@given(
    kind=st.sampled_from(sorted(WORKLOADS)),
    device=st.sampled_from(sorted(ENTRIES)),
    strategy=st.sampled_from([s.name for s in STRATEGIES]),
    exponent=st.floats(np.log(256), np.log(2e9)),
    step=st.sampled_from([1e-4, 1e-2, 0.3, 3.0]),
    first=st.booleans(),
)
def test_more_bytes_take_no_less_and_a_few_more_little_longer(
    kind: str, device: str, strategy: str, exponent: float, step: float, first: bool
) -> None:
    size = float(np.exp(exponent))
    profiles = [WORKLOADS[kind](4 * int(x / 4)) for x in (size, size * (1 + step))]
    less, more = (ends(p, ENTRIES[device], strategy, first=first) for p in profiles)
    small, large = (p.workload.buffers[0].bytes for p in profiles)
    grown = large / small - 1
    assert np.all(more >= less * (1 - 1e-9))
    assert np.all(more <= less * (1 + STEEP * grown) * (1 + 1e-9))


@every("count", [1.0, 70.0, 99.0, 150.0, 1e9])
def test_what_a_cache_keeps_fades(count: float) -> None:
    kept = terms.cached_share(count, 100.0)
    assert 0 <= kept <= 1
    assert terms.cached_share(count * 1.001, 100.0) >= kept - 0.002
    assert (kept == 1) == (count <= 70)
    assert (kept < 1e-12) == (count >= 150)
