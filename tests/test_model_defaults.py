"""defaults.toml: what is wrong in it is refused with the key, and what the model needs is there."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from advisor.devices.catalogue import load
from advisor.errors import FileProblem
from advisor.model.machines import PATH, Machine, default, defaults, read
from advisor.model.predict import _words
from advisor.profiles.schema import MemoryClass

TEXT = PATH.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("there", "instead", "message"),
    [
        ("launch_seconds = {", "lunch_seconds = {", "is not one; did you mean 'launch_seconds'"),
        ('of = "device_memory_bytes', 'of = "memory_bites', "memory_bites_per_second is not one"),
        ("integrated = true", "integrated = 1", "layers.3.integrated: Input should be a valid boolean"),
        ("integrated = true", "integrate = true", "layers.3.integrate: Extra inputs are not permitted"),
        ('["tegra"]', '["tegra", "xavier"]', "layers.13.memory_classes.1: Input should be 'tegra'"),
        ("low = 3.5e-6", "low = 5.5e-6", "launch_seconds: expected low <= value <= high"),
        ("low = 3.5e-6, ", "", "layers.0.figures.launch_seconds.low: Field required"),
        (
            "value = 1.0, low = 0.15, high = 1.0",
            "low = 0.15, high = 1.0",
            "layers.0.figures.link_again_alone_share.value: Field required",
        ),
        ("[names]", "[names", "Expected ']'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, there: str, instead: str, message: str) -> None:
    assert there in TEXT
    path = tmp_path / "defaults.toml"
    path.write_text(TEXT.replace(there, instead, 1), encoding="utf-8")
    with pytest.raises(FileProblem) as raised:
        read(path)
    assert str(path) in raised.value.message
    assert message in raised.value.message


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="No such file"):
        read(tmp_path / "defaults.toml")


def test_the_last_layer_that_covers_a_device_counts() -> None:
    entries = ("h200", "gb10", "agx-orin", "nano")
    times = [default("prefetch_call_seconds", load(name)) for name in entries]
    read = [found and (found.prior or found.value) for found in times]
    assert read == [32e-6, 2.0, 2.0, 60e-6]
    assert [found and found.of for found in times] == [None, "launch_seconds", "launch_seconds", None]
    shares = [default("kernel_share", load(name)) for name in ("rtx-4090", "a100")]
    assert [share and (share.prior or share.value) for share in shares] == [0.13, 0.2]
    assert default("fault_batch_seconds", load("gb10")) is None


def test_a_share_becomes_a_figure_of_its_base() -> None:
    machine = Machine(load("t4"))
    machine.get("l2_bytes_per_second")
    figure = machine.assumed["l2_bytes_per_second"]
    assert (figure.low, figure.value, figure.high) == pytest.approx((640e9, 864e9, 1152e9))
    assert figure.source.startswith("2.7 times the memory's peak")


def test_every_layer_covers_something_and_every_class_is_covered() -> None:
    classes = {name for layer in defaults().layers[1:] for name in layer.memory_classes}
    assert classes == set(get_args(MemoryClass))
    assert defaults().layers[0].memory_classes == get_args(MemoryClass)


def test_every_default_has_a_name_for_the_list_of_assumptions() -> None:
    for layer in defaults().layers:
        for key in layer.figures:
            assert _words(key)
