"""zero-copy-reread: kernels that read a zero-copy buffer again, past the GPU's caches or over the link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from advisor import units
from advisor.profiles.schema import Device, Evidence, WorkloadRecord
from advisor.rules.base import (
    Finding,
    Reads,
    Row,
    Rule,
    Threshold,
    evidence,
    frame_evidence,
    no_figures,
    not_applicable,
    passed,
    proposal,
    shares_dram,
    takes,
)
from advisor.rules.findings import change_to, copies, kernels
from advisor.strategies.registry import BASELINE
from advisor.units import times

_SUBJECT = "zero-copy"


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    reads: tuple[Reads, ...],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Warns against zero-copy where re-reads explain why another strategy is faster."""
    zero_copy = rows.get(_SUBJECT)
    if zero_copy is None:
        return no_figures(_SUBJECT, absent)
    if not reads:
        return not_applicable("No kernel reads a buffer that the CPU uses too.")
    again = [read for read in reads if _reads_again(read, device, limits)]
    if not again and all(read.known for read in reads):
        return _read_once(reads, zero_copy)
    others = [
        row
        for row in rows.values()
        if _slowdown(zero_copy, row, device) >= limits["slowdown"] and not _same_path(row, device)
    ]
    better = proposal((r for r in others if r.strategy != BASELINE), zero_copy, recommended)
    if better is None:
        return _nothing_better(again, rows, zero_copy, limits)
    return change_to(
        better,
        zero_copy,
        _detail(device, again, zero_copy, better, limits),
        _evidence(again, zero_copy, better),
        device=device,
        workload=workload,
        title=_TITLE_SHARED if shares_dram(device) else _TITLE_CARD,
    )


_TITLE_SHARED = "Keep buffers that kernels re-read in memory the GPU caches"
_TITLE_CARD = "Copy once instead of reading through the link"


def _reads_again(read: Reads, device: Device, limits: Mapping[str, float]) -> bool:
    """On a card, data that no frame renews is read again too: in each frame, where one copy would do."""
    return read.passes >= limits["passes"] or not (read.new_each_frame or shares_dram(device))


def _same_path(row: Row, device: Device) -> bool:
    """Mapped memory by another name; on Thor registered memory is another thing."""
    if row.strategy == "zero-copy-registered":
        return device.memory_class != "tegra-coherent"
    return row.strategy == "zero-copy-wc"


def _slowdown(zero_copy: Row, other: Row, device: Device) -> float:
    """The kernels' time over the other strategy's, with the copies that spare the card the link."""
    path = other.device_seconds + (0.0 if shares_dram(device) else other.transfer_seconds)
    return zero_copy.device_seconds / path if path > 0 else 0.0


def _read_once(reads: Sequence[Reads], zero_copy: Row) -> Finding:
    most = max(reads, key=lambda read: read.passes)
    return passed(
        f"Kernels read each shared buffer about once a frame ({most.buffer}: "
        f"{units.digits(most.passes)} times), as zero-copy memory wants it.",
        _passes(most, zero_copy),
    )


def _nothing_better(
    again: Sequence[Reads], rows: Mapping[str, Row], zero_copy: Row, limits: Mapping[str, float]
) -> Finding:
    """Re-reads, or an unknown number of them, that no other strategy but the one in use makes cheaper."""
    what = _what(again, limits) if again else "How often kernels read is not known"
    others = [row for row in rows.values() if row is not zero_copy]
    nearest = min(others, key=lambda row: (row.strategy == BASELINE, row.seconds), default=None)
    compared = [zero_copy, *([nearest] if nearest else [])]
    figures = "; ".join(
        f"{takes(row, row.seconds)} a frame, {units.seconds(row.device_seconds)} of it in kernels"
        for row in compared
    )
    return passed(
        f"{what}, but no other strategy is surely the better for it: {figures}.",
        *(_passes(read, zero_copy) for read in again),
        *(item for row in compared for item in (kernels(row), frame_evidence(row))),
    )


def _detail(
    device: Device, again: Sequence[Reads], zero_copy: Row, better: Row, limits: Mapping[str, float]
) -> str:
    return " ".join(
        (
            _cause(device, again, limits),
            _cure(device, better),
            f"Kernels {'are predicted to take' if better.predicted else 'take'} "
            f"{units.seconds(zero_copy.device_seconds)} with zero-copy and "
            f"{units.seconds(better.device_seconds)} with {better.strategy}; a whole frame of zero-copy "
            f"takes {times(zero_copy.over(better))} the time. The gain is against zero-copy.",
        )
    )


def _cause(device: Device, again: Sequence[Reads], limits: Mapping[str, float]) -> str:
    counted = "; ".join(_count(read, limits) for read in again)
    seen = f" ({counted})" if counted else ", to judge by their time (declare `passes` to be sure)"
    if shares_dram(device):
        return (
            f"Kernels read zero-copy memory again{seen}. On {device.name} the GPU does not cache page-locked "
            "memory, so that each pass goes to DRAM."
        )
    per_frame = sum(read.bytes * read.passes for read in again)
    amount = f" Up to {units.size(per_frame)} a frame cross it." if again else ""
    return (
        f"Kernels read zero-copy memory again{seen}. On {device.name} each pass that the caches do not "
        f"serve crosses the link.{amount}"
    )


def _cure(device: Device, better: Row) -> str:
    if not shares_dram(device):
        return f"With {better.strategy}, kernels read the card's own memory."
    if better.strategy in ("zero-copy-registered", "system"):
        return f"With {better.strategy}, kernels read ordinary memory, which Thor's GPU caches in its L2."
    if not better.strategy.startswith("managed"):
        return f"With {better.strategy}, kernels read device memory, which the GPU caches."
    if device.memory_class == "tegra-coherent":
        return "Managed memory is not cached there either, but its kernels are faster here."
    return "Managed memory is cached on both sides and needs no copy either."


def _what(again: Sequence[Reads], limits: Mapping[str, float]) -> str:
    """What is read more than once in a frame, and what only because each frame reads it anew."""
    often = [_count(read, limits) for read in again if read.passes >= limits["passes"]]
    anew = [read.buffer for read in again if read.passes < limits["passes"]]
    parts = [f"re-read {', '.join(often)}"] if often else []
    parts += [f"read the same data of {', '.join(anew)} in each frame"] if anew else []
    return f"Kernels {' and '.join(parts)}"


def _count(read: Reads, limits: Mapping[str, float]) -> str:
    """Passes only where there is more than about one: fewer are re-read in the next frame, if at all."""
    passes = f"{units.digits(read.passes)} times{'' if read.known else ', at least'}"
    told = [passes] if read.passes >= limits["passes"] else []
    told += [] if read.new_each_frame else ["the same data in each frame"]
    return f"{read.buffer}: {', '.join(told)}"


def _evidence(again: Sequence[Reads], zero_copy: Row, better: Row) -> tuple[Evidence, ...]:
    pair = (zero_copy, better)
    return (
        *(_passes(read, zero_copy) for read in again),
        *(kernels(row) for row in pair),
        *(copies(row) for row in pair),
    )


def _passes(read: Reads, row: Row) -> Evidence:
    return evidence(f"reads of {read.buffer} by {', '.join(read.stages)}", read.passes, "count", row)


RULE = Rule(
    id="zero-copy-reread",
    title="Keep buffers that kernels re-read out of zero-copy memory",
    why="The GPU of a Jetson does not cache page-locked memory: one pass costs no more than managed memory, "
    "but each further pass goes to DRAM again. On a card, each pass crosses PCIe again, and so does data "
    "that a copy would have brought over once. A kernel that reads its input many times can be 5 to 80 times "
    "slower on zero-copy memory.",
    memory_classes=("tegra", "tegra-io-coherent", "tegra-coherent", "discrete", "discrete-hmm"),
    elsewhere="Over a coherent link caches can hold host memory, and no published figure gives a penalty for "
    "re-reads: the measured frames decide.",
    needs=("device", "workload", "rows", "absent", "reads", "recommended"),
    thresholds=(
        Threshold(
            "passes",
            1.5,
            "count",
            "reads of a buffer in one frame from which it counts as read again",
            "halfway between one pass, which costs nothing extra (measured on TX1: Zero Copy and Pinned "
            "Memory on NVIDIA TX-1), and two",
        ),
        Threshold(
            "slowdown",
            1.25,
            "ratio",
            "time of the kernels on zero-copy memory over that on other memory (on a card: with its copies)",
            "chosen between about 1 for a single pass (TX1, same source) and about 5 for a cache-heavy "
            "kernel on Xavier (FrancescoL96/Cache-Benchmark)",
            low=1.0,
        ),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-for-tegra-appnote/index.html#memory-management",
        "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html#zero-copy",
        "https://github.com/FrancescoL96/Cache-Benchmark",
    ),
    judge=judge,
)
