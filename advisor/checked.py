"""Arguments of `advisor.profile`, checked as the command line checks its options: no type error of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real

from advisor import configuration
from advisor.errors import UsageError
from advisor.preferences import Preferences

_WHOLE = ("rounds", "seed", "gpu")


def names(what: str, given: object) -> tuple[str, ...]:
    """One name or several. Raises `UsageError` for what is neither."""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Sequence) and all(isinstance(name, str) for name in given):
        return tuple(given)
    raise UsageError(f"{what} is {given!r}, which is no list of names", next_step=f'Write {what}=["NAME"].')


def require_numbers(**given: object) -> None:
    """Raises `UsageError` for an argument that is no number, or not whole where it counts something."""
    for what, value in given.items():
        kind, called = (Integral, "whole number") if what in _WHOLE else (Real, "number")
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            raise UsageError(f"{what} is {value!r}, which is no {called}", next_step=f"Write {what}=3.")


def require_mapping(what: str, given: object, example: str) -> None:
    """Raises `UsageError` for what is no dict of names."""
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise UsageError(
            f"{what} is {given!r}, which is no dict of names", next_step=f"Write {what}={example}."
        )


def preferences(objective: object, memory_budget: object, rules: object, ignore: object) -> Preferences:
    """By what to conclude, as the options of these names on top of `advisor.toml`. Raises `AdvisorError`."""
    require_mapping("rules", rules or {}, '{"zero-copy-reread.passes": 2}')
    thresholds = dict(rules) if isinstance(rules, Mapping) else {}
    place = "advisor.profile:"
    said = configuration.Said(place, thresholds, names("ignore", ignore), objective, memory_budget)
    return configuration.preferences(said)
