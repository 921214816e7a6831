"""Medians and their intervals. Pure functions of NumPy; every one names its literature.

`rounds` are the frame times of one strategy, one sequence per process: seconds, positive. Frames of one
process share its memory layout, its clocks and its neighbours, so they say little about the next process.
That is why a process, not a frame, is the unit of replication here (Kalibera and Jones, "Rigorous
Benchmarking in Reasonable Time", ISMM 2013; Hoefler and Belli, "Scientific Benchmarking of Parallel
Computing Systems", SC 2015).

The literature used below: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, ch. 13
(percentile interval); Maritz and Jarrett, JASA 73, 1978 (the bootstrap of a median needs no resampling of
frames); Davison and Hinkley, "Bootstrap Methods and their Application", 1997, 3.8 (clusters); Welch,
Biometrika 34, 1947; David and Nagaraja, "Order Statistics", 2003, 7.1 (interval of a quantile).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rounds = Sequence[Sequence[float]]

RESAMPLES = 1000
"""Enough for the ends of a 95 % interval: Efron and Tibshirani, 13.3, advise at least 1000."""

_AT_ONCE = 500
"""Frames that all resamples look up at once where processes are many; others go set by set of processes."""
EQUIVALENCE = 0.05
"""Strategies within 5 % of one another count as equal: no change of code is worth less than that. It is a
choice, not a measurement: about the run-to-run spread of one machine (Hoefler and Belli, section 4)."""
SUPPOSED_PROCESSES = 0.15
"""Standard deviation of separate processes until they tell: on an H200 they differed by 6 to 15 %. Supposed
is the largest of these: processes that follow one another are alike, so that few show less than there is."""
SUPPOSED_WEIGHT = 4
"""Degrees of freedom that a supposition counts as. Of three contestants or more, 5 processes outvote it."""

_SURE = 0.95
"""Confidence of each bound of a quantile."""
_GAUSSIAN = 1.4826
"""From a median absolute deviation to a standard one, of normal noise."""


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians with its interval: low <= value <= high, all positive."""

    value: float
    low: float
    high: float

    def around(self, value: float) -> Ratio:
        """An interval of the same width around another value, that of the displayed figures."""
        return Ratio(value, value * (self.low / self.value), value * (self.high / self.value))


def median(rounds: Rounds) -> float:
    """The median of all frames of all processes. Raises `ValueError` on no, or not positive, times."""
    return float(np.median(np.concatenate(_checked(rounds))))


def median_interval(
    rounds: Rounds, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """An interval that covers the median of frames yet to be run, in processes yet to be started.

    One process: the percentile bootstrap of the median, which knows nothing of other processes and takes
    frames as independent (where each frame follows the last one by 0.9, it covers in 39 % of the runs, not
    in 95 %). Several: the cluster bootstrap (processes drawn first, then frames of those drawn) widened to
    hold Student's interval of the processes' log medians. The bootstrap alone is far too short with few
    processes: of 3 it can draw only 10 different sets, and its spread is sqrt(2/3) of the true one.
    Simulated coverage of 95 % with 3 processes of 100 frames: 95 % where processes differ by more than
    frames do (the bootstrap alone: 75 %), 99 % where they do not differ (98 %).
    """
    checked = _checked(rounds)
    value = float(np.median(np.concatenate(checked)))
    draws = _bootstrap_medians(checked, resamples, np.random.default_rng(seed))
    low, high = _percentiles(draws, confidence)
    if len(checked) > 1:
        logs = _log_medians(checked)
        centre = float(logs.mean())
        half = _student_quantile(confidence, len(logs) - 1) * math.sqrt(float(logs.var(ddof=1)) / len(logs))
        low, high = min(low, _exp(centre - half)), max(high, _exp(centre + half))
    return min(value, low), max(value, high)


def ratio_interval(
    numerator: Rounds,
    denominator: Rounds,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Ratio:
    """The ratio of two medians, with an interval made as in `median_interval`.

    The processes' log medians are compared by Welch's test, since strategies differ in noise too. Where
    only one side has several processes, their spread stands for the other side's as well; where neither
    has, `SUPPOSED_PROCESSES` does. Simulated coverage of 95 % with 3 processes each: 97 % where processes
    differ, 99 % where they do not; with one each 99 % where they differ by 15 %, more where by less.
    """
    above, below = _checked(numerator), _checked(denominator)
    value = float(np.median(np.concatenate(above)) / np.median(np.concatenate(below)))
    generator = np.random.default_rng(seed)
    draws = [_bootstrap_medians(side, resamples, generator) for side in (above, below)]
    low, high = _percentiles(draws[0] / draws[1], confidence)
    centre, half = _welch(_log_medians(above), _log_medians(below), confidence)
    low, high = min(low, _exp(centre - half)), max(high, _exp(centre + half))
    return Ratio(value, min(value, low), max(value, high))


def levels(logs: Floats) -> Floats:
    """The level of each column where a row shifts all of its values alike: least squares, gaps left out.

    logs: NaN where there is no value. Two columns with the same gaps differ by the mean of their differences;
    a column without gaps has the mean of its values. Rows weigh alike. Columns that no rows connect have
    nothing in common (Scheffé, "The Analysis of Variance", 1959, 4.4).
    """
    present = np.isfinite(logs)
    values, ones = np.where(present, logs, 0.0), present.astype(np.float64)
    count = np.maximum(ones.sum(axis=1), 1)
    normal = np.diag(ones.sum(axis=0)) - ones.T @ (ones / count[:, None])
    effects = np.linalg.pinv(normal, hermitian=True) @ (
        values.sum(axis=0) - ones.T @ (values.sum(axis=1) / count)
    )
    shifts = (values - ones * effects).sum(axis=1) / count
    together = ones.T @ ones > 0
    for _ in range(int(together.shape[0]).bit_length()):
        together = together @ together
    related = ones @ together > 0
    with np.errstate(invalid="ignore"):
        result: Floats = effects + (related * shifts[:, None]).sum(axis=0) / related.sum(axis=0)
    return np.where(present.any(axis=0), result, np.nan)


@lru_cache(maxsize=4096)
def student_upper(tail: float, freedom: float) -> float:
    """t with P(T > t) = tail, for a tail below 1/2 and any freedom >= 1. Right to 2 in 1000 down to 1e-4."""
    return _student_quantile(1 - 2 * tail, freedom)


def fewest_frames(probability: float) -> int:
    """Frames from which on a quantile has an upper bound: 59 for the 95th percentile, 299 for the 99th.

    Only then is the largest of them above the quantile in 95 % (David and Nagaraja, 7.1).
    """
    return math.ceil(math.log(1 - _SURE) / math.log(probability))


def quantile_by_blocks(blocks: Rounds, probability: float) -> tuple[float, float, float] | None:
    """A quantile of all frames with a lower and an upper bound, each of 95 %.

    Frames of a block follow one another, so the number of independent frames that they are worth, whose order
    statistics are the bounds, is judged by blocks (Woodruff, JASA 47, 1952; Korn and Graubard, Survey
    Methodology 24, 1998). None where that is too few for an upper bound (`fewest_frames`). Knows nothing of
    processes yet to be run. Simulated, the upper bound misses in 0 to 4 % of finals (a bootstrap's in 10 to
    21 %): in 2 to 5 % of those that have one where blocks differ half as much as frames, 3 to 24 % as much.
    """
    checked = _checked(blocks)
    count, values = len(checked), np.sort(np.concatenate(checked))
    if count < 2:
        return None
    value = values[math.ceil(probability * len(values)) - 1]
    # Twice as many frames tell it better: by the quantile alone, chance makes few blocks look alike.
    known = min(_independent_frames(checked, values, share) for share in (probability, 2 * probability - 1))
    few = NormalDist().inv_cdf(_SURE) / student_upper(1 - _SURE, count - 1)  # blocks vary by chance too
    worth = int(known * few**2)
    if worth < fewest_frames(probability):
        return None
    first, last = ((rank + 1) / worth for rank in _quantile_ranks(worth, probability))
    low, high = max(0, math.floor(first * len(values)) - 1), math.ceil(last * len(values)) - 1
    return float(value), float(min(values[low], value)), float(max(values[high], value))


def _independent_frames(blocks: Sequence[Floats], values: Floats, probability: float) -> float:
    """How many frames have a share above that quantile that varies as it does from block to block."""
    value, total, count = values[math.ceil(probability * len(values)) - 1], len(values), len(blocks)
    above = np.array([float((frames > value).sum()) for frames in blocks])
    sizes, share = np.array([len(frames) for frames in blocks]), float(above.sum()) / total
    variance = float(((above - share * sizes) ** 2).sum()) * count / (count - 1) / total**2
    return min(total, share * (1 - share) / variance) if variance > 0 else total


def _quantile_ranks(count: int, probability: float) -> tuple[int, int]:
    """Places of the order statistics that bound a quantile of independent frames from below and above."""
    upto = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])
    k = np.arange(count + 1)
    logs = upto[-1] - upto - upto[::-1] + k * math.log(probability) + (count - k) * math.log1p(-probability)
    below = np.cumsum(np.exp(logs))
    first = int(np.searchsorted(below, 1 - _SURE, side="right"))
    return max(0, first - 1), int(np.searchsorted(below, _SURE))


def _checked(rounds: Rounds) -> list[Floats]:
    arrays = [np.asarray(frames, dtype=np.float64) for frames in rounds if len(frames)]
    if not arrays:
        raise ValueError("no frame times")
    if not all(np.all(np.isfinite(frames) & (frames > 0)) for frames in arrays):
        raise ValueError("frame times must be positive and finite")
    return arrays


def _percentiles(draws: Floats, confidence: float) -> tuple[float, float]:
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _exp(value: float) -> float:
    """The exponential, kept positive and finite for two very different processes."""
    return math.exp(min(max(value, -700.0), 700.0))


def _log_medians(rounds: Sequence[Floats]) -> Floats:
    return np.log([float(np.median(frames)) for frames in rounds])


def _bootstrap_medians(rounds: Sequence[Floats], resamples: int, generator: np.random.Generator) -> Floats:
    """Medians of resampled rounds and frames, shape (resamples,).

    The frames of a resample need not be drawn: the k-th smallest of n uniform numbers is Beta(k, n-k+1),
    so the two middle ranks are drawn and looked up among the sorted frames of the rounds that were drawn
    (Maritz and Jarrett). That costs the same for a hundred frames and for a million.
    """
    values = np.concatenate(rounds)
    owner = np.repeat(np.arange(len(rounds)), [len(frames) for frames in rounds])
    order = np.argsort(values)
    values, owner = values[order], owner[order]
    times_drawn = generator.multinomial(len(rounds), np.full(len(rounds), 1 / len(rounds)), size=resamples)
    sizes = times_drawn @ np.array([len(frames) for frames in rounds], dtype=np.int64)
    lower = (sizes + 1) // 2
    first = generator.beta(lower, sizes - lower + 1)
    gap = generator.beta(1, np.maximum(sizes - lower, 1))
    second = np.where(sizes % 2 == 0, first + (1 - first) * gap, first)
    ranks = np.minimum(np.floor(np.stack([first, second]) * sizes).astype(np.int64), sizes - 1)
    if len(values) <= min(_AT_ONCE, len(rounds) ** 3):
        places = (np.cumsum(times_drawn[:, owner], axis=1) <= ranks[:, :, None]).sum(axis=2)
        return np.asarray(values[places].mean(axis=0))
    medians = np.empty(resamples)
    sets, group = np.unique(times_drawn, axis=0, return_inverse=True)
    for number, drawn in enumerate(sets):
        upto, members = np.cumsum(drawn[owner]), np.flatnonzero(group.ravel() == number)
        medians[members] = values[np.searchsorted(upto, ranks[:, members], side="right")].mean(axis=0)
    return medians


def _welch(above: Floats, below: Floats, confidence: float) -> tuple[float, float]:
    """Centre and half width of Welch's interval for the difference of two means."""
    sides = above, below
    known = [float(side.var(ddof=1)) for side in sides if len(side) > 1] or [SUPPOSED_PROCESSES**2]
    terms = [(float(side.var(ddof=1)) if len(side) > 1 else known[0]) / len(side) for side in sides]
    centre, total = float(above.mean() - below.mean()), sum(terms)
    if len(known) < 2:
        freedom = float(max(len(above), len(below)) - 1) or SUPPOSED_WEIGHT
    elif total > 0:
        shares = (term / total for term in terms)
        freedom = 1 / sum(s * s / (len(side) - 1) for s, side in zip(shares, sides, strict=True))
    else:
        return centre, 0.0
    return centre, _student_quantile(confidence, freedom) * math.sqrt(total)


def _student_quantile(confidence: float, freedom: float) -> float:
    """t with P(-t < T < t) = confidence, for any freedom >= 1; right to 1 in 10 000.

    With T = sqrt(freedom) tan(angle), the angle's density is cos(angle)^(freedom - 1): summed numerically.
    """
    angle = np.linspace(0, math.pi / 2, 8193)
    density = np.cos(angle) ** (freedom - 1)
    area = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return math.sqrt(freedom) * math.tan(float(np.interp(confidence, area / area[-1], angle)))


def robust_deviation(deviations: Floats) -> float:
    """Standard deviation of normal noise, from the median size of what values are off; NaN is no value."""
    return _GAUSSIAN * float(np.nanmedian(np.abs(deviations)))
