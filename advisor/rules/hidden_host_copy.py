"""hidden-host-copy: data that arrives elsewhere is copied into the memory that was to spare a copy."""

from __future__ import annotations

from collections.abc import Mapping

from advisor import units
from advisor.profiles.schema import Device, Evidence, WorkloadRecord
from advisor.rules.base import Finding, Row, Rule, evidence, frame_evidence, not_applicable, passed, proposal
from advisor.rules.findings import (
    ALL_CLASSES,
    UNKNOWN_CLASS,
    against_strategy,
    change_to,
    compared,
    estimate,
    fastest,
    share_of_a_frame,
    text,
)
from advisor.strategies.registry import BASELINE


def judge(
    device: Device,
    workload: WorkloadRecord,
    rows: Mapping[str, Row],
    recommended: str | None,
    limits: Mapping[str, float],
) -> Finding:
    """Advises a strategy that takes the memory as it comes; else to produce the data in place."""
    external = [buffer.name for buffer in workload.buffers if buffer.external]
    if not external:
        return not_applicable("No buffer's data arrives in memory of another's choice: none is external.")
    copying = [row for row in rows.values() if row.host_copy_seconds]
    subject = next((row for row in copying if row.strategy == recommended), fastest(copying))
    if subject is None or subject.host_copy_seconds is None:
        return passed("No strategy here copies external buffers on the CPU.", *_frames(rows, recommended))
    share = subject.part(subject.host_copy_seconds)
    if share < limits["share"]:
        return passed(
            f"The CPU's copies of {', '.join(external)} are only {units.percent(share)} of a frame of "
            f"{subject.strategy}.",
            _copying(subject),
        )
    spared = (r for r in rows.values() if not r.host_copy_seconds and r.strategy != BASELINE)
    better = proposal(spared, subject, recommended)
    if better is None:
        return _in_place(external, subject, share, rows.get(recommended or ""))
    return change_to(
        better,
        subject,
        text(
            _cause(external, subject, share),
            f"{better.strategy} takes the memory as it is.",
            compared(better, subject),
            against_strategy(subject),
        ),
        (_copying(subject),),
        device=device,
        workload=workload,
    )


def _frames(rows: Mapping[str, Row], recommended: str | None) -> list[Evidence]:
    row = rows.get(recommended or "") or fastest(rows.values())
    return [frame_evidence(row)] if row else []


def _in_place(external: list[str], subject: Row, share: float, chosen: Row | None) -> Finding:
    """Without the copies a frame takes what is left: an estimate, since nobody ran it."""
    if chosen is not None and not chosen.host_copy_seconds:
        return passed(
            f"{chosen.strategy}, which is recommended, takes {', '.join(external)} where the data arrives.",
            frame_evidence(chosen),
            _copying(subject),
        )
    return Finding(
        "advice",
        text(
            _cause(external, subject, share),
            "No strategy that takes the memory as it comes is surely faster. Let the source write into the "
            "program's own arrays (a `dst=` or `out=` argument, a decoder's or camera's own buffers), and "
            "the copy is gone: the gain is the time of the copies.",
        ),
        title="Produce the data in place: give the source the memory that the GPU uses",
        evidence=(_copying(subject), frame_evidence(subject)),
        gain=estimate(subject.host_copy_seconds),
    )


def _cause(external: list[str], subject: Row, share: float) -> str:
    verb = "are predicted to take" if subject.predicted else "take"
    return (
        f"The data of {', '.join(external)} arrives in other memory than {subject.strategy} needs. The "
        f"CPU's copies between the two {verb} {units.seconds(subject.host_copy_seconds or 0.0)}, "
        f"{units.percent(share)} of a frame: the copy that the strategy was to spare, made by hand."
    )


def _copying(row: Row) -> Evidence:
    return evidence(f"{row.strategy}: the CPU's own copies", row.host_copy_seconds or 0.0, "seconds", row)


RULE = Rule(
    id="hidden-host-copy",
    title="Register the memory that the data arrives in, in place of copying it",
    why="np.copyto(managed, image) keeps the copy that managed, mapped or page-locked memory was meant to "
    "remove, and the memory for it: a pass over the data on the CPU, often as slow as the transfer. Memory "
    "that somebody else allocated can be registered where it is; or the data is produced in the right "
    "memory to begin with.",
    memory_classes=ALL_CLASSES,
    elsewhere=UNKNOWN_CLASS,
    needs=("device", "workload", "rows", "recommended"),
    thresholds=(
        share_of_a_frame(
            "part of a frame that the CPU's own copies take, from which they are worth removing"
        ),
    ),
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#page-locked-host-memory",),
    judge=judge,
)
