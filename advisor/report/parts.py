"""Sections that pages share: the verdict first, how and where the figures were taken last."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.profiles.schema import Profile
from advisor.report.blocks import Banners, Block, Download, Fact, Facts, Table
from advisor.report.page import Section, filled

MOST_FRAMES = 150_000
"""More than these do not fit, so that nobody need try: a frame takes more than two bytes, packed."""

NO_GPU = (
    "This machine offered no GPU. Every figure for a GPU on this page is computed by a model and comes with "
    "its range; nothing was measured on a GPU."
)
MARKED = "An arrow marks what is recommended, ≈ what is not told apart from the best."


def lead(*blocks: Block | None) -> Section:
    """The first section: what came of it, and what to do."""
    return Section("verdict", "Verdict and next step", filled(*blocks), nav="Verdict", lead=True)


def circumstances(
    *blocks: Block | None, facts: Sequence[Fact], notes: tuple[str, ...], made: str, title: str = ""
) -> Section:
    """The section on method and machine; `facts` and `notes` are what the short forms say there."""
    told = Facts(tuple(f for f in (*facts, Fact("advisor", made)) if f.value), forms="md")
    noted = Banners("note", notes, forms="md txt")
    return Section(
        "method", title or "Method and environment", filled(*blocks, told, noted), nav="Method", folded=True
    )


def legend(table: Table) -> str:
    """What the signs in a table's cells mean, for the forms that show no more than them."""
    marks = {cell.mark for row in table.rows for cell in row.cells}
    told = {"chosen": "→ recommended", "rival": "≈ not told apart from the best"}
    shown = ", ".join(text for mark, text in told.items() if mark in marks)
    return " ".join(filter(None, (f"{shown}." if shown else "", "The page has the intervals and ranges.")))


def download(profile: Profile) -> Download:
    """The profile to save."""
    frames = sum(len(row.frame_seconds) for row in profile.measured().values())
    return Download(_without_frames(profile).model_dump_json if frames <= MOST_FRAMES else None)


def _without_frames(profile: Profile) -> Profile:
    """The page carries the final's blocks, not the frames in them; profile.json has both."""
    blocks = tuple(block.model_copy(update={"frame_seconds": ()}) for block in profile.blocks)
    return profile.model_copy(update={"blocks": blocks})
