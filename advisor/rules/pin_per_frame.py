"""pin-per-frame: memory is page-locked or registered again in every frame."""

from advisor import units
from advisor.rules.base import Case, Finding, Limits, advice, not_applicable, passed
from advisor.rules.lines import LineCase, often
from advisor.rules.snippets.lines import once


def judge(case: Case, limits: Limits) -> Finding:
    looked = [(row, row.page_locking) for row in case.rows.values() if row.page_locking is not None]
    if not looked:
        return not_applicable("Not observed: page-locking calls are recorded only on a GPU.")
    row, seen = max(looked, key=lambda pair: pair[1].seconds)
    shown = (
        row.figure(f"{row.strategy}: page-locking calls in a frame", seen.calls, "count"),
        row.figure(f"{row.strategy}: time of these calls", seen.seconds),
    )
    if seen.calls < limits["calls"]:
        unseen = "calls of other libraries are not recorded"
        return passed(f"No stage page-locks memory in its frames through CuPy ({unseen}).", *shown)
    return advice(
        f"In each frame of {row.strategy} the workload's stages lock or unlock pages "
        f"{units.digits(seen.calls)} times, which takes {units.seconds(seen.seconds)} or "
        f"{units.percent(seen.seconds / row.seconds)} of the frame. Locking visits every page and costs "
        "more than it saves for a single copy. Lock once, before the frames, and reuse the memory; or "
        "copy from pageable memory. The gain is the time of these calls.",
        *shown,
        saved=seen.seconds,
    )


def judge_line(case: LineCase, limits: Limits) -> Finding | None:
    saved = case.frame_seconds
    if case.crossing.kind != "lock" or case.times < limits["calls"] or not case.is_worth(saved, limits):
        return None
    return case.advice(
        f"Page-lock {case.what} once, not in every frame",
        f"{case.crossing.call} page-locks memory {often(case.times)} times in a frame. Locking visits "
        "every page and costs more than it saves for a single copy. The gain is the time of these calls.",
        saved=saved,
        after=once(case.line, case.before_loop, "# in the loop: write into that memory"),
    )
