"""Reports inside a notebook's cell: the page in a frame of its own, so that neither styles the other."""

from __future__ import annotations

from advisor.profiles.schema import Profile
from advisor.report import templates, words
from advisor.report.verdicts import verdicts
from advisor.verdicts.comparing import Comparison


def profile_cell(profile: Profile, page: str) -> str:
    """The verdict as a line of text, for viewers that drop frames, and the report below it."""
    told = verdicts(profile)[0]
    return _cell(f"{words.name(profile.workload.name)}, {told.device}: {told.headline}", page)


def comparison_cell(found: Comparison, page: str) -> str:
    """The same of a comparison."""
    return _cell(f"{words.name(found.head.workload.name)}: HEAD against BASE", page)


def _cell(line: str, page: str) -> str:
    return templates.environment().get_template("notebook.html.j2").render(line=line, page=page)
