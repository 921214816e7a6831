"""A line of a script on one device: what rules judge by line, and the words that they share."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from advisor import units
from advisor.model.machines import Machine
from advisor.model.simulate import occurrence
from advisor.profiles.conclusions import PAGE_LOCKED, Evidence
from advisor.profiles.crossings import Ceiling, Crossing, Place
from advisor.profiles.schema import MemoryClass
from advisor.profiles.trials import ChangeKind
from advisor.rules.base import Finding, advice, text
from advisor.rules.snippets.lines import UserLine, both, code, statements_of
from advisor.strategies.edits import Change, edited
from advisor.strategies.patches import diff
from advisor.strategies.syntax import (
    CannotWrite,
    Loop,
    is_timed,
    loader_lines,
    loop_of,
    names_filled,
    statement_at,
)
from advisor.verdicts.ceilings import Scope

_SHORT = 24
"""Characters of an expression that a title can name."""
_NOUNS = {"wait": "value", "lock": "memory"}
_SLOWER_LINK = 2.0
"""A link with half of its lanes. On H200s copies from and to pageable memory took 1.1 to 11 times as long as
in the model, page-locked ones 1.0 to 1.1 times: the rest is the host's memory."""


def likely_seconds(crossing: Crossing, machine: Machine | None, memory: str = "") -> float | None:
    """One occurrence by the model, as if from memory of that kind; None where it has no figure."""
    drawn = occurrence(crossing, machine, memory) if machine else None
    return None if drawn is None else float(drawn[0])


@dataclass(frozen=True)
class LineCase:
    """One crossing on one device. Made by `advisor.rules.advise`."""

    crossing: Crossing
    scope: Scope
    ceiling: Ceiling
    seconds: float
    """The part of one occurrence that memory can change."""
    machine: Machine | None = None
    source: str = ""
    """The file of the line; empty where it was not saved."""
    beside_seconds: float = 0.0
    """Cost of a frame's copies to other lines, as far as it was measured."""

    @property
    def times(self) -> float:
        """Occurrences in a frame."""
        return self.crossing.count / self.scope.frames

    @property
    def frame_seconds(self) -> float:
        return self.seconds * self.times

    @property
    def one_dram(self) -> MemoryClass | None:
        """The class of a device whose CPU and GPU have one DRAM."""
        return self.machine.entry.memory_class if self.machine and self.machine.shares_memory else None

    def modelled(self, name: str) -> float:
        """A figure of the device by its model; 0 without one."""
        return float(self.machine.get(name)[0]) if self.machine else 0.0

    @cached_property
    def locked_seconds(self) -> float:
        """Saved in a frame by page-locked memory that is kept; 0 where the model does not know.

        What it leaves is scaled as the measured time is: what is wrong with both cancels. Beyond
        `_SLOWER_LINK` it is the host's memory that slows the bytes, such as pages that are new, and
        page-locked memory has none of that.
        """
        now, locked = (likely_seconds(self.crossing, self.machine, memory) for memory in ("", "pinned"))
        if now is None or locked is None:
            return 0.0
        to = "to_device" if self.crossing.kind == "upload" else "to_host"
        moving = min(self.size / self.modelled(f"pinned_{to}_bytes_per_second"), locked)
        slower = self.seconds / now
        left = min(slower, _SLOWER_LINK) * moving + slower * (locked - moving)
        return (self.seconds - left) * self.times + self.beside_seconds

    @property
    def size(self) -> float:
        return self.crossing.bytes / self.crossing.count

    @property
    def is_copy(self) -> bool:
        return self.crossing.kind in ("upload", "download")

    @property
    def is_pageable(self) -> bool:
        """Whether the driver copies from or to pageable memory, and no library before it."""
        return self.is_copy and self.crossing.memory == "pageable" and not self.crossing.staged

    @property
    def moved(self) -> str:
        """1 × 977 KiB up in a frame"""
        way = "up" if self.crossing.kind == "upload" else "down"
        return f"{often(self.times)} × {units.size(self.size)} {way} in a frame"

    @property
    def sampled(self) -> str:
        """How sure it is that bytes are equal."""
        repeats = self.crossing.repeats
        if repeats is None or repeats.complete:
            return ""
        share = units.percent(repeats.false_share)
        return f"Bytes were compared in a sample, which misses at most {share} of changes of a single block."

    @property
    def line(self) -> UserLine:
        return UserLine.of(self.crossing)

    @property
    def what(self) -> str:
        """`gray`, or "this copy" where the line does not tell a short name."""
        kind, line = self.crossing.kind, self.line
        names = {"lock": line.target, "download": line.result or line.operand}
        name = names.get(kind, line.operand)
        return f"`{name}`" if 0 < len(name) <= _SHORT else f"this {_NOUNS.get(kind, 'copy')}"

    @property
    def array(self) -> str:
        """`what`, of a copy whose array moves or stays."""
        return self.what.replace("this copy", "this array")

    @property
    def before_loop(self) -> str:
        loop, place = self.scope.loop, self.crossing.place
        if loop is None:
            return "once, at the start"
        if loop.place.file == place.file and loop.place.line <= place.line <= loop.last_line:
            return f"before the loop at line {loop.place.line}"
        return f"outside of the loop at {self.at(loop.place)}: in an attribute or an argument"

    @property
    def loaders(self) -> tuple[int, ...]:
        """Lines of the DataLoaders whose batches are uploaded, as far as the file of the line tells."""
        loop, crossing = self.scope.loop, self.crossing
        if crossing.library == "torch" and crossing.kind == "upload" and loop is not None:
            with suppress(SyntaxError):
                if loop.place.file == crossing.place.file:
                    return loader_lines(self.source, loop.place.line, crossing.place.line)
        return ()

    @cached_property
    def _parsed(self) -> tuple[ast.Module, ast.stmt | None]:
        """The file of the line, empty where it was not saved, and the statement there."""
        tree = ast.Module([], [])
        with suppress(CannotWrite, SyntaxError):
            tree = ast.parse(self.source)
            return tree, statement_at(tree, self.crossing.place.line)
        return tree, None

    @property
    def statement(self) -> str:
        """The line, and the rest of its statement where its file was saved."""
        _, statement = self._parsed
        return self.crossing.place.text + (f"\n{ast.unparse(statement)}" if statement else "")

    @property
    def is_timed(self) -> bool:
        """Whether a clock is read right before or after the line."""
        tree, statement = self._parsed
        return statement is not None and is_timed(tree, statement)

    @property
    def reads_itself(self) -> bool:
        """Whether the line asks for a value by itself: by its method, or by an operator or a builtin."""
        name = self.crossing.call.rpartition(".")[2]
        if not name.startswith("__"):
            return name in self.statement
        statement = self._parsed[1]
        statements = statements_of(self.crossing.place.text) or ([statement] if statement else [])
        return not statements or any(_asks(node) for each in statements for node in ast.walk(each))

    def at(self, place: Place | None) -> str:
        """line 29, or line 29 of loader.py where that is another file."""
        if place is None:
            return "a line that was not seen"
        return f"line {place.line}" + f" of {place.file}" * (place.file != self.crossing.place.file)

    def in_loop(self, names: Callable[[Loop, ast.stmt], Iterable[str]]) -> frozenset[str]:
        """Names that the loop sets or writes to beside the line, as far as its file tells."""
        loop, (tree, statement) = self.scope.loop, self._parsed
        if loop is None or statement is None:
            return frozenset()
        with suppress(CannotWrite):
            return frozenset(names(loop_of(tree, statement, loop.place.line), statement))
        return frozenset()

    @property
    def is_filled(self) -> bool:
        """Whether a kernel of the file writes to what the line uploads."""
        return self.line.target in names_filled(self._parsed[0])

    def code(self, name: str, **words: str) -> str:
        """A text of snippets/lines.toml about the line."""
        return code(name, self.line, before=self.before_loop, **words)

    def written(self, kind: ChangeKind) -> str:
        """The change as a patch of the user's file; empty where it cannot be written with certainty."""
        place, origin, loop = self.crossing.place, self.crossing.origin, self.scope.loop
        source = origin.place if origin and origin.place and origin.place.file == place.file else None
        loader = self.loaders[0] if len(self.loaders) == 1 else None
        line = loader if kind == "pin-memory" else source.line if source else None
        at = loop.place.line if loop else None
        change = Change(kind, place.line, line, at, library=self.crossing.library)
        try:
            return diff(place.file, self.source, edited(self.source, [change]))
        except (CannotWrite, SyntaxError, ValueError):
            return ""

    def advice(
        self, title: str, *sentences: str, saved: float, after: str, change: ChangeKind | None = None
    ) -> Finding:
        """saved: seconds of a frame; never told as more than the ceiling. after: what to write in place of
        the line, where `change` is not written as a patch."""
        seconds = {"time in a frame": self.frame_seconds}
        locked = min(self.locked_seconds, self.ceiling.seconds)
        if self.crossing.memory == "pageable" and locked > 0 and saved != self.locked_seconds:
            seconds[PAGE_LOCKED] = locked
        figures = [Evidence(label="times in a frame", value=self.times, unit="count")]
        if self.crossing.bytes:
            figures.append(Evidence(label="bytes of one", value=self.size, unit="bytes"))
        for label, value in seconds.items():
            predicted = self.ceiling.predicted
            figures.append(Evidence(label=label, value=value, unit="seconds", predicted=predicted))
        return advice(
            text(*sentences),
            *figures,
            saved=min(saved, self.ceiling.seconds),
            title=title,
            snippet=(change and self.written(change)) or both(self.crossing.place, after),
            inferred=True,
        )


def _asks(node: ast.AST) -> bool:
    """Whether Python asks for a value there: conditions, indices, formats, builtins, NumPy and math."""
    if isinstance(node, ast.Call):
        home = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        name = getattr(home, "id", "")
        return name in (*dir(builtins), "np", "numpy", "math")
    asking = (ast.If, ast.While, ast.Assert, ast.IfExp, ast.BoolOp, ast.Not, ast.Subscript, ast.Mod)
    return isinstance(node, (*asking, ast.JoinedStr, ast.In, ast.NotIn)) or bool(getattr(node, "ifs", ()))


def often(times: float) -> str:
    """1, 2.5 or 0.04 times in a frame."""
    return f"{times:.3g}"
