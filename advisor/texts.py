"""Texts from outside, made harmless: bounded in length, without what a terminal or a CI log would obey."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from keyword import iskeyword

_OBEYED = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Control characters of C0 (but tab and newline) and C1, and the Unicode marks that turn or split lines."""
_BLANK = re.compile(r"\s")
_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#\[)", re.MULTILINE)
"""Workflow commands of GitHub, which trims a line before it looks for `::`, and finds `##[` anywhere."""


def printable(text: str) -> str:
    """The text with control characters and marks of direction as escapes, `\\x1b`; line ends as newlines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _OBEYED.sub(lambda match: ascii(match[0])[1:-1], text)


def from_markdown(text: str) -> str:
    """Markdown as plain text, 80 columns wide: paragraphs and items of lists wrapped, code indented."""
    paragraphs: list[str] = []
    for number, part in enumerate(re.split(r"```python\n(.*?)\n```", text, flags=re.DOTALL)):
        if number % 2:
            paragraphs.append(textwrap.indent(part, "    "))
            continue
        for paragraph in filter(None, part.strip().split("\n\n")):
            items = re.split(r"\n(?=- )", re.sub(r"\*\*|^#+ ", "", paragraph))
            paragraphs.append("\n".join(_wrapped(item) for item in items))
    return "\n\n".join(paragraphs)


def _wrapped(item: str) -> str:
    later = "  " * item.startswith("- ")
    wrapper = textwrap.TextWrapper(80, "", later, break_on_hyphens=False, break_long_words=False)
    text = wrapper.fill(" ".join(item.split()))
    return re.sub(r"^-\n *", "- ", text)  # an address that is longer than a line


def in_a_line(text: str) -> str:
    """The text in one line, with a space in place of each character that cannot be printed."""
    return "".join(c if c.isprintable() else " " for c in text).strip()


def toml_string(text: str) -> str:
    """A basic string of TOML: its escapes are JSON's, and DEL, which JSON leaves alone, needs one."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def is_name(text: str) -> bool:
    """Whether Python can have it as the name of a variable."""
    return text.isidentifier() and not iskeyword(text)


def for_log(text: str) -> str:
    """The text without lines that a CI system's log would take for commands."""
    return _COMMAND.sub(lambda match: f"{match[0]} ", text)


def bounded(text: str, most: int) -> str:
    """The text, or its beginning and its end where it has more than `most` characters.

    Words are left out whole where they are not too long: half a secret could not be recognized.
    """
    if len(text) <= most:
        return text
    longest = min(_LONGEST_WORD, most // 4)
    head = without_last_word(text[: most * 2 // 3], longest)
    tail = without_first_word(text[-(most // 3) :], longest)
    return f"{head} [… {len(text) - len(head) - len(tail)} characters left out …] {tail}"


_LONGEST_WORD = 100


def without_first_word(text: str, longest: int = _LONGEST_WORD) -> str:
    """A text that was cut, perhaps within its first word, without that word; a long word stays."""
    blank = _BLANK.search(text[:longest])
    return text[blank.end() :] if blank else text


def without_last_word(text: str, longest: int = _LONGEST_WORD) -> str:
    begin = max(len(text) - longest, 0)
    blanks = [blank.start() for blank in _BLANK.finditer(text, begin)]
    return text[: blanks[-1]] if blanks else text


def shortened(value: object, most: int = 200) -> str:
    """A foreign value, short enough for a message."""
    return bounded(str(value), most)


def listed(names: Sequence[str], most: int) -> str:
    """a, b and 3 more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def quoted(value: object) -> str:
    """The value's repr, short enough for a message."""
    try:
        return shortened(repr(value))
    except (ValueError, RecursionError):  # longer than Python writes a number, deeper than it writes a list
        return f"{type(value).__name__} that is too large to show"
