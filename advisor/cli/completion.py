"""What the shell completes values to: names of strategies, devices, rules, and the workloads of a file.

`advisor --install-completion` puts it into the shell. Nothing is imported before a value is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import get_args, get_type_hints

import typer


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def strategies(incomplete: str) -> list[str]:
    """Those of workloads."""
    from advisor.strategies.registry import STRATEGIES

    return _beginning(incomplete, (strategy.name for strategy in STRATEGIES))


def devices(incomplete: str) -> list[str]:
    """Those of the catalogue, and TOML files."""
    from advisor.devices.catalogue import names

    return [*_beginning(incomplete, names()), *_files(incomplete, ".toml")]


def rules(incomplete: str) -> list[str]:
    """Their ids."""
    from advisor.rules.registry import RULES

    return _beginning(incomplete, (rule.id for rule in RULES))


def thresholds(incomplete: str) -> list[str]:
    """RULE.THRESHOLD= of every rule that has one."""
    from advisor.rules.registry import RULES

    return _beginning(incomplete, (f"{rule.id}.{t.name}=" for rule in RULES for t in rule.text.thresholds))


def workloads(incomplete: str) -> list[str]:
    """Python files; after FILE:: the workloads of the file."""
    from advisor.workloads.outline import workloads

    file, colons, _ = incomplete.partition("::")
    if not colons:
        return _files(incomplete, ".py")
    return _beginning(incomplete, (f"{file}::{name}" for name in workloads(Path(file))))


def parameters(context: typer.Context, incomplete: str) -> list[str]:
    """NAME= of each parameter of the workload that the command line names."""
    from advisor.workloads.outline import defaults_of

    chosen = next((each for each in (context.params.get("workload"), *context.args) if each), "")
    return _beginning(incomplete, (f"{name}=" for name in defaults_of(chosen)))


def examples(incomplete: str) -> list[str]:
    """The example workloads."""
    from advisor.workloads import starters

    return _beginning(incomplete, starters.examples())


def objectives(incomplete: str) -> list[str]:
    """What can be optimized for."""
    from advisor.profiles.preferences import Objective

    return _beginning(incomplete, get_args(Objective))


def systems(incomplete: str) -> list[str]:
    """The operating systems to predict for."""
    from advisor.devices.systems import System

    return _beginning(incomplete, get_args(System))


def traces(incomplete: str) -> list[str]:
    """The kinds of traces."""
    from advisor.measure.options import Options

    kind, _ = get_args(get_type_hints(Options)["trace"])  # any number of them
    return _beginning(incomplete, get_args(kind))


def _files(incomplete: str, suffix: str) -> list[str]:
    """Paths that begin so: files of that suffix, and folders."""
    folder, begun = Path(incomplete).parent, Path(incomplete).name if not incomplete.endswith("/") else ""
    folder = Path(incomplete) if incomplete.endswith("/") else folder
    found = sorted(folder.glob(f"{begun}*")) if folder.is_dir() else []
    return [
        f"{path}/" if path.is_dir() else str(path) for path in found if path.is_dir() or path.suffix == suffix
    ]


VALUES: dict[str, Callable[..., list[str]]] = {
    "workload": workloads,
    "parameters": parameters,
    "sweep": parameters,
    "strategies": strategies,
    "targets": devices,
    "target_os": systems,
    "rules": thresholds,
    "ignore": rules,
    "objective": objectives,
    "trace": traces,
}
"""By the names of options."""
