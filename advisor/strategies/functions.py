"""A recommended strategy written into the function that a workload stands for: arrays page-locked, downloads
reused. Without a run of that function, only what its text shows to be safe is written."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.profiles.schema import Profile
from advisor.strategies.edits import Change, edited
from advisor.strategies.mixes import strategies_of
from advisor.strategies.registry import Strategy
from advisor.strategies.syntax import (
    CannotWrite,
    calls_in,
    holders,
    imported_name,
    loops_around,
    names_in,
    names_of,
)
from advisor.strategies.uses import is_read, is_upload

PAGE_LOCKING = ("pinned", "registered")
"""Strategies that are the copies of the code as it is, from and to page-locked arrays that are kept."""


@dataclass(frozen=True)
class Applied:
    """The file's text, what was written by name of the array, and why not for the others."""

    text: str
    written: tuple[str, ...]
    left_out: tuple[str, ...]


def written_as(profile: Profile, source: str, function: str) -> Applied:
    """The file with what the recommended strategy means for the function. Raises `CannotWrite` where that is
    nothing, or more than edits can do."""
    choice = profile.recommendation
    if choice is None or choice.strategy is None:
        raise CannotWrite("no strategy was measured and recommended")
    if choice.verdict not in ("fastest", "near"):
        raise CannotWrite(f"the verdict on {choice.strategy} is {choice.verdict}: no change is proved to pay")
    strategy = strategies_of(profile).get(choice.strategy)
    if choice.strategy not in PAGE_LOCKING or not isinstance(strategy, Strategy):
        raise CannotWrite(f"{choice.strategy} needs more than page-locked arrays: copy the report's code")
    placed = strategy.placements(profile.workload)
    return page_locked(source, function, [name for name, placement in placed.items() if placement.locks])


def page_locked(source: str, function: str, names: Sequence[str]) -> Applied:
    """The file with these arrays of a function page-locked. Raises `CannotWrite` and `SyntaxError`."""
    tree = ast.parse(source)
    defined = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    bodies = [node for node in defined if node.name == function]
    if len(bodies) != 1:
        raise CannotWrite(f"the file has {'several functions' if bodies else 'no function'} {function}")
    changes, written, left_out, text = list[Change](), [], [], source
    for name in names:
        try:
            wanted = [*changes, _change(tree, bodies[0], name)]
            text = edited(source, wanted)
        except CannotWrite as reason:
            left_out.append(f"{name}: {reason}")
        else:
            changes = wanted
            written.append(name)
    return Applied(text, tuple(written), tuple(left_out))


def _change(tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Change:
    """Raises `CannotWrite` where the text does not show that the change is safe."""
    ups = [call for call in calls_in(tree) if is_upload(tree, call, name)]
    downs = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and _is_download(tree, n, name)]
    here = [call for call in ups if function in holders(tree, call)]
    if not here and not downs:
        raise CannotWrite(f"{function.name} has no copy of an array of that name")
    for node in names_in(tree):
        if isinstance(node, ast.Name) and node.id == name and not is_read(tree, node, name):
            raise CannotWrite(f"line {node.lineno} passes it on")  # who holds it may read it later
    crossing = (downs or here)[0]
    *_, loop = (None, *(each.lineno for each in loops_around(tree, crossing)))
    if downs:
        return Change("reuse", crossing.lineno, None, loop)
    if name in {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}:
        raise CannotWrite("its caller creates it")
    uses = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name]
    stored = [node for node in uses if not isinstance(node.ctx, ast.Load)]
    assigned = [n for n in (*tree.body, *ast.walk(function)) if isinstance(n, ast.Assign) and _sets(n, name)]
    if len(stored) != 1 or len(assigned) != 1:
        raise CannotWrite("no single line of the file creates it")
    if assigned[0] not in tree.body and loop is None:
        raise CannotWrite(f"each call of {function.name} creates it")
    others = {call.lineno for call in ups} - {crossing.lineno}
    return Change("lock", crossing.lineno, assigned[0].lineno, loop, tuple(("", line) for line in others))


def _sets(statement: ast.Assign, name: str) -> bool:
    return [target.id for target in statement.targets if isinstance(target, ast.Name)] == [name]


def _is_download(tree: ast.Module, statement: ast.Assign, name: str) -> bool:
    call = statement.value
    if not (_sets(statement, name) and isinstance(call, ast.Call)):
        return False
    gets = isinstance(call.func, ast.Attribute) and call.func.attr == "get" and not call.args
    is_array = gets and _is_on_gpu(tree, call.func, frozenset())
    return is_array or imported_name(tree, call.func, "cupy") == "asnumpy"


def _is_on_gpu(tree: ast.Module, value: ast.AST, visited: frozenset[str]) -> bool:
    """Whether the text shows that an expression comes of CuPy, also by names: a queue has a `get` too."""
    if any(imported_name(tree, call.func, "cupy") for call in calls_in(value)):
        return True
    names = names_of(value) - visited
    return any(
        _is_on_gpu(tree, node.value, visited | names)
        for name in names
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _sets(node, name)
    )
