"""What to write in place of a user's own line: its parts by Python's grammar, code before and after."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from advisor.profiles.crossings import Crossing, Library, Place
from advisor.profiles.files import read_toml
from advisor.strategies.syntax import names_of

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
    """A line with its parts as written; empty texts where its grammar does not tell them."""

    place: Place
    library: Library
    target: str = ""
    """The name that it assigns."""
    call: str = ""
    """The call that crosses."""
    operand: str = ""
    """What that copies, or asks for a value."""

    @classmethod
    def of(cls, crossing: Crossing) -> UserLine:
        place = crossing.place
        name = crossing.call.rpartition(".")[2]
        name = _CASTS.get(name, name)
        statements = statements_of(place.text)
        calls = ((each, call) for each in statements for call in ast.walk(each) if isinstance(call, ast.Call))
        statement, call = next((pair for pair in calls if _name(pair[1].func) == name), (None, None))
        if statement is None or call is None:
            target = _target(statements[0]) if len(statements) == 1 else ""
            return cls(place, crossing.library, target)
        target = _target(statement)
        is_function = crossing.call.startswith(("cupy.", "torch.", "cuda."))
        operand = call.func.value if isinstance(call.func, ast.Attribute) else None
        if is_function or name in (*_OF_ARGUMENT, *_CASTS.values()):
            operand = call.args[0] if call.args else None
        copied = _segment(place.text, operand) if operand else ""
        return cls(place, crossing.library, target, _segment(place.text, call), copied)

    @property
    def result(self) -> str:
        """Name of what the call returns; empty if the line computes with it (`total += a.get().sum()`)."""
        values = [each.value for each in statements_of(self.place.text) if isinstance(each, ast.Assign)]
        alone = not self.call or self.call in (_segment(self.place.text, value) for value in values)
        return self.target if alone else ""

    def with_call(self, other: str) -> str:
        """The line with something else in place of the call; empty where there is no such call."""
        return self.place.text.replace(self.call, other, 1) if self.call else ""

    @property
    def filled(self) -> str:
        """The host's array that a download is told to fill; empty where the call makes one."""
        call = _expression(self.call)
        if not isinstance(call, ast.Call):
            return ""
        if _name(call.func) == "copy_" and isinstance(call.func, ast.Attribute):
            return ast.unparse(call.func.value)
        first = call.args[:1] if _name(call.func) == "copy_to_host" else []
        words = (word.value for word in call.keywords if word.arg in ("out", "ary"))
        return next((ast.unparse(each) for each in (*first, *words)), "")

    @property
    def names(self) -> set[str]:
        return names_of(_expression(self.operand))

    @property
    def is_constant(self) -> bool:
        """Whether the operand is written as numbers."""
        try:
            return isinstance(ast.literal_eval(self.operand), (list, tuple, int, float))
        except (SyntaxError, ValueError):
            return False

    @property
    def dtype(self) -> str:
        """The type that the call converts to; empty where it names none."""
        call = _expression(self.call)
        words = call.keywords if isinstance(call, ast.Call) else []
        return next((ast.unparse(word.value) for word in words if word.arg == "dtype"), "")

    @property
    def made_on_gpu(self) -> str:
        """The line with `torch.ones(8, device=dev)` for `torch.ones(8).to(dev)`; empty where it is not so."""
        call, operand = _expression(self.call), _expression(self.operand)
        if not isinstance(call, ast.Call) or not isinstance(operand, ast.Call) or call.keywords:
            return ""
        words = {word.arg for word in operand.keywords}
        if not _MADE.fullmatch(ast.unparse(operand.func)) or words & _ON_HOST or len(call.args) > 1:
            return ""
        device = '"cuda"' if _name(call.func) == "cuda" else "".join(map(ast.unparse, call.args))
        inner = self.operand[:-1].rstrip().rstrip(",")
        return self.with_call(f"{inner}, device={device})") if device else ""

    def with_operand(self, other: str) -> str:
        """The line that copies something else."""
        if not self.operand:
            return ""
        head, dot, rest = self.call.partition(self.operand)
        return self.with_call(f"{head}{other}{rest}") if dot else ""


def statements_of(text: str) -> list[ast.stmt]:
    """The statements of a line; the head of a block gets a body."""
    for body in ("", " pass"):
        try:
            return ast.parse(text + body).body
        except (SyntaxError, ValueError):
            continue
    return []


def _expression(text: str) -> ast.expr:
    return ast.parse(f"({text or 0}\n)", mode="eval").body


def _target(statement: ast.stmt) -> str:
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    target = statement.target if isinstance(statement, ast.AugAssign) else next(iter(targets), None)
    return target.id if isinstance(target, ast.Name) else ""


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _segment(text: str, node: ast.AST) -> str:
    return ast.get_source_segment(text, node) or ""


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
    if tested or isinstance([*statements_of(line.place.text), None][0], (ast.If, ast.While, ast.Assert)):
        return (
            "# keep what depends on it on the GPU (where(), clip()), or ask for it in every tenth frame\n"
            f"{line.place.text}"
        )
    # A call that is passed the value waits for it as well, as print() and math.log() of a tensor do.
    passed = {
        ast.unparse(part)
        for call in (node for each in statements for node in ast.walk(each) if isinstance(node, ast.Call))
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
