"""Facts from a syntax tree of a user's source: statements by line, loops, imports, names that are set."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

LOOPS = (ast.For, ast.AsyncFor, ast.While)
Loop = ast.For | ast.AsyncFor | ast.While
IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

CLOCKS = {
    *("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time"),
    *("default_timer", "elapsed_time", "get_elapsed_time", "event_elapsed_time"),
}
"""Last names of functions that read a clock, or the time between two events."""
_READERS = {"print", "format", "float", "int", "bool", "str", "range"}


class CannotWrite(Exception):
    """Why the change is not written, in words."""


def loader_lines(source: str, loop: int, upload: int) -> tuple[int, ...]:
    """Lines of the DataLoader(...) whose batches a line of a loop uploads: all of the file where the loop's
    was made elsewhere, as for a parameter; none where the line uploads something else."""
    tree = ast.parse(source)
    loops = [n for n in ast.walk(tree) if isinstance(n, (ast.For, ast.AsyncFor)) and n.lineno == loop]
    if any(
        each.lineno < upload <= (each.end_lineno or 0) and not _uses_items(each, upload) for each in loops
    ):
        return ()
    names = {n for each in loops for n in names_of(each.iter)}
    of_loop = [
        statement.lineno
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Assign)
        and any(map(is_loader, calls_in(statement.value)))
        and names & {target.id for target in targets_of(statement) if isinstance(target, ast.Name)}
    ]
    every = (call.lineno for call in calls_in(tree) if is_loader(call))
    return tuple(sorted(set(of_loop or every)))


def _uses_items(loop: ast.For | ast.AsyncFor, line: int) -> bool:
    """Whether a line uses what the loop iterates over, also by names that it sets before from that."""
    numbered = isinstance(loop.iter, ast.Call) and names_of(loop.iter.func) == {"enumerate"}
    pair = numbered and isinstance(loop.target, ast.Tuple) and loop.target.elts[1:]
    items = {name for target in pair or [loop.target] for name in names_of(target)}
    statements = (n for n in ast.walk(loop) if isinstance(n, (ast.Assign, ast.AugAssign, ast.Expr)))
    for statement in sorted(statements, key=lambda each: each.lineno):
        uses = bool(names_of(statement.value) & items)
        if statement.lineno <= line <= (statement.end_lineno or 0):
            return uses
        if uses and isinstance(statement, ast.Assign):
            items |= {name for target in targets_of(statement) for name in names_of(target)}
    return False


def names_of(tree: ast.AST) -> set[str]:
    """Its names, but those of attributes."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def loop_lines(source: str | bytes) -> list[int]:
    """The lines in which a loop or a comprehension begins. Changes move them, and keep their order."""
    kinds = (*LOOPS, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    return sorted({node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)})


def statement_at(tree: ast.AST, line: int) -> ast.stmt:
    """The innermost statement on that line. Raises `CannotWrite` where there are several, or none."""
    there = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)]
    if not there:
        raise CannotWrite(f"line {line} has no statement")
    least = min((n.end_lineno or 0) - n.lineno for n in there)
    inner = [n for n in there if (n.end_lineno or 0) - n.lineno == least]
    if len(inner) > 1 or hasattr(inner[0], "body"):
        raise CannotWrite(f"line {line} holds several statements")
    return inner[0]


def is_timed(tree: ast.AST, statement: ast.stmt) -> bool:
    """Whether the statement next to this one, in the same block, reads a clock."""
    holder = parents(tree)[statement]
    blocks = (getattr(holder, name, []) for name in ("body", "orelse", "finalbody"))
    block = next(each for each in blocks if statement in each)
    at = block.index(statement)
    beside = [*block[max(at - 1, 0) : at], *block[at + 1 : at + 2]]
    return any(last_name(call.func) in CLOCKS for each in beside for call in calls_in(each))


def _nodes(tree: ast.AST, without: ast.stmt) -> Iterator[ast.AST]:
    skipped = set(ast.walk(without))
    return (node for node in ast.walk(tree) if node not in skipped)


def names_tested(loop: Loop, without: ast.stmt) -> Iterator[str]:
    """Names whose value the loop needs on the host: in conditions, and in what it prints or formats."""
    for node in _nodes(loop, without):
        reads = isinstance(node, ast.Call) and last_name(node.func) in _READERS
        if reads or isinstance(node, ast.FormattedValue):
            yield from names_of(node)
        elif isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            yield from names_of(node.test)


def last_name(function: ast.expr) -> str:
    """`b` of `a.b` and of `b`; empty for what is neither."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def names_in(tree: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    """Names that are read, and attributes of names."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            continue
        if isinstance(node, ast.Name) or isinstance(node.value, ast.Name):
            yield node


def names_of_its_own(function: ast.AST) -> set[str]:
    """A function's parameters and local variables."""
    nodes = [*ast.walk(function)]
    names = {node.arg for node in nodes if isinstance(node, ast.arg)}
    names |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names.difference(*(n.names for n in nodes if isinstance(n, (ast.Global, ast.Nonlocal))))


@lru_cache(maxsize=8)
def parents(tree: ast.AST) -> Mapping[ast.AST, ast.AST]:
    """What holds each node of a tree."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def holders(tree: ast.AST, node: ast.AST) -> Iterator[ast.AST]:
    """What holds a node, from the inside out; the tree itself is the last."""
    above = parents(tree)
    while node is not tree:
        node = above[node]
        yield node


def function_of(tree: ast.AST, part: ast.AST) -> ast.AST:
    """The innermost function that holds a part of it; the whole tree at the top level and in classes."""
    inside = (part, *holders(tree, part))
    return next((node for node in inside if isinstance(node, _FUNCTIONS[:2])), tree)


def targets_of(statement: ast.AST) -> list[ast.expr]:
    """What a statement, or an expression with a walrus, gives a value to."""
    target = getattr(statement, "target", None)
    return [target] if target else getattr(statement, "targets", [])


def calls_in(statement: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(statement) if isinstance(node, ast.Call))


def is_loader(call: ast.Call) -> bool:
    return last_name(call.func) == "DataLoader"


@lru_cache(maxsize=8)
def imports_of(tree: ast.Module) -> Sequence[tuple[str, str, ast.stmt]]:
    """Name in the file, what it names in full, and the statement, of each import."""
    return [
        (alias.asname or alias.name, f"{getattr(node, 'module', '')}.{alias.name}".lstrip("."), node)
        for node in ast.walk(tree)
        if isinstance(node, IMPORTS)
        for alias in node.names
    ]


def imported_name(tree: ast.Module, function: ast.expr, library: str) -> str:
    """`empty` of `np.empty` and of an `empty` that was imported from the library; empty for others."""
    names = {name: full for name, full, _ in imports_of(tree)}
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.attr if names.get(function.value.id) == library else ""
    if isinstance(function, ast.Name):
        home, _, name = names.get(function.id, "").rpartition(".")
        return name if home == library else ""
    return ""


def alias_of(tree: ast.Module, library: str) -> str:
    """The file's name for the library. Raises `CannotWrite` where it does not import it as a whole."""
    name = next((name for name, full, _ in imports_of(tree) if full == library), None)
    if name is None:
        raise CannotWrite(f"the file does not import {library} as a module")
    return name


def line_after(statement: ast.stmt) -> int:
    return (statement.end_lineno or statement.lineno) + 1


def is_inside(tree: ast.AST, statement: ast.stmt, loop: int | None) -> bool:
    return any(isinstance(node, LOOPS) and node.lineno == loop for node in holders(tree, statement))


def loops_around(tree: ast.AST, node: ast.AST) -> Iterator[Loop]:
    """Loops that hold it in the same function, the innermost first."""
    for holder in holders(tree, node):
        if isinstance(holder, _FUNCTIONS):
            return
        if isinstance(holder, LOOPS):
            yield holder


def loop_of(tree: ast.AST, statement: ast.stmt, line: int | None) -> Loop:
    """The loop of the frames, in the function that holds the statement."""
    for loop in loops_around(tree, statement):
        if loop.lineno == line:
            return loop
    raise CannotWrite("the line is in a function that the loop calls, or in a comprehension")


def top_line(tree: ast.Module, statement: ast.stmt) -> int:
    """The first line of what holds a statement at the top level of the file, its decorators included."""
    inside = (statement, *holders(tree, statement))
    return first_line(next(each for each in tree.body if each in inside))


def first_line(statement: ast.stmt) -> int:
    """The line where it begins, its decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def names_set(loop: Loop, without: ast.stmt) -> Iterator[str]:
    """Names that the loop sets or deletes, but for one statement."""
    for node in _nodes(loop, without):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id


def names_changed(loop: Loop, without: ast.stmt) -> Iterator[str]:
    """Names that the loop sets or changes in place, but for one statement."""
    yield from names_set(loop, without)
    yield from names_written(loop, without)


def names_written(loop: Loop | ast.FunctionDef, without: ast.stmt) -> Iterator[str]:
    """Names of what the loop changes in place, but for one statement."""
    for node in _nodes(loop, without):
        target: ast.expr | None = None
        match node:
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                target = node.value
            case ast.keyword(arg="out"):
                target = node.value
            case ast.AugAssign():
                target = node.target
            case ast.Call(func=ast.Attribute(value=home), args=[array, *_]) if last_name(home) == "atomic":
                target = array  # of Numba's `cuda.atomic.add(array, ...)` and its kin
        while isinstance(target, (ast.Subscript, ast.Attribute)):
            target = target.value
        if isinstance(target, ast.Name):
            yield target.id


def names_filled(tree: ast.AST) -> Iterator[str]:
    """Names given to Numba's kernels of the file, `kernel[grid, block](name)`, that write to them."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for call in calls_in(tree):
        kernel = functions.get(last_name(call.func.value)) if isinstance(call.func, ast.Subscript) else None
        written = {*names_written(kernel, ast.Pass())} if kernel else ()
        for parameter, argument in zip(kernel.args.args if kernel else (), call.args, strict=False):
            if isinstance(argument, ast.Name) and parameter.arg in written:
                yield argument.id
