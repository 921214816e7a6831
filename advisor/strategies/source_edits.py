"""Edits of a source collected as texts at offsets, so that all else stays as it is."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from advisor.strategies.patches import lines_of
from advisor.strategies.syntax import CannotWrite


@dataclass
class SourceEdits:
    """Texts to replace, as offsets into the source, and lines to put in before a line."""

    source: str
    tree: ast.Module
    replaced: dict[tuple[int, int], str] = field(default_factory=dict)
    inserted: dict[int, list[str]] = field(default_factory=dict)
    added: set[tuple[tuple[int, int], str]] = field(default_factory=set)
    """Arguments that calls have got: several changes may need the same."""
    names: set[str] = field(default_factory=set)
    """Variables that changes have introduced."""

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
        span = self.span(call)
        if (span, argument) in self.added:
            return
        self.added.add((span, argument))
        end = span[1] - 1
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
            self.replaced[last, last] = self.replaced.get((last, last), "") + f", {argument}"
            return
        comma = "," if "," in re.sub("#.*", "", tail) else ""
        row, begins = self.lines[value.lineno - 1], last + row_end.start()
        indentation = row[: len(row) - len(row.lstrip())]
        self.replaced[last, last] = "" if comma else ","
        added = f"{self.newline}{indentation}{argument}{comma}"
        self.replaced[begins, begins] = self.replaced.get((begins, begins), "") + added

    def new_name(self, name: str) -> str:
        """A variable of this name, numbered where another change has introduced it. Raises `CannotWrite`
        where the source uses it."""
        if any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(self.tree)):
            raise CannotWrite(f"the name {name} is taken")
        numbered = (name, *(f"{name}{number}" for number in range(2, len(self.names) + 3)))
        unique = next(each for each in numbered if each not in self.names)
        self.names.add(unique)
        return unique

    def insert(self, line: int, indentation: str, *texts: str) -> None:
        """Lines before `line`; those that are there already are not doubled."""
        known = self.inserted.setdefault(line, [])
        known += [new for text in texts if (new := f"{indentation}{text}{self.newline}") not in known]

    def result(self) -> str:
        pieces = {(self._starts[line - 1],) * 2: "".join(texts) for line, texts in self.inserted.items()}
        end = len(self.source)
        if (end, end) in pieces and not self.source.endswith("\n"):
            pieces[end, end] = self.newline + pieces[end, end].removesuffix(self.newline)
        edited, last = self.source, end
        for (begin, end), text in sorted({**self.replaced, **pieces}.items(), reverse=True):
            if end > last:
                raise CannotWrite("another change moves the same line")
            edited, last = edited[:begin] + text + edited[end:], begin
        return edited
