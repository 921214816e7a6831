"""A user's source with one line's memory changed: the least text that does it, comments and layout kept.

Each kind of change has one function, which names the text to replace and the lines to put in. What cannot be
written with certainty raises `CannotWrite`: nothing is guessed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from advisor.profiles.crossings import Library
from advisor.profiles.trials import ChangeKind
from advisor.strategies.allocators import BY_NAME
from advisor.strategies.patches import SourceEdits
from advisor.strategies.syntax import (
    IMPORTS,
    CannotWrite,
    Loop,
    alias_of,
    calls_in,
    imported_name,
    imports_of,
    is_inside,
    is_loader,
    last_name,
    line_after,
    loop_of,
    loops_around,
    names_changed,
    names_in,
    names_of,
    names_set,
    statement_at,
    targets_of,
    top_line,
)
from advisor.strategies.uses import (
    BLOCKING,
    Assignment,
    assigned_name,
    downloads,
    is_copied,
    is_read,
    lines_beside,
    made_once,
    require_evaluated_first,
    require_same_each_time,
    upload_lines,
)

_PINNED = {
    "empty": "empty_pinned",
    "zeros": "zeros_pinned",
    "empty_like": "empty_like_pinned",
    "zeros_like": "zeros_like_pinned",
}
"""NumPy's allocating functions and those of cupyx with the same arguments; what others make is registered."""
_TORCH_ALLOCATING = ("empty", "zeros", "ones", "full", "rand", "randn", "tensor", "arange", "eye")
"""torch functions that take pin_memory=True."""
_MAKING = (ast.Call, ast.BinOp, ast.UnaryOp)
"""Expressions whose array is a new one: `np.ones(9) * 2` as well as `np.load("x.npy")`."""
BOM, TAB = "\ufeff", "\t"
_LEAVING = (
    *(ast.Return, ast.Yield, ast.YieldFrom, ast.Await),
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
"""What gives the copy away, or makes several, before a next line could wait for it."""


@dataclass(frozen=True)
class Change:
    """What to change. `line` is that of the crossing; `origin` that which allocates or makes what crosses."""

    kind: ChangeKind
    line: int
    origin: int | None = None
    loop: int | None = None
    uploads: tuple[tuple[str, int], ...] = ()
    """File and line of other uploads of the same array: what is page-locked is waited for there too."""
    name: str = ""
    """The contestant that it is when it is tried; of an allocator its own."""
    file: str = ""
    origin_file: str = ""
    """The files, in full; none where the text of one is edited."""
    tried: bool = False
    """It was imposed on a run: nothing kept what it reuses."""
    library: Library = "cupy"

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.file, self.origin_file or self.file, *(f for f, _ in self.uploads))))

    def within(self, file: str, loop: int | None) -> Change:
        """What was tried, as far as it is in one of its files."""
        return replace(
            self,
            file=file,
            line=self.line if file == self.file else 0,
            origin=self.origin if file == self.origin_file else None,
            loop=loop,
            uploads=tuple(each for each in self.uploads if each[0] == file),
            tried=True,
        )


def edited(source: str, changes: Sequence[Change]) -> str:
    """The source with the changes. Raises `CannotWrite` where one cannot be written, `SyntaxError` where the
    source is not Python."""
    if source.startswith(BOM):
        return BOM + edited(source.removeprefix(BOM), changes)
    if "\r" in source.replace("\r\n", ""):
        raise CannotWrite("the file has lines that end with a carriage return alone")
    edits = SourceEdits(source, ast.parse(source))
    for change in sorted(changes, key=lambda each: each.kind == "hoist"):  # it takes other edits along
        _WRITERS[change.kind](edits, change)
    return edits.result()


def _lock(edits: SourceEdits, change: Change) -> None:
    """The array that crosses is page-locked where it is made, once; its uploads wait until they are done."""
    if change.library != "cupy":
        _lock_made_once(edits, change)
        return
    array = "what was uploaded"
    lines = {change.line, *(line for _, line in change.uploads)} - {0}
    if change.origin is not None:
        statement, array, value = _assigned(edits, change.origin, (ast.Name, ast.Attribute), _MAKING)
        if is_inside(edits.tree, statement, change.loop):
            raise CannotWrite(f"line {change.origin} makes a new array in each frame")
        call = value if isinstance(value, ast.Call) else None
        pinned = _PINNED.get(imported_name(edits.tree, call.func, "numpy")) if call else None
        if call and pinned and not {"like", "device", None} & {word.arg for word in call.keywords}:
            edits.replace(call.func, f"{edits.imported('cupyx')}.{pinned}")
        else:
            cupy, weakref = alias_of(edits.tree, "cupy"), edits.imported("weakref")
            data, runtime = f"{array}.ctypes.data", f"{cupy}.cuda.runtime"
            locking = f"{runtime}.hostRegister({data}, {array}.nbytes, 0)  # page-locked"
            lifting = f"{weakref}.finalize({array}, {runtime}.hostUnregister, {data})"
            edits.insert(line_after(statement), edits.indentation(statement), locking, lifting)
        lines |= upload_lines(edits.tree, statement, array)
    elif change.origin_file == change.file:
        raise CannotWrite("the line that allocates the array was not seen")
    for line in sorted(lines.union(*(lines_beside(edits.tree, line) for line in lines))):
        _block(edits, line, array)


def _lock_made_once(edits: SourceEdits, change: Change) -> None:
    """Arrays of PyTorch or Numba. Their copies are waited for, unless the file asks for others."""
    arrays = made_once(edits.tree, change.line, change.library, change.loop)
    if not arrays:
        raise CannotWrite(f"the file does not show which line makes what line {change.line} uploads")
    if change.library == "numba" and re.search(r"\bstream\b", edits.source):
        raise CannotWrite("the file copies in a stream")
    nodes = ast.walk(edits.tree)
    assigned = [n for n in nodes if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
    tensors = {ast.unparse(n.targets[0]) for n in assigned if ast.unparse(n.value).startswith("torch.")}
    for name, statement in arrays.items():
        # A call that does not wait may copy that tensor if it names anything but other tensors.
        for call in (c for c in calls_in(edits.tree) if any(w.arg == "non_blocking" for w in c.keywords)):
            if names_of(call) - (tensors - {name}) - {"torch"}:
                raise CannotWrite(f"line {call.lineno} may copy it asynchronously")
        value = statement.value
        after = line_after(statement)
        indentation = edits.indentation(statement)
        if change.library == "numba":
            cuda = alias_of(edits.tree, "numba.cuda")
            pinned = edits.new_name(f"{name}_pinned")
            lines = (f"{pinned} = {cuda}.pinned_array_like({name})", f"{pinned}[...] = {name}")
            edits.insert(after, indentation, *lines, f"{name} = {pinned}")
        elif (
            isinstance(value, ast.Call)
            and imported_name(edits.tree, value.func, "torch") in _TORCH_ALLOCATING
            and all(word.arg not in ("pin_memory", None) for word in value.keywords)
        ):
            edits.add_argument(value, "pin_memory=True")
        else:
            runtime = f"{alias_of(edits.tree, 'torch')}.cuda.cudart()"
            locking = f"{runtime}.cudaHostRegister({name}.data_ptr(), {name}.nbytes, 0)  # page-locked"
            edits.insert(after, indentation, locking)


def _block(edits: SourceEdits, line: int, array: str) -> None:
    """Copies of a line end before the host goes on, which may write the array again."""
    on_line = [c for c in calls_in(edits.tree) if c.lineno <= line <= (c.end_lineno or 0)]
    uploads = [call for call in on_line if imported_name(edits.tree, call.func, "cupy") in BLOCKING]
    for call in uploads:
        if all(word.arg not in ("blocking", None) for word in call.keywords):
            edits.add_argument(call, "blocking=True")
    if uploads:
        return
    upload = statement_at(edits.tree, line)
    calls = [*calls_in(upload)]
    if any(isinstance(node, _LEAVING) for node in ast.walk(upload)) or len(calls) > 1:
        raise CannotWrite(f"line {line} has no place after its copy to wait for it")
    for call in calls:
        second = last_name(call.func) == "set" and len(call.args) > 1
        if second or any(word.arg == "stream" for word in call.keywords):
            raise CannotWrite(f"line {line} copies in a stream of its own")
    waiting = f"{alias_of(edits.tree, 'cupy')}.cuda.get_current_stream().synchronize()"
    reason = f"  # until {array} is copied: the host may write it again"
    edits.insert(line_after(upload), edits.indentation(upload), waiting + reason)


def _reuse(edits: SourceEdits, change: Change) -> None:
    """Downloads go into page-locked arrays that are kept, not into new memory in each frame.

    Into one array where the text shows that it is enough; where only a trial showed that nothing holds it
    longer, into two in turn, as it did there.
    """
    statement = statement_at(edits.tree, change.line)
    indentation = edits.indentation(statement)
    inner = f"{indentation}{TAB if indentation.startswith(TAB) else '    '}"
    for call, source in downloads(edits.tree, statement, change.library):
        require_evaluated_first(statement, call, source)
        target, name = assigned_name(statement, call), getattr(source, "id", "")
        stem = target or name or "result"
        loop = _loop_that_reuses(edits, change, statement, call, target)
        if not name:
            name = edits.new_name(f"{target or 'result'}_device")
            edits.insert(statement.lineno, indentation, f"{name} = {_downloaded(edits, call, source)}")
        array, copy = _downloads_into(edits, change.library, name)
        host = edits.new_name(f"{stem}_pinned")
        if loop:
            edits.insert(loop.lineno, edits.indentation(loop), f"{host} = None")
            making = (f"{indentation}if {host} is None:", f"{inner}{host} = {array}")
        else:
            top = top_line(edits.tree, statement)
            is_block = edits.lines[top - 1].startswith(("def ", "class ", "@", "async "))
            rows = edits.newline * 2 * is_block
            edits.insert(top, "", f"{host} = []  # page-locked, filled in turn{rows}")
            edits.insert(statement.lineno, indentation, f"{host}.reverse()")
            making = (f"{indentation}if len({host}) < 2:", f"{inner}{host}.append({array})")
        edits.insert(statement.lineno, "", *making)
        edits.replace(call, copy.format(host if loop else f"{host}[-1]"))


def _downloaded(edits: SourceEdits, call: ast.Call, source: ast.expr) -> str:
    """The text of the array that a call downloads, with its parentheses where it has several lines."""
    begin, end = edits.span(source)
    if isinstance(call.func, ast.Attribute) and source is call.func.value:
        begin = edits.span(call)[0]
        end = edits.source.rindex(".", begin, edits.span(call.func)[1] - len(call.func.attr))
    text = edits.source[begin:end].rstrip()
    if "\n" not in text:
        return edits.moved(*edits.span(source))
    text = edits.moved(begin, begin + len(text))
    return text if text.startswith("(") else f"({text})"


def _downloads_into(edits: SourceEdits, library: Library, name: str) -> tuple[str, str]:
    """What makes page-locked memory for an array, and what copies it into `{}`."""
    if library == "torch":
        torch = alias_of(edits.tree, "torch")
        return f'{torch}.empty_like({name}, device="cpu", pin_memory=True)', f"{{}}.copy_({name})"
    if library == "numba":
        cuda = alias_of(edits.tree, "numba.cuda")
        return f"{cuda}.pinned_array({name}.shape, {name}.dtype)", f"{name}.copy_to_host({{}})"
    return f"{edits.imported('cupyx')}.empty_pinned({name}.shape, {name}.dtype)", f"{name}.get(out={{}})"


def _loop_that_reuses(
    edits: SourceEdits, change: Change, statement: ast.stmt, call: ast.Call, target: str
) -> Loop | None:
    """The outermost loop around a download; None where its text does not show that one array is enough, but a
    trial showed that two are. Raises `CannotWrite` without."""
    named = target and change.library != "torch"  # NumPy's arrays over a tensor would change with it
    try:
        loop = loop_of(edits.tree, statement, change.loop)
        if target in names_set(loop, without=statement):
            raise CannotWrite(f"{target} is given other values in the loop")
        if not (named or is_copied(edits.tree, statement, call) or is_read(edits.tree, call, "")):
            raise CannotWrite(f"line {call.lineno} passes on what it downloads")
    except CannotWrite:
        if not change.tried or (named and is_inside(edits.tree, statement, change.loop)):
            raise
        return None
    return [loop, *loops_around(edits.tree, loop)][-1]


def _non_blocking(edits: SourceEdits, change: Change) -> None:
    """The uploads of the line return before they are done."""
    uploads = _torch_uploads(edits, change.line)
    if not uploads:
        raise CannotWrite(f"line {change.line} has no call of to or cuda without non_blocking")
    for call in uploads:
        edits.add_argument(call, "non_blocking=True")


def _torch_uploads(edits: SourceEdits, line: int) -> list[ast.Call]:
    """Blocking calls of `to` and `cuda`, all to one place. Raises `CannotWrite` where one of several may be a
    download: the host would read what has not arrived."""
    uploads: dict[ast.Call, tuple[str, ...]] = {}
    methods = [c for c in calls_in(statement_at(edits.tree, line)) if isinstance(c.func, ast.Attribute)]
    moves = [call for call in methods if last_name(call.func) in ("to", "cuda")]
    for call in moves:
        names_cpu = any(isinstance(n, ast.Constant) and n.value == "cpu" for n in ast.walk(call))
        flags = [each for each in call.args if isinstance(getattr(each, "value", None), bool)]
        asks = any(word.arg in ("non_blocking", None) for word in call.keywords)
        follows = any(inner in moves for inner in calls_in(call.func))
        if not (names_cpu or flags or asks or follows):
            uploads[call] = (last_name(call.func), *map(ast.unparse, call.args[:1]))
    if len({*uploads.values()}) > 1:
        raise CannotWrite(f"line {line} copies to several places")
    return [*uploads]


def _pin_memory(edits: SourceEdits, change: Change) -> None:
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
    for call in _torch_uploads(edits, change.line):
        edits.add_argument(call, "non_blocking=True")


def _hoist(edits: SourceEdits, change: Change) -> None:
    """An upload of the same bytes in each frame goes before the loop."""
    statement = statement_at(edits.tree, change.line)
    loop = loop_of(edits.tree, statement, change.loop)
    value: ast.expr
    match statement:
        case ast.Expr(ast.Call() as call):  # it sets an array, or drops what it made
            name, value = "", call
        case _:
            statement, name, value = _assigned(edits, change.line)
    if loop.body == [statement]:
        raise CannotWrite("the loop does nothing else, and would be empty without it")
    if statement not in loop.body:
        raise CannotWrite(f"line {change.line} is not directly in the loop, but in a block of its own")
    require_same_each_time(edits.tree, value)
    if any(edits.text(node) == name and node.lineno < statement.lineno for node in names_in(loop)):
        raise CannotWrite(f"{name} is read in the loop before line {change.line}")
    bound = set(names_changed(loop, without=statement))
    if name in bound:
        raise CannotWrite(f"{name} is given other values in the loop")
    used = names_of(value)
    if used & bound:
        raise CannotWrite(f"{', '.join(sorted(used & bound))} is set in the loop")
    inner, outer = edits.indentation(statement), edits.indentation(loop)
    span = edits.offset(statement.lineno, 0), edits.end(statement)
    rows = edits.moved(*span).splitlines()
    edits.replaced[span] = ""
    edits.insert(loop.lineno, "", *(outer + row.removeprefix(inner) for row in rows))


def _allocator(edits: SourceEdits, change: Change) -> None:
    """CuPy's allocator is set after the imports that follow its own."""
    cupy, body = alias_of(edits.tree, "cupy"), edits.tree.body
    here = next((n for name, _, n in imports_of(edits.tree) if name == cupy and n in body), None)
    if here is None:
        raise CannotWrite("the file does not import cupy at its top level")
    rest = body[body.index(here) :]
    last = next((before for before, n in pairwise(rest) if not isinstance(n, IMPORTS)), rest[-1])
    lines = BY_NAME[change.name].lines(cupy)
    edits.insert(line_after(last), "", edits.newline.join(("", *([""] * (len(lines) > 1)), *lines)))


_WRITERS: Mapping[ChangeKind, Callable[[SourceEdits, Change], None]] = {
    "lock": _lock,
    "reuse": _reuse,
    "non-blocking": _non_blocking,
    "pin-memory": _pin_memory,
    "hoist": _hoist,
    "allocator": _allocator,
}


def _assigned(
    edits: SourceEdits,
    line: int,
    targets: tuple[type[ast.expr], ...] = (ast.Name,),
    values: tuple[type[ast.expr], ...] = (ast.Call,),
) -> tuple[ast.stmt, str, ast.expr]:
    """The statement `name = value` on that line, the name and the value, which are of these kinds."""
    statement = statement_at(edits.tree, line)
    value = getattr(statement, "value", None)
    match targets_of(statement):
        case [(ast.Name() | ast.Attribute(value=ast.Name())) as target] if isinstance(target, targets):
            if isinstance(statement, Assignment) and isinstance(value, values):
                return statement, edits.text(target), value
    raise CannotWrite(f"line {line} is not of the form name = call(...)")
