"""`--emit placements.toml`: the strategy of each device, for a program to read when it starts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from advisor.profiles import outputs
from advisor.profiles.fleets import Row
from advisor.version import __version__


def write(path: Path, workload: str, rows: Sequence[Row]) -> Path:
    """Writes the table, and returns its path. Raises `FileProblem`."""
    return outputs.write(path.parent, path.name, "\n".join(_lines(workload, rows)) + "\n")


def _lines(workload: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"# The memory strategy of each device, by `advisor fleet` {__version__}. See docs/fleet.md."
    yield f"workload = {_text(workload)}"
    seen = set()
    for row in rows:
        if row.strategy is not None:
            seen.add((row.device, row.value))
            yield from _device(row, row.device, row.strategy, row.verdict, "measured")
    for row in rows:
        for told in row.predicted:
            if (told.device, row.value) not in seen:
                seen.add((told.device, row.value))
                yield from _device(row, told.device, told.strategy, told.verdict, "predicted")


def _device(row: Row, name: str, strategy: str, verdict: str | None, basis: str) -> Iterator[str]:
    yield ""
    yield "[[device]]"
    yield f"name = {_text(name.partition(' #')[0])}"
    if row.value:
        parameter, _, value = row.value.partition("=")
        yield f"parameters = {{ {_text(parameter)} = {_text(value)} }}"
    yield f"strategy = {_text(strategy)}"
    yield f"verdict = {_text(verdict or '')}"
    yield f"basis = {_text(basis)}"


def _text(text: str) -> str:
    """A basic string of TOML: JSON's escapes are a part of TOML's."""
    return json.dumps(text).replace("\x7f", "\\u007f")
