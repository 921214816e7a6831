"""Preferences from the command line, `advisor.toml` and `[tool.advisor]` of pyproject.toml.

The keys of the files are the options' names. Each key counts by itself: the command line goes before
advisor.toml, and that before pyproject.toml. The files are those of the nearest directory, from the working
directory upwards, that has either (as ruff looks for its own); a pyproject.toml without `[tool.advisor]`
does not count.
"""

from __future__ import annotations

import difflib
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from advisor import units
from advisor.devices.catalogue import DEFAULT_TARGETS, CatalogueEntry
from advisor.devices.catalogue import load as load_device
from advisor.errors import FileProblem, UsageError
from advisor.measure.settings import Settings
from advisor.profiles.preferences import OBJECTIVES, Objective, Preferences
from advisor.rules.limits import require, thresholds
from advisor.strategies.backend import BackendName
from advisor.strategies.registry import choose
from advisor.workloads.parameters import parse_assignments

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


FORMATS = ("html", "md", "json")
TRACES = ("nsys", "chrome")


def make_settings(
    target: str,
    *,
    backend: BackendName,
    gpu: int = 0,
    assignments: Sequence[str] = (),
    strategies: Sequence[str] = (),
    targets: Sequence[str] = (),
    rounds: int = 3,
    max_seconds: float = 1.5,
    timeout: float = 120.0,
    seed: int = 0,
    command: str = "",
    numa: str = "local",
    oversubscribe: bool = False,
    preferences: Preferences | None = None,
    include_host: bool = False,
    no_environment: bool = False,
    trace: Sequence[str] = (),
    nsys: Path | None = None,
    keep_reports: bool = False,
) -> Settings:
    """Settings from what the command line gives; `target` is FILE or FILE::NAME.

    Without a GPU the default catalogue devices are predicted when no target is named.
    Raises `UsageError`, or `FileProblem` for a target's file.
    """
    file, name = file_and_name(target)
    require_ranges(rounds, seed, max_seconds, timeout, numa)
    chosen = targets or (DEFAULT_TARGETS if backend == "cpu" else ())
    return Settings(
        file=file,
        workload=name,
        assignments=parse_assignments(assignments),
        backend=backend,
        gpu=gpu,
        strategies=choose(strategies),
        targets=load_targets(chosen),
        rounds=rounds,
        max_seconds=max_seconds,
        timeout=timeout,
        seed=seed,
        command=command,
        numa=numa,
        oversubscribe=oversubscribe,
        preferences=preferences or Preferences(),
        include_host=include_host,
        no_environment=no_environment,
        trace=traces(trace, nsys, keep_reports),
        nsys=nsys,
        keep_reports=keep_reports,
    )


def file_and_name(target: str) -> tuple[Path, str | None]:
    """FILE or FILE::NAME in its parts. Raises `UsageError`."""
    if not _is_text(target):
        raise UsageError(
            f"the path {target!r} is not UTF-8, so that a profile cannot hold it",
            next_step="Rename the file or its directory.",
        )
    file, colons, name = target.partition("::")
    if not file or (colons and not name):
        raise UsageError(f"{target!r} is not FILE or FILE::NAME", next_step="Write workloads/vector_add.py.")
    return Path(file), name or None


def require_ranges(rounds: int, seed: int, max_seconds: float, timeout: float, numa: str) -> None:
    """Raises `UsageError` for an option that is out of range."""
    if not 1 <= rounds <= 1000:
        raise UsageError(f"--rounds {rounds} is out of range", next_step="Give 1 to 1000; the default is 3.")
    if not 0 <= seed < 1 << 32:
        raise UsageError(f"--seed {seed} is out of range", next_step="Give 0 to 4294967295 (2**32 - 1).")
    for option, value in (("--max-seconds", max_seconds), ("--timeout", timeout)):
        if not 0 < value < math.inf:
            raise UsageError(f"{option} {value} is out of range", next_step="Give seconds above 0.")
    if numa not in ("local", "remote") and not numa.isdecimal():
        raise UsageError(
            f"--numa {numa!r} is not known", next_step="Give local, remote, or the number of a node."
        )


def traces(asked: Sequence[str], nsys: Path | None, keep_reports: bool) -> tuple[str, ...]:
    """What is to be traced. Raises `UsageError`."""
    unknown = [name for name in asked if name not in TRACES]
    if unknown:
        raise UsageError(
            f"there is no trace {', '.join(unknown)}", next_step=f"Choose from {', '.join(TRACES)}."
        )
    if (nsys or keep_reports) and "nsys" not in asked:
        option = "--nsys" if nsys else "--keep-nsys"
        raise UsageError(f"{option} says nothing without --trace nsys", next_step="Add --trace nsys.")
    return tuple(dict.fromkeys(asked))


def load_targets(names: Sequence[str]) -> tuple[CatalogueEntry, ...]:
    """The catalogue's entries of these names or files, each once. Raises `UsageError` or `FileProblem`."""
    return tuple(load_device(name) for name in dict.fromkeys(names))


def parse_formats(text: str, known: Sequence[str] = FORMATS) -> tuple[str, ...]:
    """`html,md,json` as names, each one of the known. Raises `UsageError`."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise UsageError(
            f"there is no format {', '.join(unknown) or repr(text)}",
            next_step=f"Choose from {', '.join(known)}, separated by commas.",
        )
    return names


@contextmanager
def output_directory(directory: Path) -> Iterator[Path]:
    """Makes sure that the output can be written before anything is measured; removes empty folders it made.

    Raises `UsageError`.
    """
    if not str(directory).strip() or directory == Path():
        directory = Path.cwd()
    try:
        made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as problem:
        raise UsageError(
            f"--out {directory} cannot be written: {problem.strerror or problem}",
            next_step="Choose a directory you may write to: --out DIR.",
        ) from None
    try:
        yield directory
    finally:
        with suppress(OSError):  # a folder that holds something stays
            for folder in made:
                folder.rmdir()


def _is_text(path: str) -> bool:
    """Bytes of a name that are not UTF-8 come as lone surrogates, which JSON cannot hold."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


# Arguments of `advisor.profile`, checked as the command line checks its options

_WHOLE = ("rounds", "seed", "gpu")


def argument_names(what: str, given: object) -> tuple[str, ...]:
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


def argument_preferences(
    objective: object, memory_budget: object, rules: object, ignore: object
) -> Preferences:
    """By what to conclude, as the options of these names on top of `advisor.toml`. Raises `AdvisorError`."""
    require_mapping("rules", rules or {}, '{"zero-copy-reread.passes": 2}')
    thresholds = dict(rules) if isinstance(rules, Mapping) else {}
    place = "advisor.profile:"
    said = Said(place, thresholds, argument_names("ignore", ignore), objective, memory_budget)
    return preferences(said)
