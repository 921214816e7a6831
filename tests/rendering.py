"""Pages in each form for tests, the parts of a page, and what wrong input is refused with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from running import REPOSITORY, Said

from advisor.errors import AdvisorError
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import ProfileSet
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


def shown(found: Profile | ProfileSet, form: str, *, bars: bool = False) -> str:
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


def refusals(calls: Mapping[str, Callable[[], object]]) -> str:
    """Exit code, message and next step by what was asked for, of calls and of commands."""
    said = "\n".join(f"{name}\n{_refused(call)}" for name, call in calls.items())
    return said.replace(f"{REPOSITORY}/", "")


def _refused(call: Callable[[], object]) -> str:
    try:
        said = call()
    except AdvisorError as error:
        return f"  {error.exit_code}: {error.message}\n  next: {error.next_step}\n"
    if isinstance(said, Said) and said.code:
        message, step = said.error[:2]
        return f"  {said.code}: {message.removeprefix('error: ')}\n{step}\n"
    return "  is not refused\n"
