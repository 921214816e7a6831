"""Findings as most rules make them: change to that strategy, which is worth so much, for these figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from advisor import stats, units
from advisor.profiles.schema import Device, Evidence, Gain, MemoryClass, WorkloadRecord
from advisor.rules.base import Finding, Row, Threshold, evidence, frame_evidence, gain, takes
from advisor.rules.snippets import snippet
from advisor.strategies.registry import BASELINE
from advisor.units import times

ALL_CLASSES: tuple[MemoryClass, ...] = (
    "tegra",
    "tegra-io-coherent",
    "tegra-coherent",
    "discrete",
    "discrete-hmm",
    "coherent",
)
UNKNOWN_CLASS = "The device's memory class is not known."


def share_of_a_frame(meaning: str) -> Threshold:
    """The part of a frame (`Row.part`) from which it is worth a change: a tenth."""
    source = "Amdahl's law: without a part of 10 % a frame is at most 1.11 times as fast"
    return Threshold("share", 0.10, "ratio", meaning, source, high=1.0)


def change_to(
    better: Row,
    against: Row,
    detail: str,
    shown: Iterable[Evidence],
    *,
    device: Device,
    workload: WorkloadRecord,
    title: str | None = None,
    inferred: bool = False,
) -> Finding:
    """Advice to change from one strategy to another: with both frames, the gain and the code."""
    return Finding(
        "advice",
        detail,
        title=title,
        strategy=better.strategy,
        evidence=(*shown, frame_evidence(against), frame_evidence(better)),
        gain=gain(better, against),
        snippet=snippet(better.strategy, workload, device),
        inferred=inferred,
    )


def estimate(seconds: float | None, nbytes: int | None = None) -> Gain:
    """A gain that a formula gives; the rule says which."""
    return Gain(seconds_per_frame=seconds, bytes=nbytes, basis="estimated")


def compared(better: Row, against: Row) -> str:
    """ "pinned takes 1.00 ms a frame and pageable 2.00 ms: 2.00× (1.98× to 2.02×) as fast." """
    return (
        f"{takes(better, better.seconds)} a frame and {against.strategy} {units.seconds(against.seconds)}: "
        f"{times(against.over(better))} as fast."
    )


def against_strategy(row: Row) -> str:
    """Says whose cost the gain is counted against, where that is not the code in use."""
    return "" if row.strategy == BASELINE else f"The gain is against {row.strategy}."


def text(*sentences: str) -> str:
    """Sentences, those that are empty left out."""
    return " ".join(filter(None, sentences))


def no_slower(row: Row, other: Row) -> bool:
    """Equal within the margin or better; measured rows to the end of their interval."""
    ratio = row.over(other)
    return (ratio.value if row.predicted or other.predicted else ratio.high) <= 1 + stats.EQUIVALENCE


def present(rows: Mapping[str, Row], names: Sequence[str]) -> list[Row]:
    """The rows of these strategies that have figures, in that order."""
    return [rows[name] for name in names if name in rows]


def fastest(rows: Iterable[Row]) -> Row | None:
    """The row with the least time a frame; one whose frames overlap only where there is no other."""
    return min(rows, key=lambda row: (row.latency_seconds is not None, row.seconds), default=None)


def copies(row: Row) -> Evidence:
    """Time of a frame's copies."""
    return evidence(f"{row.strategy}: copies", row.transfer_seconds, "seconds", row)


def kernels(row: Row) -> Evidence:
    """Time of a frame's kernels."""
    return evidence(f"{row.strategy}: kernels", row.device_seconds, "seconds", row)


def host_stages(row: Row, names: Sequence[str] | None = None) -> Evidence:
    """Time of a frame's host stages, or of some."""
    chosen = list(row.host_stages) if names is None else list(names)
    seconds = sum(row.host_stages.get(name, 0.0) for name in chosen)
    label = "host stages" if names is None else ", ".join(chosen)
    return evidence(f"{row.strategy}: {label}", seconds, "seconds", row)


def rate(row: Row) -> list[Evidence]:
    """Bytes per second of its copies, where both are known."""
    if not (row.transfer_bytes and row.transfer_seconds):
        return []
    value = row.transfer_bytes / row.transfer_seconds
    return [evidence(f"{row.strategy}: rate of the copies", value, "bytes_per_second", row)]
