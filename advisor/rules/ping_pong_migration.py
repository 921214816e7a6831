"""ping-pong-migration: managed pages that go back and forth because both sides use them in turn."""

from __future__ import annotations

from collections.abc import Mapping

from advisor import units
from advisor.profiles.schema import BufferRecord, Device, Evidence, WorkloadRecord
from advisor.rules.base import (
    Finding,
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
from advisor.rules.findings import against_strategy, change_to, compared, fastest, kernels, present, text
from advisor.rules.placed import changes_of_side, shared
from advisor.strategies.registry import BASELINE

_MANAGED = ("managed", "managed-prefetch", "managed-advised")
_ONE_DRAM = "CPU and GPU share one DRAM: nothing migrates."


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    absent: Mapping[str, str],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Warns against managed memory for buffers that change sides more often than a frame needs."""
    if shares_dram(device):
        return not_applicable(_ONE_DRAM)
    managed = fastest(present(rows, _MANAGED))
    if managed is None:
        return no_figures(_MANAGED[0], absent)
    # Over a coherent link no page has to move at all, so that the two changes of any shared buffer count.
    least = 2 if device.memory_class == "coherent" else limits["changes"]
    changes = {b.name: changes_of_side(b, workload) for b in shared(workload)}
    often = [b for b in shared(workload) if changes[b.name] >= least]
    if not often:
        most = max(changes.values(), default=0)
        return passed(
            f"A buffer changes sides at most {most} times a frame: it goes over and comes back once.",
            evidence("changes of side of a buffer in a frame", most, "count", managed),
        )
    others = [r for r in rows.values() if r.strategy not in _MANAGED and r.strategy != BASELINE]
    better = proposal(others, managed, recommended)
    shown = (*_evidence(often, changes, managed), kernels(managed))
    if better is None:
        return _unbeaten(_what(often, changes), managed, fastest(others), shown)
    detail = text(_what(often, changes), _COST, compared(better, managed), against_strategy(managed))
    return change_to(better, managed, detail, (*shown, kernels(better)), device=device, workload=workload)


_COST = (
    "At each change the pages that are touched move, by faults or by a prefetch, and a page that both sides "
    "keep using spends its time on the link."
)


def _unbeaten(what: str, managed: Row, nearest: Row | None, shown: tuple[Evidence, ...]) -> Finding:
    beside = f", {takes(nearest, nearest.seconds)}" if nearest else ""
    return passed(
        f"{what} But nothing else is surely faster: {takes(managed, managed.seconds)} a frame{beside}.",
        *shown,
        *([frame_evidence(nearest)] if nearest else []),
    )


def _what(often: list[BufferRecord], changes: Mapping[str, int]) -> str:
    named = ", ".join(f"{b.name} ({units.size(b.bytes)}) {changes[b.name]} times" for b in often)
    return f"In each frame buffers change sides: {named}."


def _evidence(often: list[BufferRecord], changes: Mapping[str, int], row: Row) -> tuple[Evidence, ...]:
    moved = sum(b.bytes * changes[b.name] for b in often)
    return (
        *(evidence(f"changes of side of {b.name} in a frame", changes[b.name], "count", row) for b in often),
        evidence("bytes that change sides in a frame, at most", moved, "bytes", row),
    )


RULE = Rule(
    id="ping-pong-migration",
    title="Keep what both sides use in turn out of managed memory",
    why="Managed pages live on one side at a time. A buffer that the CPU looks at between two kernels, or a "
    "flag that both sides write, goes back and forth over the link with every turn. Where the link is "
    "coherent nothing would have to move at all: on GH200 such memory falls to 18 to 29 GB/s, where memory "
    "that stays in place is read at 330.",
    memory_classes=("discrete", "discrete-hmm", "coherent"),
    elsewhere=_ONE_DRAM,
    needs=("device", "workload", "rows", "absent", "recommended"),
    thresholds=(
        Threshold(
            "changes",
            3,
            "count",
            "changes of side of a buffer in a frame, on a card; over a coherent link two are enough",
            "two are what any buffer needs that goes over and comes back once a frame",
        ),
    ),
    sources=(
        "https://dnhkng.github.io/posts/gh200-benchmarking: 18 to 29 GB/s by turns, 328 to 339 in place",
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#unified-memory-programming",
    ),
    judge=judge,
)
