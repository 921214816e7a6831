"""The walls between the rooms: who may import what. Read from the sources, so that lazy imports count too."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import advisor

PACKAGE = Path(advisor.__file__).parent
MODULES = {
    ".".join(("advisor", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}

OUTSIDE = {
    "cupy": ("advisor.backends",),
    "nvtx": ("advisor.ranges", "advisor.scripts.ranges"),
    "torch": ("advisor.frameworks",),
    "numba": ("advisor.frameworks",),
    "typer": ("advisor.cli",),
    "jinja2": ("advisor.report",),
    "rich": ("advisor.progress",),
}
"""Who alone may import a library."""

ON_DATA = ("advise", "comparing", "devices", "errors", "lineups", "model", "plausible", "preferences")
ON_DATA += ("profiles", "report", "rules")
ON_DATA += ("schedule", "stats", "strategies", "units", "verdicts")
"""Pure functions of the saved data: they need no GPU, no process and none of the user's code."""

RUNNING = ("backends", "binding", "cli", "footprint", "frames", "jobs", "launcher", "loading", "measure")
RUNNING += ("api", "calibration", "cells", "frameworks", "kernels", "sources")
RUNNING += ("pipeline", "progress", "ranges", "results", "runner", "tasks", "verify", "worker", "workloads")

RUNNING += ("checked", "configuration", "doctor", "environment", "extras", "pipelined", "scripts", "settings")
RUNNING += ("starters", "sweeping", "traces")

SHARED = (
    "machine",
    "overlap",
    "packed",
    "parameters",
    "placements",
    "privacy",
    "readings",
    "records",
    "series",
    "sweep",
)
"""Used by both: they hold data or read the host, and start nothing."""

RECORDS = {
    *(f"advisor.traces.{name}" for name in ("exports", "lanes", "records")),
    *(f"advisor.scripts.{name}" for name in ("records", "strategies", "verdicts")),
    "advisor.doctor.findings",
}
"""What rooms that run keep for those who only read."""

ALLOWED = {"advisor.backends", "advisor.backends.base"}
"""Strategies know their placements, and those the interface of the device they allocate on. It is reached
that way alone, and has no device behind it."""


def room(module: str) -> str:
    """`rules` of `advisor.rules.base`."""
    return module.split(".")[1] if "." in module else ""


def imported(tree: ast.AST) -> Iterator[str]:
    """Modules that are imported; `from advisor import units` is `advisor.units`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide who imports what"
            assert node.module
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in inside if name in MODULES)
            yield node.module


def at_import(name: str) -> set[str]:
    """Modules of ours that importing a module imports, with the packages they lie in."""
    outer = [node for node in TREES[name].body if not isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    blocks = [n for n in outer if not (isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test))]
    found = {module for block in blocks for module in imported(block) if module in MODULES}
    return found | {module.rpartition(".")[0] for module in found | {name}} - {""}


def reached(name: str, without: tuple[str, ...] = ()) -> set[str]:
    """All modules of ours that are there once `name` is imported, leaving some rooms out of sight."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module not in seen and room(module) not in without:
            seen.add(module)
            waiting += at_import(module)
    return seen - {name}


def test_the_walk_sees_what_is_there() -> None:
    assert "advisor.units" in set(imported(TREES["advisor.placements.arena"]))
    assert "cupy" in set(imported(TREES["advisor.backends.cuda"]))
    assert "advisor.placements.arena" in reached("advisor.strategies")
    assert "advisor.placements" in reached("advisor.strategies")
    assert "advisor.backends.cuda" not in reached("advisor.backends")
    assert set(ON_DATA) | set(RUNNING) <= {room(name) for name in MODULES}


@pytest.mark.parametrize(("library", "homes"), OUTSIDE.items())
def test_a_library_is_imported_at_home_alone(library: str, homes: tuple[str, ...]) -> None:
    users = {name for name, tree in TREES.items() if library in {m.split(".")[0] for m in imported(tree)}}
    assert users, f"nobody imports {library}"
    inside = tuple(f"{home}." for home in homes)
    assert {name for name in users if name not in homes and not name.startswith(inside)} == set()


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) in ON_DATA])
def test_what_works_on_data_imports_nothing_that_runs(name: str) -> None:
    records = RECORDS | {module.rpartition(".")[0] for module in RECORDS}
    direct = {module for module in imported(TREES[name]) if room(module) in RUNNING}
    assert direct <= records
    running = {module for module in reached(name) if room(module) in RUNNING}
    assert {module for module in running if room(module) not in ("traces", "scripts", "doctor")} <= ALLOWED
    without_placements = reached(name, without=("strategies", "placements", "traces", "scripts", "doctor"))
    assert {module for module in without_placements if room(module) in RUNNING} == set()


def test_every_room_is_on_one_side_of_the_wall() -> None:
    listed = (*ON_DATA, *RUNNING, *SHARED, "__main__", "")
    assert sorted({room(name) for name in MODULES} - set(listed)) == []
    assert len(listed) == len(set(listed))


def test_running_does_not_render() -> None:
    """The worker and what it loads know nothing of reports, rules or the command line."""
    rooms = {room(module) for module in reached("advisor.worker")}
    assert rooms & {"report", "rules", "advise", "cli", "runner", "launcher", "pipeline"} == set()


def loaded_by(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_costs_nothing() -> None:
    heavy = {"numpy", "pydantic", "typer", "jinja2", "rich", "psutil", "nvtx", "cupy"}
    assert loaded_by("import advisor") & heavy == set()


def test_a_users_file_needs_numpy_and_pydantic_at_most() -> None:
    """The API brings no command line, no report and no GPU into the user's process."""
    libraries = loaded_by("from advisor import Buffer, In, InOut, Out, Workload, device, host, workload")
    assert libraries & {"typer", "jinja2", "rich", "psutil", "nvtx", "cupy"} == set()


def test_public_names_are_there_and_no_others() -> None:
    for name in advisor.__all__:
        assert getattr(advisor, name) is not None
    with pytest.raises(AttributeError, match="module 'advisor' has no attribute 'nothing'"):
        _ = advisor.nothing  # type: ignore[attr-defined]


def public_definitions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Public functions and classes of a module, and the public methods of those classes."""
    for node in tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        yield node.name, node
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                yield f"{node.name}.{inner.name}", inner


@pytest.mark.parametrize("name", MODULES)
def test_every_module_and_every_public_name_says_what_it_is(name: str) -> None:
    tree = TREES[name]
    assert ast.get_docstring(tree), f"{name} has no docstring"
    silent = [what for what, node in public_definitions(tree) if not ast.get_docstring(node)]  # type: ignore[arg-type]
    assert silent == []
