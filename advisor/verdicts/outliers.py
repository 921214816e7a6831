"""Blocks without outliers: what other programs do to a block now and then is no difference of versions.

On an H200's host and on two crowded cores, one block in ten takes 20 to 100 % longer, of whichever version,
and the mean of logarithms follows it. Huber's M-estimate of one step is the mean of pseudo-values: what a
block is off is cut at `CUT` standard deviations and divided by the share of blocks that were not cut; the
spread of pseudo-values is that of the estimate (Huber, "Robust Statistics", 1981, sections 3.2 and 6.5). So
they take the place of the blocks' times.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from advisor.stats import Floats, robust_deviation
from advisor.verdicts.estimate import FEWEST_FOR_NOISE, Block

CUT = 2.0
"""Standard deviations. Of normal noise the estimate is as exact as the mean, but for 1 %."""
_TURNS = 5
"""How often the medians of rounds and of contestants are taken in turn."""


def without_outliers(blocks: Sequence[Block], names: Collection[str]) -> list[Block]:
    """The blocks, those of `names` with pseudo-values for times. Fewer rounds than have a noise stay as they
    are."""
    mine = [block for block in blocks if block.contestant in names]
    columns = list(dict.fromkeys(block.contestant for block in mine))
    rounds = {at: row for row, at in enumerate(dict.fromkeys((b.process, b.round) for b in mine))}
    if len(columns) < 2 or len(rounds) < FEWEST_FOR_NOISE:
        return list(blocks)
    logs = np.full((len(rounds), len(columns)), np.nan)
    for block in mine:
        logs[rounds[block.process, block.round], columns.index(block.contestant)] = math.log(block.seconds)
    values = _pseudo_values(logs)
    times = {
        (*at, name): math.exp(values[row, column])
        for at, row in rounds.items()
        for column, name in enumerate(columns)
    }
    return [replace(b, seconds=times.get((b.process, b.round, b.contestant), b.seconds)) for b in blocks]


def _pseudo_values(logs: Floats) -> Floats:
    """logs: shape (rounds, contestants), NaN where there is no block."""
    levels = np.nanmedian(logs, axis=0)
    for _ in range(_TURNS):
        shifts = np.nanmedian(logs - levels, axis=1, keepdims=True)
        levels = np.nanmedian(logs - shifts, axis=0)
    off = logs - levels - shifts
    gaps = np.concatenate([off[:, a] - off[:, b] for a, b in combinations(range(off.shape[1]), 2)])
    most = CUT * robust_deviation(gaps) / math.sqrt(2)
    inside = float(np.mean(np.abs(off[np.isfinite(off)]) < most))
    if not inside > 0:
        return logs
    result: Floats = levels + shifts + np.clip(off, -most, most) / inside
    return result
