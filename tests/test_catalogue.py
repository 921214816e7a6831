"""The catalogue: complete, sourced, consistent; wrong names and files say what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from advisor.devices.catalogue import DEFAULT_TARGETS, CatalogueEntry, Figures, load, names
from advisor.devices.memory_class import memory_class
from advisor.errors import FileProblem, UsageError
from advisor.model.defaults import COVERED, default
from advisor.model.machines import Machine
from advisor.strategies import STRATEGIES

CARD = """
name = "A card"
memory_class = "discrete"
[attributes]
integrated = { value = 0, source = "test" }
compute_capability = { value = "8.9", source = "test" }
[figures]
memory_bytes = { value = 8e9, source = "test" }
device_memory_bytes_per_second = { value = 500e9, source = "test" }
pinned_to_device_bytes_per_second = { value = 12e9, source = "test" }
pinned_to_host_bytes_per_second = { value = 12e9, source = "test" }
"""


def entry(tmp_path: Path, text: str = CARD) -> CatalogueEntry:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return load(str(path))


@pytest.mark.parametrize("name", names())
def test_every_entry_is_consistent_and_sourced(name: str) -> None:
    loaded = load(name)
    device = loaded.device()
    assert device.kind == "catalogue"
    assert device.memory_class == loaded.memory_class == memory_class(device.attributes)
    assert all(attribute.source.strip() for attribute in loaded.attributes.values())
    assert all(getattr(loaded.figures, key).source for key in loaded.figures.model_fields_set)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("scenario", ["fast", "likely", "slow"])
def test_every_entry_is_complete_enough_to_predict_with(name: str, scenario: str) -> None:
    loaded = load(name)
    assert loaded.memory_class in COVERED
    machine = Machine(loaded, scenario)  # type: ignore[arg-type]
    optional = {"flops_per_second", "l2_bytes", "l2_bytes_per_second"}
    on_some = {
        key for key in Figures.model_fields if "uncached" in key or "fault" in key or "migration" in key
    }
    beside = {"host_cache_bytes"} if loaded.memory_class.startswith("discrete") else set()
    zero_copy = {key for key in Figures.model_fields if key.startswith("zero_copy")}
    pageable = {key for key in Figures.model_fields if key.startswith("pageable_to")}
    for key in set(Figures.model_fields) - optional - on_some - beside - zero_copy - pageable:
        assert machine.get(key) > 0, key
    assert machine.pageable_rate("to_device") > 0
    assert machine.pageable_rate("to_host") > 0


def test_default_targets_are_a_jetson_a_card_and_a_data_centre_card() -> None:
    assert [load(name).memory_class for name in DEFAULT_TARGETS] == [
        "tegra-io-coherent",
        "discrete",
        "discrete",
    ]


@pytest.mark.parametrize("name", DEFAULT_TARGETS)
def test_all_strategies_are_available_on_the_default_targets(name: str) -> None:
    assert [s.unavailable(load(name).device()) for s in STRATEGIES] == [None] * len(STRATEGIES)


def test_names_are_found_in_any_case() -> None:
    assert load("Orin Nano") == load("orin-nano") == load("ORIN_NANO")


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean rtx-4090") as error:
        load("rtx4090")
    assert "orin-nano" in error.value.next_step


def test_a_users_file_has_the_same_form(tmp_path: Path) -> None:
    loaded = entry(tmp_path)
    assert loaded.name == "A card"
    assert loaded.device().attributes["total_global_mem"] == 8_000_000_000
    assert "l2_cache_size" not in loaded.device().attributes


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "A card"', "", "name: is missing"),
        ('memory_class = "discrete"', 'memory_class = "tegra"', "expected memory_class = 'discrete'"),
        ('memory_class = "discrete"', 'memory_class = "fast"', "expected one of tegra, "),
        ('integrated = { value = 0, source = "test" }', "", "attributes.integrated, which is missing"),
        ('value = "8.9"', 'value = "new"', "as in \"8.7\", but it is 'new'"),
        ("value = 500e9", "value = 0", "device_memory_bytes_per_second.value: expected greater than 0"),
        ("value = 500e9", "value = inf", "device_memory_bytes_per_second.value: expected a finite number"),
        ("value = 500e9", "value = nan", "device_memory_bytes_per_second.value: expected "),
        ("value = 500e9", 'value = "500"', "device_memory_bytes_per_second.value: expected a valid number"),
        ("value = 500e9", "value = 500e9, low = 600e9", "expected low <= value <= high, but they are 6e"),
        ("value = 500e9", "value = 500e9, high = 4e9", "expected low <= value <= high"),
        ('500e9, source = "test"', "500e9", "device_memory_bytes_per_second.source: is missing"),
        ("[figures]", "[figures]\nachievable_share = { value = 1.2, source = 'x' }", "share of at most 1"),
        (
            "[figures]",
            "[figures]\nachievable_share = { value = 0.9, high = 1.1, source = 'x' }",
            "share of at most 1, but it is 1.1",
        ),
        ("[figures]", "[figures]\nspeed = { value = 1, source = 'x' }", "speed: is not a key"),
        (
            "pinned_to_host_bytes_per_second",
            "zero_copy_read_bytes_per_second",
            "pinned_to_host_bytes_per_second",
        ),
        ("[figures]", "[figures", "cannot be read"),
    ],
)
def test_a_wrong_file_names_the_key_and_what_was_expected(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in CARD
    with pytest.raises(FileProblem) as error:
        entry(tmp_path, CARD.replace(old, new))
    assert message in error.value.message
    assert "mine.toml" in error.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="does not exist"):
        load(str(tmp_path / "none.toml"))


def test_entries_are_frozen(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        entry(tmp_path).name = "other"


def test_a_default_has_a_range_and_a_source(tmp_path: Path) -> None:
    loaded = entry(tmp_path)
    machine = Machine(loaded, "likely")
    assert machine.get("launch_seconds") == machine.taken["launch_seconds"].value
    for figure in machine.taken.values():
        assert figure.low <= figure.value <= figure.high  # type: ignore[operator]
        assert figure.source
    scaled = default("zero_copy_read_bytes_per_second", loaded, lambda key: getattr(loaded.figures, key))
    assert scaled is not None
    assert scaled.value == pytest.approx(0.79 * 12e9)


def test_scenarios_take_the_ends_of_a_range(tmp_path: Path) -> None:
    loaded = entry(tmp_path)
    fast, likely, slow = (Machine(loaded, s) for s in ("fast", "likely", "slow"))
    link = "pinned_to_host_bytes_per_second"
    assert fast.get(link) == pytest.approx(12e9 * 1.15)
    assert (likely.get(link), slow.get(link)) == (12e9, pytest.approx(12e9 / 1.15))
    assert fast.get("launch_seconds") < likely.get("launch_seconds") < slow.get("launch_seconds")
    assert fast.get("device_memory_bytes_per_second") == slow.get("device_memory_bytes_per_second") == 500e9
    assert fast.pageable_rate("to_host") > likely.pageable_rate("to_host") > slow.pageable_rate("to_host")
    assert likely.find("flops_per_second") is None
    assert likely.missing == {"flops_per_second"}
