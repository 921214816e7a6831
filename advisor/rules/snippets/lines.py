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
    """The call that crosses."""
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
        assigns = isinstance(self.statement, (ast.Assign, ast.AnnAssign, ast.AugAssign))
        targets = targets_of(self.statement) if self.statement and assigns else [None]
        return getattr(targets[0], "id", "")

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
        call, made = self.crossing, self.copied
        if call is None or call.keywords or len(call.args) > 1 or not isinstance(made, ast.Call):
            return ""
        if not _MADE.fullmatch(ast.unparse(made.func)) or {word.arg for word in made.keywords} & _ON_HOST:
            return ""
        device = '"cuda"' if last_name(call.func) == "cuda" else "".join(map(ast.unparse, call.args))
        inner = self.operand[:-1].rstrip().rstrip(",")
        return self.with_call(f"{inner}, device={device})") if device else ""

    def with_operand(self, other: str) -> str:
        """The line that copies something else."""
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
"""By library: page-locked memory, a download `out` into it, what waits for copies, one memory for both sides,
and what makes one array of several."""


def pinned(line: UserLine, *, up: bool, before: str, fill_place: str) -> str:
    """One page-locked array, made once. fill_place: the line that fills the old one."""
    old, texts = line.operand or "array", _TEXTS[line.library]
    new = f"{old if old.isidentifier() else 'host'}_pinned"
    those = f"the shape of {old}, in the type of the GPU's array" if line.dtype else f"those of {old}"
    lock = f"{texts['pinned'].format(new=new, dtype=line.dtype or 'dtype')}  # {those}; {before}"
    if not up and line.filled:
        lock = texts["pinned"].format(new=line.filled, dtype="dtype")
        return f"{lock}  # {fill_place}: in place of the array there\n{line.place.text}"
    if not up:
        download = texts["out"].format(new=new, old=old)
        return f"{lock}\n{line.with_call(download) or f'result = {download}'}  # until the next"
    fill = f"# {fill_place}: write into {new} (out={new}, dst={new}) instead of making {old}"
    again = line.with_operand(new) or f"# copy from {new}"
    return f"{lock}\n{fill}\n{again}\n{texts['wait']}  # before the CPU writes {new} again"


def in_place(line: UserLine, *, up: bool, before: str) -> str:
    """One array in mapped memory that the CPU and the GPU use."""
    old, texts = line.operand or "array", _TEXTS[line.library]
    new = f"{old if old.isidentifier() else 'data'}_shared"
    if up:
        use, until = f"the CPU writes into {new}; kernels read {new}_gpu", "it writes again"
    else:
        use, until = f"kernels write into {new}_gpu (out=)", f"the CPU reads {new}"
    shared = texts["shared"].format(new=new)
    return f"# {before}\n{shared}\n# in the loop: {use}\n{texts['wait']}  # before {until}"


def on_device(line: UserLine, before: str) -> str:
    """Arrays on the GPU for a kernel that is given NumPy's."""
    return (
        f"# {before}: d_array = cuda.to_device(array), for each array that it is given\n"
        f"{line.place.text}  # give it d_array\n"
        "# d_array.copy_to_host(array) where the CPU reads it, copy_to_device where it writes"
    )


def filled(before: str) -> str:
    """Page-locked memory that the data is made in."""
    return (
        f"host = torch.empty(shape, dtype=dtype, pin_memory=True)  # {before}; two to overlap\n"
        "# make the data in host (out=host, read into host.numpy()), then copy it with non_blocking=True\n"
        f"{_TEXTS['torch']['wait']}  # before the CPU writes host again"
    )


def once(line: UserLine, before: str, after: str = "") -> str:
    """The line moved out of the loop."""
    return "\n".join(filter(None, (f"# {before}", line.place.text, after)))


def copied_there(line: UserLine, before: str) -> str:
    """The upload moved out of a loop in which the GPU writes to what it gave."""
    new = line.target
    old = f"{line.target}_once"
    upload = f"# {before}\n{line.place.text.replace(new, old, 1)}\n"
    if line.library == "numba":
        return f"{upload}{new} = cuda.device_array_like({old})\n# in the loop\n{new}.copy_to_device({old})"
    return f"{upload}# in the loop\n{new} = {old}.{'clone' if line.library == 'torch' else 'copy'}()"


def kept(line: UserLine, source: UserLine | None) -> str:
    """The array that is still on the GPU, in place of its copy."""
    there = source.operand if source else ""
    if source is None or not there:
        return f"# keep each array on the GPU too, beside what was downloaded\n{line.with_call('that_array')}"
    return f"{line.with_call(there)}  # while {there} is as it was in line {source.place.line}"


def on_gpu(line: UserLine, loop_end: str, tested: bool) -> str:
    """The value stays on the GPU; it is read once, after the loop. tested: the loop needs it on the host."""
    value = f"{line.operand}.detach()" if line.library == "torch" else line.operand
    written = line.with_call(value) if line.operand else ""
    statements = statements_of(written)
    if tested or isinstance(line.statement, (ast.If, ast.While, ast.Assert)):
        return (
            "# keep what depends on it on the GPU (where(), clip()), or ask for it in every tenth frame\n"
            f"{line.place.text}"
        )
    # A call that is passed the value waits for it as well, as print() and math.log() of a tensor do.
    passed = {
        ast.unparse(part)
        for call in (call for each in statements for call in calls_in(each))
        for argument in (*call.args, *call.keywords)
        for part in ast.walk(argument)
    }
    plain = value not in passed and all(isinstance(each, _PLAIN) for each in statements)
    if not written or not statements or not plain:
        keep = "# keep the values on the GPU and read them after the loop, or in every tenth frame"
        return f"{keep}\n{line.place.text}"
    once = line.call.replace(line.operand, line.target, 1) if line.target else line.call
    return f"{written}  # stays on the GPU\n# {loop_end}: {once}"


_PLAIN = (ast.Assign, ast.AugAssign, ast.Expr, ast.AnnAssign)


def merged(line: UserLine) -> str:
    """One copy for many small arrays."""
    old = line.operand or "array"
    stack = _TEXTS[line.library]["stack"]
    one = line.with_operand("together")
    if not one:
        return f"together = {stack}(...)  # all small arrays of the frame; then one copy of it"
    return f"together = {stack}([...])  # every {old} of a frame\n{one}  # one copy; then take its rows"
