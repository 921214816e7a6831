"""defaults.toml: what the model needs is there."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic import ValidationError

from advisor.devices.catalogue import load
from advisor.model.machines import Defaults, Machine, default, defaults
from advisor.profiles.schema import MemoryClass


def test_a_default_of_an_unknown_figure_is_refused() -> None:
    layer = defaults().layers[0]
    figures = {**layer.figures, "lunch_seconds": layer.figures["launch_seconds"]}
    with pytest.raises(ValidationError, match="lunch_seconds"):
        Defaults(names={}, layers=(layer.model_copy(update={"figures": figures}),))


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
