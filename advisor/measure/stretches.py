"""The code around a line of a script as a function of its own: for `advisor new FILE --from SCRIPT:LINE`.

In a function at the top level that function is taken. In a loop at the top level it is the stretch of
statements from an upload up to the next download: what lives on the GPU between them stays there. Of a
statement that computes and downloads, as `out = (a * b).get()`, the first half is in it.
"""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.errors import UsageError, WorkloadError
from advisor.strategies.patches import SourceEdits
from advisor.strategies.syntax import first_line, imports_of, last_name
from advisor.workloads.outline import parsed

_UPLOADS = {"asarray", "array", "to", "cuda", "to_device", "from_numpy", "as_tensor", "set"}
_DOWNLOADS = {
    *("get", "asnumpy", "cpu", "item", "numpy", "tolist", "copy_to_host", "float", "int", "bool", "print")
}
_REDUCTIONS = {"sum", "mean", "max", "min", "any", "all", "norm", "dot", "std", "var", "prod"}
"""What makes `float(...)` of a call a download."""
_COPIES = {"asarray", "array"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WHOLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp)
"""Expressions whose parts run several times or not at all."""
_TAKEN = "on_gpu_"
"""Begins names for what is taken out of a download."""
_DEFINING = (ast.Import, ast.ImportFrom, *_FUNCTIONS, ast.ClassDef)
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await)


@dataclass(frozen=True)
class Stretch:
    """`module` has the function and what it needs; `program` is the script that calls it. downloaded: which
    of its results the statement behind it copies to the host."""

    function: str
    module: str
    program: str
    downloaded: tuple[int, ...] = ()


def function_at(source: Path, line: int) -> str | Stretch:
    """The name of the top-level function that holds the line, or the stretch around it as one. Raises
    `UsageError` where neither can be taken, `WorkloadError` for a file that is not Python."""
    try:
        tree, text = parsed(source), source.read_text(encoding="utf-8")
    except (OSError, ValueError, SyntaxError) as problem:
        step = "Fix the error above and run again."
        raise WorkloadError(f"{source} is not valid Python: {problem}", next_step=step) from None
    top = next((node for node in tree.body if _holds(node, line)), None)
    if isinstance(top, _FUNCTIONS):
        return top.name
    if top is None or isinstance(top, ast.ClassDef):
        what = "is in a class" if top else "has no statement"
        step = "Name a line of a function or of a loop, or FILE::FUNCTION."
        raise UsageError(f"line {line} of {source} {what}", next_step=step)
    return _stretch(*_apart(text, tree, line), source, line)


def _holds(node: ast.stmt, line: int) -> bool:
    return first_line(node) <= line <= (node.end_lineno or node.lineno)


def _apart(text: str, tree: ast.Module, line: int) -> tuple[str, int]:
    """The text in which the download at or behind the line computes nothing, and where that line is then."""
    behind = (node for node in _block(tree.body, line) if (node.end_lineno or 0) >= line)
    node = next((each for each in behind if _calls(each) & _DOWNLOADS), None)
    parts = list(_computed(node)) if isinstance(node, _WHOLE) else []
    if node is None or not parts:
        return text, line
    names, edits = [f"{_TAKEN}{i}" for i in range(1, len(parts) + 1)], SourceEdits(text, tree)
    for name, part in zip(names, parts, strict=True):
        edits.replace(part, name)
    computed = f"{', '.join(names)} = {', '.join(map(ast.unparse, parts))}"
    edits.insert(node.lineno, " " * node.col_offset, computed)
    if _holds(node, line):
        line = node.lineno + (not _calls(node) & _UPLOADS)
    return edits.result(), line


def _computed(node: ast.AST) -> Iterator[ast.expr]:
    """What downloads in a statement compute before they copy."""
    if isinstance(node, _LATER):
        return
    for child in ast.iter_child_nodes(node):
        yield from _computed(child)
    if isinstance(node, ast.Call) and (name := last_name(node.func)) in _DOWNLOADS - {"print"}:
        method = node.func.value if isinstance(node.func, ast.Attribute) and name != "asnumpy" else None
        operand = method or (node.args[0] if node.args else None)
        inside = () if operand is None else ast.walk(operand)
        computes = any(isinstance(each, (ast.Call, ast.BinOp, ast.Compare)) for each in inside)
        if operand is None or not computes or _calls(operand) & _DOWNLOADS:
            return
        if method or name == "asnumpy" or last_name(getattr(operand, "func", operand)) in _REDUCTIONS:
            yield operand


def _stretch(text: str, place: int, source: Path, line: int) -> Stretch:
    """place: where `line` of the source is in the text."""
    tree = ast.parse(text)
    block = _block(tree.body, place)
    statements = _around(block, place)
    behind = block[block.index(statements[-1]) + 1 :][:1]
    read = {name for node in behind if _calls(node) & _DOWNLOADS for name in _names(node, ast.Load)}
    if any(isinstance(node, _LEAVING) for each in statements for node in ast.walk(each)):
        raise UsageError(
            f"the statements around line {line} of {source} leave their loop or function",
            next_step="Put the part that computes into a function, and name that: FILE::FUNCTION.",
        )
    rows, first, last = text.splitlines(), statements[0].lineno, statements[-1].end_lineno or 0
    own = [node for node in tree.body if isinstance(node, _DEFINING)]
    imports = (node for node in own if isinstance(node, (ast.Import, ast.ImportFrom)))
    imported = (a.asname or a.name.partition(".")[0] for node in imports for a in node.names)
    known = {*dir(builtins), *imported, *(getattr(node, "name", "") for node in own)}
    inputs = [name for name in _read(statements) if name not in known]
    outputs = _written(statements, tree) or inputs[:1]
    cupy = next((name for name, full, _ in imports_of(tree) if full == "cupy"), "")
    if not outputs:
        step = "Name a line of a function or of a loop, or FILE::FUNCTION."
        raise UsageError(f"the statements around line {line} of {source} set nothing", next_step=step)
    name = f"line_{line}"
    there = _on_gpu(text, tree, statements, cupy)
    uses = bool(cupy) and re.search(r"\bxp\.", "\n".join(there)) is not None
    head = f"def {name}({', '.join([*inputs, *['xp'] * uses])}):"
    needed = ["\n".join(rows[first_line(node) - 1 : node.end_lineno]) for node in own]
    returns = f"return {', '.join(outputs)}"
    bodies = (textwrap.dedent("\n".join(lines)) for lines in (there, rows[first - 1 : last]))
    indented = ([f"    {row}".rstrip() for row in (*body.split("\n"), returns)] for body in bodies)
    module, observed = ("\n".join((*needed, "", "", head, *body, "")) for body in indented)
    indent = rows[first - 1][: len(rows[first - 1]) - len(rows[first - 1].lstrip())]
    parameters = ", ".join([*inputs, *[cupy] * uses])
    call = f"{indent}{', '.join(outputs)} = {name}({parameters})"
    future = {n.lineno for n in own if isinstance(n, ast.ImportFrom) and n.module == "__future__"}
    rest = ["" if i in future else row for i, row in enumerate(rows, 1)]
    program = "\n".join((observed, *rest[: first - 1], call, *rest[last:], ""))
    return Stretch(name, module, program, tuple(i for i, output in enumerate(outputs) if output in read))


def _on_gpu(text: str, tree: ast.Module, statements: Sequence[ast.stmt], cupy: str) -> list[str]:
    """The statements for arrays that are on the GPU already: no `cupy.asarray`, and `xp` in place of CuPy."""
    edits, nodes = SourceEdits(text, tree), [node for each in statements for node in ast.walk(each)]
    modules = {id(node): node for node in nodes if isinstance(node, ast.Name) and node.id == cupy}
    for call in (node for node in nodes if isinstance(node, ast.Call) and node.lineno == node.end_lineno):
        module = call.func.value if isinstance(call.func, ast.Attribute) else None
        is_upload = id(module) in modules and last_name(call.func) in _COPIES
        if is_upload and len(call.args) == 1 and not call.keywords:
            del modules[id(module)]
            (begin, end), (first, last) = edits.span(call), edits.span(call.args[0])
            whole = isinstance(call.args[0], (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
            edits.replaced |= {(begin, first): "" if whole else "(", (last, end): "" if whole else ")"}
    for name in modules.values():
        edits.replace(name, "xp")
    return edits.result().splitlines()[statements[0].lineno - 1 : statements[-1].end_lineno]


def _block(body: Sequence[ast.stmt], line: int) -> Sequence[ast.stmt]:
    """The innermost statements that hold the line, not those of functions."""
    for node in body:
        inner = [getattr(node, part, []) for part in ("body", "orelse", "finalbody")]
        for part in inner:
            if part and part[0].lineno <= line <= (part[-1].end_lineno or 0):
                return _block(part, line)
    return body


def _around(block: Sequence[ast.stmt], line: int) -> Sequence[ast.stmt]:
    """From the upload at or before the line, or behind an earlier download, up to the next download."""
    here = next((i for i, node in enumerate(block) if _holds(node, line)), 0)
    uploads, downloads = ([bool(_calls(node) & names) for node in block] for names in (_UPLOADS, _DOWNLOADS))
    begin = here
    if downloads[here] and not uploads[here]:
        is_half = here and any(name.startswith(_TAKEN) for name in _names(block[here - 1], ast.Store))
        earlier = (i + downloads[i] for i in range(here - 1, -1, -1) if uploads[i] or downloads[i])
        begin = next(earlier, here - bool(is_half))
        if begin < here:
            return block[begin:here]
    return block[begin : next((i for i in range(begin + 1, len(block)) if downloads[i]), len(block))]


def _calls(statement: ast.AST) -> set[str]:
    return {last_name(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)}


def _names(node: ast.AST, *kinds: type[ast.expr_context]) -> Iterator[str]:
    yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, kinds))


def _read(statements: Sequence[ast.stmt]) -> list[str]:
    """Names that they read before they set them, in order."""
    set_, inputs = set[str](), dict[str, None]()
    for node in statements:
        augmented = [n.target for n in ast.walk(node) if isinstance(n, ast.AugAssign)]
        read = [*_names(node, ast.Load), *(t.id for t in augmented if isinstance(t, ast.Name))]
        inputs |= dict.fromkeys(name for name in read if name not in set_)
        set_ |= set(_names(node, ast.Store))
    return list(inputs)


def _written(statements: Sequence[ast.stmt], tree: ast.Module) -> list[str]:
    """Names that they set and others read; all where nobody does."""
    stored = list(dict.fromkeys(name for node in statements for name in _names(node, ast.Store)))
    inside = {id(n) for each in statements for n in ast.walk(each)}
    names = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in stored)
    outside = {name.id for name in names if id(name) not in inside}
    return [name for name in stored if name in outside] or stored
