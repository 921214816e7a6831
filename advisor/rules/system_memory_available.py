"""system-memory-available: kernels reach pageable memory by themselves, so that malloc would do."""

from advisor import units
from advisor.rules.base import Case, Finding, Limits, Row, compared, passed, text

_SUBJECT = "system"


def judge(case: Case, _: Limits) -> Finding:
    system, baseline = case.rows[_SUBJECT], case.baseline
    others = [row for row in case.rows.values() if row not in (system, baseline)]
    rival = case.chosen if case.chosen in others else case.fastest(others)
    if not system.beats(baseline):
        return _kept("copies are not slower", system, baseline)
    if rival is not None and not system.no_slower(rival):
        return _kept("explicitly allocated memory is faster, or may be", system, rival)
    cause = (
        f"Kernels on {case.device.name} can use the address of a NumPy array directly: no copies, no "
        "page-locking, no special allocation."
    )
    if rival is None:
        return case.swap(baseline, system, cause, [system.kernels()])
    beside = (
        f"{rival.strategy}, with dedicated memory, {'would take' if rival.predicted else 'takes'} "
        f"{units.seconds(rival.seconds)}."
    )
    worth = text(compared(system, baseline), beside)
    return case.swap(baseline, system, cause, [system.kernels(), rival.frame()], worth=worth)


def _kept(why: str, system: Row, other: Row) -> Finding:
    reason = f"Kernels reach pageable memory, but {why}: {system.takes} a frame, {other.takes}."
    return passed(reason, system.kernels(), system.frame(), other.frame())
