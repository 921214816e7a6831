"""The walls between the rooms: who may import what. Read from the sources, so that lazy imports count too."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import advisor

PACKAGE = Path(advisor.__file__).parent
MODULES = {
    ".".join(("advisor", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


@cache
def trees() -> dict[str, ast.Module]:
    gc.disable()  # it would walk a million nodes again and again
    try:
        return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    finally:
        gc.enable()


OUTSIDE = {
    "cupy": ("advisor.measure.backends", "advisor.workloads.kernels"),
    "nvtx": ("advisor.measure.frames",),
    "torch": ("advisor.workloads.bridges", "advisor.workloads.torch_operations"),
    "numba": ("advisor.workloads.bridges",),
    "typer": ("advisor.cli",),
    "jinja2": ("advisor.report",),
    "ruptures": ("advisor.verdicts.histories",),
    "rich": ("advisor.measure.progress", "advisor.report.terminal"),
    "distributed": ("advisor.fleets",),
    "dask": ("advisor.fleets.dask_cluster",),
}
"""Who alone may import a library."""

FLOORS = (
    ("__main__",),
    ("cli", ""),
    ("fleets",),
    ("api", "sweep"),
    ("pipeline",),
    ("configuration", "doctor", "report"),
    ("rules", "nsys", "calibration"),
    ("measure", "model"),
    ("workloads", "verdicts"),
    ("strategies",),
    ("devices",),
    ("profiles", "units"),
    ("errors", "stats", "texts", "version", "extras"),
)
"""The rooms from the roof to the ground; "" is the package's face, which hands the public names on. A room
imports from floors below its own, and from itself."""

DATA = ("profiles", "devices", "strategies", "verdicts", "model", "rules", "report")
"""Rooms that work on saved data: they need no GPU, no process and none of the user's code."""


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
            yield from (name if name in MODULES else node.module for name in inside)


def at_import(name: str) -> set[str]:
    """Modules of ours that importing a module imports, with the packages they lie in."""
    outer = [node for node in trees()[name].body if not isinstance(node, (ast.FunctionDef, ast.ClassDef))]
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


def test_every_room_stands_on_one_floor() -> None:
    named = [name for floor in FLOORS for name in floor]
    assert sorted(named) == sorted({room(name) for name in MODULES} | {""})
    assert len(named) <= 26


def test_imports_run_down() -> None:
    floor = {each: number for number, rooms in enumerate(FLOORS) for each in rooms}
    up = {
        f"{name} imports {module}"
        for name, tree in trees().items()
        for module in imported(tree)
        if module in MODULES and room(module) != room(name) and floor[room(module)] <= floor[room(name)]
    }
    assert up == set()


def test_no_files_import_one_another() -> None:
    left = {name: {m for m in imported(tree) if m in MODULES} - {name} for name, tree in trees().items()}
    while ground := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in ground}
    assert left == {}


def test_a_library_is_imported_at_home_alone() -> None:
    libraries = {name: {m.split(".")[0] for m in imported(tree)} for name, tree in trees().items()}
    for library, homes in OUTSIDE.items():
        users = {name for name in trees() if library in libraries[name]}
        assert users, f"nobody imports {library}"
        inside = tuple(f"{home}." for home in homes)
        assert {name for name in users if name not in homes and not name.startswith(inside)} == set(), library


def test_what_works_on_data_and_what_runs_stay_apart() -> None:
    on_data = [name for name in MODULES if room(name) in DATA]
    found = {name: {room(module) for module in reached(name)} for name in on_data}
    assert {name for name in on_data if found[name] & {"measure", "workloads", "calibration"}} == set()
    rooms = {room(module) for module in reached("advisor.measure.worker")}
    assert rooms & {"report", "rules", "model", "nsys", "cli", "pipeline", "configuration"} == set()


def loaded_by(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_what_an_import_brings() -> None:
    heavy = {"numpy", "pydantic", "typer", "jinja2", "rich", "psutil", "nvtx", "cupy"}
    assert loaded_by("import advisor") & heavy == set()
    libraries = loaded_by("from advisor import Buffer, In, InOut, Out, Workload, device, host, workload")
    assert libraries & {"typer", "jinja2", "rich", "psutil", "nvtx", "cupy"} == set()


def test_public_names_are_there_and_no_others() -> None:
    for name in advisor.__all__:
        assert getattr(advisor, name) is not None
    with pytest.raises(AttributeError, match="module 'advisor' has no attribute 'nothing'"):
        _ = advisor.nothing  # type: ignore[attr-defined]


def test_every_module_says_what_it_is() -> None:
    assert [name for name, tree in trees().items() if not ast.get_docstring(tree)] == []
