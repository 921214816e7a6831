"""What wrong input is refused with: tables of calls, whose messages a golden file owns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from advisor.errors import AdvisorError


def refusals(calls: Mapping[str, Callable[[], object]]) -> str:
    """Exit code, message and next step by what was asked for."""
    told = []
    for name, call in calls.items():
        try:
            call()
        except AdvisorError as error:
            assert error.next_step, name
            told.append(f"{name}\n  {error.exit_code}: {error.message}\n  next: {error.next_step}\n")
        else:
            told.append(f"{name}\n  is not refused\n")
    return "\n".join(told)
