"""A page as data: a headline, and sections made of a few kinds of blocks, every word and number ready.

The `*_page` modules make pages; `html`, `markdown` and `terminal` draw them and know their own limits. Text
is plain; a name between backticks is set as code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from advisor.profiles.schema import Profile
from advisor.report.blocks import Block, Fold, Form, Forms, Group

_CONTENTS = ("items", "texts", "facts", "rows", "blocks", "text", "link")


@dataclass(frozen=True)
class Section:
    """A part of the page that can be linked to; `nav` is its name among the links, nothing for no link.

    The first is the `lead`, without a visible title; Markdown folds what is `folded`.
    """

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    nav: str = ""
    badge: str = ""
    lead: bool = False
    folded: bool = False
    forms: Forms = "html md txt"


@dataclass(frozen=True)
class Page:
    """All of one page. `kind` names its files; `basis` says where its figures are from.

    `profile` is what it was made from, for the one form that is no page, JSON.
    """

    kind: str
    brand: str
    title: str
    name: str
    where: str
    basis: Literal["measured", "predicted", "nothing"]
    sections: tuple[Section, ...]
    tool: str
    created: str = ""
    summary: str = ""
    meta: tuple[str, ...] = ()
    profile: Profile | None = None


def filled(*blocks: Block | None) -> tuple[Block, ...]:
    """The blocks that hold something."""
    return tuple(block for block in blocks if block is not None and _holds(block))


def _holds(block: Block) -> bool:
    contents = [getattr(block, name) for name in _CONTENTS if hasattr(block, name)]
    return not contents or any(contents)


def shown(section: Section, form: Form) -> tuple[Block, ...]:
    """The blocks of a section in a short form, with the inside of groups in their place."""
    return tuple(_flat(section.blocks, form)) if form in section.forms else ()


def _flat(blocks: tuple[Block, ...], form: Form) -> Iterator[Block]:
    for block in (b for b in blocks if form in b.forms):
        if isinstance(block, (Group, Fold)):
            yield from _flat(block.blocks, form)
        else:
            yield block
