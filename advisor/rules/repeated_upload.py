"""repeated-upload: the same bytes go to the GPU again and again."""

from advisor.rules.base import Finding, Limits
from advisor.rules.lines import LineCase
from advisor.rules.snippets.lines import once


def judge_line(case: LineCase, limits: Limits) -> Finding | None:
    repeats, frames = case.crossing.repeats, case.scope.frames
    if case.crossing.kind != "upload" or repeats is None or repeats.compared < limits["compared"]:
        return None
    saved = case.frame_seconds * (1 - 1 / case.crossing.count)
    if repeats.same < repeats.compared or frames < 2 or not case.is_worth(saved, limits):
        return None
    return case.advice(
        f"Upload {case.what} once, {case.before_loop}",
        f"{case.moved}, and {repeats.same} of {repeats.compared} uploads that were compared "
        "brought the same bytes as the one before.",
        case.sampled,
        "The gain is the time of all uploads but the first.",
        saved=saved,
        after=once(case.line, case.before_loop, "# in the loop: use that array; nothing is uploaded"),
        change="hoist",
    )
