"""Plain words: no text or docstring holds a phrase that users found odd (docs/glossary.md: the terms)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from running import REPOSITORY

PHRASES = Path(__file__).parent / "data" / "odd-phrases.txt"
"""A regular expression a line."""
BANNED = re.compile(
    "|".join(f"(?:{phrase})" for phrase in PHRASES.read_text(encoding="utf-8").splitlines()), re.IGNORECASE
)
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    REPOSITORY / "Makefile",
    REPOSITORY / "action.yml",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "templates").rglob("*.j2")),
    *sorted((REPOSITORY / "action").glob("*.sh")),
    *sorted((REPOSITORY / "workloads").rglob("*.py")),
    *sorted((REPOSITORY / "advisor").rglob("*.toml")),
    *sorted((REPOSITORY / "advisor" / "rules").glob("*.md")),
]
MODULES = sorted((REPOSITORY / "advisor").rglob("*.py"))


def texts(path: Path) -> Iterator[str]:
    """A module's strings and docstrings, f-strings as they are written, or all of another file."""
    source = path.read_text(encoding="utf-8")
    if path not in MODULES:
        yield source
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_odd_phrases() -> None:
    flat = ((path, " ".join(text.split())) for path in [*PAGES, *MODULES] for text in texts(path))
    assert [(str(path), found[0]) for path, text in flat for found in BANNED.finditer(text)] == []


def test_every_strategy_and_memory_class_term_of_the_glossary_is_defined_once() -> None:
    glossary = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| (.+?) \|", glossary, re.MULTILINE)
    names = [name for term in terms for name in re.findall(r"\*\*(.+?)\*\*", term)]
    assert len(names) == len(set(names))
    assert {"baseline", "block", "bound", "final", "footprint", "frame", "indifference", "placement"} <= set(
        names
    )
