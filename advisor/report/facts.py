"""The figures beside a verdict, with what qualifies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from advisor import units
from advisor.profiles.conclusions import Recommendation
from advisor.profiles.schema import Device, Measured, Predicted, Prediction, Profile
from advisor.report import words
from advisor.report.tables import apart


@dataclass(frozen=True)
class Fact:
    """One figure beside the verdict, with what qualifies it."""

    label: str
    value: str
    note: str = ""


def measured_facts(profile: Profile, chosen: Recommendation) -> tuple[Fact, ...]:
    """Time, memory and set-up of the recommended strategy, beside the baseline's."""
    row = profile.measured().get(chosen.strategy or "")
    if row is None:
        return ()
    base = profile.measured().get(chosen.baseline or "")
    compared = base is not None and base is not row
    return (
        Fact("Time per frame", units.seconds(row.median_seconds), _instead(base, "time") if compared else ""),
        Fact(
            _memory(profile.device),
            units.size(row.footprint.physical_bytes),
            _instead(base, "memory") if compared else "",
        ),
        *_latency(row),
        Fact("Set-up", units.seconds(row.setup_seconds), "once, before the frames"),
        Fact(
            f"{row.samples.capitalize()} measured",
            f"{len(row.frame_seconds):,}",
            f"in {words.count(len(row.frames_per_round), 'process', 'processes')}",
        ),
    )


def _memory(device: Device) -> str:
    return "Memory, host and device" if apart(device) else "Memory"


def _instead(base: Measured | None, what: Literal["time", "memory"]) -> str:
    if base is None:
        return ""
    value = (
        units.seconds(base.median_seconds) if what == "time" else units.size(base.footprint.physical_bytes)
    )
    return f"{words.code(base.strategy)}: {value}"


def predicted_facts(prediction: Prediction, chosen: Recommendation) -> tuple[Fact, ...]:
    """The same as the model has it, with its range."""
    rows = {r.strategy: r for r in prediction.results if isinstance(r, Predicted)}
    row = rows.get(chosen.strategy or "")
    if row is None:
        return ()
    between = words.seconds_between(row.low_seconds, row.high_seconds)
    return (
        Fact("Predicted time per frame", units.seconds(row.likely_seconds), f"range {between}"),
        Fact(_memory(prediction.device), units.size(row.physical_bytes)),
        *_latency(row),
        Fact("Largest part", words.name(row.dominant), units.seconds(row.terms[row.dominant])),
    )


def _latency(row: Measured | Predicted) -> tuple[Fact, ...]:
    """How long one frame takes where frames overlap: the price of their rate."""
    if row.latency_seconds is None:
        return ()
    word = "Predicted latency" if isinstance(row, Predicted) else "Latency"
    return (Fact(word, units.seconds(row.latency_seconds), "begin to end of a frame"),)
