"""What wrong input is refused with: tables of calls, whose messages a golden file owns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from running import Said

from advisor.errors import AdvisorError


def refusals(calls: Mapping[str, Callable[[], object]]) -> str:
    """Exit code, message and next step by what was asked for, of calls and of commands."""
    return "\n".join(f"{name}\n{_refused(call)}" for name, call in calls.items())


def _refused(call: Callable[[], object]) -> str:
    try:
        said = call()
    except AdvisorError as error:
        return f"  {error.exit_code}: {error.message}\n  next: {error.next_step}\n"
    if isinstance(said, Said) and said.code:
        message, step = said.error[:2]
        return f"  {said.code}: {message.removeprefix('error: ')}\n{step}\n"
    return "  is not refused\n"
