"""How much a mix of placements may gain at most over the best uniform strategy.

The best uniform strategy takes at most as long as each of them, so what a mix gains over it is at most the
least of the upper ends of its gains over all (as in Hsu's comparisons with the best).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from advisor.profiles.blocks import Search
from advisor.verdicts.choice import Aim
from advisor.verdicts.estimate import Block, paired

MOST_GAIN = 10.0
"""As a logarithm: what blocks know so little of has no bound."""


def most_gained(
    blocks: Sequence[Block], uniform: Sequence[str], mixes: Sequence[str], aim: Aim, alone: Collection[str]
) -> dict[str, float]:
    """By mix of the final, as a share; all hold at once at the aim's certainty."""
    seen = {block.contestant for block in blocks}
    rivals, judged = [n for n in uniform if n in seen], [n for n in mixes if n in seen]
    if not rivals or not judged:
        return {}
    names = [*rivals, *judged]
    pairs = paired(blocks, names, [name for name in names if name in alone])
    upper = (pairs.difference + pairs.half_widths(aim.certainty, len(names) - 1))[
        : len(rivals), len(rivals) :
    ]
    least = np.clip(upper.min(axis=0), 0.0, MOST_GAIN)
    return dict(zip(judged, np.expm1(least).tolist(), strict=True))


def bound(gained: Mapping[str, float], search: Search | None) -> float | None:
    """What no mix that was measured gains more than; None where nothing was searched.

    Mixes of the final count by its blocks, all others by those of the search.
    """
    if search is None or not search.tried:
        return None
    others = (one.most - 1 for one in search.tried if one.name not in gained)
    return max([0.0, *gained.values(), *others])
