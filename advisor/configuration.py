"""Preferences from the command line, `advisor.toml` and `[tool.advisor]` of pyproject.toml.

The keys of the files are the options' names. Each key counts by itself: the command line goes before
advisor.toml, and that before pyproject.toml. The files are those of the nearest directory, from the working
directory upwards, that has either (as ruff looks for its own); a pyproject.toml without `[tool.advisor]`
does not count.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor import units
from advisor.errors import FileProblem, UsageError
from advisor.preferences import OBJECTIVES, Objective, Preferences
from advisor.rules.limits import require, thresholds

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KEYS = ("rule", "ignore", "objective", "memory-budget")
FILE = "advisor.toml"


@dataclass(frozen=True)
class Said:
    """What one place says. `where` names it in messages: `advisor.toml:`, or nothing for the command line."""

    where: str
    rule: Mapping[str, object] = field(default_factory=dict)
    ignore: Sequence[str] = ()
    objective: object = None
    memory_budget: object = None

    def option(self, key: str) -> str:
        """How the key is written there: `--rule`, or `advisor.toml: rule`."""
        return f"{self.where} {key}" if self.where else f"--{key}"

    @property
    def silences_as(self) -> str:
        """Who silences a rule, as a report says it."""
        return self.where.rstrip(":") or "--ignore"


def command_line(
    rule: Sequence[str] = (),
    ignore: Sequence[str] = (),
    objective: str | None = None,
    memory_budget: str | None = None,
) -> Said:
    """What the options say; `rule` holds RULE.THRESHOLD=VALUE. Raises `UsageError`."""
    return Said("", dict(_assignment(text) for text in rule), tuple(ignore), objective, memory_budget)


def _assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(
            f"--rule {text!r} is not RULE.THRESHOLD=VALUE",
            next_step="Write --rule zero-copy-reread.passes=2; `advisor rules ID` lists a rule's thresholds.",
        )
    return key.strip(), value.strip()


def preferences(
    given: Said, directory: Path | None = None, recorded: Preferences | None = None
) -> Preferences:
    """All that is said, on top of what a profile has recorded; the files are looked for from `directory` up.

    Raises `UsageError` for what is not known or out of range, `FileProblem` for a file that cannot be read.
    """
    merged = recorded or Preferences()
    for said in (*files(directory or Path.cwd()), given):
        merged = _with(merged, said)
    return merged


def _with(before: Preferences, said: Said) -> Preferences:
    for rule_id in said.ignore:
        require(rule_id, said.option("ignore"))
    budget = _budget(said)
    return Preferences(
        objective=_objective(said) or before.objective,
        memory_budget_bytes=budget or before.memory_budget_bytes,
        thresholds={**before.thresholds, **thresholds(said.rule, said.option("rule"))},
        ignored={**dict.fromkeys(said.ignore, said.silences_as), **before.ignored},
    )


def _objective(said: Said) -> Objective | None:
    if said.objective is None:
        return None
    for known in OBJECTIVES:
        if said.objective == known:
            return known
    near = difflib.get_close_matches(str(said.objective), OBJECTIVES, n=1)
    raise UsageError(
        f"{said.option('objective')} {said.objective!r} is not known"
        + (f"; did you mean {near[0]}?" if near else ""),
        next_step=f"Choose from {', '.join(OBJECTIVES)}.",
    )


def _budget(said: Said) -> int | None:
    value = said.memory_budget
    if value is None:
        return None
    try:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise ValueError
        return units.parse_size(str(value))
    except ValueError:
        raise UsageError(
            f"{said.option('memory-budget')} {value!r} is no size above 0",
            next_step="Write 2GiB, 512MiB, or a number of bytes.",
        ) from None


def files(directory: Path) -> Iterator[Said]:
    """What the nearest directory with a configuration says, pyproject.toml before advisor.toml."""
    for folder in (directory.resolve(), *directory.resolve().parents):
        pyproject, own = folder / "pyproject.toml", folder / FILE
        tool = _read(pyproject).get("tool", {}) if pyproject.is_file() else {}
        section = tool.get("advisor") if isinstance(tool, dict) else None
        if section is None and not own.is_file():
            continue
        if section is not None:
            yield _said(section, "pyproject.toml: [tool.advisor]")
        if own.is_file():
            yield _said(_read(own), f"{FILE}:")
        return


def _read(path: Path) -> dict[str, Any]:
    try:
        # Some editors put a byte order mark before UTF-8, which TOML does not know.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise FileProblem(
            f"{path} cannot be read: {problem}", next_step="It must be a TOML file; mend or move it."
        ) from None


def _said(table: object, where: str) -> Said:
    if not isinstance(table, dict):
        raise UsageError(f"{where} is no table", next_step=f"Its keys are {', '.join(KEYS)}.")
    for key in table:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            raise UsageError(
                f"{where} there is no key {key!r}" + (f"; did you mean {near[0]}?" if near else ""),
                next_step=f"Choose from {', '.join(KEYS)}.",
            )
    return Said(
        where,
        _flat(table.get("rule", {}), where),
        _names(table.get("ignore", []), where),
        table.get("objective"),
        table.get("memory-budget"),
    )


def _flat(table: object, where: str) -> dict[str, object]:
    """`[rule.zero-copy-reread] passes = 2` as `zero-copy-reread.passes`, which in quotes is the same."""
    if not isinstance(table, dict):
        raise UsageError(f"{where} rule is no table", next_step="Write rule.zero-copy-reread.passes = 2.")
    flat: dict[str, object] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": number for inner, number in value.items()}
        else:
            flat[name] = value
    return flat


def _names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UsageError(
            f"{where} ignore is {value!r}, which is no list of rules",
            next_step='Write ignore = ["pageable-transfer"].',
        )
    return tuple(value)
