"""Whether a mix of placements is worth it: clearly better than every uniform strategy, by more than the
indifference; else how much a mix may gain at most.

The best uniform strategy takes at most as long as each of them, so what a mix gains over it is at most the
least of the upper ends of its gains over all (as in Hsu's comparisons with the best).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from advisor.profiles.blocks import Search
from advisor.verdicts.choice import Aim
from advisor.verdicts.estimate import Block, paired

MOST_GAIN = 10.0
"""As a logarithm: what blocks know so little of has no bound."""


@dataclass(frozen=True)
class Worth:
    """A final's mixes that are clearly better by more than the indifference, those for which that is open,
    and what each mix gains at most, as a share."""

    better: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    most: Mapping[str, float] = field(default_factory=dict)


def worth(
    blocks: Sequence[Block], uniform: Sequence[str], mixes: Sequence[str], aim: Aim, alone: Collection[str]
) -> Worth:
    """What the blocks say of the mixes; all intervals hold at once at the aim's certainty."""
    seen = {block.contestant for block in blocks}
    rivals, judged = [n for n in uniform if n in seen], [n for n in mixes if n in seen]
    if not rivals or not judged:
        return Worth(tuple(judged))
    names = [*rivals, *judged]
    pairs = paired(blocks, names, [name for name in names if name in alone])
    half = pairs.half_widths(aim.certainty, len(names) - 1)
    better, undecided, most = [], [], {}
    for column, name in enumerate(judged, start=len(rivals)):
        gains = pairs.difference[: len(rivals), column]
        ends = half[: len(rivals), column]
        upper = float((gains + ends).min())
        if float((gains - ends).min()) > aim.margin:
            better.append(name)
        elif upper > aim.margin:
            undecided.append(name)
        most[name] = math.expm1(min(max(upper, 0.0), MOST_GAIN))
    return Worth(tuple(better), tuple(undecided), most)


def bound(found: Worth, search: Search | None) -> float | None:
    """What no mix that was measured gains more than; None where a mix is worth it, or nothing was searched.

    Mixes of the final count by its blocks, all others by those of the search.
    """
    if search is None or not search.tried or found.better:
        return None
    others = (one.most - 1 for one in search.tried if one.name not in found.most)
    return max([0.0, *found.most.values(), *others])
