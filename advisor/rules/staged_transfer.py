"""staged-transfer: cupy.asarray copies on the CPU into a page-locked pool before the link copies."""

from __future__ import annotations

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Limits, Row, Rule, share_of_a_frame
from advisor.rules.findings import Finding, passed, unbeaten
from advisor.rules.traced import Traced, copies
from advisor.strategies.registry import BASELINE

_SUBJECT = "staged"


def judge(case: Case, limits: Limits) -> Finding:
    """Warns against cupy.asarray in the frame where its copies matter and something else is faster."""
    staged = case.rows[_SUBJECT]
    if not staged.transfer_seconds:
        return passed("Nothing is copied between the sides in a frame.", staged.copies())
    share = staged.part(staged.transfer_seconds)
    if share < limits["share"]:
        return passed(
            f"The copies of cupy.asarray and cupy.asnumpy are only {units.percent(share)} of a frame.",
            staged.copies(),
        )
    cheaper = (row for row in case.rows.values() if row.transfer_seconds < staged.transfer_seconds)
    better = case.proposal(cheaper, staged)
    if better is None:
        others = (row for row in case.rows.values() if row.strategy not in (_SUBJECT, BASELINE))
        return unbeaten(staged, case.fastest(others))
    shown = (staged.copies(), *staged.rate(), *_pool(staged), better.copies(), *better.rate())
    title = _TITLE_SHARED if case.one_dram and not better.transfer_seconds else None
    return case.swap(staged, better, _cause(case, staged, better, share), shown, title=title)


_TITLE_SHARED = "Drop cupy.asarray from the frame: CPU and GPU share one memory"


def _pool(staged: Row) -> list[Evidence]:
    """What the pool holds; it rounds up, so that this may be twice the buffers."""
    if not staged.pinned_bytes:
        return []
    return [staged.figure(f"{_SUBJECT}: page-locked pool", staged.pinned_bytes, "bytes")]


def _cause(case: Case, staged: Row, better: Row, share: float) -> str:
    moved = "copies once" if better.transfer_seconds else "makes no copies"
    if better.overlaps:
        moved = "copies beside other work"
    pool = f" The pool keeps {units.size(staged.pinned_bytes)} of page-locked memory beside the buffers."
    return (
        "cupy.asarray of a NumPy array first copies it on the CPU into CuPy's page-locked pool, then over "
        f"to the device{', in the same DRAM' if case.one_dram else ''}: with the downloads that is "
        f"{units.seconds(staged.transfer_seconds)}{' as predicted' if staged.predicted else ''}, "
        f"{units.percent(share)} of a frame of {_SUBJECT}.{pool if staged.pinned_bytes else ''} "
        f"{better.strategy} {moved}."
    )


RULE = Rule(
    id="staged-transfer",
    title="Keep cupy.asarray out of the frame: page-lock the arrays once, set and get them",
    why="cupy.asarray and cupy.array of a NumPy array allocate and stage: a CPU copy into CuPy's page-locked "
    "pool, then an asynchronous copy from there. The upload itself is quick, but each byte passes through "
    "the CPU first, and the pool rounds up to powers of two and keeps what it took. The array that one "
    "allocates page-locked needs neither.",
    example="vector_add on NVIDIA H200, measured: cupy.asarray of a NumPy array first copies it on the CPU "
    "into CuPy's page-locked pool, then over to the device: with the downloads that is 20.5 ms, 49 % of a "
    "frame of staged. The pool keeps 192 MiB of page-locked memory beside the buffers. zero-copy makes no "
    "copies. zero-copy takes 18.3 ms a frame and staged 42.8 ms: 2.34× (2.01× to 2.87×) as fast. The gain is "
    "against staged.",
    requires=(_SUBJECT,),
    thresholds=(
        share_of_a_frame("part of a frame of staged that copies take, from which they are worth removing"),
    ),
    sources=(
        "cupy/cupy issues 6360 and 8090: cupy.asarray goes through the page-locked pool",
        "cupy/cupy issues 3625 and 8111: the pool rounds up to a power of two and keeps what it took",
    ),
    traced=Traced(
        (_SUBJECT,),
        copies,
        cause=lambda traced: traced.copied_bytes("host-to-device", source="pinned"),
        unseen="no upload from page-locked memory",
    ),
    judge=judge,
)
