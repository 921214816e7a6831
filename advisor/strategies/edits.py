"""A user's source with one line's memory changed: the least text that does it, comments and layout kept.

Each kind of change has one function, which names the text to replace and the lines to put in. What cannot be
written with certainty raises `CannotWrite`: nothing is guessed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeGuard

from advisor.profiles.trials import ChangeKind
from advisor.strategies.allocators import BY_NAME
from advisor.strategies.patches import lines_of
from advisor.strategies.syntax import (
    CannotWrite,
    alias_of,
    calls_in,
    imported_name,
    imports_of,
    is_inside,
    is_loader,
    line_after,
    loop_of,
    names_changed,
    names_set,
    statement_at,
)

_PINNED = {
    "empty": "empty_pinned",
    "zeros": "zeros_pinned",
    "empty_like": "empty_like_pinned",
    "zeros_like": "zeros_like_pinned",
}
"""NumPy's allocating functions and those of cupyx with the same arguments."""
_TORCH_ALLOCATING = ("empty", "zeros", "ones", "full", "rand", "randn", "tensor", "arange", "eye")
"""torch functions that take pin_memory=True."""
_IMPORTS = (ast.Import, ast.ImportFrom)
_REPEATING = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Change:
    """What to change. `line` is that of the crossing; `origin` that which allocates or makes what crosses."""

    kind: ChangeKind
    line: int
    origin: int | None = None
    loop: int | None = None
    """The line of the loop whose iterations are frames."""
    uploads: tuple[int, ...] = ()
    """Other lines that upload the same array: what is page-locked is waited for there too."""
    allocator: str = ""


@dataclass
class _Edits:
    """Texts to replace, as offsets into the source, and lines to put in before a line."""

    source: str
    tree: ast.Module
    replaced: dict[tuple[int, int], str] = field(default_factory=dict)
    inserted: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lines = lines_of(self.source)
        self.newline = "\r\n" if "\r\n" in self.source else "\n"
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """Into the source as text; columns of a syntax tree count bytes."""
        text = self.lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(text)

    def span(self, node: ast.expr) -> tuple[int, int]:
        begin = self.offset(node.lineno, node.col_offset)
        return begin, self.offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)

    def text(self, node: ast.expr) -> str:
        begin, end = self.span(node)
        return self.source[begin:end]

    def replace(self, node: ast.expr, text: str) -> None:
        self.replaced[self.span(node)] = text

    def add_argument(self, call: ast.Call, argument: str) -> None:
        """One more keyword argument, in a row of its own where the closing parenthesis has one."""
        end = self.span(call)[1] - 1
        values = [*call.args, *(word.value for word in call.keywords)]
        if not values:
            self.replaced[end, end] = argument
            return
        value = max(values, key=lambda each: self.span(each)[1])
        last = self.span(value)[1]
        while closed := re.match(r"\s*\)", self.source[last:end]):
            last += closed.end()
        tail = self.source[last:end]
        row_end = re.search(r"\r?\n", tail)
        if row_end is None:
            self.replaced[last, last] = f", {argument}"
            return
        comma = "," if "," in re.sub("#.*", "", tail) else ""
        row, begins = self.lines[value.lineno - 1], last + row_end.start()
        indentation = row[: len(row) - len(row.lstrip())]
        self.replaced[last, last] = "" if comma else ","
        added = f"{self.newline}{indentation}{argument}{comma}"
        self.replaced[begins, begins] = self.replaced.get((begins, begins), "") + added

    def insert(self, line: int, indentation: str, *texts: str) -> None:
        """Lines before `line`; those that are there already are not doubled."""
        known = self.inserted.setdefault(line, [])
        known += [new for text in texts if (new := f"{indentation}{text}{self.newline}") not in known]

    def result(self) -> str:
        pieces = {(self._starts[line - 1],) * 2: "".join(texts) for line, texts in self.inserted.items()}
        end = len(self.source)
        if (end, end) in pieces and not self.source.endswith("\n"):
            pieces[end, end] = self.newline + pieces[end, end].removesuffix(self.newline)
        edited = self.source
        for (begin, end), text in sorted({**self.replaced, **pieces}.items(), reverse=True):
            edited = edited[:begin] + text + edited[end:]
        return edited


def edited(source: str, changes: Sequence[Change]) -> str:
    """The source with the changes. Raises `CannotWrite` where one cannot be written, `SyntaxError` where the
    source is not Python."""
    edits = _Edits(source, ast.parse(source))
    for change in changes:
        _WRITERS[change.kind](edits, change)
    result = edits.result()
    try:
        ast.parse(result)
    except SyntaxError as problem:
        raise CannotWrite(f"the edited file would not be valid Python: line {problem.lineno}") from None
    return result


def _lock(edits: _Edits, change: Change) -> None:
    """The array that crosses is page-locked where it is made, once."""
    if change.origin is None:
        raise CannotWrite("the line that allocates the array was not seen")
    statement, name, call = _assigned_call(edits, change.origin)
    if is_inside(edits.tree, statement, change.loop):
        raise CannotWrite(f"line {change.origin} makes a new array in each frame")
    function = imported_name(edits.tree, call.func, "numpy")
    if imported_name(edits.tree, call.func, "torch") in _TORCH_ALLOCATING:
        edits.add_argument(call, "pin_memory=True")
        return
    if function in _PINNED:
        edits.replace(call.func, f"cupyx.{_PINNED[function]}")
        _require_import(edits, "cupyx")
    else:
        cupy = alias_of(edits.tree, "cupy")
        locking = f"{cupy}.cuda.runtime.hostRegister({name}.ctypes.data, {name}.nbytes, 0)  # page-locked"
        lifting = f"weakref.finalize({name}, {cupy}.cuda.runtime.hostUnregister, {name}.ctypes.data)"
        edits.insert(line_after(statement), _indentation(edits, statement), locking, lifting)
        _require_import(edits, "weakref")
    for line in (change.line, *change.uploads):
        _wait(edits, statement_at(edits.tree, line), name)


def _wait(edits: _Edits, upload: ast.stmt, name: str) -> None:
    """Waits after the statement, before the host may write the array again."""
    if isinstance(upload, ast.Return) or any(isinstance(node, _REPEATING) for node in ast.walk(upload)):
        raise CannotWrite(f"line {upload.lineno} has no place after its copy to wait for it")
    if any(_names_stream(call) for call in calls_in(upload)):
        raise CannotWrite(f"line {upload.lineno} copies in a stream of its own")
    waiting = f"{alias_of(edits.tree, 'cupy')}.cuda.get_current_stream().synchronize()"
    reason = f"  # until {name} is copied: the host may write it again"
    edits.insert(line_after(upload), _indentation(edits, upload), waiting + reason)


def _names_stream(call: ast.Call) -> bool:
    second = isinstance(call.func, ast.Attribute) and call.func.attr == "set" and len(call.args) > 1
    return second or any(word.arg == "stream" for word in call.keywords)


def _reuse(edits: _Edits, change: Change) -> None:
    """A download goes into one page-locked array that is kept, not into new memory in each frame."""
    statement, target, call = _assigned_call(edits, change.line)
    loop = loop_of(edits.tree, statement, change.loop)
    if target in names_set(loop, without=statement):
        raise CannotWrite(f"{target} is given other values in the loop")
    source, replaced = _downloaded(edits, call)
    indentation, host_array = _indentation(edits, statement), f"host_{change.line}"
    if any(isinstance(node, ast.Name) and node.id == host_array for node in ast.walk(edits.tree)):
        raise CannotWrite(f"the name {host_array} is taken")
    if not isinstance(source, ast.Name):
        name, text = f"device_{change.line}", edits.text(source)
        edits.insert(
            statement.lineno, indentation, f"{name} = ({text})" if "\n" in text else f"{name} = {text}"
        )
    else:
        name = source.id
    edits.insert(loop.lineno, _indentation(edits, loop), f"{host_array} = None")
    edits.insert(
        statement.lineno,
        indentation,
        f"if {host_array} is None:",
        f"    {host_array} = cupyx.empty_pinned({name}.shape, {name}.dtype)",
    )
    edits.replace(replaced, f"{name}.get(out={host_array})")
    _require_import(edits, "cupyx")


def _non_blocking(edits: _Edits, change: Change) -> None:
    """The copies of the line return before they are done."""
    calls = _blocking_copies(edits, change.line)
    if not calls:
        raise CannotWrite(f"line {change.line} has no call of to, cuda or copy_ without non_blocking")
    for call in calls:
        edits.add_argument(call, "non_blocking=True")


def _blocking_copies(edits: _Edits, line: int) -> list[ast.Call]:
    calls = [
        call
        for call in calls_in(statement_at(edits.tree, line))
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "cuda", "copy_")
    ]
    calls = [call for call in calls if call.lineno <= line <= (call.end_lineno or call.lineno)]
    return [call for call in calls if all(word.arg != "non_blocking" for word in call.keywords)]


def _pin_memory(edits: _Edits, change: Change) -> None:
    """The loader that makes the batches gives them in page-locked memory, and their copies do not block."""
    if change.origin is None:
        raise CannotWrite("the line that makes the DataLoader was not seen")
    calls = [call for call in calls_in(statement_at(edits.tree, change.origin)) if is_loader(call)]
    if len(calls) != 1:
        raise CannotWrite(f"line {change.origin} has no DataLoader(...), or several")
    words = [word for word in calls[0].keywords if word.arg in ("pin_memory", None)]
    if not words:
        edits.add_argument(calls[0], "pin_memory=True")
    elif isinstance(words[0].value, ast.Constant) and words[0].arg == "pin_memory":
        edits.replace(words[0].value, "True")
    else:
        raise CannotWrite(f"pin_memory of line {change.origin} is computed elsewhere")
    for call in _blocking_copies(edits, change.line):
        edits.add_argument(call, "non_blocking=True")


def _hoist(edits: _Edits, change: Change) -> None:
    """An upload of the same bytes in each frame goes before the loop."""
    statement = statement_at(edits.tree, change.line)
    if isinstance(statement, ast.Expr) and _sets_array(statement.value):
        name, call = "", statement.value
    else:
        statement, name, call = _assigned_call(edits, change.line)
    loop = loop_of(edits.tree, statement, change.loop)
    if statement not in loop.body:
        raise CannotWrite(f"line {change.line} is not directly in the loop, but in a block of its own")
    bound = set(names_changed(loop, without=statement))
    if name in bound:
        raise CannotWrite(f"{name} is given other values in the loop")
    used = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    if used & bound:
        raise CannotWrite(f"{', '.join(sorted(used & bound))} is set in the loop")
    if len(loop.body) == 1:
        raise CannotWrite("the loop has no other statement")
    rows = edits.lines[statement.lineno - 1 : line_after(statement) - 1]
    begin = edits.offset(statement.lineno, 0)
    edits.replaced[(begin, begin + sum(map(len, rows)))] = ""
    inner, outer = _indentation(edits, statement), _indentation(edits, loop)
    edits.insert(loop.lineno, "", *(outer + row.rstrip("\r\n").removeprefix(inner) for row in rows))


def _sets_array(value: ast.expr) -> TypeGuard[ast.Call]:
    """Whether it is `array.set(host)`, between two variables."""
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "set"
        and all(isinstance(each, ast.Name) for each in (value.func.value, *value.args))
    )


def _allocator(edits: _Edits, change: Change) -> None:
    """CuPy's allocator is set after the imports that follow its own."""
    cupy, body = alias_of(edits.tree, "cupy"), edits.tree.body
    here = next((n for name, _, n in imports_of(edits.tree) if name == cupy and n in body), None)
    if here is None:
        raise CannotWrite("the file does not import cupy at its top level")
    rest = body[body.index(here) :]
    last = next((before for before, n in pairwise(rest) if not isinstance(n, _IMPORTS)), rest[-1])
    lines = BY_NAME[change.allocator].lines(cupy)
    edits.insert(line_after(last), "", edits.newline.join(("", *([""] * (len(lines) > 1)), *lines)))


_WRITERS: Mapping[ChangeKind, Callable[[_Edits, Change], None]] = {
    "lock": _lock,
    "reuse": _reuse,
    "non-blocking": _non_blocking,
    "pin-memory": _pin_memory,
    "hoist": _hoist,
    "allocator": _allocator,
}


def _assigned_call(edits: _Edits, line: int) -> tuple[ast.stmt, str, ast.Call]:
    """The statement `name = call(...)` on that line, the name and the call."""
    statement = statement_at(edits.tree, line)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign):
        target, value = statement.target, statement.value or ast.Constant(None)
    else:
        raise CannotWrite(f"line {line} is not of the form name = call(...)")
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Call):
        raise CannotWrite(f"line {line} is not of the form name = call(...)")
    return statement, target.id, value


def _downloaded(edits: _Edits, call: ast.Call) -> tuple[ast.expr, ast.Call]:
    """The array on the GPU that `x.get()` or `cupy.asnumpy(x)` downloads, and the call."""
    if (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "get"
        and not call.args
        and not call.keywords
    ):
        return call.func.value, call
    if (
        imported_name(edits.tree, call.func, "cupy") == "asnumpy"
        and len(call.args) == 1
        and not call.keywords
    ):
        return call.args[0], call
    raise CannotWrite(f"line {call.lineno} is neither x.get() nor asnumpy(x) alone")


def _require_import(edits: _Edits, library: str) -> None:
    """Imports the library after cupy, where the file does not."""
    imports = [*imports_of(edits.tree)]
    if any(name == library == full for name, full, _ in imports):
        return
    beside = next(
        (n for _, full, n in imports if full.partition(".")[0] == "cupy" and n in edits.tree.body), None
    )
    if beside is None:
        raise CannotWrite("the file does not import cupy at its top level")
    edits.insert(line_after(beside), "", f"import {library}")


def _indentation(edits: _Edits, statement: ast.stmt) -> str:
    line = edits.lines[statement.lineno - 1]
    return line[: len(line) - len(line.lstrip())]
