"""unread-upload: uploads that nothing on the GPU reads before they are overwritten."""

from advisor import units
from advisor.rules.base import Finding, Limits
from advisor.rules.lines import LineCase
from advisor.rules.snippets.lines import removed


def judge_line(case: LineCase, limits: Limits) -> Finding | None:
    crossing = case.crossing
    if crossing.kind != "upload" or not crossing.unread:
        return None
    share = crossing.unread / crossing.count
    saved = case.frame_seconds * share
    if share < limits["share"] or not case.is_worth(saved, limits):
        return None
    return case.advice(
        f"Upload {case.what} only where it is read",
        f"{crossing.unread} of {crossing.count} uploads ({units.percent(share)}) were overwritten before a "
        "call of the library read them. Kernels that are launched by other means are not seen: check these "
        "first.",
        saved=saved,
        after=removed(case.line),
    )
