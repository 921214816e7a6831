"""Cards without concurrent managed access: managed memory moves whole before a launch, attached or not."""

from __future__ import annotations

import pytest
from every import every
from published_cases import DATA, row_of_a_state, vector

from advisor.devices.catalogue import DEFAULT_TARGETS, System, default_targets, load, under
from advisor.devices.entries import CatalogueEntry
from advisor.devices.host_rates import load_targets
from advisor.errors import UsageError
from advisor.model.machines import Machine, describe_one
from advisor.model.predict import predict
from advisor.profiles.schema import Predicted, Profile

SIZE, ROW = 1 << 24, 1 << 12


def rows(profile: Profile, entry: CatalogueEntry) -> dict[str, Predicted]:
    return {r.strategy: r for r in predict(profile, entry).results if isinstance(r, Predicted)}


def rate(entry: CatalogueEntry, side: str) -> float:
    return float(Machine(entry).get(f"migration_to_{side}_bytes_per_second")[0])


@every(("name", "system"), [("rtx-3060", "windows"), ("rtx-4090", "wsl"), ("k80", "linux")])
def test_managed_memory_moves_whole_before_a_launch_and_back_as_touched(name: str, system: System) -> None:
    entry, profile = under(load(name), system), vector(SIZE)
    found = rows(profile, entry)
    managed, kernels = found["managed"], found["pinned"].terms["device:compute"]
    # The host touched all three: c too, which the kernel only writes.
    moved = managed.terms["device:compute"] - kernels
    assert moved == pytest.approx(3 * SIZE / rate(entry, "device"))
    back = managed.terms["host:access"] + managed.terms["host:init"]
    own = found["pinned"].terms["host:access"] + found["pinned"].terms["host:init"]
    assert back - own == pytest.approx(3 * SIZE / rate(entry, "host"))


def test_attached_memory_moves_where_it_is_attached_to_the_gpu() -> None:
    entry = under(load("rtx-3060"), "windows")
    found, call = rows(vector(SIZE), entry), float(Machine(entry).get("prefetch_call_seconds")[0])
    attached = found["managed-prefetch"].terms
    assert attached["to-device"] == pytest.approx(3 * (call + SIZE / rate(entry, "device")))
    assert attached["to-host"] == pytest.approx(3 * call)
    assert attached["device:compute"] == found["pinned"].terms["device:compute"]
    assert attached["host:access"] == found["managed"].terms["host:access"]


def test_what_the_kernel_does_not_use_moves_with_it() -> None:
    """A Tesla K80 moved all four arrays of a saxpy that uses three."""
    entry, profile = load("k80"), vector(SIZE)
    spare = profile.workload.buffers[0].model_copy(
        update={"name": "spare", "access": {"init": "out", "compute": "in", "access": "in"}}
    )
    buffers = (*profile.workload.buffers, spare)
    written = [t.model_copy(update={"buffer": "spare"}) for t in profile.traffic.traffic if t.buffer == "a"]  # type: ignore[union-attr]
    host = tuple(t for t in written if t.stage != "compute")
    more = profile.model_copy(
        update={
            "workload": profile.workload.model_copy(update={"buffers": buffers}),
            "traffic": profile.traffic.model_copy(update={"traffic": (*profile.traffic.traffic, *host)}),  # type: ignore[union-attr]
        }
    )
    extra = (
        rows(more, entry)["managed"].terms["device:compute"]
        - rows(profile, entry)["managed"].terms["device:compute"]
    )
    assert extra == pytest.approx(SIZE / rate(entry, "device"))


def test_all_of_a_buffer_moves_though_the_cpu_touched_a_row() -> None:
    entry = under(load("rtx-3060"), "wsl")
    found = rows(row_of_a_state(ROW, SIZE), entry)
    moved = found["managed"].terms["device:read"] - found["pinned"].terms["device:read"]
    assert moved == pytest.approx(SIZE / rate(entry, "device"))
    back = found["managed"].terms["host:write"] - found["pinned"].terms["host:write"]
    assert back == pytest.approx(ROW / rate(entry, "host"))


def test_windows_lacks_hints_and_says_what_becomes_of_managed_memory() -> None:
    (entry,) = load_targets(["rtx-3060"], "windows")
    told = {r.strategy: r for r in predict(vector(SIZE), entry).results}
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
