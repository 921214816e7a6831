"""Managed memory: what moves of it, by faults or whole, and when it stays where it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import altered
from every import every
from field import Concluded
from published_cases import DATA, row_of_a_state, simulated, touched, vector

from advisor.devices.catalogue import DEFAULT_TARGETS, System, default_targets, load, under
from advisor.devices.entries import CatalogueEntry
from advisor.devices.host_rates import load_targets
from advisor.errors import UsageError
from advisor.model.context import Context
from advisor.model.machines import Machine, describe_one
from advisor.model.predict import predict
from advisor.model.steady_frame import LAPSE, by_part, timed_steps
from advisor.model.terms import Values
from advisor.profiles.schema import Predicted, Profile
from advisor.strategies.registry import by_name

ROWS = Path(__file__).parent / "workload_files" / "row_of_state"
TINY, SMALL, MIDDLE, LARGE, HUGE = 1 << 14, 1 << 22, 1 << 24, 1 << 26, 1 << 28
ROW = 1 << 12


def parts(profile: Profile, strategy: str = "managed") -> dict[str, Values]:
    """With faults in every frame, as before the driver finds out what thrashes."""
    return simulated(profile, Machine(load("h200")), strategy, first_frames=True)[strategy].parts


# Quick turns


@pytest.mark.usefixtures("constants_as_read")
def test_pages_that_thrash_or_move() -> None:
    def seconds(size: int, strategy: str = "managed", device: str = "rtx-4090") -> tuple[Values, Values]:
        """Of steady frames and of the first ones."""
        machine = Machine(load(device))
        steady, first = (
            simulated(vector(size), machine, strategy, first_frames=early)[strategy].seconds
            for early in (False, True)
        )
        return steady, first

    steady, first = seconds(TINY)
    assert first[0] < LAPSE
    assert steady[0] < 2 * seconds(TINY, "zero-copy")[0][0] < first[0] / 3
    # The range goes on to faults in every frame.
    assert np.percentile(steady, 95) > 5 * steady[0]
    for name in ("zero-copy", "managed-prefetch"):
        steady, first = seconds(TINY, name)
        assert (steady == first).all()
    steady, first = seconds(LARGE)
    assert steady.min() > LAPSE
    assert (steady == first).all()
    for device in ("orin-nano", "agx-thor"):
        steady, first = seconds(TINY, device=device)
        assert (steady == first).all()


# A part of a buffer: managed memory moves the pages of that part, copies move all


def test_a_row_of_a_state_is_best_in_managed_memory() -> None:
    found = Concluded(str(ROWS), "h200")
    assert found.recommended == "managed"
    managed, pinned = (found.rows[name] for name in ("managed", "pinned"))
    assert managed.low_seconds < 47e-6 < managed.high_seconds
    assert pinned.low_seconds < 113e-6 < pinned.high_seconds
    assert Concluded(str(ROWS), "h200", "rows=1", "columns=4000000").recommended != "managed"


def test_no_more_than_the_row_moves_either_way() -> None:
    def moved(size: int, row: int = 1 << 16) -> float:
        profile = row_of_a_state(row, size)
        return float(parts(profile)["device:read"][0] - parts(profile, "pinned")["device:read"][0])

    assert moved(SMALL) == pytest.approx(moved(HUGE))
    assert moved(SMALL) < moved(SMALL, SMALL) / 2
    written = [float(parts(row_of_a_state(1 << 16, size))["host:write"][0]) for size in (SMALL, HUGE)]
    assert written[0] == pytest.approx(written[1])


def test_what_the_kernel_did_not_touch_need_not_come_back() -> None:
    """A kernel that reads a quarter: the host's next pass over all of it fetches that quarter."""
    made = touched(SMALL, "in")
    quarter = altered(made, "traffic.traffic.kernel", bytes_read=SMALL / 4)
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


# Cards without concurrent managed access: managed memory moves whole before a launch, attached or not


def rows(profile: Profile, entry: CatalogueEntry) -> dict[str, Predicted]:
    return {r.strategy: r for r in predict(profile, entry).results if isinstance(r, Predicted)}


def rate(entry: CatalogueEntry, side: str) -> float:
    return float(Machine(entry).get(f"migration_to_{side}_bytes_per_second")[0])


@every(("name", "system"), [("rtx-3060", "windows"), ("rtx-4090", "wsl"), ("k80", "linux")])
def test_managed_memory_moves_whole_before_a_launch_and_back_as_touched(name: str, system: System) -> None:
    entry, profile = under(load(name), system), vector(MIDDLE)
    found = rows(profile, entry)
    managed, kernels = found["managed"], found["pinned"].terms["device:compute"]
    # The host touched all three: c too, which the kernel only writes.
    moved = managed.terms["device:compute"] - kernels
    assert moved == pytest.approx(3 * MIDDLE / rate(entry, "device"))
    back = managed.terms["host:access"] + managed.terms["host:init"]
    own = found["pinned"].terms["host:access"] + found["pinned"].terms["host:init"]
    assert back - own == pytest.approx(3 * MIDDLE / rate(entry, "host"))


def test_what_the_kernel_does_not_use_moves_with_it() -> None:
    """A Tesla K80 moved all four arrays of a saxpy that uses three."""
    entry, profile = load("k80"), vector(MIDDLE)
    spare = profile.workload.buffers[0].model_copy(
        update={"name": "spare", "access": {"init": "out", "compute": "in", "access": "in"}}
    )
    buffers = (*profile.workload.buffers, spare)
    written = [t.model_copy(update={"buffer": "spare"}) for t in profile.traffic.traffic if t.buffer == "a"]  # type: ignore[union-attr]
    host = tuple(t for t in written if t.stage != "compute")
    more = altered(profile, "workload", buffers=buffers)
    more = altered(more, "traffic", traffic=(*profile.traffic.traffic, *host))
    extra = (
        rows(more, entry)["managed"].terms["device:compute"]
        - rows(profile, entry)["managed"].terms["device:compute"]
    )
    assert extra == pytest.approx(MIDDLE / rate(entry, "device"))


def test_all_of_a_buffer_moves_though_the_cpu_touched_a_row() -> None:
    entry = under(load("rtx-3060"), "wsl")
    found = rows(row_of_a_state(ROW, MIDDLE), entry)
    moved = found["managed"].terms["device:read"] - found["pinned"].terms["device:read"]
    assert moved == pytest.approx(MIDDLE / rate(entry, "device"))
    back = found["managed"].terms["host:write"] - found["pinned"].terms["host:write"]
    assert back == pytest.approx(ROW / rate(entry, "host"))


def test_windows_lacks_hints_and_says_what_becomes_of_managed_memory() -> None:
    (entry,) = load_targets(["rtx-3060"], "windows")
    told = {r.strategy: r for r in predict(vector(MIDDLE), entry).results}
    assert "concurrentManagedAccess is 0" in getattr(told["managed-advised"], "reason", "")
    assert entry.name == "GeForce RTX 3060 12GB (Windows)"
    words = " ".join(describe_one("rtx-3060", "windows").split())
    assert "managed memory moves whole to the GPU before each launch" in words
    assert "moves whole" not in " ".join(describe_one("rtx-3060").split())
    assert under(load("rtx-3060"), "linux") == load("rtx-3060")


@every("name", ["orin-nano", "gh200", "gb10"])
def test_a_system_that_the_device_does_not_run_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"--os wsl does not fit .* runs Linux only"):
        load_targets([name], "wsl")


def test_a_system_that_a_device_or_an_entry_is_not_of_is_refused() -> None:
    with pytest.raises(UsageError, match="measured on one system"):
        load_targets([str(DATA / "devices" / "h200-calibrated.toml")], "windows")
    assert default_targets("linux") == DEFAULT_TARGETS
    assert default_targets("windows") == ("rtx-4090", "h200")
    assert default_targets("linux", gpus=2) == ("2xrtx-4090", "2xh200")
    load_targets(default_targets("wsl", gpus=2), "wsl")
