"""Joint draws of everything uncertain: the likely value first, then `DRAWS` values from its range.

All strategies and devices see the same draws, so that a ratio is computed draw by draw and what two
strategies share cancels out of it. Values are arrays of shape (1 + DRAWS,).
"""

from __future__ import annotations

import zlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

DRAWS = 200
SEED = 20_210_401
LOW, HIGH = 5.0, 95.0
"""Percentiles that a range runs between."""


@lru_cache(maxsize=256)
def quantiles(name: str) -> Values:
    """`DRAWS` numbers in (0, 1), one in each of as many equal parts, in an order of the name's own.

    Latin hypercube sampling (McKay, Beckman, Conover, Technometrics 21(2) 1979): a few hundred draws hold
    the percentiles steady.
    """
    generator = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    found: Values = (generator.permutation(DRAWS) + generator.random(DRAWS)) / DRAWS
    found.flags.writeable = False
    return found


def constant(value: float) -> Values:
    """The same in every draw."""
    return np.full(1 + DRAWS, value)


def triangular(low: float, mode: float, high: float, name: str) -> Values:
    """`mode`, then draws of the triangular distribution between low and high, by its inverse."""
    found = constant(mode)
    if high > low:
        u, share = quantiles(name), (mode - low) / (high - low)
        rising = low + np.sqrt(u * (high - low) * (mode - low))
        falling = high - np.sqrt((1 - u) * (high - low) * (high - mode))
        found[1:] = np.where(u < share, rising, falling)
    return found


def log_triangular(low: float, mode: float, high: float, name: str) -> Values:
    """The same on a logarithmic scale, as fits rates and times whose ranges span factors."""
    found = np.exp(triangular(np.log(low), np.log(mode), np.log(high), name))
    found[0] = mode
    return found


def span(values: Values) -> tuple[float, float, float]:
    """5th percentile of all draws, likely value, 95th percentile; the ends include the likely value."""
    low, high = np.percentile(values[1:], (LOW, HIGH))
    likely = float(values[0])
    return min(float(low), likely), likely, max(float(high), likely)
