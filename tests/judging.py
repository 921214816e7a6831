"""Profiles for rules, by the seconds that a frame spends where; and what a rule says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from builders import MIB, cuda_device, footprint, measured, predicted, prediction, profile
from rendering import Accepted

from advisor import stats, units
from advisor.profiles.conclusions import Advice
from advisor.profiles.schema import Device, Measured, Predicted, Profile, Trace
from advisor.profiles.traces import Traffic
from advisor.rules.advise import advise
from advisor.rules.registry import by_id

JETSONS = "tegra tegra-io-coherent tegra-coherent"
CARDS = "discrete discrete-hmm"
Cases = Mapping[str, Mapping[str, Sequence[Profile]]]
"""By rule the runs of each case, under `name: what the rule concludes`."""


def row(
    strategy: str,
    median: float,
    *,
    kernels: float = 0.002,
    copies: float = 0.0,
    produce: float = 0.001,
    consume: float = 0.001,
    **fields: Any,
) -> Measured:
    """A measured row with so much of its time in kernels, copies and host stages, the rest in waits; half the
    memory without copies."""
    waits = max(median - kernels - copies - produce - consume - (fields.get("host_copy_seconds") or 0.0), 0.0)
    whole = footprint(pageable=192 * MIB, device=192 * MIB)
    return measured(
        strategy,
        median,
        stage_seconds={"produce": produce, "add": kernels, "consume": consume},
        transfer_seconds=copies,
        **{
            "transfer_bytes": {"to-device": 128 * MIB, "to-host": 64 * MIB} if copies else {},
            "footprint": whole if copies else footprint(pinned=192 * MIB),
            "synchronize_seconds": waits,
            **fields,
        },
    )


def mixed(placements: dict[str, str], median: float, *, number: int = 1, **fields: Any) -> Measured:
    """The row of a mix with these placements."""
    return row(f"hybrid-{number}", median, placements=placements, **fields)


def restless(steady: Measured, by: float) -> Measured:
    """The same row with processes that differ: one faster and one slower by that part."""
    factors = (1 - by, 1.0, 1 + by)
    frames = [
        seconds * factor for factor, round_ in zip(factors, steady.rounds, strict=True) for seconds in round_
    ]
    low, high = stats.median_interval(
        [[seconds * factor for seconds in steady.rounds[0]] for factor in factors], confidence=0.95
    )
    return steady.model_copy(update={"frame_seconds": tuple(frames), "interval_seconds": (low, high)})


def bet(
    strategy: str,
    likely: float,
    *,
    kernels: float = 0.002,
    copies: float = 0.0,
    memory: int = 384,
    consume: float = 0.001,
) -> Predicted:
    """A predicted row with so much of its time in kernels, copies and host stages, the rest in waits;
    `memory` in MiB."""
    terms = {"host:produce": 0.001, "host:consume": consume, "device:add": kernels}
    terms |= {"to-device": copies * 0.6, "to-host": copies * 0.4}
    terms["synchronize"] = max(likely - sum(terms.values()), 0.0)
    return predicted(strategy, likely, terms=terms, physical_bytes=memory * MIB)


def read(passes: float, source: Any = "traced") -> Trace:
    """What tracing saw: a read so many times by the kernel, b once."""
    return Trace(
        traffic=tuple(
            Traffic(stage="add", buffer=name, bytes_read=times * 64 * MIB, bytes_written=0, source=source)
            for name, times in (("a", passes), ("b", 1.0))
        )
    )


def on(where: str | Device, *results: Any, **fields: Any) -> list[Profile]:
    """Runs with these results: one on a device, or one on each of the classes of memory that are named."""
    devices = [where] if isinstance(where, Device) else [cuda_device(each) for each in where.split()]  # type: ignore[arg-type]
    return [profile(device=device, results=results, **fields) for device in devices]


def concluding(cases: Cases) -> Callable[..., None]:
    """A test: each case ends as it says; with which words and figures is in tests/golden/rules."""

    @pytest.mark.parametrize("rule", cases)
    def test(rule: str, accepted: Accepted) -> None:
        text = []
        for case, runs in cases[rule].items():
            name, _, conclusion = case.rpartition(": ")
            said: dict[str, list[str]] = {}
            for run in runs:
                found = says(rule, run)
                assert concluded(found) == conclusion, f"{name}: {found.detail}"
                words = "\n".join(told(found)).replace(found.device, "the device")
                said.setdefault(words, []).append(found.device)
            text += [f"## {name}", *(f"{', '.join(devices)}: {words}" for words, devices in said.items()), ""]
        accepted("\n".join(text), f"rules/{rule}.txt")

    return test


def concluded(found: Advice) -> str:
    """Its outcome; for advice the strategy that is proposed, and the seconds of a frame that it gains."""
    if found.outcome != "advice":
        return found.outcome
    seconds = found.gain.seconds_per_frame if found.gain else None
    return " ".join([found.strategy or "advice", *([] if seconds is None else [units.seconds(seconds)])])


def told(found: Advice) -> Iterator[str]:
    yield concluded(found)
    if found.outcome == "advice":
        yield f"{found.title} ({found.certainty})"
    yield found.detail
    for item in found.evidence:
        yield f"- {item.label}: {item.value:.6g} {item.unit}{' (predicted)' * item.predicted}"
    if found.gain:
        yield f"- gain over {found.gain.over}, {found.gain.basis}: {found.gain.bytes or 0} bytes"
    if found.snippet:
        functions = re.findall(r"def (\w+)", found.snippet)
        yield f"- code: {', '.join(functions) or found.snippet}"


def says(rule: str, run: Profile) -> Advice:
    """What one rule concludes; never an error."""
    (found,) = advise(run, (by_id(rule),)).advice
    assert found.outcome != "error", found.detail
    return found


def figures(found: Advice) -> dict[str, float]:
    return {item.label: item.value for item in found.evidence}


def predicted_run(device: Device, *rows: Any, traffic: Trace | None = None, **fields: Any) -> Profile:
    """A run without a GPU, with these rows predicted for one device."""
    return profile(
        device=Device(name="Test CPU", kind="cpu"),
        results=(measured("pageable", 0.06),),
        traffic=traffic,
        predictions=(prediction(device=device, results=rows, recommendation=None),),
        **fields,
    )
