"""Loops of the user's files: one call at the head of each body, put in through the AST; line numbers stay.

A head counts iterations and notes when each began. A loop that turns fast without crossings gets the
`__next__` of an `itertools.count` in place of its head, which costs 0.04 µs; a crossing brings the head back.
"""

from __future__ import annotations

import ast
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from inspect import iscode
from itertools import count
from operator import attrgetter
from time import perf_counter
from types import CodeType, FrameType
from typing import Any

from advisor.strategies.syntax import first_line

NAME = "__advisor__"
"""In `builtins`, the list that the transformed code calls into."""
MOST_FRAMES = 64
"""Stack frames of the user's code that are looked at, from the innermost on."""
MOST_STACKS = 1 << 14
"""Stacks that are remembered: a recursion may have no end of them, and code that is compiled each time."""
_LASTI_BITS = 32
MOST_TIMES = 65_536
"""Iterations whose times are kept; of more, every second, fourth and so on."""
LAUNCH_SAMPLE = 31
"""A prime number, so that loops of so many launches are not missed."""
FAST_ITERATIONS, FAST_SECONDS = 2048, 100e-6
"""A loop of that many iterations without a crossing is fast when one takes less: a head of 0.2 µs would be
more than 0.2 % of it."""
_COMPILED = {
    *("jit", "njit", "vectorize", "guvectorize", "stencil", "cfunc", "generated_jit", "rawkernel", "fuse"),
    *("compile", "script", "trace", "kernel", "function"),
}
"""Last names of what compiles a function from its bytecode: a call put into it would not compile."""
Clock = Callable[[], float]
Scope = tuple[str, int]
"""Name and first line of a code object."""


def _uncounted(iterable: Any = None) -> Any:
    """Stands for each of a loop's four calls where it is not counted."""
    return iterable


class Loop:
    """One `for`, `while` or comprehension, and how often it turned."""

    def __init__(self, file: str, first: int, body: int, last: int, table: list[Any], clock: Clock) -> None:
        """first, body, last: its first line, that of its body, and its last."""
        self.file, self.first, self.body, self.last = file, first, body, last
        self.turns = 0
        self.times, self.numbers, self.timed = array("d"), array("q"), array("b")
        """Seconds of iterations that were not left early, which these are, from 1 on, and whether a call in
        them was timed."""
        self.stride = 1
        self.seconds = 0.0
        self.entered: float | None = None
        self.approached: float | None = None
        """When what it iterates over was about to be evaluated."""
        self.whole = 0.0
        """Seconds from entering to leaving it: with what its iterator takes to start, such as workers."""
        self.called = 0
        """Iterations whose head was called in full."""
        self.begun: float | None = None
        self.open = False
        self.active = self.used = False
        """Whether a crossing or a launch was noted in it since it was entered, and before that."""
        self.crossed = self.last_crossed = 0
        """Iterations with a crossing, and the last of them."""
        self.stretches: Any = None
        """Times of all iterations, if the copies of some are subtracted."""
        self.subtracted_seconds = 0.0
        """Time of this iteration in subtracted copies, and in noting calls that were timed."""
        self.is_timed = False
        """Whether a steady call in this iteration was timed."""
        self._before = (0, 0.0, 0.0)
        """Its turns, seconds and whole seconds when it was entered."""
        self.quiet = 0
        """Iterations since the last crossing in it, or since it was last looked at."""
        self.since = 0.0
        self._clock, self._table, self._index = clock, table, len(table)
        self.fast: count[int] | None = None
        """Counts in the head's place while it is fast."""
        table += (self.head, self.enter, self.leave, self.approach)

    def listen(self, head: Callable[[], None], leave: Callable[[], None]) -> None:
        """Calls these at the head of each iteration and after the last, in place of counting and timing."""
        self._table[self._index], self._table[self._index + 2] = head, leave

    def approach(self) -> None:
        """Before a `for`: its iterator may start workers, as enumerate(loader) does."""
        self.approached = self._clock()

    def enter(self, iterable: Any = None) -> Any:
        """Before the first iteration; of a `for` with what it iterates over, which it gives back."""
        self.begun, self.subtracted_seconds, self.is_timed = None, 0.0, False  # left by return or exception
        self._forget_idle()
        self.entered = self._clock() if self.approached is None else self.approached
        self.approached = None
        self.open = True
        return iterable

    def _forget_idle(self) -> None:
        """Drops the iterations since it was last entered if all of them were without the GPU, where the same
        function runs on NumPy's arrays. That is known if most other iterations had a crossing, or if so many
        would have had a launch noted."""
        turns, seconds, whole = self._before
        often = self.turns - turns >= LAUNCH_SAMPLE and self.used
        if not self.active and (often or 2 * self.crossed > turns or not self.used):
            self.turns, self.seconds, self.whole = turns, seconds, whole
            while self.numbers and self.numbers[-1] > turns:
                self.numbers.pop(), self.times.pop(), self.timed.pop()
        self.used = self.used or self.active
        self._before, self.active = (self.turns, self.seconds, self.whole), False

    def head(self) -> None:
        now = self._clock()
        if self.begun is not None:
            self._end(now - self.begun)
        self.begun, self.open = now, True
        self.turns += 1
        self.called += 1
        self.quiet += 1
        if self.quiet >= FAST_ITERATIONS:
            self._look(now)

    def _end(self, seconds: float) -> None:
        """After an iteration of so many seconds."""
        self.seconds += seconds
        seconds -= self.subtracted_seconds
        is_other = self.stretches is not None and self.stretches.ended(seconds)
        if not self.turns % self.stride and not is_other:
            self._keep(seconds)
        self.subtracted_seconds, self.is_timed = 0.0, False

    def leave(self) -> None:
        if self.begun is not None:
            self._end(self._clock() - self.begun)
            self.begun = None
        if self.entered is not None:
            self.whole += self._clock() - self.entered
            self.entered = None
        self.open = False

    def settle(self) -> None:
        """At the end of the script; a thread that goes on turns it uncounted, while its figures are read."""
        if self.fast is not None:
            self.slow_down()
        self._table[self._index : self._index + 4] = [_uncounted] * 4
        self._forget_idle()

    def _keep(self, seconds: float) -> None:
        self.times.append(seconds)
        self.numbers.append(self.turns)
        self.timed.append(self.is_timed)
        if len(self.times) >= MOST_TIMES:
            self.times, self.numbers, self.timed = self.times[1::2], self.numbers[1::2], self.timed[1::2]
            self.stride *= 2

    def _look(self, now: float) -> None:
        fast = now - self.since < self.quiet * FAST_SECONDS
        self.quiet, self.since = 0, now
        if fast:
            self.fast = count()
            self._table[self._index : self._index + 3] = self.fast.__next__, _uncounted, _uncounted
            self.begun, self.open = None, True

    def slow_down(self) -> None:
        """The head again; iterations meanwhile have no times."""
        assert self.fast is not None
        self.turns += next(self.fast)
        self.fast = None
        self._table[self._index : self._index + 3] = (self.head, self.enter, self.leave)
        self.since = self._clock()


def head_cost(clock: Clock = perf_counter, turns: int = 1000) -> float:
    """Seconds of a loop's head, measured here."""
    loop = Loop("", 1, 1, 1, [], clock)
    begin = clock()
    for _ in range(turns):
        loop.head()
    return (clock() - begin) / turns


class Loops:
    """All loops of the transformed files; `table` is what their code calls."""

    def __init__(self, clock: Clock = perf_counter) -> None:
        self.table: list[Any] = []
        self.all: list[Loop] = []
        self._clock = clock
        self.files: dict[str, dict[Scope, list[Loop]]] = {}
        """The loops of each transformed file by the code object that they are in."""
        self._codes: dict[str, tuple[CodeType, bytes | str]] = {}
        self.uncounted: list[str] = []  # files that are nested too deeply

    def compiled(self, source: bytes | str, file: str) -> CodeType:
        """The file's code with its loops counted, the same ones each time. Raises SyntaxError."""
        if file in self._codes:
            return self._codes[file][0]
        scopes: dict[Scope, list[Loop]] = {}

        def add(scope: Scope, first: int, body: int, last: int) -> int:
            loop = Loop(file, first, body, last, self.table, self._clock)
            self.all.append(loop)
            scopes.setdefault(scope, []).append(loop)
            return len(self.table) - 4

        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(20 * limit)  # each of 600 `elif`s is one level of the tree below the last
        try:
            tree: Any = compile(source, file, "exec", ast.PyCF_ONLY_AST)
            _Heads(add, _compiled_names(tree)).visit(tree)
            code: CodeType = compile(tree, file, "exec", dont_inherit=True)
        except RecursionError:
            code = compile(source, file, "exec", dont_inherit=True)
            self.all = [loop for loop in self.all if loop.file != file]
            self.uncounted.append(file)
            scopes.clear()
        finally:
            sys.setrecursionlimit(limit)
        self.files[file], self._codes[file] = scopes, (code, source)
        return code

    def plain(self, code: Any) -> Any:
        """A function's code as it was written, for what compiles it or sends it to another process."""
        file = getattr(code, "co_filename", None)
        return _codes(self._codes[file][1], file).get(_key(code), code) if file in self._codes else code

    def around(self, code: CodeType, line: int) -> tuple[Loop, ...]:
        """The loops of a code object that a line of it is in, the outermost first."""
        first = 1 if code.co_name == "<module>" else code.co_firstlineno
        there = self.files[code.co_filename].get((code.co_name, first), ())
        return tuple(loop for loop in there if loop.first <= line <= loop.last)

    def at(self, file: str, line: int) -> Loop | None:
        """The loop that begins in that line, or the innermost around it."""
        there = [loop for loop in self.all if loop.file == file and loop.first <= line <= loop.last]
        return max(there, key=lambda loop: loop.first, default=None)

    def settle(self) -> None:
        for loop in self.all:
            loop.settle()


_key = attrgetter("co_name", "co_firstlineno", "co_varnames", "co_freevars")


@cache
def _codes(source: bytes | str, file: str) -> dict[Any, CodeType]:
    """All code objects of a file, by what tells them apart."""
    codes = [compile(source, file, "exec", dont_inherit=True)]
    for each in codes:
        codes += filter(iscode, each.co_consts)
    return {_key(each): each for each in codes}


def _compiled_names(tree: ast.AST) -> set[str]:
    """Functions that are given by name to what compiles them: `fast = njit(slow)`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    compiling = [call for call in calls if _last_name(call.func) in _COMPILED]
    return {_last_name(argument) for call in compiling for argument in call.args} - {""}


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


class _Heads(ast.NodeTransformer):
    """Puts calls of the table into a tree: `add` gives the number of a loop's head."""

    def __init__(self, add: Callable[[Scope, int, int, int], int], compiled: set[str]) -> None:
        self._add, self._compiled = add, compiled
        self._scope: Scope = ("<module>", 1)

    def visit_FunctionDef(self, node: Any) -> Any:
        names = {_last_name(decorator) for decorator in node.decorator_list}
        if names & _COMPILED or node.name in self._compiled or node.name == "forward":
            return node  # a model's forward may be compiled, and what it loops over are layers, not frames
        return self._inside(node, (node.name, first_line(node)))

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return self._inside(node, ("<lambda>", node.lineno))

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return self._inside(node, (node.name, first_line(node)))

    def _inside(self, node: Any, scope: Scope, visit: Callable[[Any], Any] | None = None) -> Any:
        outer, self._scope = self._scope, scope
        (visit or self.generic_visit)(node)
        self._scope = outer
        return node

    def visit_For(self, node: Any) -> Any:
        number = self._add(self._scope, node.lineno, node.body[0].lineno, node.body[-1].end_lineno)
        self.generic_visit(node)
        node.body.insert(0, _statement(number, node.body[0]))
        if is_for := isinstance(node, ast.For):
            node.iter = _call(number + 1, node.iter, node.iter)
        return [_statement(number + (3 if is_for else 1), node), node, _statement(number + 2, node)]

    visit_AsyncFor = visit_While = visit_For  # noqa: N815

    def visit_ListComp(self, node: Any) -> Any:
        """`[f(x) for x in xs]` as `[(head(), f(x))[1] for x in enter(xs)]`; it ends without a mark."""
        number = self._add(self._scope, node.lineno, node.lineno, node.end_lineno)
        self.generic_visit(node)
        part = "key" if isinstance(node, ast.DictComp) else "elt"
        element = getattr(node, part)
        pair = ast.Tuple([_call(number, element), element], ast.Load())
        setattr(node, part, _at(ast.Subscript(pair, ast.Constant(1), ast.Load()), element))
        first = node.generators[0]
        if not first.is_async:
            first.iter = _call(number + 1, first.iter, first.iter)
        return node

    visit_SetComp = visit_DictComp = visit_ListComp  # noqa: N815

    def visit_GeneratorExp(self, node: Any) -> Any:
        return self._inside(node, ("<genexpr>", node.lineno), self.visit_ListComp)


def _call(number: int, where: Any, *arguments: Any) -> Any:
    table = ast.Subscript(ast.Name(NAME, ast.Load()), ast.Constant(number), ast.Load())
    return _at(ast.Call(table, list(arguments), []), where)


def _statement(number: int, where: Any) -> Any:
    return _at(ast.Expr(_call(number, where)), where)


def _at(node: Any, where: Any) -> Any:
    """Gives the new nodes the place of an old one; the old ones among them keep theirs."""
    return ast.fix_missing_locations(ast.copy_location(node, where))


@dataclass(slots=True, eq=False)
class Site:
    """A line of the user's that is running, in the loops of its callers; `codes` keeps their ids valid."""

    file: str
    line: int
    loops: tuple[Loop, ...]
    """The outermost first."""
    codes: tuple[CodeType, ...]
    at_head: bool
    """A line of it is a loop's first, which runs before the loop as well as in it."""
    crossings: int = 0
    """How often something was about to cross."""
    records: dict[Any, Any] = field(default_factory=dict)
    """Records by what tells crossings of a line apart."""
    only: Any = None
    """The record of all its crossings, if they were alike."""
    kind: str = ""
    size: int = 0
    """Bytes of the last one that was noted in full."""
    asked: int = -1
    """Bytes of the last one's arguments: fewer or more cross where types are converted."""
    repeats_until: int = 0
    """Up to this one, crossings like the last are only counted."""


class Lines:
    """Finds the nearest line of the user's files in the stack; each stack is looked at once."""

    def __init__(self, loops: Loops) -> None:
        self._loops = loops
        self._stacks = 0
        self._sites: dict[int, Any] = {}
        """By each frame's place in its code, from the innermost: the next such dict, and the site under 0."""
        self.bottom: CodeType | None = None
        """The code that runs the script: frames beyond it are none of the script's."""

    def site(self, frame: FrameType | None) -> Site | None:
        """None where no line of the user's is running, as in a thread of a library's own."""
        files, bottom, innermost = self._loops.files, self.bottom, frame
        sites: Any = self._sites
        while frame is not None:
            code = frame.f_code
            if code.co_filename in files:
                sites = sites.get((id(code) << _LASTI_BITS) + frame.f_lasti)
                if sites is None:
                    return self._new(innermost)
            elif code is bottom:
                break
            frame = frame.f_back
        return sites.get(0) or (self._new(innermost) if sites is not self._sites else None)

    def _new(self, frame: FrameType | None) -> Site:
        if self._stacks >= MOST_STACKS:
            self._sites.clear()
            self._stacks = 0
        lines: list[tuple[CodeType, int]] = []
        sites: Any = self._sites
        while frame is not None and len(lines) < MOST_FRAMES:
            if (code := frame.f_code).co_filename in self._loops.files:
                lines.append((code, frame.f_lineno or code.co_firstlineno))
                sites = sites.setdefault((id(code) << _LASTI_BITS) + frame.f_lasti, {})
            frame = frame.f_back
        known: Site | None = sites.get(0)
        if known is not None:
            return known
        around = [(loop, line) for code, line in reversed(lines) for loop in self._loops.around(code, line)]
        (code, line), codes = lines[0], tuple(code for code, _ in lines)
        at_head = any(line < loop.body or loop.body == loop.first for loop, line in around)
        loops = tuple(dict.fromkeys(loop for loop, _ in around))
        self._stacks += 1
        sites[0] = site = Site(code.co_filename, line, loops, codes, at_head)
        return site
