"""Text that Markdown and HTML show as it is, names that stay code, and code blocks; all within a length."""

from __future__ import annotations

import re
from collections.abc import Sequence

from advisor.report import words

# `@` and `#` start a mention and a reference, which GitHub finds after the escapes are gone: a
# character of no width parts them from the name. `$` would start a formula.
_ESCAPES = {
    **{character: f"\\{character}" for character in "\\`*_[]|~"},
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "@": "@&#8203;",
    "#": "#&#8203;",
    "$": "&#36;",
}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9 ._:/=+-]+")


def escape(text: str, limit: int = 200) -> str:
    """Text that Markdown and HTML show as it is, cut at the end of a sentence or word.

    `limit` counts what is written, escapes included.
    """
    written: list[str] = []
    length = 0
    for character in " ".join(text.split()):
        piece = _ESCAPES.get(character, character)
        length += len(piece)
        if length > limit:
            kept = "".join(written[: _end(written)]).rstrip(" ,;:")
            return f"{kept} …" if kept.endswith(".") else f"{kept}…"
        written.append(piece)
    return "".join(written)


def _end(pieces: Sequence[str]) -> int:
    """How many pieces to keep: to the last sentence, else the last word, if that leaves half of them."""
    blanks = [i for i, piece in enumerate(pieces) if piece == " " and 2 * i >= len(pieces)]
    sentences = [i for i in blanks if pieces[i - 1] in ".;"]
    return (sentences or blanks or [len(pieces)])[-1]


def code(name: str, *, tags: bool = False) -> str:
    """A name in typewriter face: between backticks where it is plain, else escaped between tags."""
    if _PLAIN_NAME.fullmatch(name) and not tags:
        return f"`{name}`"
    return f"<code>{escape(name, 120)}</code>"


def prose(text: str, limit: int = 300) -> str:
    """Prose whose `names` stay code, cut as `escape` cuts."""
    written = ""
    for span in words.spans(text):
        left = limit - len(written)
        piece = code(span.text) if span.code else _spaced(span.text, limit * 10)
        if len(piece) > left:
            rest = "" if span.code else _spaced(span.text, left).rstrip()
            return written.rstrip() + "…" if rest in ("", "…") else written + rest
        written += piece
    return written


def _spaced(text: str, limit: int) -> str:
    """`escape`, which strips, with the blanks beside a name kept."""
    before, after = " " * text.startswith(" "), " " * text.endswith(" ")
    return before + escape(text, limit) + after


def fence(text: str, limit: int = 6_500, language: str = "python") -> str:
    """A code block whose fence is longer than any run of backticks within; cut, if at all, after a line."""
    cut = text
    if len(text) > limit:
        whole_lines = text[: limit + 1].rpartition("\n")[0]
        cut = f"{whole_lines or text[:limit]}\n# … cut, see the report"
    longest = max((len(run) for run in re.findall("`+", cut)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{cut}\n{marks}"
