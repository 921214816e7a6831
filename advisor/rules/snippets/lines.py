"""What to write in place of a user's own line: its parts by Python's grammar, code before and after."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from advisor.profiles.crossings import Crossing, Library, Place
from advisor.profiles.files import read_toml
from advisor.strategies.syntax import calls_in, last_name, names_of, targets_of

_OF_ARGUMENT = (
    *("asarray", "array", "to_device", "asnumpy", "from_numpy", "as_tensor", "tensor", "set", "copy_"),
)
"""Calls whose first argument is what is copied; of others it is the object before the dot."""
_MADE = re.compile(r"torch\.(zeros|ones|full|empty|rand|randn|randint|randperm|arange|linspace|eye)")
"""Functions that make the same on the GPU, by `device`, without a copy."""
_ON_HOST = {"device", "generator", "pin_memory", None}
"""Keywords that keep their tensor on the host, or may."""
_CASTS = {f"__{name}__": name for name in ("float", "int", "bool", "complex")} | {"__index__": "int"}


@dataclass(frozen=True)
class UserLine:
    """A line with its parts; empty texts where its grammar does not tell them."""

    place: Place
    library: Library
    statement: ast.stmt | None = None
    """The statement that crosses, or the only one."""
    crossing: ast.Call | None = None
    copied: ast.expr | None = None
    """What that copies, or asks for a value."""

    @classmethod
    def of(cls, crossing: Crossing) -> UserLine:
        place, library, name = crossing.place, crossing.library, crossing.call.rpartition(".")[2]
        name = _CASTS.get(name, name)
        statements = statements_of(place.text)
        calls = ((each, call) for each in statements for call in calls_in(each))
        statement, call = next((pair for pair in calls if last_name(pair[1].func) == name), (None, None))
        if call is None:
            return cls(place, library, statements[0] if len(statements) == 1 else None)
        is_function = crossing.call.startswith(("cupy.", "torch.", "cuda."))
        copied = call.func.value if isinstance(call.func, ast.Attribute) else None
        if is_function or name in (*_OF_ARGUMENT, *_CASTS.values()):
            copied = call.args[0] if call.args else None
        return cls(place, library, statement, call, copied)

    @property
    def target(self) -> str:
        """The name that it assigns."""
        if not isinstance(self.statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            return ""
        return getattr(targets_of(self.statement)[0], "id", "")

    @property
    def call(self) -> str:
        return self._text(self.crossing)

    @property
    def operand(self) -> str:
        return self._text(self.copied)

    def _text(self, node: ast.AST | None) -> str:
        return (ast.get_source_segment(self.place.text, node) if node else "") or ""

    @property
    def result(self) -> str:
        """Name of what the call returns; empty if the line computes with it (`total += a.get().sum()`)."""
        returned = isinstance(self.statement, ast.Assign) and self.statement.value is self.crossing
        return self.target if returned or not self.crossing else ""

    def with_call(self, other: str) -> str:
        """The line with something else in place of the call; empty where there is no such call."""
        return self.place.text.replace(self.call, other, 1) if self.call else ""

    @property
    def filled(self) -> str:
        """The host's array that a download is told to fill; empty where the call makes one."""
        call = self.crossing
        if call is None:
            return ""
        if isinstance(call.func, ast.Attribute) and call.func.attr == "copy_":
            return ast.unparse(call.func.value)
        first = call.args[:1] if last_name(call.func) == "copy_to_host" else []
        words = (word.value for word in call.keywords if word.arg in ("out", "ary"))
        return next((ast.unparse(each) for each in (*first, *words)), "")

    @property
    def names(self) -> set[str]:
        return names_of(self.copied) if self.copied else set()

    @property
    def is_constant(self) -> bool:
        """Whether the operand is written as numbers."""
        try:
            return isinstance(ast.literal_eval(self.copied or ""), (list, tuple, int, float))
        except (SyntaxError, ValueError):
            return False

    @property
    def dtype(self) -> str:
        """The type that the call converts to; empty where it names none."""
        words = self.crossing.keywords if self.crossing else []
        return next((ast.unparse(word.value) for word in words if word.arg == "dtype"), "")

    @property
    def made_on_gpu(self) -> str:
        """The line with `torch.ones(8, device=dev)` for `torch.ones(8).to(dev)`; empty where it is not so."""
        call, tensor = self.crossing, self.copied
        if call is None or call.keywords or len(call.args) > 1 or not isinstance(tensor, ast.Call):
            return ""
        if not _MADE.fullmatch(ast.unparse(tensor.func)) or {word.arg for word in tensor.keywords} & _ON_HOST:
            return ""
        device = '"cuda"' if last_name(call.func) == "cuda" else "".join(map(ast.unparse, call.args))
        inner = self.operand[:-1].rstrip().rstrip(",")
        return self.with_call(f"{inner}, device={device})") if device else ""

    def with_operand(self, other: str) -> str:
        return self.with_call(self.call.replace(self.operand, other, 1)) if self.operand else ""


def statements_of(text: str) -> list[ast.stmt]:
    """The statements of a line; the head of a block gets a body."""
    for body in ("", " pass"):
        with suppress(SyntaxError, ValueError):
            return ast.parse(text + body).body
    return []


def both(place: Place, after: str) -> str:
    """The line as it is, and what to write instead."""
    return f"# now, line {place.line} of {place.file}\n{place.text}\n\n# instead\n{after}"


_TEXTS = read_toml(Path(__file__).with_suffix(".toml"))


def code(name: str, line: UserLine, *, new: str = "", **words: str) -> str:
    """A text of lines.toml, in the words of the line's library."""
    given = {"line": line.place.text, "old": line.operand or "array", "dtype": line.dtype or "dtype"}
    given |= {"new": new, **words}
    library = {each: text.format_map(given) for each, text in _TEXTS[line.library].items()}
    return str(_TEXTS["code"][name].format_map(library | given))


def pinned(line: UserLine, *, up: bool, before: str, fill: str) -> str:
    """One page-locked array, made once. fill: the line that fills the old one."""
    old = line.operand or "array"
    new = f"{old if old.isidentifier() else 'host'}_pinned"
    those = f"the shape of {old}, in the type of the GPU's array" if line.dtype else f"those of {old}"
    words = {"those": those, "before": before, "fill": fill}
    if up:
        return code("pinned", line, new=new, again=line.with_operand(new) or f"# copy from {new}", **words)
    if line.filled:
        return code("pinned-there", line, new=line.filled, **words)
    download = code("download", line, new=new)
    again = line.with_call(download) or f"result = {download}"
    return code("pinned-download", line, new=new, again=again, **words)


def kept(line: UserLine, source: UserLine | None) -> str:
    """The array that is still on the GPU, in place of its copy."""
    if source is None or not source.operand:
        return code("kept", line, again=line.with_call("that_array"))
    there = source.operand
    return code("there", line, again=line.with_call(there), there=there, number=str(source.place.line))


def uploaded_once(line: UserLine, before: str) -> str:
    """The upload before the loop, and what the loop uses then: by the name that the line has or gets."""
    call, statement = line.crossing, line.statement
    if call is None:
        return code("uploaded-before", line, before=before)
    match call.func:
        case ast.Attribute(value=array, attr="set" | "copy_" | "copy_to_device"):
            name = ast.unparse(array)
        case _:
            name = line.result
    if name:
        return code("uploaded-once", line, before=before, upload=line.place.text, new=name)
    new = f"{line.operand if line.operand.isidentifier() else 'array'}_gpu"
    upload = f"{new} = {line.call}"
    if isinstance(statement, ast.Expr) and statement.value is call:
        return code("uploaded-once", line, before=before, upload=upload, new=new)
    return code("uploaded-apart", line, before=before, upload=upload, again=line.with_call(new))


def on_gpu(line: UserLine, *, tested: bool) -> str:
    """The value stays on the GPU; it is read once, after the loop. tested: the loop needs it on the host."""
    value = f"{line.operand}.detach()" if line.library == "torch" else line.operand
    written = line.with_call(value) if line.operand else ""
    statements = statements_of(written)
    if tested or isinstance(line.statement, (ast.If, ast.While, ast.Assert)):
        return code("tested", line)
    # A call that is passed the value waits for it as well, as print() and math.log() of a tensor do.
    passed = {
        ast.unparse(part)
        for call in (call for each in statements for call in calls_in(each))
        for argument in (*call.args, *call.keywords)
        for part in ast.walk(argument)
    }
    assigning = (ast.Assign, ast.AugAssign, ast.Expr, ast.AnnAssign)
    plain = value not in passed and all(isinstance(each, assigning) for each in statements)
    if not written or not statements or not plain:
        return code("read-later", line)
    read = line.call.replace(line.operand, line.target, 1) if line.target else line.call
    return code("on-gpu", line, written=written, read=read)
