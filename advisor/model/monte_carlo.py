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


def triangular(low: float, likely: float, high: float, name: str) -> Values:
    """`likely`, then draws of which it is the median: the density of either half falls in a line towards its
    end of the range. A likely value near one end is then not at the end of what follows from the draws."""
    found = constant(likely)
    if high > low:
        u = quantiles(name)
        rising = low + np.sqrt(2 * u) * (likely - low)
        falling = high - np.sqrt(2 * (1 - u)) * (high - likely)
        found[1:] = np.where(u < 0.5, rising, falling)
    return found


def log_triangular(low: float, likely: float, high: float, name: str) -> Values:
    """The same on a logarithmic scale, as fits rates and times whose ranges span factors."""
    found = np.exp(triangular(np.log(low), np.log(likely), np.log(high), name))
    found[0] = likely
    return found


def span(values: Values) -> tuple[float, float, float]:
    """5th percentile of all draws, likely value, 95th percentile.

    The likely value is that of the likely figures, which is nearer to published ones than the median
    draw (docs/model.md); the median only where the draws leave it out of their range.
    """
    low, median, high = (float(x) for x in np.percentile(values[1:], (LOW, 50.0, HIGH)))
    likely = float(values[0])
    return low, likely if low <= likely <= high else median, high
