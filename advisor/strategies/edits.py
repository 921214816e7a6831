"""A user's source with one line's memory changed: the least text that does it, comments and layout kept.

Each kind of change has one function, which names the text to replace and the lines to put in. What cannot be
written with certainty raises `CannotWrite`: nothing is guessed.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from advisor.profiles.text_files import write_atomically
from advisor.profiles.trials import ChangeKind

_PINNED = {
    "empty": "empty_pinned",
    "zeros": "zeros_pinned",
    "empty_like": "empty_like_pinned",
    "zeros_like": "zeros_like_pinned",
}
"""NumPy's allocating functions and those of cupyx with the same arguments."""
_TORCH_ALLOCATING = ("empty", "zeros", "ones", "full", "rand", "randn", "tensor", "arange", "eye")
"""torch functions that take pin_memory=True."""
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_REPEATING = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class CannotWrite(Exception):
    """Why the change is not written, in words."""


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


@dataclass
class _Edits:
    """Texts to replace, as offsets into the source, and lines to put in before a line."""

    source: str
    tree: ast.Module
    replaced: dict[tuple[int, int], str] = field(default_factory=dict)
    inserted: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lines = _lines(self.source)
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
        """One more keyword argument, after a trailing comma or without."""
        _, end = self.span(call)
        inner = self.source[: end - 1].rstrip()
        comma = "" if inner.endswith(("(", ",")) else ", "
        space = " " if inner.endswith(",") else ""
        self.replaced[(len(inner), len(inner))] = f"{comma}{space}{argument}"

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


def loader_line(source: str, loop: int) -> int | None:
    """The line of the DataLoader(...) that the loop in a line iterates over; None where it is not plain."""
    tree = ast.parse(source)
    loops = (n for n in ast.walk(tree) if isinstance(n, (ast.For, ast.AsyncFor)) and n.lineno == loop)
    names = {n.id for found in loops for n in ast.walk(found.iter) if isinstance(n, ast.Name)}
    made = [
        (statement.lineno, {target.id for target in statement.targets if isinstance(target, ast.Name)})
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Assign) and any(map(_is_loader, _calls(statement.value)))
    ]
    of_loop = [line for line, targets in made if targets & names]
    lines = of_loop or [line for line, _ in made]
    return lines[0] if len(lines) == 1 else None


def loop_lines(source: str) -> list[int]:
    """The lines in which a `for` or `while` begins. Changes move them, and keep their order."""
    return sorted(node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, _LOOPS))


def diff(name: str, before: str, after: str) -> str:
    """A unified diff as `git apply` and `patch -p1` take it."""
    rows = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)


def apply(patch: str, folder: Path) -> list[Path]:
    """Changes files below the folder as `diff` told, or none. Raises `CannotWrite` where a line differs."""
    changed = {}
    for part in patch.split("--- a/")[1:]:
        file = folder / part.partition("\n")[0]
        try:
            before = file.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as problem:
            raise CannotWrite(f"{file}: {problem}") from None
        changed[file] = _applied(before, part, file.name)
    for file, text in changed.items():
        mode = file.stat().st_mode
        write_atomically(file, text)
        file.chmod(mode)
    return [*changed]


def _applied(before: str, part: str, name: str) -> str:
    """The text with the hunks of one file."""
    old, new, at, added = _lines(before), list[str](), 0, False
    for row in _lines(part)[2:]:
        if found := re.match(r"@@ -(\d+)", row):
            begin = max(int(found[1]) - 1, 0)
            new, at = [*new, *old[at:begin]], begin
        elif row[0] == "\\":
            new[-1:] = [line.rstrip("\n") for line in new[-1:]] if added else new[-1:]
        elif row[0] == "+":
            new.append(row[1:])
        elif [row[1:].rstrip("\n")] != [line.rstrip("\n") for line in old[at : at + 1]]:
            raise CannotWrite(f"{name} has another line {at + 1}")
        else:
            new += old[at : at + 1] * (row[0] == " ")
            at += 1
        added = row[0] == "+"
    return "".join([*new, *old[at:]])


def _lines(text: str) -> list[str]:
    """Lines with their ends, by line feeds alone, as `ast` and `patch` count them."""
    *whole, last = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([last] if last else ())]


def _lock(edits: _Edits, change: Change) -> None:
    """The array that crosses is page-locked where it is made, once."""
    if change.origin is None:
        raise CannotWrite("the line that allocates the array was not seen")
    statement, name, call = _assigned_call(edits, change.origin)
    if _inside(edits.tree, statement, change.loop):
        raise CannotWrite(f"line {change.origin} makes a new array in each frame")
    function = _imported_name(edits.tree, call.func, "numpy")
    if _imported_name(edits.tree, call.func, "torch") in _TORCH_ALLOCATING:
        edits.add_argument(call, "pin_memory=True")
        return
    if function in _PINNED:
        edits.replace(call.func, f"cupyx.{_PINNED[function]}")
        _require_import(edits, "cupyx")
    else:
        cupy = _alias(edits.tree, "cupy")
        locking = f"{cupy}.cuda.runtime.hostRegister({name}.ctypes.data, {name}.nbytes, 0)  # page-locked"
        lifting = f"weakref.finalize({name}, {cupy}.cuda.runtime.hostUnregister, {name}.ctypes.data)"
        edits.insert(_after(statement), _indentation(edits, statement), locking, lifting)
        _require_import(edits, "weakref")
    for line in (change.line, *change.uploads):
        _wait(edits, _statement(edits.tree, line), name)


def _wait(edits: _Edits, upload: ast.stmt, name: str) -> None:
    """Waits after the statement, before the host may write the array again."""
    if isinstance(upload, ast.Return) or any(isinstance(node, _REPEATING) for node in ast.walk(upload)):
        raise CannotWrite(f"line {upload.lineno} has no place after its copy to wait for it")
    if any(_names_stream(call) for call in _calls(upload)):
        raise CannotWrite(f"line {upload.lineno} copies in a stream of its own")
    waiting = f"{_alias(edits.tree, 'cupy')}.cuda.get_current_stream().synchronize()"
    reason = f"  # until {name} is copied: the host may write it again"
    edits.insert(_after(upload), _indentation(edits, upload), waiting + reason)


def _names_stream(call: ast.Call) -> bool:
    second = isinstance(call.func, ast.Attribute) and call.func.attr == "set" and len(call.args) > 1
    return second or any(word.arg == "stream" for word in call.keywords)


def _reuse(edits: _Edits, change: Change) -> None:
    """A download goes into one page-locked array that is kept, not into new memory in each frame."""
    statement, target, call = _assigned_call(edits, change.line)
    loop = _loop_of(edits.tree, statement, change.loop)
    if target in _named(loop, without=statement):
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
    calls = [
        call
        for call in _calls(_statement(edits.tree, change.line))
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "cuda", "copy_")
    ]
    calls = [c for c in calls if c.lineno <= change.line <= (c.end_lineno or c.lineno)]
    calls = [call for call in calls if all(word.arg != "non_blocking" for word in call.keywords)]
    if not calls:
        raise CannotWrite(f"line {change.line} has no call of to, cuda or copy_ without non_blocking")
    for call in calls:
        edits.add_argument(call, "non_blocking=True")


def _pin_memory(edits: _Edits, change: Change) -> None:
    """The loader that makes the batches gives them in page-locked memory."""
    if change.origin is None:
        raise CannotWrite("the line that makes the DataLoader was not seen")
    calls = [call for call in _calls(_statement(edits.tree, change.origin)) if _is_loader(call)]
    if len(calls) != 1:
        raise CannotWrite(f"line {change.origin} has no DataLoader(...), or several")
    words = [word for word in calls[0].keywords if word.arg in ("pin_memory", None)]
    if not words:
        edits.add_argument(calls[0], "pin_memory=True")
    elif isinstance(words[0].value, ast.Constant) and words[0].arg == "pin_memory":
        edits.replace(words[0].value, "True")
    else:
        raise CannotWrite(f"pin_memory of line {change.origin} is computed elsewhere")


def _hoist(edits: _Edits, change: Change) -> None:
    """An upload of the same bytes in each frame goes before the loop."""
    statement, name, call = _assigned_call(edits, change.line)
    loop = _loop_of(edits.tree, statement, change.loop)
    if statement not in loop.body:
        raise CannotWrite(f"line {change.line} is not directly in the loop, but in a block of its own")
    bound = set(_bound(loop, without=statement))
    if name in bound:
        raise CannotWrite(f"{name} is given other values in the loop")
    used = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    if used & bound:
        raise CannotWrite(f"{', '.join(sorted(used & bound))} is set in the loop")
    if len(loop.body) == 1:
        raise CannotWrite("the loop has no other statement")
    rows = edits.lines[statement.lineno - 1 : _after(statement) - 1]
    begin = edits.offset(statement.lineno, 0)
    edits.replaced[(begin, begin + sum(map(len, rows)))] = ""
    inner, outer = _indentation(edits, statement), _indentation(edits, loop)
    edits.insert(loop.lineno, "", *(outer + row.rstrip("\r\n").removeprefix(inner) for row in rows))


_WRITERS: Mapping[ChangeKind, Callable[[_Edits, Change], None]] = {
    "lock": _lock,
    "reuse": _reuse,
    "non-blocking": _non_blocking,
    "pin-memory": _pin_memory,
    "hoist": _hoist,
}


def _statement(tree: ast.AST, line: int) -> ast.stmt:
    """The innermost statement on that line. Raises `CannotWrite` where there are several, or none."""
    there = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= line <= (n.end_lineno or 0)]
    if not there:
        raise CannotWrite(f"line {line} has no statement")
    least = min((n.end_lineno or 0) - n.lineno for n in there)
    inner = [n for n in there if (n.end_lineno or 0) - n.lineno == least]
    if len(inner) > 1 or hasattr(inner[0], "body"):
        raise CannotWrite(f"line {line} holds several statements")
    return inner[0]


def _assigned_call(edits: _Edits, line: int) -> tuple[ast.stmt, str, ast.Call]:
    """The statement `name = call(...)` on that line, the name and the call."""
    statement = _statement(edits.tree, line)
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
        _imported_name(edits.tree, call.func, "cupy") == "asnumpy"
        and len(call.args) == 1
        and not call.keywords
    ):
        return call.args[0], call
    raise CannotWrite(f"line {call.lineno} is neither x.get() nor asnumpy(x) alone")


def _calls(statement: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(statement) if isinstance(node, ast.Call))


def _is_loader(call: ast.Call) -> bool:
    function = call.func
    return (
        function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    ) == "DataLoader"


def _imports(tree: ast.Module) -> Iterator[tuple[str, str, ast.stmt]]:
    """Name in the file, what it names in full, and the statement, of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, alias.name, node
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}", node


def _imported_name(tree: ast.Module, function: ast.expr, library: str) -> str:
    """`empty` of `np.empty` and of an `empty` that was imported from the library; empty for others."""
    names = {name: full for name, full, _ in _imports(tree)}
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.attr if names.get(function.value.id) == library else ""
    if isinstance(function, ast.Name):
        home, _, name = names.get(function.id, "").rpartition(".")
        return name if home == library else ""
    return ""


def _alias(tree: ast.Module, library: str) -> str:
    """What the file calls the library. Raises `CannotWrite` where it does not import it as a whole."""
    name = next((name for name, full, _ in _imports(tree) if full == library), None)
    if name is None:
        raise CannotWrite(f"the file does not import {library} as a module")
    return name


def _require_import(edits: _Edits, library: str) -> None:
    """Imports the library after cupy, where the file does not."""
    imports = [*_imports(edits.tree)]
    if any(name == library == full for name, full, _ in imports):
        return
    beside = next(
        (n for _, full, n in imports if full.partition(".")[0] == "cupy" and n in edits.tree.body), None
    )
    if beside is None:
        raise CannotWrite("the file does not import cupy at its top level")
    edits.insert(_after(beside), "", f"import {library}")


def _after(statement: ast.stmt) -> int:
    return (statement.end_lineno or statement.lineno) + 1


def _indentation(edits: _Edits, statement: ast.stmt) -> str:
    line = edits.lines[statement.lineno - 1]
    return line[: len(line) - len(line.lstrip())]


def _inside(tree: ast.AST, statement: ast.stmt, loop: int | None) -> bool:
    return any(
        isinstance(n, _LOOPS) and n.lineno == loop and n.lineno <= statement.lineno <= (n.end_lineno or 0)
        for n in ast.walk(tree)
    )


def _loop_of(tree: ast.AST, statement: ast.stmt, line: int | None) -> ast.For | ast.AsyncFor | ast.While:
    """The loop of the frames, in the function that holds the statement."""
    for node in ast.walk(tree):
        if isinstance(node, _LOOPS) and node.lineno == line and statement in ast.walk(node):
            functions = (n for n in ast.walk(node) if isinstance(n, _FUNCTIONS))
            if not any(statement in ast.walk(function) for function in functions):
                return node
    raise CannotWrite("the line is not in the loop itself, but in a function that it calls")


def _named(loop: ast.For | ast.AsyncFor | ast.While, without: ast.stmt) -> Iterator[str]:
    """Names that the loop sets or deletes, but for one statement."""
    skipped = set(map(id, ast.walk(without)))
    for node in ast.walk(loop):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and id(node) not in skipped:
            yield node.id


def _bound(loop: ast.For | ast.AsyncFor | ast.While, without: ast.stmt) -> Iterator[str]:
    """Names that the loop sets or changes in place, but for one statement."""
    yield from _named(loop, without)
    skipped = set(map(id, ast.walk(without)))
    for node in ast.walk(loop):
        if id(node) in skipped:
            continue
        target: ast.expr | None = None
        if isinstance(node, (ast.Subscript, ast.Attribute)):
            target = node.value if isinstance(node.ctx, ast.Store) else None
        elif isinstance(node, ast.keyword):
            target = node.value if node.arg == "out" else None
        while isinstance(target, (ast.Subscript, ast.Attribute)):
            target = target.value
        if isinstance(target, ast.Name):
            yield target.id
