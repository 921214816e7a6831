"""defaults.toml: what is wrong in it is refused with the key, and what the model needs is there."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from advisor.devices.catalogue import load
from advisor.errors import FileProblem
from advisor.model.machines import PATH, Machine, default, defaults, read
from advisor.profiles.schema import MemoryClass

TEXT = PATH.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("there", "instead", "message"),
    [
        ("launch_seconds = {", "lunch_seconds = {", "is not one; did you mean 'launch_seconds'"),
        ('of = "device_memory_bytes', 'of = "memory_bites', "memory_bites_per_second is not one"),
        ("integrated = true", "integrated = 1", "layers.3.integrated: Input should be a valid boolean"),
        ('["tegra"]', '["tegra", "xavier"]', "layers.13.memory_classes.1: Input should be 'tegra'"),
        ("low = 3.5e-6", "low = 5.5e-6", "launch_seconds: expected low <= value <= high"),
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


def test_layers_and_shares() -> None:
    entries = ("h200", "gb10", "agx-orin", "nano")
    times = [default("prefetch_call_seconds", load(name)) for name in entries]
    read = [found and (found.prior or found.value) for found in times]
    assert read == [32e-6, 2.0, 2.0, 60e-6]
    assert [found and found.of for found in times] == [None, "launch_seconds", "launch_seconds", None]
    shares = [default("kernel_share", load(name)) for name in ("rtx-4090", "a100")]
    assert [share and (share.prior or share.value) for share in shares] == [0.13, 0.2]
    assert default("fault_batch_seconds", load("gb10")) is None
    machine = Machine(load("t4"))
    machine.get("l2_bytes_per_second")
    figure = machine.assumed["l2_bytes_per_second"]
    assert (figure.low, figure.value, figure.high) == pytest.approx((640e9, 864e9, 1152e9))
    assert figure.source.startswith("2.7 times the memory's peak")
    classes = {name for layer in defaults().layers[1:] for name in layer.memory_classes}
    assert classes == set(get_args(MemoryClass))
    assert defaults().layers[0].memory_classes == get_args(MemoryClass)
