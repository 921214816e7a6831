"""One value of an option, wherever it is said: read by pydantic, refused in one shape of message."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from advisor import units
from advisor.errors import UsageError, nearest
from advisor.measure.options import OPTIONS, Option, Options

CALL = "advisor.profile:"


@dataclass(frozen=True)
class Said:
    """What one place says. `where` names it in messages; it is empty for the command line."""

    where: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    def called(self, name: str) -> str:
        """What the option is called there: `--max-seconds`, or `advisor.toml: max-seconds`."""
        key = OPTIONS[name].key
        return f"{self.where} {name if self.where == CALL else key}" if self.where else f"--{key}"

    def written(self, name: str, value: object) -> str:
        """How a value was written there: `--rounds 0`, or `advisor.profile: rounds=0`."""
        if self.where:
            return f"{self.called(name)}{'=' if self.where == CALL else ' '}{value!r}"
        return f"{self.called(name)} {shlex.quote(str(value))}" if value != "" else self.called(name)

    @property
    def silences_as(self) -> str:
        """What silences a rule, in the words of a report."""
        return self.where.rstrip(":") or "--ignore"


def read(place: Said, name: str, value: Any) -> Any:
    """The value as `Options` has it. Raises `UsageError` for one of another type or out of range."""
    option, kind = OPTIONS[name], _TYPES[name]
    if option.positional:  # names of files and a script's words need not be UTF-8
        return value if isinstance(value, str) else tuple(value)
    if get_origin(kind) is tuple and isinstance(value, str):
        value = (value,)
    given = value
    percent = isinstance(value, str) and value.strip().endswith("%")
    if option.range and place.where and not percent and not _is_number(value):
        given = object()  # other text is a number on the command line alone, and true is none anywhere
    limited: Any = Annotated[kind, Field(**option.limits)]
    try:
        return TypeAdapter[Any](limited).validate_python(given)
    except ValidationError as problem:
        error, choices = problem.errors()[0], _choices(kind)
    wrong = value if place.where else error["input"]
    raise UsageError(
        f"{place.written(name, wrong)} {_complaint(error)}{nearest(str(wrong), choices)}",
        next_step=_right(option, choices),
    )


def _right(option: Option, choices: Sequence[str]) -> str:
    """What to do instead."""
    if choices and not option.give:
        return f"Choose from {', '.join(choices)}."
    unit = "seconds " if option.metavar == "SECONDS" else ""
    default = f"; the default is {option.default}" if option.default is not None else ""
    return option.give or (f"Give {unit}{option.range}{default}." if option.range else option.help)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _share(value: object) -> object:
    """5% is 0.05."""
    if isinstance(value, str) and value.strip().endswith("%"):
        with suppress(ValueError):
            return float(value.strip()[:-1]) / 100
    return value


def _size(value: object) -> int:
    with suppress(ValueError):
        if isinstance(value, (int, str)) and not isinstance(value, bool):
            return units.parse_size(str(value))
    raise ValueError("is not a size above 0")


def _flat(table: object) -> dict[Any, object]:
    """`[rule.zero-copy-reread] passes = 2` as `zero-copy-reread.passes`, which in quotes is the same."""
    if not isinstance(table, Mapping) or not all(isinstance(name, str) for name in table):
        raise ValueError("is not a table of thresholds")
    flat: dict[Any, object] = {}
    for name, value in table.items():
        inner = value if isinstance(value, Mapping) else {}
        flat |= {f"{name}.{key}": number for key, number in inner.items()} or {name: value}
    return flat


def _not_empty(value: object) -> object:
    """An empty variable of a shell is no directory, though a path of it is the working one."""
    if not str(value).strip():
        raise ValueError("is empty")
    if "\0" in str(value):
        raise ValueError("has a null character, which no path can have")
    return value


_TYPES = get_type_hints(Options) | {
    "memory_budget": Annotated[int, BeforeValidator(_size)],
    "indifference": Annotated[float, BeforeValidator(_share)],
    "placement": dict[str, str],
    "rules": Annotated[dict[str, Any], BeforeValidator(_flat)],
    "out": Annotated[Path, BeforeValidator(_not_empty)],
}
_COMPLAINTS = {
    **dict.fromkeys(("greater", "less", "finite"), "is out of range"),
    **dict.fromkeys(("literal", "string"), "is not known"),
    "int": "is not a whole number",
    "float": "is not a number",
    "bool": "is not true or false",
    "tuple": "is not a list of names",
    "path": "is not a path",
}
"""Messages for pydantic's errors, by the first word of their type."""


def _complaint(error: Any) -> str:
    kind = "tuple" if error["type"] == "string_type" and error["loc"] else error["type"]
    return str(error["ctx"]["error"]) if kind == "value_error" else _COMPLAINTS[kind.partition("_")[0]]


def _choices(kind: Any) -> tuple[str, ...]:
    """The names that a `Literal` in a type allows."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(choice for inner in get_args(kind) for choice in _choices(inner))
