"""How far contestants are apart, from blocks timed side by side: a difference and its error for each pair.

The logarithm of a block's mean frame is the contestant, plus what its process and its round add to all
contestants alike, plus the contestant's own luck in that process, plus noise. A difference taken inside a
round is free of process and round. Differences of one process share the two contestants' luck, which further
rounds of the process do not average out and further processes do. Frames of one block follow one another, so
they are never taken as independent: the block is the unit (docs/decisions/0010).

The literature used: Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013 (processes and
rounds as levels); Satterthwaite, Biometrics Bulletin 2, 1946; Kish, "Survey Sampling", 1965 (the number that
unequal weights are worth); Smyth, "Linear models and empirical Bayes methods", SAGMB 3, 2004 (a variance
borrowed from the other comparisons, with its degrees of freedom); Welch, Biometrika 34, 1947.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from advisor import stats
from advisor.stats import SUPPOSED_WEIGHT, Floats

Flags = NDArray[np.bool_]

SUPPOSED_LUCK = 0.015
"""Standard deviation of a contestant's own luck until the processes tell: on an H200 ratios of processes had
1.3 to 2.8 % more spread than their blocks explain, which is 0.9 to 2 % for each of the two contestants."""
LEAST_ALONE = 0.06
"""Its least value for one that has separate processes (`stats.SUPPOSED_PROCESSES`), however many agree."""
SUPPOSED_NOISE = 0.15
"""Standard deviation of a block, the largest of an H200's: it counts where rounds are too few to have one."""
FEWEST_FOR_NOISE = 6
"""Rounds from which the noise of blocks is their own alone: a quantile of 5 degrees of freedom has an end."""
SUPPOSED_SPREAD = 1.5
"""What processes differ by, over what blocks of one process do, until the processes tell; it counts as many
degrees of freedom. On an H200 it was 0.6 to 3."""
LEAST_VARIANCE = 1e-8
"""A block's least error: no clock is better than 1 in 10 000."""
MOST_BORROWED = 16
"""Degrees of freedom that a pair's luck takes from others at most, since they may have less than it has."""
BORROWED_NOISE = 8.0
"""Degrees of freedom that a pair's noise takes from others at most: as much as nine rounds of its own."""
LEAST_LENDERS = 3
"""Fewest pairs, of three contestants, that show how their noise varies."""
CUT = 2.0
"""Standard deviations. Of normal noise the estimate is as exact as the mean, but for 1 %."""
_TURNS = 5
"""How often the medians of rounds and of contestants are taken in turn."""


@dataclass(frozen=True, slots=True)
class Block:
    """Frames of one contestant timed without a pause: `seconds` is their mean.

    `round` counts inside its `process`. Where a block is a process (scripts), a process here is a round of
    adjacent ones. Where frames overlap and `seconds` is their latency, `stretch` is that over the time
    between finished ones.
    """

    process: int
    round: int
    contestant: str
    seconds: float
    stretch: float = 1.0


@dataclass(frozen=True, eq=False)
class Pairs:
    """Each contestant against each other. Arrays have shape (contestants, contestants), row over column.

    `difference` is the logarithm of the ratio of times, `error` its standard error (infinite where a pair has
    fewer than two rounds in common), `freedom` the degrees of freedom of that. `luck` and `noise` are
    standard deviations of one contestant, as shares of its time: by process, and by block inside a process.
    """

    names: tuple[str, ...]
    difference: Floats
    error: Floats
    freedom: Floats
    luck: float
    noise: float
    processes: int
    rounds: int

    def among(self, names: Sequence[str]) -> Pairs:
        at = [self.names.index(name) for name in names]
        arrays = {name: getattr(self, name)[np.ix_(at, at)] for name in ("difference", "error", "freedom")}
        return replace(self, names=tuple(names), **arrays)

    def grown(self, factor: float) -> Pairs:
        """The pairs after `factor` times the processes and rounds, if the differences stay."""
        error = self.error / math.sqrt(factor)
        processes = math.ceil(self.processes * factor)
        rounds = math.ceil(self.rounds * factor)
        return replace(self, error=error, freedom=self.freedom * factor, processes=processes, rounds=rounds)

    def half_widths(self, confidence: float, comparisons: int, *, ends: int = 2) -> Floats:
        """Half the intervals of the differences; all `comparisons` hold at once (Bonferroni), in both ends or
        in one."""
        tail = (1 - confidence) / ends / comparisons
        rounded = np.floor(self.freedom * 10) / 10
        quantiles = {freedom: stats.student_upper(tail, freedom) for freedom in set(rounded.flat)}
        factors = np.array([quantiles[freedom] for freedom in rounded.flat]).reshape(rounded.shape)
        half: Floats = factors * self.error
        return half


def paired(
    blocks: Iterable[Block], names: Sequence[str], alone: Collection[str] = (), supposed_noise: float = 0.0
) -> Pairs:
    """Differences of `times`, which are of all `blocks`, whatever `names` asks for; and their errors.

    Of two that stood in the same rounds it is the mean of all differences inside rounds, so processes with
    equal rounds weigh alike, and one that joins, leaves or dies changes nothing for them. Errors are of the
    rounds in which both have a block. The variance is the largest of three: pooled over all rounds, and to a
    part over all pairs (Smyth); between the means of processes; and pooled plus the luck that all pairs have
    on average. Degrees of freedom are the pair's processes less one (the weight of unequal ones by Kish) plus
    what it borrows, and never more than those of its noise.

    alone: those with separate processes beside that of the others, numbered as that one is. All that
    such a process draws is their luck, so their pairs neither lend nor borrow any.
    supposed_noise: of a block, where a pair has few rounds; without one, a pair of one round has no error.
    Raises `ValueError` on a time that is not positive and finite, and on a contestant twice in a round.
    """
    listed = tuple(blocks)
    means = times(listed)
    at = np.log([means.get(name, math.nan) for name in names])
    logs = _logs(listed, names)
    gaps = logs[..., :, None] - logs[..., None, :]  # (processes, rounds, contestants, contestants)
    counts = np.isfinite(gaps).sum(axis=1)
    total, used = counts.sum(axis=0), (counts > 0).sum(axis=0)
    single = np.isin(names, list(alone))
    apart, lenders = single[:, None] | single, len(names) - single.sum() - 2
    difference = np.round(at[:, None] - at, 12)  # equal ones are equal, whatever the last bits say
    with np.errstate(invalid="ignore", divide="ignore"):
        few = np.where(total < FEWEST_FOR_NOISE, SUPPOSED_WEIGHT, 0) * bool(supposed_noise)
        pooled, worth, noise = _pooled(gaps - difference, total, few, supposed_noise)
        between, weight = _between(np.nansum(gaps, axis=1) / counts - difference, counts / total)
        shared = np.maximum(weight - 1 / total, 0)
        luck = _lucks((between - pooled) / shared / 2, pooled * total / 2, used, apart, lenders + 1)
        variance = np.fmax(np.fmax(pooled, between), pooled + 2 * luck**2 * np.where(apart, weight, shared))
        own = 1 / weight - 1
        borrowed = np.minimum(MOST_BORROWED, SUPPOSED_WEIGHT + np.where(apart, 0, lenders) * own)
        freedom = np.clip(np.minimum(own + borrowed, worth), 1, None)
    known = total + few > 1
    error = np.where(known & (total > 0), np.sqrt(variance), np.inf)
    np.fill_diagonal(error, 0.0)
    freedom, largest = np.where(known, freedom, 1.0), float(luck.max(initial=0.0))
    rounds = int(np.isfinite(gaps).any(axis=(2, 3)).sum())
    return Pairs(tuple(names), np.nan_to_num(difference), error, freedom, largest, noise, len(counts), rounds)


def without_outliers(blocks: Sequence[Block], names: Collection[str]) -> list[Block]:
    """The blocks, those of `names` without what other programs do to a block now and then.

    On an H200's host and on two crowded cores, one block in ten takes 20 to 100 % longer, and the mean of
    logarithms follows it. Huber's M-estimate of one step is the mean of pseudo-values: what a block is off is
    cut at `CUT` standard deviations and divided by the share of blocks that were not cut; the spread of
    pseudo-values is that of the estimate (Huber, "Robust Statistics", 1981, sections 3.2 and 6.5). So they
    take the place of the blocks' times. Fewer rounds than have a noise stay as they are.
    """
    mine = [block for block in blocks if block.contestant in names]
    columns = list(dict.fromkeys(block.contestant for block in mine))
    rounds = {at: row for row, at in enumerate(dict.fromkeys((b.process, b.round) for b in mine))}
    if len(columns) < 2 or len(rounds) < FEWEST_FOR_NOISE:
        return list(blocks)
    logs = np.full((len(rounds), len(columns)), np.nan)
    for block in mine:
        logs[rounds[block.process, block.round], columns.index(block.contestant)] = math.log(block.seconds)
    levels = np.nanmedian(logs, axis=0)
    for _ in range(_TURNS):
        shifts = np.nanmedian(logs - levels, axis=1, keepdims=True)
        levels = np.nanmedian(logs - shifts, axis=0)
    off = logs - levels - shifts
    gaps = np.concatenate([off[:, a] - off[:, b] for a, b in combinations(range(len(columns)), 2)])
    most = CUT * stats.robust_deviation(gaps) / math.sqrt(2)
    inside = float(np.mean(np.abs(off[np.isfinite(off)]) < most))
    values = levels + shifts + np.clip(off, -most, most) / inside if inside else logs
    times = {
        (*at, name): math.exp(values[row, column])
        for at, row in rounds.items()
        for column, name in enumerate(columns)
    }
    return [replace(b, seconds=times.get((b.process, b.round, b.contestant), b.seconds)) for b in blocks]


def times(blocks: Iterable[Block]) -> dict[str, float]:
    """Each contestant's figure, in seconds or joules: the one that verdicts compare and pages show.

    exp of its level (`stats.levels`) in the logarithms of all blocks, a row for each round. Frames that
    overlap stand in their round with the time between finished frames; their own figure is stretched by the
    geometric mean of what their latencies take over it.
    """
    listed = tuple(blocks)
    names = list(dict.fromkeys(block.contestant for block in listed))
    if not names:
        return {}
    periods = _logs(listed, names, lambda block: block.seconds / block.stretch)
    stretches = _logs(listed, names, lambda block: block.stretch)
    logs = stats.levels(periods.reshape(-1, len(names))) + np.nanmean(stretches, axis=(0, 1))
    return dict(zip(names, np.exp(logs).tolist(), strict=True))


def _pooled(deviations: Floats, total: Floats, few: Floats, supposed: float) -> tuple[Floats, Floats, float]:
    """The variance of each pair's mean by its rounds, and in part by all pairs'; its degrees of freedom; the
    standard deviation of a block. few: degrees of freedom that a supposed deviation counts as."""
    spread = np.nansum(deviations**2, axis=(0, 1))
    upper = np.triu_indices(len(spread), 1)
    typical, from_others = _typical((spread / (total - 1))[upper], (total - 1)[upper])
    own, worth = spread + from_others * typical, total - 1 + from_others
    variance: Floats = (own + few * 2 * supposed**2) / (worth + few) / total
    each = (own / worth / 2)[upper]
    known = each[np.isfinite(each)]
    return variance, worth + few, math.sqrt(np.median(known)) if known.size else 0.0


def margins(blocks: Iterable[Block], names: Sequence[str], confidence: float) -> dict[str, float]:
    """Error of each contestant's own time, as a logarithm either way; 0 where nothing is known of it.

    It holds for processes yet to be started. What a process draws is drawn by all contestants in it alike, so
    several contestants tell no more of processes than one does: degrees of freedom are the final's processes
    less one, plus those of what is supposed. Variances are lent from contestant to contestant as in `paired`.
    Simulated coverage of 95 % where processes differ by 1, 2 and 3 times what blocks do: 99, 91 and
    86 % of two processes, 97, 94 and 93 % of eight.
    """
    logs = _logs(blocks, names)
    counts = np.isfinite(logs).sum(axis=1)
    total, used, others = counts.sum(axis=0), (counts > 0).sum(axis=0), len(counts) - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.nansum(logs, axis=1) / counts
        inside = np.nansum((logs - means[:, None]) ** 2, axis=(0, 1))
        noise = _lent(inside / (total - used), total - used)
        between, weight = _between(means - np.nansum(logs, axis=(0, 1)) / total, counts / total)
        process = _lent(between / weight, used - 1)
        supposed = SUPPOSED_SPREAD**2 * noise
        expected = (SUPPOSED_WEIGHT * supposed + others * process) / (SUPPOSED_WEIGHT + others)
        error = np.sqrt(np.fmax(noise / total, expected * weight))
    quantile = stats.student_upper((1 - confidence) / 2, SUPPOSED_WEIGHT + others)
    return dict(zip(names, np.nan_to_num(quantile * error).tolist(), strict=True))


def unpaired(rounds: Mapping[str, stats.Rounds]) -> Pairs:
    """Frame times of separate processes, which share nothing with one another: runs without a final.

    Differences are of the medians of all frames, which rows show; medians of processes stand in for blocks.
    What processes differ by stays in the differences, so intervals are several times wider than `paired`
    ones. The variance is the larger of Welch's, from the pair's own processes, and of that pooled over all
    contestants; degrees of freedom are those of the shorter side, the conservative choice, plus what it
    borrows. Without any contestant of two processes nothing is known.
    """
    logs = [np.log([stats.median([frames]) for frames in runs if len(frames)]) for runs in rounds.values()]
    counts = np.array([len(values) for values in logs])
    spare = int((counts - 1).sum())
    squares = np.array([float(((values - values.mean()) ** 2).sum()) for values in logs])
    pooled = squares.sum() / spare if spare else math.inf
    own = np.where(counts > 1, squares / np.maximum(counts - 1, 1), pooled) / counts
    at = np.log([stats.median([r for r in runs if len(r)]) for runs in rounds.values()])
    each = pooled / counts
    variance = np.maximum(own[:, None] + own, each[:, None] + each)
    shorter = np.minimum(counts[:, None], counts) - 1
    borrowed = np.minimum(MOST_BORROWED, spare - (counts[:, None] + counts - 2))
    np.fill_diagonal(variance, 0.0)
    freedom = np.clip(shorter + borrowed, 1, None).astype(np.float64)
    most = int(counts.max(initial=0))
    luck = math.sqrt(pooled)
    return Pairs(tuple(rounds), at[:, None] - at, np.sqrt(variance), freedom, luck, 0.0, most, most)


def _logs(
    blocks: Iterable[Block],
    names: Sequence[str],
    figure: Callable[[Block], float] = lambda block: block.seconds,
) -> Floats:
    """Shape (processes, rounds, contestants); NaN where there is no block."""
    place = {name: index for index, name in enumerate(names)}
    mine = [block for block in blocks if block.contestant in place]
    processes = {p: i for i, p in enumerate(sorted({block.process for block in mine}))}
    rounds = {r: i for i, r in enumerate(sorted({block.round for block in mine}))}
    logs = [[[math.nan] * len(names) for _ in rounds] for _ in processes]  # filled faster than an array
    for block in mine:
        row, column = logs[processes[block.process]][rounds[block.round]], place[block.contestant]
        seconds = figure(block)
        if not (seconds > 0 and math.isfinite(seconds)):
            raise ValueError(f"the mean frame of a block must be positive and finite: {seconds}")
        if not math.isnan(row[column]):
            raise ValueError(f"{block.contestant} has two blocks in round {block.round} of {block.process}")
        row[column] = math.log(seconds)
    return np.array(logs).reshape(len(processes), len(rounds), len(names))


def _lent(variances: Floats, freedom: Floats) -> Floats:
    """Each variance, to a part that of all; 0 where there is none at all."""
    typical, worth = _typical(variances, freedom)
    own = np.where(freedom > 0, freedom, 0)
    return np.nan_to_num((own * np.nan_to_num(variances) + worth * typical) / (own + worth))


def _typical(variances: Floats, freedom: Floats) -> tuple[float, float]:
    """The variance that all have in common, and what it is worth to each as degrees of freedom.

    Little where their variances differ by more than their own degrees of freedom explain: a noisy
    contestant lends its noise to no other. Smyth 2004, section 6.2, with the leading terms of the polygamma
    functions.
    """
    known = (freedom > 0) & (variances > 0)
    if known.sum() < LEAST_LENDERS:
        return 0.0, 0.0
    logs = np.log(variances[known]) + 1 / freedom[known]
    excess = float(logs.var(ddof=1) - np.mean(2 / freedom[known] + 2 / freedom[known] ** 2))
    worth = BORROWED_NOISE if excess <= 0 else min(BORROWED_NOISE, 2 / excess + 1)
    return math.exp(float(logs.mean()) - 1 / worth), worth


def _between(deviation: Floats, share: Floats) -> tuple[Floats, Floats]:
    """The variance of the weighted mean by what processes differ by, unbiased where luck is all there is and
    NaN of a single process; and the sum of the squared weights."""
    weight: Floats = (share**2).sum(axis=0)
    lost = np.where((share > 0).sum(axis=0) > 1, weight - 2 * (share**3).sum(axis=0) + weight**2, np.nan)
    variances: Floats = np.nansum(share**2 * deviation**2, axis=0) * weight / lost
    return variances, weight


def _lucks(squares: Floats, variances: Floats, used: Floats, apart: Flags, lenders: int) -> Floats:
    """A contestant's own luck for each pair: of those in one process together, and of those apart."""
    among_all = _luck(squares, variances, np.where(apart, 0, used), lenders, SUPPOSED_LUCK)
    alone = _luck(squares, variances, np.where(apart, used, 0), 1, stats.SUPPOSED_PROCESSES)
    return np.where(apart, max(LEAST_ALONE, alone), among_all)


def _luck(squares: Floats, variances: Floats, used: Floats, lenders: int, supposed: float) -> float:
    """A contestant's own luck: of all pairs on average, weighed against what is supposed of it.

    used: the processes of each pair; 0 for those without information. lenders: how many pairs' worth of
    processes tell it.

    `squares` are unbiased, so some are negative where there is none. Each is as exact as the variance of the
    pair's blocks is small, and weighs so: a noisy contestant tells little about the others.
    """
    known = np.triu((used > 1) & np.isfinite(squares), 1)
    if not known.any():
        return supposed
    freedom = (int(used[known].max()) - 1) * lenders
    luck = float(np.average(squares[known], weights=np.maximum(variances[known], LEAST_VARIANCE) ** -2))
    total = SUPPOSED_WEIGHT * supposed**2 + freedom * luck
    return math.sqrt(max(0.0, total / (SUPPOSED_WEIGHT + freedom)))
