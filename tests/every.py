"""`@every(...)` in place of `@pytest.mark.parametrize(...)`: all cases of a table in one test."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]


def every(names: str | Sequence[str], cases: Iterable[Any], ids: Any = None) -> Callable[[Test], Test]:
    """Runs the test with each case; those that fail are named, the first with its traceback.

    For tests that leave nothing behind: fixtures are made once for all cases.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [case if len(keys) > 1 else (case,) for case in cases]
    called = ids if isinstance(ids, Collection) else ["-".join(map(ids or repr, case)) for case in table]

    def decorate(test: Test) -> Test:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            problems: list[tuple[object, BaseException]] = []
            for case, name in zip(table, called, strict=True):
                try:
                    test(**fixtures, **dict(zip(keys, case, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    problems.append((name, error))
            if problems:
                failed = " | ".join(str(name) for name, _ in problems)
                raise AssertionError(f"{len(problems)} of {len(table)} cases: {failed}") from problems[0][1]

        own = inspect.signature(test)
        rest = [parameter for name, parameter in own.parameters.items() if name not in keys]
        run.__signature__ = own.replace(parameters=rest)  # type: ignore[attr-defined]
        return run

    return decorate
