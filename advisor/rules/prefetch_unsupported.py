"""prefetch-unsupported: cudaMemPrefetchAsync fails here, and what does its work."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.profiles.schema import Device, Evidence, WorkloadRecord
from advisor.rules.base import Finding, Row, Rule, frame_evidence, no_figures, not_applicable, passed, takes
from advisor.rules.findings import (
    ALL_CLASSES,
    UNKNOWN_CLASS,
    against_strategy,
    change_to,
    compared,
    no_slower,
    text,
)
from advisor.strategies.registry import BASELINE
from advisor.units import times

_ATTACHED = "managed-prefetch"
_PLAIN = "managed"
_ATTRIBUTE = "concurrent_managed_access"


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Advises stream attachment in place of prefetching, where it helps; else to leave both out."""
    del limits
    if _ATTRIBUTE not in device.attributes:
        return not_applicable("Whether the device can prefetch is not known: concurrentManagedAccess is not.")
    if device.attributes[_ATTRIBUTE]:
        return not_applicable("Prefetching is supported: concurrentManagedAccess is 1.")
    attached, plain = rows.get(_ATTACHED), rows.get(_PLAIN)
    if attached is None or plain is None:
        return no_figures(_ATTACHED if attached is None else _PLAIN, absent)
    kept = _kept(device, attached, plain, rows.get(recommended or ""))
    if kept is not None:
        return kept
    beaten = BASELINE in rows and attached.beats(rows[BASELINE])
    detail = text(
        _fact(device),
        _CURE,
        compared(attached, plain),
        against_strategy(plain),
        "It beats the baseline too." if beaten else "",
    )
    return change_to(attached, plain, detail, (_flag(device),), device=device, workload=workload)


_CURE = (
    "cudaStreamAttachMemAsync does its work: with cudaMemAttachSingle before a kernel it cleans the CPU's "
    "caches once, with cudaMemAttachHost before the CPU's turn it gives the memory back, and buffers that no "
    "kernel uses are left alone."
)


def _kept(device: Device, attached: Row, plain: Row, chosen: Row | None) -> Finding | None:
    """Why attaching is not worth its calls here, or None."""
    shown = (_flag(device), frame_evidence(attached), frame_evidence(plain))
    if not attached.beats(plain):
        return passed(
            f"{_fact(device)} What stands for it, attaching to a stream, takes {times(attached.over(plain))} "
            "the time of plain managed memory: leave both out.",
            *shown,
        )
    if chosen is not None and chosen is not attached and no_slower(chosen, attached):
        return passed(
            f"{_fact(device)} Attaching to a stream is faster than plain managed memory, but "
            f"{chosen.strategy}, which is recommended, is as fast: {takes(chosen, chosen.seconds)} a frame.",
            *shown,
        )
    return None


def _fact(device: Device) -> str:
    return f"On {device.name} cudaMemPrefetchAsync returns an error (concurrentManagedAccess is 0)."


def _flag(device: Device) -> Evidence:
    value = float(device.attributes.get(_ATTRIBUTE, 0))
    return Evidence(label="concurrentManagedAccess", value=value, unit="count")


RULE = Rule(
    id="prefetch-unsupported",
    title="Attach managed memory to the stream: prefetching is not supported",
    why="cudaMemPrefetchAsync and cudaMemAdvise need concurrentManagedAccess, which no Jetson before Thor "
    "has, nor Windows, nor WSL. Code from a server that prefetches fails there, or is changed to do "
    "nothing. Attaching the memory to a stream is the hint that works: the driver then maintains the caches, "
    "or moves the pages, of that memory alone.",
    memory_classes=ALL_CLASSES,
    elsewhere=UNKNOWN_CLASS,
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-for-tegra-appnote/index.html"
        "#effective-usage-of-unified-memory-on-tegra",
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#data-prefetching",
    ),
    judge=judge,
)
