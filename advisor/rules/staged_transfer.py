"""staged-transfer: cupy.asarray copies on the CPU into a page-locked pool before the link copies."""

from advisor import units
from advisor.rules.base import Case, Finding, Limits, Row, Traced, copies, passed, unbeaten
from advisor.strategies.registry import BASELINE

_SUBJECT = "staged"


def judge(case: Case, limits: Limits) -> Finding:
    staged = case.rows[_SUBJECT]
    if not staged.transfer_seconds:
        return passed("Nothing is copied between the sides in a frame.", staged.copies())
    share = staged.part(staged.transfer_seconds)
    if share < limits["share"]:
        little = f"only {units.percent(share)} of a frame"
        return passed(f"The copies of cupy.asarray and cupy.asnumpy are {little}.", staged.copies())
    cheaper = (row for row in case.rows.values() if row.transfer_seconds < staged.transfer_seconds)
    better = case.proposal(cheaper, staged)
    if better is None:
        others = (row for row in case.rows.values() if row.strategy not in (_SUBJECT, BASELINE))
        return unbeaten(staged, case.fastest(others))
    # The pool rounds up, so that it may hold twice the buffers.
    pool = [staged.figure(f"{_SUBJECT}: page-locked pool", staged.pinned_bytes, "bytes")]
    shown = [staged.copies(), *staged.rate(), *(pool if staged.pinned_bytes else ())]
    shown += [better.copies(), *better.rate()]
    shared = case.one_dram and not better.transfer_seconds and not better.overlaps
    title = "Drop cupy.asarray from the frame: CPU and GPU share one memory" if shared else None
    return case.swap(staged, better, _cause(case, staged, better, share), shown, title=title)


def _cause(case: Case, staged: Row, better: Row, share: float) -> str:
    moved = "copies once" if better.transfer_seconds else "makes no copies"
    if better.overlaps:
        moved = "copies while other work continues"
    pool = f" The pool holds another {units.size(staged.pinned_bytes)} of page-locked memory."
    return (
        "cupy.asarray of a NumPy array first copies it on the CPU into CuPy's page-locked pool, then to "
        f"the device{', in the same DRAM' if case.one_dram else ''}: including downloads, "
        f"{units.seconds(staged.transfer_seconds)}{' as predicted' if staged.predicted else ''}, "
        f"{units.percent(share)} of a frame of {_SUBJECT}.{pool if staged.pinned_bytes else ''} "
        f"{better.strategy} {moved}."
    )


TRACED = Traced(
    (_SUBJECT,),
    copies,
    cause=lambda traced: traced.copied_bytes("host-to-device", source="pinned"),
    unseen="no upload from page-locked memory",
)
