"""One HTML file that needs no network: style and charts inside.

Its script adds convenience, not information. The page's policy allows that script and that style alone, by
their digests.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from itertools import count
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from advisor.profiles.files import PACKAGE, shipped
from advisor.report import words
from advisor.report.blocks import Block, Fold, Group
from advisor.report.charts import percent
from advisor.report.page import Page, verdicts

MACROS = ("answers.html.j2", "blocks.html.j2", "lines.svg.j2", "timelines.svg.j2")
"""A block is drawn by the macro of its name in these files."""
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:[nµm]?s|[KMGT]iB|B|[GM]B/s|%)(?![\w/]))")


class Verbatim(str):
    """Text of a program or for one, whose blanks must stay what they are."""

    __slots__ = ()


def render(page: Page) -> str:
    """A page with our style and script, which alone are not escaped, and the digests its policy allows.

    Each block has an id, by which its parts refer to one another.
    """
    numbers, assets = count(1), dict[str, str]()

    def draw(block: Block) -> Markup:
        if "html" not in block.forms:
            return Markup("")
        name = type(block).__name__.lower()
        modules = (environment().get_template(file).module for file in MACROS)
        macro = next(getattr(module, name) for module in modules if hasattr(module, name))
        if isinstance(block, (Group, Fold)):
            return Markup(macro(block, Markup("\n").join(map(draw, block.blocks))))
        return Markup(macro(block, f"block-{next(numbers)}"))

    for name, file in (("style", "report.css"), ("script", "report.js")):
        text = (directory() / file).read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assets |= {name: Markup(text), f"{name}_digest": f"sha256-{digest}"}
    return environment().get_template("page.html.j2").render(page=page, draw=draw, **assets)


def notebook_cell(page: Page) -> str:
    """A page in a notebook: the verdict as a line of text, for viewers that drop frames, and the page below.

    The page is in a frame of its own, so that neither styles the other.
    """
    verdict = verdicts(page)[0]
    line = f"{', '.join(filter(None, (page.name, verdict.device)))}: {verdict.sentence}"
    return environment().get_template("notebook.html.j2").render(line=line, page=Verbatim(render(page)))


def directory(package: Path = PACKAGE) -> Path:
    """Where the templates are."""
    return shipped("templates", "templates", package)


def _printed(value: object) -> object:
    """A value as text; a float with six digits, since the last bits differ between CPUs."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return _BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", value) if type(value) is str else value


@cache
def environment() -> Environment:
    """Escapes in every template, whose names end in .j2, and stops at a name that is not there.

    No line break comes between a number and its unit.
    """
    jinja = Environment(
        loader=FileSystemLoader(directory()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printed,
    )
    jinja.filters["spans"] = words.spans
    jinja.filters["sentences"] = words.sentences
    jinja.filters["capital"] = lambda text: text[:1].upper() + text[1:]  # a name in backticks stays
    jinja.filters["verbatim"] = Verbatim
    jinja.filters["percent"] = percent
    jinja.filters["shown"] = lambda columns: [column for column in columns if "html" in column.forms]
    return jinja
