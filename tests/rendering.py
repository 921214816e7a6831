"""Pages in each form for tests, and the parts of a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import DeviceComparison, SweepResults
from advisor.report.answer import Answers, Bar
from advisor.report.blocks import Block, Fold, Group
from advisor.report.page import Page
from advisor.report.pages import page_of, render

Accepted = Callable[[str, str], None]
"""The fixture `accepted`: a text, and the name of the file that has it."""


def markup(page: str) -> str:
    """The page without style and script, which have tests of their own."""
    page = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"sha256-[^']+", "…", page)


def shown(found: Profile | SweepResults | DeviceComparison, form: str, *, bars: bool = False) -> str:
    """What is made of profiles, in one form."""
    return render(page_of(found), form, bars=bars)


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


def bars(run: Profile, device: int = 0) -> dict[str, Bar]:
    """The bars of the first screen by the strategy that each names first."""
    return {bar.name: bar for bar in blocks(page_of(run), Answers)[0].items[device].bars}
