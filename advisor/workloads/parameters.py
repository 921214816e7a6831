"""A workload's parameters: from its signature and from `--set name=value`."""

from __future__ import annotations

import inspect
import math
import re
import types
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from advisor.errors import UsageError, WorkloadError, nearest
from advisor.workloads.definition import Definition

Value = int | float | bool | str

_EXPONENT = re.compile(r"\d+(\.\d+)?[eE]\d{1,2}")
_POWER = re.compile(r"(\d+)(\*\*|<<)(\d+)")
_MOST_BITS = 128
"""Bits of a parameter: room for any size and any hash."""
_PLAIN = {kind.__name__: kind for kind in (int, float, bool, str)}


def resolve(definition: Definition, assignments: Mapping[str, str]) -> dict[str, Value]:
    """The values of all parameters: what was set, else the defaults. Raises `WorkloadError` when the
    signature is not usable, `UsageError` when a setting is not."""
    declared = _declared(definition)
    for name in assignments:
        _require(definition, name, declared)
    values: dict[str, Value] = {}
    for name, (annotation, default) in declared.items():
        if name in assignments:
            values[name] = _parse(name, assignments[name], annotation)
        elif default is inspect.Parameter.empty:
            wrong = f"parameter {name!r} of workload {definition.name!r} has no default"
            raise UsageError(wrong, next_step=f"Give it with --set {name}=VALUE.")
        else:
            values[name] = default
    return values


def require_readable(definition: Definition, name: str, texts: typing.Iterable[str], option: str) -> None:
    """Raises `UsageError` unless the parameter exists and every text is a value of it."""
    declared = _declared(definition)
    _require(definition, name, declared)
    for text in texts:
        _parse(name, text, declared[name][0], option)


def parse_assignments(
    settings: typing.Iterable[str], option: str = "--set", example: str = "n=4096"
) -> dict[str, str]:
    """`["n=4096", "dtype=f4"]` as a dict. Raises `UsageError`."""
    assignments: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip().isidentifier():
            step = f"Write {option} {example}."
            raise UsageError(f"{option} {setting!r} is not NAME=VALUE", next_step=step)
        if not value.isprintable():
            step = "Remove them."
            raise UsageError(f"{option} {name}={value!r} contains unprintable characters", next_step=step)
        if name.strip() in assignments:
            raise UsageError(f"{option} {name.strip()} is given twice", next_step="Omit one of them.")
        assignments[name.strip()] = value.strip()
    return assignments


def parse_number(text: str) -> int | float:
    """`4096`, `2**24`, `1<<20`, `1e6` or `0.5`; whole numbers as int. Raises ValueError."""
    digits = _decimal(text.strip())
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _require(definition: Definition, name: str, declared: typing.Collection[str]) -> None:
    if name not in declared:
        wrong = f"workload {definition.name!r} has no parameter {name!r}{nearest(name, declared)}"
        raise UsageError(wrong, next_step=f"It has: {', '.join(declared) or 'none'}.")


def _declared(definition: Definition) -> dict[str, tuple[Any, Any]]:
    function = definition.function
    try:
        hints = typing.get_type_hints(function)
    except Exception:
        # One annotation that cannot be evaluated, such as one for type checkers only, must not cost the rest.
        texts = getattr(function, "__annotations__", {})
        hints = {name: _PLAIN.get(text, text) for name, text in texts.items()}
    declared = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            wrong = f"workload {definition.name!r} takes {parameter}; its parameters must have plain names"
            raise WorkloadError(wrong, next_step="Write each parameter as name: type = default.")
        annotation = _usable(definition, name, hints.get(name, parameter.annotation), parameter.default)
        declared[name] = (annotation, parameter.default)
    return declared


def _usable(definition: Definition, name: str, annotation: Any, default: Any) -> Any:
    what = f"parameter {name!r} of workload {definition.name!r}"
    if annotation is inspect.Parameter.empty:
        guess = type(default).__name__ if isinstance(default, (int, float, str)) else "int"
        step = f"Write {name}: {guess}, so that --set {name}=VALUE can be parsed."
        raise WorkloadError(f"{what} has no annotation", next_step=step)
    origin = typing.get_origin(annotation)
    options = typing.get_args(annotation)
    literal = origin is typing.Literal and all(isinstance(option, (int, str)) for option in options)
    plain = annotation in (int, float, bool, str) or literal
    union = origin in (typing.Union, types.UnionType) and all(o in (int, float, bool, str) for o in options)
    if not (plain or union):
        step = "Parameters can be int, float, bool, str or a Literal of these."
        raise WorkloadError(f"{what} is annotated {annotation!r}", next_step=step)
    if isinstance(default, int) and default.bit_length() > _MOST_BITS:
        wrong = f"{what} has a default of {default.bit_length():,} bits"
        raise WorkloadError(wrong, next_step="Give a value below 2**63.")
    try:
        TypeAdapter(annotation).validate_python(default, strict=True)
        fits = type(default) is not float or math.isfinite(default)
    except ValidationError:
        fits = default is inspect.Parameter.empty
    if not fits:
        wrong = f"{what} has the default {default!r}, which is not {_wanted(annotation)}"
        raise WorkloadError(wrong, next_step="Numbers must be finite. Fix the default or the annotation.")
    return annotation


def _wanted(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return "one of " + ", ".join(repr(option) for option in typing.get_args(annotation))
    return f"of type {annotation.__name__ if isinstance(annotation, type) else annotation}"


def _parse(name: str, text: str, annotation: Any, option: str = "--set") -> Value:
    try:
        value = _read(text, annotation)
        if not isinstance(value, float) or math.isfinite(value):
            return value
        wrong, step = "not finite", f"Give {name} as a finite number."
    except OverflowError:
        wrong, step = "too large", "Give a value below 2**63."
    except ValueError:
        wanted = _wanted(annotation)
        wrong, step = f"not {wanted}", f"Give {name} as {wanted.removeprefix('of type ')}."
        if option == "--set" and "," in text:
            step += f" Several values, one after another: --sweep {name}={text}."
    raise UsageError(f"{option} {name}={text} is {wrong}", next_step=step)


def _read(text: str, annotation: Any) -> Value:
    """Raises ValueError where the text is no such value, OverflowError where it is absurdly large."""
    plain = text if annotation is str else _decimal(text)
    if typing.get_origin(annotation) is not typing.Literal:
        value: Value = TypeAdapter(annotation).validate_strings(plain)
        return value
    for option in typing.get_args(annotation):
        if text == str(option) or plain == str(option):
            chosen: Value = option
            return chosen
    raise ValueError


def _decimal(text: str) -> str:
    """Decimal digits of `2**24`, `1<<24` or `1e6`; other text as it is. Raises OverflowError."""
    power = _POWER.fullmatch(text.replace(" ", ""))
    if power:
        base, operator, exponent = int(power[1]), power[2], int(power[3])
        bits = exponent * max(base.bit_length(), 1) if operator == "**" else base.bit_length() + exponent
        if bits > _MOST_BITS:
            raise OverflowError
        return str(base**exponent if operator == "**" else base << exponent)
    if not _EXPONENT.fullmatch(text):
        return text
    number = float(text)
    return str(int(number)) if number.is_integer() else text
