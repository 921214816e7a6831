"""Copy rates and the system of the user's host: given as options, or read from what programs print."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from every import every
from published_cases import DATA, vector
from rendering import Accepted, refusals

from advisor.devices import host_rates
from advisor.devices.catalogue import DEFAULT_TARGETS, default_targets, load, under
from advisor.errors import UsageError
from advisor.model.machines import Machine, describe_one
from advisor.model.predict import predict

BANDWIDTH_TEST, NVBANDWIDTH, UNIFIED_MEMORY_PERF, TRANSFERS = (
    (DATA / "benchmarks" / f"{name}.txt").read_text(encoding="utf-8")
    for name in ("bandwidthTest", "nvbandwidth", "UnifiedMemoryPerf", "UnifiedMemoryPerf-transfers")
)
CSV = (
    "bandwidthTest-H2D-Paged, Bandwidth = 5.9 GB/s, Time = 0.00542 s, Size = 32000000 bytes, NumDevsUsed = 1"
)
CASE = {"name": "device_to_host_memcpy_ce", "bandwidth_matrix": [["25.5"]]}
TWO_CARDS = BANDWIDTH_TEST.replace(" Range", " Device 1: NVIDIA GeForce RTX 3060\n Range").replace(
    ", 1 D", ", 2 D"
)
WRITE_COMBINED = BANDWIDTH_TEST.replace(
    "PINNED Memory Transfers", "PINNED Memory Transfers\n Write-Combined ..."
)


def rates(text: str) -> dict[str, float]:
    names = {figure: name for name, figure in host_rates.RATES.items()}
    figures = host_rates.parsed(text).figures(load("rtx-2060"))
    return {names.get(figure, figure): round(x.value / 1e9, 2) for figure, x in figures.items()}


def test_rates_are_read_from_what_programs_print() -> None:
    assert rates(BANDWIDTH_TEST) == {"pinned_up": 12.8, "pageable_down": 6.1}
    assert rates(TWO_CARDS) == {"pinned_up": 6.4, "pageable_down": 3.05}
    assert rates(WRITE_COMBINED) == {"pageable_down": 6.1}
    assert rates(CSV) == {"pageable_up": 5.9}
    assert rates(CSV.replace("NumDevsUsed = 1", "NumDevsUsed = 2")) == {"pageable_up": 2.95}
    assert rates(NVBANDWIDTH) == {"pinned_up": 55.5, "zero_copy_write_bytes_per_second": 48.1}
    assert rates(json.dumps({"nvbandwidth": {"testcases": [CASE]}})) == {"pinned_down": 25.5}


def test_the_samples_columns_tell_what_pageable_memory_takes_beyond() -> None:
    known = load("rtx-2060").figures.pinned_to_device_bytes_per_second
    result = rates(UNIFIED_MEMORY_PERF)
    assert set(result) == {"pageable_up", "pageable_down"}
    assert result["pageable_up"] == pytest.approx(1 / (1e9 / known.value + 0.2), abs=0.02)


def test_the_samples_tables_of_transfers_tell_all_four_rates() -> None:
    """At 4 MiB two matrices up in 0.70 and 1.40 ms, one down in 0.33 and 0.84; CpAsync returns early."""
    assert rates(TRANSFERS + UNIFIED_MEMORY_PERF) == {
        "pageable_up": 5.99,
        "pinned_up": 11.98,
        "pageable_down": 4.99,
        "pinned_down": 12.71,
    }


WRONG = (
    *("", "pinned=12GB/s", "pinned_up=12XB/s", "pinned_up=12Gb/s", "pinned_up=12GB/s,pinned_up=13GB/s"),
    "pinned_up=" + "9" * 40_000,
)


def test_wrong_rates_are_refused(accepted: Accepted) -> None:
    calls = {text[:40]: partial(host_rates.parse, text) for text in WRONG}
    beyond = host_rates.parse("pinned_up=26GB/s")
    calls["26 GB/s of an RTX 2060"] = partial(host_rates.with_rates, load("rtx-2060"), beyond)
    without = ("nvbandwidth {", "UMhint\n1 2 3", UNIFIED_MEMORY_PERF.replace("(ms)", "(MB/s)"))
    calls |= {f"rates of {text[:11]!r}": partial(host_rates.parsed, text) for text in without}
    one = BANDWIDTH_TEST.replace("RTX 3060", "RTX 2060")
    calls["rates of two cards"] = partial(host_rates.parsed, BANDWIDTH_TEST + one)
    accepted(refusals(calls), "rates-refused.txt")
    assert host_rates.parsed(BANDWIDTH_TEST * 2).device == "NVIDIA GeForce RTX 3060"


def test_a_given_rate_replaces_what_was_read_on_another_host() -> None:
    """Pageable copies of the catalogue's RTX 4090 run at 20.9 GB/s: not beside a link that carries 12."""
    entry = host_rates.with_rates(load("rtx-4090"), host_rates.parse("pinned_up=12GB/s"))
    machine = Machine(entry)
    up, down = (machine.get(host_rates.RATES[f"pinned_{way}"])[0] for way in ("up", "down"))
    assert up == down == 12e9
    assert (machine.pageable_rate("to_device") <= machine.get(host_rates.RATES["pinned_up"])).all()
    zero_copy = Machine(host_rates.with_rates(load("h200"), host_rates.parse("pinned_down=12GB/s")))
    assert zero_copy.get("zero_copy_write_bytes_per_second")[0] < 12e9
    # A Grace CPU comes with its GPU, a calibrated entry with its machine: their other figures stay.
    for name in ("gh200", str(DATA / "devices" / "h200-calibrated.toml")):
        base, rates = load(name), host_rates.parse("pinned_up=40GB/s")
        others = host_rates.with_rates(base, rates).figures.model_dump(
            exclude={host_rates.RATES["pinned_up"]}
        )
        assert others == base.figures.model_dump(exclude={host_rates.RATES["pinned_up"]})


def test_one_rate_tells_a_hosts_other_copies() -> None:
    """Published pageable copies of five hosts: each host's rate up tells its other copies within a half."""
    errors = []
    for device, rate, others in (
        ("gtx-1650", 2.67, {"pageable_up": (2.76, 2.89), "pageable_down": (2.91, 2.80, 2.94)}),
        ("a100-sxm4-80gb", 10.0, {"pageable_down": (10.8,)}),
        ("quadro-rtx-6000", 3.75, {"pageable_up": (3.49,), "pageable_down": (3.40, 3.23)}),
        ("rtx-4090", 18.42, {"pageable_up": (13.73, 17.07), "pageable_down": (12.34,)}),
        ("rtx-3060", 11.52, {"pageable_down": (10.08,)}),
    ):
        host = Machine(host_rates.with_rates(load(device), host_rates.parse(f"pageable_up={rate}GB/s")))
        for name, published in others.items():
            errors += [host.get(host_rates.RATES[name])[0] / 1e9 / each for each in published]
    assert max(errors) < 1.5
    assert sorted(errors)[len(errors) // 2] == pytest.approx(1, abs=0.1)


def prediction(host: str = "") -> Any:
    entry = load("rtx-3060")
    entry = host_rates.with_rates(entry, host_rates.parse(host)) if host else entry
    return predict(vector(64e6), entry)


def test_given_rates_narrow_the_range_and_are_told() -> None:
    without = prediction()
    known = prediction("pageable_up=6GB/s, pageable_down=6GB/s, pinned_up=12GB/s, pinned_down=12GB/s")
    widths = [
        next(r.high_seconds / r.low_seconds for r in each.results if r.strategy == "pageable")
        for each in (without, known)
    ]
    assert widths[1] < 0.85 * widths[0]
    assert any("pageable up: 6.00 GB/s (given with --host pageable_up)" in one for one in known.assumptions)
    requests = [one for one in without.assumptions if "or the output to `advisor devices import`" in one]
    assert requests
    assert "of what is uncertain of pageable" in requests[0]
    assert not any("advisor devices import" in one for one in known.assumptions)


# The system that a card runs


def test_windows_lacks_hints_and_says_what_becomes_of_managed_memory() -> None:
    (entry,) = host_rates.load_targets(["rtx-3060"], "windows")
    assert entry.name == "GeForce RTX 3060 12GB (Windows)"
    words = " ".join(describe_one("rtx-3060", "windows").split())
    assert "managed memory moves whole to the GPU before each launch" in words
    assert "moves whole" not in " ".join(describe_one("rtx-3060").split())
    assert under(load("rtx-3060"), "linux") == load("rtx-3060")


@every(
    ("name", "refusal"),
    [
        *((name, r"--os wsl does not fit .* runs Linux only") for name in ("orin-nano", "gh200", "gb10")),
        (str(DATA / "devices" / "h200-calibrated.toml"), "measured on one system"),
    ],
)
def test_a_system_that_a_device_or_an_entry_is_not_of_is_refused(name: str, refusal: str) -> None:
    with pytest.raises(UsageError, match=refusal):
        host_rates.load_targets([name], "wsl")
    assert default_targets("linux") == DEFAULT_TARGETS
    assert default_targets("windows") == ("rtx-4090", "h200")
    assert default_targets("linux", gpus=2) == ("2xrtx-4090", "2xh200")
    host_rates.load_targets(default_targets("wsl", gpus=2), "wsl")
