"""How a source uses an array: where it is uploaded, where only values are read, and what is downloaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from advisor.profiles.crossings import Library
from advisor.strategies.syntax import (
    CannotWrite,
    calls_in,
    function_of,
    holders,
    imported_name,
    imports_of,
    is_inside,
    last_name,
    names_in,
    names_of_its_own,
    statement_at,
    targets_of,
)

BLOCKING = ("array", "asarray", "asanyarray")
"""Uploads of CuPy's that take blocking=True: the source may be written again once they return."""
_UPLOADS = (*BLOCKING, "ascontiguousarray")
_BY_ADDRESS = ("copy_from_host_async", "copy_from_async", "memcpyAsync", "from_numpy", "as_tensor")
_METHODS = (
    *("all", "any", "argmax", "argmin", "astype", "copy", "dot", "fill", "item", "max", "mean", "min"),
    *("prod", "std", "sum", "tobytes", "tolist", "var"),
)
_MADE_ALIKE = (
    *("asfortranarray", "to_device", "tensor", "as_tensor", "from_numpy"),
    *("arange", "eye", "full", "linspace", "ones", "zeros"),
)
_CONVERTING = ("astype", "contiguous", "copy", "copy_", "cuda", "ravel", "reshape", "set", "to", "view")
"""Functions and methods whose result depends on their arguments alone."""
_FACTS = ("dtype", "nbytes", "ndim", "shape", "size")
_READERS = ("abs", "bool", "float", "int", "len", "print", "repr", "str")
_NUMPY = ("allclose", "array_equal", "copyto", "max", "mean", "min", "save", "std", "sum", "var")
_DOWNLOADS: Mapping[Library, tuple[str, ...]] = {
    "cupy": ("get",),
    "torch": ("cpu", "to"),
    "numba": ("copy_to_host",),
}
Assignment = ast.Assign | ast.AnnAssign
_LATER = (
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.BoolOp, ast.IfExp),
    *(ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr),
)
"""What may evaluate a part of it later, several times or never."""


def lines_beside(tree: ast.Module, line: int) -> set[int]:
    """Lines that may upload, as this one does, an array that it names."""
    lines = set[int]()
    for call in calls_in(tree):
        if _uploads(tree, call) and call.args and call.lineno <= line <= (call.end_lineno or 0):
            array = call.args[0]
            lines |= upload_lines(tree, call, ast.unparse(array)) if array in [*names_in(array)] else set()
    return lines


def _uploads(tree: ast.Module, call: ast.Call, functions: Sequence[str] = BLOCKING) -> bool:
    sets = isinstance(call.func, ast.Attribute) and call.func.attr == "set"  # not Python's own set(...)
    return sets or imported_name(tree, call.func, "cupy") in functions


def upload_lines(tree: ast.Module, origin: ast.AST, array: str) -> set[int]:
    """Lines that may upload an array, named so where `origin` is, though the run did not come by: under any
    name that the file gives it, also in functions that get or return it. Raises `CannotWrite` where its
    address is given to what copies asynchronously."""
    lines = set[int]()
    scope = function_of(tree, origin) if array.isidentifier() else tree
    todo, visited = [(scope, array)], set[tuple[int, str]]()
    while todo:
        scope, name = todo.pop()
        if (id(scope), name) in visited:
            continue
        visited.add((id(scope), name))
        for call in calls_in(scope):
            values = [*call.args, *(word.value for word in call.keywords)]
            inner = function_of(tree, call)
            is_another = inner is not scope and name in names_of_its_own(inner)
            if is_another or not any(_mentions(each, name) for each in values):
                continue
            called = last_name(call.func)
            if called in _BY_ADDRESS:
                raise CannotWrite(f"line {call.lineno} copies from it by {called}")
            if _uploads(tree, call):
                lines.add(call.lineno)
            todo += _parameters(tree, call, name)
        todo += _other_names(tree, scope, name)
    return lines


def _parameters(tree: ast.Module, call: ast.Call, name: str) -> Iterator[tuple[ast.AST, str]]:
    """Functions of the file that a call may reach, each with its parameter that gets the array."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or function.name != last_name(call.func):
            continue
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        if isinstance(call.func, ast.Attribute) and names[:1] in (["self"], ["cls"]):
            names = names[1:]
        pairs = [*zip(names, call.args, strict=False), *((w.arg, w.value) for w in call.keywords if w.arg)]
        for parameter, value in pairs:
            if _mentions(value, name):
                yield function, parameter


def _other_names(tree: ast.Module, scope: ast.AST, name: str) -> Iterator[tuple[ast.AST, str]]:
    """Variables that are set from it or from a function that returns it, each with its scope. What CuPy makes
    of it is another array."""
    returning = {
        getattr(function_of(tree, node), "name", "")
        for node in ast.walk(scope)
        if isinstance(node, (ast.Return, ast.Yield)) and node.value and _mentions(node.value, name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For)):
            continue
        value = node.iter if isinstance(node, ast.For) else node.value
        if value is None or (isinstance(value, ast.Call) and imported_name(tree, value.func, "cupy")):
            continue
        inside = function_of(tree, node)
        set_here = _mentions(value, name) and scope in (inside, *holders(tree, node))
        if set_here or any(last_name(call.func) in returning for call in calls_in(value)):
            targets = (n for target in targets_of(node) for n in ast.walk(target))
            yield from ((inside, n.id) for n in targets if isinstance(n, ast.Name))


def _mentions(value: ast.AST, name: str) -> bool:
    return any(ast.unparse(each) == name for each in names_in(value))


def is_upload(tree: ast.Module, call: ast.Call, name: str) -> bool:
    plain = len(call.args) == 1 and isinstance(call.args[0], ast.Name) and call.args[0].id == name
    return plain and _uploads(tree, call, _UPLOADS)


def is_read(tree: ast.Module, node: ast.expr, name: str) -> bool:
    """Whether only values leave the expression that holds the array or a view of it."""
    parent, above, *outer = holders(tree, node)
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return not isinstance(parent.ctx, ast.Load) or is_read(tree, parent, name)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _FACTS or (isinstance(above, ast.Call) and parent.attr in _METHODS)
    if isinstance(parent, ast.keyword):
        return parent.arg == "out" and isinstance(outer[0], ast.Expr)
    if isinstance(parent, ast.Call):
        function = imported_name(tree, parent.func, "numpy")
        plain = isinstance(parent.func, ast.Name) and parent.func.id in _READERS
        values = function in _NUMPY or isinstance(getattr(np, function or "-", None), np.ufunc)
        return plain or values or is_upload(tree, parent, name)
    return isinstance(parent, (ast.BinOp, ast.Compare, ast.UnaryOp, ast.FormattedValue))


def downloads(tree: ast.Module, statement: ast.stmt, library: Library) -> list[tuple[ast.Call, ast.expr]]:
    """Calls of a statement that download, each with its array on the GPU. Raises `CannotWrite` without."""
    calls = []
    for call in calls_in(statement):
        function = call.func
        words = [*call.args, *(word.value for word in call.keywords)]
        if library == "cupy" and imported_name(tree, function, "cupy") == "asnumpy" and len(words) == 1:
            calls.append((call, words[0]))
        elif isinstance(function, ast.Attribute):
            constants = [getattr(word, "value", word) for word in words]
            if constants == {"to": ["cpu"]}.get(function.attr, []) and function.attr in _DOWNLOADS[library]:
                calls.append((call, function.value))
    if not calls:
        names = " or ".join(f"x.{name}()" for name in _DOWNLOADS[library])
        raise CannotWrite(f"line {statement.lineno} has no download {names} with nothing else asked")
    return calls


def made_once(tree: ast.Module, line: int, library: Library, loop: int | None) -> dict[str, Assignment]:
    """Names of arrays that a line uploads by PyTorch or Numba, each with the one statement that makes it,
    outside of the loop, in memory of its own."""
    origins: dict[str, Assignment] = {}
    for call in calls_in(statement_at(tree, line)):
        sent: list[ast.expr] = []
        name = last_name(call.func)
        if library == "torch" and isinstance(call.func, ast.Attribute) and name in ("to", "cuda"):
            sent = [call.func.value]
        elif name in ("to_device", "copy_to_device"):
            sent = call.args[:1]
        elif library == "numba" and isinstance(call.func, ast.Subscript):
            sent = call.args
        for array in (each for each in sent if isinstance(each, ast.Name)):
            home = function_of(tree, call)
            scope = home if array.id in names_of_its_own(home) else tree
            stores = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == array.id]
            stores = [n for n in stores if not isinstance(n.ctx, ast.Load) and function_of(tree, n) is scope]
            for statement in (n for n in ast.walk(scope) if isinstance(n, Assignment)):
                once = targets_of(statement) == stores and not is_inside(tree, statement, loop)
                if once and _makes_array(tree, statement.value, library):
                    origins[array.id] = statement
    return origins


def _makes_array(tree: ast.Module, value: ast.expr | None, library: Library) -> bool:
    """Whether an expression is of the host's arrays and begins with a call of the library that makes them."""
    if isinstance(value, (ast.BinOp, ast.UnaryOp)):
        parts = [value.operand] if isinstance(value, ast.UnaryOp) else [value.left, value.right]
        return any(_makes_array(tree, part, library) for part in parts)
    if not isinstance(value, ast.Call) or "cuda" in ast.unparse(value):
        return False
    root: ast.expr = value
    while isinstance(root, (ast.Attribute, ast.Call)):
        root = root.func if isinstance(root, ast.Call) else root.value
    home = "torch" if library == "torch" else "numpy"
    full = {name: full for name, full, _ in imports_of(tree)}.get(getattr(root, "id", ""), "")
    return full.partition(".")[0] == home


def assigned_name(statement: ast.stmt, call: ast.Call) -> str:
    """The variable that is set to what the call returns; empty where that is used in another way."""
    targets = targets_of(statement)
    alone = isinstance(statement, Assignment) and statement.value is call and len(targets) == 1
    return getattr(targets[0], "id", "") if alone else ""


def require_evaluated_first(statement: ast.stmt, call: ast.Call, source: ast.expr) -> None:
    """Raises `CannotWrite` where the array on the GPU cannot be evaluated before its statement."""
    node: ast.AST = call
    for parent in holders(statement, call):
        before = [] if isinstance(parent, Assignment) else [*ast.iter_child_nodes(parent)]
        before = before[: before.index(node)] if before else []
        if isinstance(parent, _LATER) or (isinstance(parent, ast.Compare) and node is not parent.left):
            raise CannotWrite(f"line {call.lineno} does not always download")
        calls = any(isinstance(each, (ast.Call, *_LATER)) for part in before for each in ast.walk(part))
        if calls and not isinstance(source, ast.Name):
            raise CannotWrite(f"line {call.lineno} calls something before it downloads")
        node = parent


def require_same_each_time(tree: ast.Module, value: ast.expr) -> None:
    """Raises `CannotWrite` where an expression may do more than copy and convert arrays, as a function of the
    user's that counts its calls."""
    libraries = ("cupy", "numpy", "torch", "numba.cuda")
    for call in calls_in(value):
        functions = {imported_name(tree, call.func, library) for library in libraries}
        name = last_name(call.func)
        if not functions & {*_UPLOADS, *_MADE_ALIKE} and (any(functions) or name not in _CONVERTING):
            raise CannotWrite(f"line {call.lineno} calls {name}, which may do something else in each frame")


def is_copied(tree: ast.Module, statement: ast.stmt, call: ast.Call) -> bool:
    """Whether a statement copies what the call returns into an array, or drops it."""
    if getattr(statement, "value", None) is not call:
        return False
    if isinstance(statement, (ast.Expr, ast.AugAssign)):
        return True
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Subscript) or targets_of(statement) != [target]:
        return False
    sliced = any(isinstance(each, (ast.Slice, ast.Tuple)) for each in ast.walk(target.slice))
    container = ast.unparse(target.value)
    assignments = (
        n for n in ast.walk(tree) if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == container
    )
    values = [node.value for node in assignments]
    arrays = [v for v in values if isinstance(v, ast.Call) and imported_name(tree, v.func, "numpy")]
    return sliced or (bool(arrays) and len(arrays) == len(values))
