"""Markdown for a pull request's comment: short, whatever the profile holds, and inert."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup

from advisor.profiles.schema import Profile
from advisor.report import templates, words
from advisor.report.brevity import brief_forecasts, brief_rows
from advisor.report.view import Report, view

LIMIT = 10_000
DEVICES = 4
"""So many columns of predictions."""

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


def render_markdown(profile: Profile, limit: int = LIMIT) -> str:
    """Verdict, one table, the first advice and the environment, under 10,000 characters.

    Code is shown to its last line, where the results are waited for, or not at all.
    """
    whole = _rendered(view(profile), with_code=True)
    return whole if len(whole) < limit else _rendered(view(profile), with_code=False)


def _rendered(report: Report, *, with_code: bool) -> str:
    return (
        templates.environment()
        .get_template("report.md.j2")
        .render(
            report=report,
            with_code=with_code,
            rows=brief_rows(report.rows),
            gaps=[gap for gap in report.gaps if gap.status != "failed"],  # those are said above
            forecasts=brief_forecasts(report.forecasts, DEVICES),
            md=escape,
            code=code,
            prose=prose,
            fence=fence,
            count=words.count,
        )
    )


def escape(text: str, limit: int = 200) -> Markup:
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
            return Markup(f"{kept} …" if kept.endswith(".") else f"{kept}…")
        written.append(piece)
    return Markup("".join(written))


def _end(pieces: Sequence[str]) -> int:
    """How many pieces to keep: to the last sentence, else the last word, if that leaves half of them."""
    blanks = [i for i, piece in enumerate(pieces) if piece == " " and 2 * i >= len(pieces)]
    sentences = [i for i in blanks if pieces[i - 1] in ".;"]
    return (sentences or blanks or [len(pieces)])[-1]


def code(name: str, *, tags: bool = False) -> Markup:
    """A name in typewriter face: between backticks where it is plain, else escaped between tags."""
    if _PLAIN_NAME.fullmatch(name) and not tags:
        return Markup(f"`{name}`")
    return Markup(f"<code>{escape(name, 120)}</code>")


def prose(text: str, limit: int = 300) -> Markup:
    """Prose whose `names` stay code, cut as `escape` cuts."""
    written = Markup("")
    for span in words.spans(text):
        left = limit - len(written)
        piece = code(span.text) if span.code else _spaced(span.text, limit * 10)
        if len(piece) > left:
            rest = Markup("") if span.code else _spaced(span.text, left).rstrip()
            return written.rstrip() + "…" if rest in ("", "…") else written + rest
        written += piece
    return written


def _spaced(text: str, limit: int) -> Markup:
    """`escape`, which strips, with the blanks beside a name kept."""
    before, after = " " * text.startswith(" "), " " * text.endswith(" ")
    return Markup(before) + escape(text, limit) + after


def fence(text: str, limit: int = 6_500, language: str = "python") -> Markup:
    """A code block whose fence is longer than any run of backticks within; cut, if at all, after a line."""
    cut = text
    if len(text) > limit:
        whole_lines = text[: limit + 1].rpartition("\n")[0]
        cut = f"{whole_lines or text[:limit]}\n# … cut, see the report"
    longest = max((len(run) for run in re.findall("`+", cut)), default=0)
    marks = "`" * max(3, longest + 1)
    return Markup(f"{marks}{language}\n{cut}\n{marks}")
