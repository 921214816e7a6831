"""uncached-host-read: the CPU reads page-locked memory that it does not cache (Jetsons before Xavier)."""

from collections.abc import Iterable

from advisor import units
from advisor.rules.base import Case, Finding, Limits, Row, not_applicable, passed
from advisor.rules.rows import host_readers


def judge(case: Case, limits: Limits) -> Finding:
    readers = host_readers(case.workload)
    if not readers:
        return not_applicable("No host stage reads a buffer that kernels use too.")
    stages = list(dict.fromkeys(stage for names in readers.values() for stage in names))
    uncached = [row for row in case.rows.values() if _reads_uncached(row, readers)]
    cached = [row for row in case.rows.values() if not _reads_uncached(row, readers)]
    if not uncached:
        return case.without("pinned")
    reference = min(cached, key=lambda row: row.spent(stages), default=None)
    if reference is None or not reference.spent(stages):
        return not_applicable("No strategy whose memory the CPU caches has figures to compare with.")
    slow = [row for row in uncached if row.spent(stages) >= limits["slowdown"] * reference.spent(stages)]
    subject = case.chosen if case.chosen in slow else case.fastest(slow)
    shown = subject or max(uncached, key=lambda row: row.spent(stages))
    evidence = (shown.stages(stages), reference.stages(stages))
    reason = (
        f"The stages that read shared buffers take {_span(shown, stages)} with {shown.strategy} and "
        f"{_span(reference, stages)} with {reference.strategy}"
    )
    if subject is None:
        return passed(f"{reason}: reading page-locked memory costs the CPU nothing here.", *evidence)
    better = case.proposal(cached, subject)
    if better is None:
        none = "no strategy other than the baseline is clearly faster overall"
        return passed(f"{reason}, but {none}.", *evidence)
    cause = (
        f"On {case.device.name} the CPU does not cache page-locked memory: every read goes to DRAM. "
        f"{', '.join(stages)} read{'s' if len(stages) == 1 else ''} {', '.join(readers)}: "
        f"{_span(subject, stages)} with {subject.strategy}, {_span(better, stages)} with {better.strategy}."
    )
    return case.swap(subject, better, cause, evidence)


def _reads_uncached(row: Row, buffers: Iterable[str]) -> bool:
    placed = [row.placements[buffer] for buffer in buffers if buffer in row.placements]
    return any(not placement.cpu_caches(row.memory_class) for placement in placed)


def _span(row: Row, stages: list[str]) -> str:
    return f"{units.seconds(row.spent(stages))}{' (predicted)' if row.predicted else ''}"
