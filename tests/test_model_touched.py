"""Host stages that touch a part of a buffer: managed memory moves the pages of that part, copies move all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from field import Concluded
from published_cases import row_of_a_state, touched

from advisor.devices.catalogue import load
from advisor.model.context import Context
from advisor.model.machines import Machine
from advisor.model.simulate import Simulated, simulate
from advisor.model.steady_frame import by_part, timed_steps
from advisor.model.terms import Values
from advisor.profiles.schema import Profile
from advisor.strategies.registry import by_name

ROWS = Path(__file__).parent / "workload_files" / "row_of_state"
SMALL, LARGE = 1 << 22, 1 << 28


def parts(profile: Profile, strategy: str = "managed", device: str = "h200") -> dict[str, Values]:
    """Faults in every frame, as before the driver finds out what thrashes."""
    found = simulate(
        profile.workload, profile.traffic, Machine(load(device)), [by_name(strategy)], first_frames=True
    )[strategy]
    assert isinstance(found, Simulated)
    return found.parts


def test_a_row_of_a_state_is_best_in_managed_memory(tmp_path: Path) -> None:
    found = Concluded(tmp_path, str(ROWS), "h200")
    assert found.recommended == "managed"
    managed, pinned = (found.rows[name] for name in ("managed", "pinned"))
    assert managed.low_seconds < 47e-6 < managed.high_seconds
    assert pinned.low_seconds < 113e-6 < pinned.high_seconds
    assert Concluded(tmp_path, str(ROWS), "h200", "rows=1", "columns=4000000").recommended != "managed"


def test_no_more_than_the_row_moves_either_way() -> None:
    def moved(size: int, row: int = 1 << 16) -> float:
        profile = row_of_a_state(row, size)
        return float(parts(profile)["device:read"][0] - parts(profile, "pinned")["device:read"][0])

    assert moved(SMALL) == pytest.approx(moved(LARGE))
    assert moved(SMALL) < moved(SMALL, SMALL) / 2
    written = [float(parts(row_of_a_state(1 << 16, size))["host:write"][0]) for size in (SMALL, LARGE)]
    assert written[0] == pytest.approx(written[1])


def test_what_the_kernel_did_not_touch_need_not_come_back() -> None:
    """A kernel that reads a quarter: the host's next pass over all of it fetches that quarter."""
    made = touched(SMALL, "in")
    assert made.traffic is not None
    read = [
        t.model_copy(update={"bytes_read": SMALL / 4}) if t.stage == "kernel" else t
        for t in made.traffic.traffic
    ]
    quarter = made.model_copy(update={"traffic": made.traffic.model_copy(update={"traffic": tuple(read)})})
    own = parts(made, "pinned")
    all_of_it, part = parts(made)["host:access"] - own["host:access"], parts(quarter)["host:access"]
    assert (part - own["host:access"] < 0.5 * all_of_it).all()


def test_pages_that_stay_at_the_host_are_read_over_the_link_and_the_rest_is_not() -> None:
    profile, machine = row_of_a_state(1 << 12, SMALL), Machine(load("h200"))
    assert profile.traffic is not None
    at = Context(profile.workload, profile.traffic, by_name("managed"), machine)
    kernel = by_part(timed_steps(at))["device:read"][0]
    whole = SMALL / machine.get("zero_copy_read_bytes_per_second")[0]
    assert kernel < whole / 3
    assert np.all(at.touched_by_host("state") == 1 << 12)
