"""Pages in each form for tests, and the parts of a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from advisor.report.page import Block, Fold, Group, Page

Kind = TypeVar("Kind", bound=Block)


def blocks(page: Page, kind: type[Kind], anchor: str = "") -> list[Kind]:
    """The blocks of a kind, of the section of that anchor or of all, those within others too."""
    sections = [s for s in page.sections if anchor in ("", s.anchor)]
    return [b for s in sections for b in _inside(s.blocks) if isinstance(b, kind)]


def _inside(found: tuple[Block, ...]) -> Iterator[Block]:
    for block in found:
        yield block
        if isinstance(block, (Group, Fold)):
            yield from _inside(block.blocks)
