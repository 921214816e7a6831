"""Where the noise of a final sits: in the host's stages, or in the rest of a frame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from advisor.profiles.blocks import Block

FEWEST_BLOCKS = 6
"""A standard deviation from fewer is off by a third."""
WORTH_TELLING = 0.01
"""Of a frame: less host noise decides nothing."""


@dataclass(frozen=True)
class Noise:
    """Standard deviations between blocks, as shares of a frame: of all host stages together, and of the rest.

    `stage` is the host stage that varies most.
    """

    host: float
    rest: float
    stage: str

    @property
    def is_the_hosts(self) -> bool:
        """Host stages vary more than all else: as a rule by where their memory lies."""
        return self.host > max(self.rest, WORTH_TELLING)


def of_blocks(blocks: Iterable[Block], contestant: str) -> Noise | None:
    """One contestant's noise; None with too few blocks, or overlapping frames, whose parts do not add up."""
    mine = [block for block in blocks if block.contestant == contestant and block.host_seconds]
    if len(mine) < FEWEST_BLOCKS or any(block.latency_seconds is not None for block in mine):
        return None
    frames = np.array([block.period_seconds for block in mine])
    hosts = np.array([sum(block.host_seconds.values()) for block in mine])
    names = sorted({name for block in mine for name in block.host_seconds})
    spread = {name: float(np.std([b.host_seconds.get(name, 0.0) for b in mine])) for name in names}
    mean = float(frames.mean())
    return Noise(
        float(hosts.std(ddof=1)) / mean,
        float((frames - hosts).std(ddof=1)) / mean,
        max(spread, key=lambda name: spread[name]),
    )
