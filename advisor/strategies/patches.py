"""Edits of a user's file, as texts at offsets; unified diffs, and files that get the edited texts."""

from __future__ import annotations

import ast
import difflib
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import accumulate
from pathlib import Path

from advisor.profiles.files import replacing
from advisor.strategies.syntax import CannotWrite, imports_of, line_after


def diff(name: str, before: str, after: str) -> str:
    """A unified diff as `git apply` and `patch -p1` take it: a name with spaces ends with a tab."""
    end = "\t" if " " in name else ""
    rows = difflib.unified_diff(lines_of(before), lines_of(after), f"a/{name}{end}", f"b/{name}{end}")
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)


def apply(texts: Mapping[Path, tuple[str, str]]) -> None:
    """Gives files the second of their texts, or none of them. Raises `CannotWrite` where one has another than
    the first."""
    for file, (before, _) in texts.items():
        try:
            now = file.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as problem:
            raise CannotWrite(f"{file}: {problem}") from None
        if now != before:
            raise CannotWrite(f"{file} has been changed since")
    modes = {file.resolve(): file.stat().st_mode for file in texts}  # a link stays one
    with ExitStack() as parts:
        for file, (_, after) in texts.items():
            parts.enter_context(replacing(file.resolve())).write_text(after, encoding="utf-8")
    for target, mode in modes.items():
        target.chmod(mode)


def lines_of(text: str) -> list[str]:
    """Lines with their ends, by line feeds alone, as `ast` and `patch` count them."""
    *whole, last = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([last] if last else ())]


class SourceEdits:
    """Texts to replace, as offsets into the source, and lines to put in before a line."""

    def __init__(self, source: str, tree: ast.Module) -> None:
        self.source, self.tree, self.lines = source, tree, lines_of(source)
        self.newline = "\r\n" if "\r\n" in source else "\n"
        self.replaced: dict[tuple[int, int], str] = {}
        self.inserted: dict[int, list[str]] = {}
        self.added: set[tuple[tuple[int, int], str]] = set()
        """Arguments that calls have got: several changes may need the same."""
        self.names: set[str] = set()
        """Variables that changes have introduced."""
        self._starts = [0, *accumulate(map(len, self.lines))]

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

    def end(self, statement: ast.stmt) -> int:
        """Where the last line of a statement ends."""
        return self._starts[statement.end_lineno or statement.lineno]

    def moved(self, begin: int, end: int) -> str:
        """The text of what is written elsewhere, with the edits in it, which leave the place that it had."""
        inner = {span: new for span, new in self.replaced.items() if begin <= span[0] and span[1] <= end}
        self.replaced = {span: new for span, new in self.replaced.items() if span not in inner}
        text = self.source
        for (first, last), new in sorted(inner.items(), reverse=True):
            text = text[:first] + new + text[last:]
        return text[begin : end + len(text) - len(self.source)]

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

    def imported(self, library: str) -> str:
        """What the file calls the library, which it imports if need be: cupyx after cupy, Python's own among
        their like."""
        imports = [(name, full, node) for name, full, node in imports_of(self.tree) if node in self.tree.body]
        if known := next((name for name, full, _ in imports if full == library), ""):
            return known
        uses_cupy = any(full.partition(".")[0] == "cupy" for _, full, _ in imports_of(self.tree))
        after = "cupy" if uses_cupy else "numpy"
        beside = next((node for _, full, node in imports if full.partition(".")[0] == after), None)
        if beside is None:
            raise CannotWrite("the file does not import cupy at its top level")
        if library == "cupyx":
            self.insert(line_after(beside), "", "import cupyx")
            return library
        ends = [
            line_after(node)
            for _, full, node in imports
            if isinstance(node, ast.Import) and _is_own(full) and full < library
            if node.lineno < beside.lineno
        ]
        first, node = next((f, node) for _, f, node in imports if not f.startswith("__future__."))
        line = max(ends, default=node.lineno)
        self.insert(line, "", f"import {library}", *([] if ends or _is_own(first) else [""]))
        return library

    def indentation(self, statement: ast.stmt) -> str:
        line = self.lines[statement.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    def result(self) -> str:
        """The edited text. Raises `CannotWrite` where it is not Python any more, or has lost a comment."""
        pieces = {(self._starts[line - 1],) * 2: "".join(texts) for line, texts in self.inserted.items()}
        end = len(self.source)
        if (end, end) in pieces and not self.source.endswith("\n"):
            pieces[end, end] = self.newline + pieces[end, end].removesuffix(self.newline)
        edited, last = self.source, end
        for (begin, end), text in sorted({**self.replaced, **pieces}.items(), reverse=True):
            if end > last:
                raise CannotWrite("another change moves the same line")
            edited, last = edited[:begin] + text + edited[end:], begin
        try:
            ast.parse(edited)
        except SyntaxError as problem:
            raise CannotWrite(f"the edited file would not be valid Python: line {problem.lineno}") from None
        if lost := _comments(self.source) - _comments(edited):
            raise CannotWrite(f"the comment {next(iter(lost))!r} would be lost")
        return edited


def _is_own(module: str) -> bool:
    """Whether Python itself has it."""
    return module.partition(".")[0] in sys.stdlib_module_names


def _comments(source: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)
