"""Plain words: no text or docstring holds a phrase that users found odd (docs/glossary.md: the terms)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from running import REPOSITORY

PHRASES = (
    r"is no (profile|Python|size|range|number|gate|file|module|kernel)\b",
    r"\bmend(s|ed|ing)?\b",
    r"is a bet\b",
    r"\bto be sure\b",
    r"of the draws",
    r"one is done every",
    r"begin to end",
    r"hangs on",
    r"fetch(ed)? page by page",
    r"advice round",
    r"nothing that shows",
    r"another's choice",
    r"(by|decides) no threshold",
    r"shall say",
    r"of the order of runs",
    r"the CPU alone",
    r"(held|hold|holds) (\w+ ){0,4}against",
    r"what a report of",
    r"(one )?page over",
    r"passes as it is",
    r"says? nothing",
    r"restless",
    r"looked on",
    r"\bone of these",
    r"surely",
    r"safe choice",
    r"figures that lie in",
    r"least memory of the first",
    r"one and the same",
    r"ordinary memory",
    r"a (report|run|file|device) of yours",
    r"of which nothing",
    r"which is recommended",
    r"one to a line",
    r"\banew\b",
    r"our own (events|process)",
    r"(seen|saw) by nsys|nsys saw",
    r"told apart",
    r"(can|cannot) be told\b",
    r"rests? on its",
    r"computed by a model",
    r"held down",
    r"\bbeneath (it|each)",
    r"in company",
    r"breaks there",
    r"process(es)? of (its|their) own",
    r"upright line",
    r"of an order|in the order of time",
    r"\bmostly (longer|makes)",
    r"put (it|\w+ \w+) through",
    r"by a mask",
    r"leave (--\w+|one of them) out",
    r"contradict one another",
    r"stands? (there|beside|still)",
    r"so many times",
    r"(what|how) the \w+ (were taken|go by)",
    r"behaves? as CuPy",
    r"\b(for|to) who\b",
)
BANNED = re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES), re.IGNORECASE)
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
