"""Prints the body of a comment from the reports in a folder that a pull request's code could write.

`python3 -I body.py MARK FOLDER LAST_LINE`: the outcome in one line, the comparison, the report folded, the
last line. What is posted can do nothing: no mention, reference, link or image, and no HTML but the few tags
of advisor's own reports. What is no regular file is not opened, and links are not followed. Exits with 1
where there is neither report nor outcome; what it prints then says so.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress

_MOST = 30_000
"""Bytes of each report; a comment holds 65,536."""
_CUT = "*Cut here: the rest is in the artifact.*"
_LARGEST = 1_000_000
_TAG = re.compile(r"(</?(?:details|summary|code)>)")
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|#8203|#36);)")
_FENCE = re.compile(r"(`{3,})(python|toml|sh|text)?")
_APART = "&#8203;"
"""A character of no width, which no mention, reference or address has."""
_OUTCOMES = {
    "passed": "**Gates passed.**",
    "failed": "**Gates failed.**",
    "inconclusive": "**Gates are inconclusive** because of noise.",
    "not-applicable": "**Gates do not apply** to this change.",
}
_INERT = (
    (re.compile(r"@(?!&#8203;)"), f"@{_APART}"),
    (re.compile(r"#(?=\d|[A-Za-z])(?<!&#)"), f"#{_APART}"),
    (re.compile(r"\b(GH)-(?=\d)"), rf"\1{_APART}-"),
    (re.compile(r":(?=\\*/)"), f":{_APART}"),
    (re.compile(r"\b(www|mailto|xmpp)(?=\\*[.:])", re.IGNORECASE), rf"\1{_APART}"),
    (re.compile(r"\$"), "&#36;"),
    (re.compile(r"(?<!\\)((?:\\\\)*)\["), r"\1\["),
    (re.compile(r"`{3,}|~{3,}"), lambda match: "".join(f"\\{mark}" for mark in match[0])),
    (re.compile(r"^\s*/"), lambda match: match[0][:-1] + "\\/"),
)


def inert(text: str) -> str:
    """Markdown of a report that does nothing; code blocks stay as they are, each between blank lines."""
    text = "".join(c if c in "\n\t" or c.isprintable() else " " for c in text)
    written, opened, size, cut = [], 0, 0, ""
    for part in _parts(text.split("\n")):
        size += len(part.encode("utf-8", "ignore")) + 1
        if size > _MOST:
            cut = f"\n{_CUT}\n"
            break
        written.append(part)
        opened += 0 if part.startswith("\n```") else part.count("<details>") - part.count("</details>")
    return "\n".join(written) + "\n" + "\n</details>\n" * max(opened, 0) + cut


def _parts(lines: list[str]) -> Iterator[str]:
    """Lines of prose, and whole code blocks."""
    number = 0
    while number < len(lines):
        fence = _FENCE.fullmatch(lines[number])
        number += 1
        if fence is None:
            yield _line(lines[number - 1])
            continue
        code = []
        while number < len(lines) and lines[number].strip() != fence[1]:
            code.append(lines[number])
            number += 1
        number += 1
        longest = max((len(run) for line in code for run in re.findall("`+", line)), default=0)
        marks = "`" * max(3, longest + 1)
        yield "\n".join(["", f"{marks}{fence[2] or ''}", *code, marks, ""])


def _line(line: str) -> str:
    """One line of prose."""
    text = "".join(
        piece if _TAG.fullmatch(piece) else _ENTITY.sub("&amp;", piece).replace("<", "&lt;")
        for piece in _TAG.split(line)
    )
    for pattern, instead in _INERT:
        text = pattern.sub(instead, text)
    return text


def read(folder: int, name: str) -> str | None:
    """A file's text; None where there is none, or something other than a file."""
    with suppress(OSError):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return file.read(_LARGEST).decode("utf-8", "ignore").replace("\r\n", "\n").replace("\r", "\n")
    return None


def main(mark: str, folder: str, last: str) -> int:
    """Prints the comment; 1 where there is neither report nor outcome."""
    names = ("outcome", "compare.md", "report.md")
    outcome = compared = report = None
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        outcome, compared, report = (read(opened, name) for name in names)
    parts = [mark]
    if sentence := _sentence(outcome or "", there=report is not None or compared is not None):
        parts.append(f"{sentence}\n")
    if compared is not None:
        parts.append(inert(compared))
    if report is not None:
        folded = compared is not None
        fold = ("<details><summary>Report of HEAD</summary>\n\n", "\n</details>\n") if folded else ("", "")
        parts.append(inert(report).join(fold))
    body = "\n".join([*parts, last])
    sys.stdout.buffer.write(f"{body}\n".encode("utf-8", "ignore"))
    return 1 if outcome is None and report is None else 0


def _sentence(outcome: str, *, there: bool) -> str:
    """The outcome in one line, with the error that ended the comparison."""
    first, _, error = outcome.strip().partition("\n")
    sentence = _OUTCOMES.get(first, "")
    if not there and not error:
        sentence = "**No report of this push**: the job ended before it was written. See its log."
    return f"{sentence} {inert(error.removeprefix('error: ')[:500]).strip()}".strip()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
