"""Unified diffs of a user's files: written, and applied byte by byte."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from advisor.profiles.files import write_atomically
from advisor.strategies.syntax import CannotWrite


def diff(name: str, before: str, after: str) -> str:
    """A unified diff as `git apply` and `patch -p1` take it: a name with spaces ends with a tab."""
    end = "\t" if " " in name else ""
    rows = difflib.unified_diff(lines_of(before), lines_of(after), f"a/{name}{end}", f"b/{name}{end}")
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)


def apply(patch: str, folder: Path) -> list[Path]:
    """Changes files below the folder as `diff` told, or none. Raises `CannotWrite` where a line differs."""
    changed = {}
    for part in re.split(r"^--- a/(?=.*\n\+\+\+ b/)", patch, flags=re.MULTILINE)[1:]:
        file = folder / part.partition("\n")[0].rstrip("\t")
        try:
            before = file.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as problem:
            raise CannotWrite(f"{file}: {problem}") from None
        changed[file] = _applied(before, part, file.name)
    for file, text in changed.items():
        target, mode = file.resolve(), file.stat().st_mode  # a link stays one
        write_atomically(target, text)
        target.chmod(mode)
    return [*changed]


def _applied(before: str, part: str, name: str) -> str:
    """The text with the hunks of one file."""
    old, new, at, added = lines_of(before), list[str](), 0, False
    for row in lines_of(part)[2:]:
        if hunk := re.match(r"@@ -(\d+)", row):
            begin = max(int(hunk[1]) - 1, 0)
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


def lines_of(text: str) -> list[str]:
    """Lines with their ends, by line feeds alone, as `ast` and `patch` count them."""
    *whole, last = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([last] if last else ())]
