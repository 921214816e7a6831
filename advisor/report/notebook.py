"""Reports inside a notebook's cell: the page in a frame of its own, so that neither styles the other."""

from __future__ import annotations

from advisor.report import html, templates
from advisor.report.blocks import Verdicts
from advisor.report.page import Page


def cell(page: Page) -> str:
    """The verdict as a line of text, for viewers that drop frames, and the page below it."""
    told = next(b for section in page.sections for b in section.blocks if isinstance(b, Verdicts)).items[0]
    line = f"{page.name}, {told.device}: {told.headline}"
    return templates.environment().get_template("notebook.html.j2").render(line=line, page=html.render(page))
