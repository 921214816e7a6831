"""hidden-host-copy: data that arrives elsewhere is copied into the memory that was to spare a copy."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Limits, Row, advice, not_applicable, passed
from advisor.rules.lines import LineCase
from advisor.rules.pageable_transfer import page_locked


def judge(case: Case, limits: Limits) -> Finding:
    external = ", ".join(buffer.name for buffer in case.workload.buffers if buffer.external)
    if not external:
        return not_applicable("No buffer is marked external.")
    copying = [row for row in case.rows.values() if row.host_copy_seconds]
    subject = case.chosen if case.chosen in copying else case.fastest(copying)
    if subject is None or subject.host_copy_seconds is None:
        row = case.chosen or case.fastest()
        return passed("No strategy here copies external buffers on the CPU.", *([row.frame()] if row else []))
    share = subject.part(subject.host_copy_seconds)
    if share < limits["share"]:
        little = f"only {units.percent(share)} of a frame of {subject.strategy}"
        return passed(f"The CPU's copies of {external} are {little}.", _copying(subject))
    cause = (
        f"The data of {external} arrives in memory that {subject.strategy} cannot use. The CPU copies "
        f"between the two {subject.take} {units.seconds(subject.host_copy_seconds)}, "
        f"{units.percent(share)} of a frame: the copy that the strategy should avoid, made by hand."
    )
    better = case.proposal((row for row in case.rows.values() if not row.host_copy_seconds), subject)
    if better is not None:
        cause = f"{cause} {better.strategy} uses that memory directly."
        return case.swap(subject, better, cause, [_copying(subject)])
    if case.chosen is not None and not case.chosen.host_copy_seconds:
        reason = f"The recommended {case.recommended} uses {external} where the data arrives."
        return passed(reason, case.chosen.frame(), _copying(subject))
    # Without the copies a frame takes what is left: an estimate, since nobody ran it.
    return advice(
        f"{cause} No strategy that uses that memory directly is clearly faster. Let the source write into "
        "the program's own arrays (a `dst=` or `out=` argument, buffers passed to the decoder or "
        "camera), which removes the copy. The gain is the time of the copies.",
        _copying(subject),
        subject.frame(),
        saved=subject.host_copy_seconds,
        title="Produce the data in place: pass the source the memory that the GPU uses",
    )


def _copying(row: Row) -> Evidence:
    return row.figure(f"{row.strategy}: the CPU's own copies", row.host_copy_seconds or 0.0)


def judge_line(case: LineCase, limits: Limits) -> Finding | None:
    if not case.is_copy or not case.crossing.staged:
        return None
    cause = "The library first copies it on the CPU into page-locked memory of its own."
    return page_locked(case, limits, cause)
