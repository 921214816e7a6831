"""What the page says of mixes: which placements their short names stand for."""

from __future__ import annotations

from advisor.profiles.schema import Profile
from advisor.report import words
from advisor.report.blocks import Prose
from advisor.strategies.mixes import label, mixes_of

_MOST = 6
"""Mixes that are named beside the verdict."""


def legend(profile: Profile) -> Prose:
    """`hybrid-1` is table: zero-copy, weights: pinned; empty without mixes."""
    told = [
        f"{words.code(name)} is {words.line(label(row.placements, pipelined=row.pipelined), 300)}"
        for name, row in mixes_of(profile).items()
    ]
    shown = told[:_MOST]
    more = f"; {len(told) - len(shown)} more" * (len(told) > len(shown))
    return Prose(f"{'; '.join(shown)}{more}." if shown else "", label="Mixes")
