"""Reads the part of YAML that our own action and workflows are written in, and refuses the rest.

Mappings, lists of mappings or scalars, plain and double-quoted scalars, comments, `|` blocks; scalars are
texts.
"""

from __future__ import annotations

import re
from typing import Any

_KEY = re.compile(r"([A-Za-z_][\w.-]*):(?: (.*))?$")


def parse(text: str) -> Any:
    """The document. Raises `ValueError` for what is not in the part above."""
    lines = [(len(line) - len(line.lstrip(" ")), line.rstrip()) for line in text.splitlines()]
    value, rest = _block(lines, 0)
    if [line for _, line in rest if line.strip()]:
        raise ValueError(f"not understood: {rest[0][1]!r}")
    return value


Lines = list[tuple[int, str]]


def _block(lines: Lines, indent: int) -> tuple[Any, Lines]:
    lines = _skipped(lines)
    if not lines or lines[0][0] < indent:
        return "", lines
    here, first = lines[0]
    return _list(lines, here) if first.lstrip().startswith("- ") else _mapping(lines, here)


def _mapping(lines: Lines, indent: int) -> tuple[dict[str, Any], Lines]:
    found: dict[str, Any] = {}
    lines = _skipped(lines)
    while lines and lines[0][0] == indent and not lines[0][1].lstrip().startswith("- "):
        match = _KEY.match(lines[0][1].strip())
        if not match or match[1] in found:
            raise ValueError(f"no key, or one given twice: {lines[0][1]!r}")
        found[match[1]], lines = _value(match[2] or "", lines[1:], indent)
        lines = _skipped(lines)
    if lines and lines[0][0] > indent:
        raise ValueError(f"indented too far: {lines[0][1]!r}")
    return found, lines


def _list(lines: Lines, indent: int) -> tuple[list[Any], Lines]:
    found: list[Any] = []
    lines = _skipped(lines)
    while lines and lines[0][0] == indent and lines[0][1].lstrip().startswith("- "):
        rest = lines[0][1].lstrip()[2:]
        if _KEY.match(rest):
            value, lines = _mapping([(indent + 2, " " * (indent + 2) + rest), *lines[1:]], indent + 2)
        else:
            value, lines = _scalar(rest), lines[1:]
        found.append(value)
        lines = _skipped(lines)
    return found, lines


def _value(text: str, lines: Lines, indent: int) -> tuple[Any, Lines]:
    if text == "|":
        count = next((i for i, (at, line) in enumerate(lines) if line and at <= indent), len(lines))
        least = min((at for at, line in lines[:count] if line), default=0)
        return "\n".join(line[least:] for _, line in lines[:count]), lines[count:]
    return (_scalar(text), lines) if text else _block(lines, indent + 1)


def _scalar(text: str) -> Any:
    if text.startswith('"'):
        if not re.fullmatch(r'"[^"\\]*"', text):
            raise ValueError(f"not understood: {text!r}")
        return text[1:-1]
    if text.startswith("["):
        return [_scalar(part.strip()) for part in text.strip("[]").split(",")]
    if re.match(r"[&*!|>%@`'{}#,]", text) or ": " in text or " #" in text or text.endswith(":"):
        raise ValueError(f"not a plain scalar: {text!r}")
    return text


def _skipped(lines: Lines) -> Lines:
    """Without empty lines and comments at the start."""
    start = next(
        (i for i, (_, line) in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"), len(lines)
    )
    return lines[start:]
