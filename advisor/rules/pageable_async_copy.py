"""pageable-async-copy: an asynchronous copy was asked for, from or to pageable memory."""

from advisor.rules.base import Finding, Limits
from advisor.rules.lines import LineCase
from advisor.rules.pageable_transfer import page_locked


def judge_line(case: LineCase, limits: Limits) -> Finding | None:
    crossing = case.crossing
    if not case.is_copy or crossing.memory != "pageable" or crossing.staged or not crossing.non_blocking:
        return None
    asked = "The call asks for an asynchronous copy, but from pageable memory the driver stages it."
    return page_locked(case, limits, asked)
