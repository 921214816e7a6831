"""Rows of the tables: the strategies side by side, what is missing and why, the predictions, set-up costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from advisor import stats, units
from advisor.devices.memory_class import EXPLAINED
from advisor.profiles.preferences import counts_latency
from advisor.profiles.schema import Device, Failed, Measured, Predicted, Prediction, Profile, Result, Skipped
from advisor.report import words
from advisor.report.blocks import NOTHING, Item, Row, TableCell
from advisor.rules.base import shares_dram
from advisor.strategies.registry import BASELINE
from advisor.verdicts.final import known
from advisor.verdicts.measured import over_baseline
from advisor.verdicts.words import counted

_FIRST = 4
"""Devices by which a strategy is kept where there is little room."""


def apart(device: Device) -> bool:
    """Whether host and device have memories of their own, so that a footprint is the sum of both."""
    return device.kind != "cpu" and not shares_dram(device)


def memory_told(device: Device) -> str:
    """What its memory class means, as a sentence; nothing where that is not known."""
    return f"Memory: {EXPLAINED[device.memory_class]}." if device.memory_class else ""


def baseline(profile: Profile) -> Measured | None:
    """What ratios and break-even compare with: the recommendation's baseline, else `pageable`."""
    named = profile.recommendation.baseline if profile.recommendation else None
    return profile.measured().get(named or BASELINE)


def rows(profile: Profile, notes: Mapping[str, str] = MappingProxyType({})) -> tuple[Row, ...]:
    """The measured strategies in the order of the file: time, ratio, memory, device path and the check.

    `notes` are what `overlaps` says of them.
    """
    base = baseline(profile)
    final = over_baseline(profile, base.strategy) if base else {}
    return tuple(
        _row(profile, row, base, final.get(row.strategy), notes.get(row.strategy, ""))
        for row in profile.measured().values()
    )


def _row(profile: Profile, row: Measured, base: Measured | None, final: stats.Ratio | None, note: str) -> Row:
    chosen = profile.recommendation.strategy if profile.recommendation else None
    tag = "recommended" if row.strategy == chosen else "baseline" if row is base else ""
    more = "; ".join(filter(None, (note, words.line(row.outside, 100) if row.outside else "")))
    return Row(
        words.name(row.strategy),
        (
            _time(row.median_seconds, row.interval_seconds, more),
            _ratio(profile, row, base, final),
            _footprint(row),
            TableCell(units.seconds(row.device_path_seconds), sort=row.device_path_seconds),
            TableCell("checked" if row.verified else "not checked"),
        ),
        tag=tag,
        chosen=row.strategy == chosen,
        rank=-1.0 if tag else row.median_seconds,
    )


def _time(seconds: float, interval: tuple[float, float], more: str, mark: str = "") -> TableCell:
    return TableCell(units.seconds(seconds), words.seconds_between(*interval), more, seconds, mark=mark)


def overlaps(profile: Profile, prediction: Prediction | None = None) -> dict[str, str]:
    """Of frames that overlap, by strategy: the other one of the two times, and the rate of frames."""
    told: dict[str, str] = {}
    for row in prediction.results if prediction else profile.results:
        if isinstance(row, (Measured, Predicted)) and row.latency_seconds is not None:
            between = row.median_seconds if isinstance(row, Measured) else row.likely_seconds
            rate = f"{units.digits(1 / between)} frames/s"
            if counts_latency(profile.preferences.objective):
                told[row.strategy] = f"latency; {units.seconds(between)} between finished frames, {rate}"
            else:
                told[row.strategy] = f"latency {units.seconds(row.latency_seconds)}, {rate}"
    return told


def _ratio(profile: Profile, row: Measured, base: Measured | None, final: stats.Ratio | None) -> TableCell:
    """`final` is the ratio by its blocks; without it, processes are compared that share nothing."""
    if base is None:
        return TableCell(NOTHING, "no baseline")
    if row is base:
        return TableCell(units.ratio(1.0), sort=1.0)
    if final is not None:
        between = words.ratio_between(*ends) if (ends := known(final)) else "too few rounds"
        return TableCell(units.ratio(final.value), between, sort=final.value)
    chosen, method = profile.recommendation, profile.method
    of_time = chosen and counted(chosen.objective).noun == "time"
    if chosen and of_time and chosen.strategy == row.strategy and chosen.speedup and chosen.interval:
        value, (low, high) = chosen.speedup, chosen.interval
    else:
        found = stats.ratio_interval(base.rounds, row.rounds, confidence=method.confidence, seed=method.seed)
        value, low, high = found.value, found.low, found.high
    return TableCell(units.ratio(value), words.ratio_between(low, high), sort=value)


def _footprint(row: Measured) -> TableCell:
    requested, reserved = (sum(asked.values()) for asked in (row.footprint.requested, row.footprint.reserved))
    note = f"asked for {units.size(requested)}" if reserved > requested else ""
    return TableCell(units.size(row.footprint.physical_bytes), note, sort=row.footprint.physical_bytes)


def gaps(results: Iterable[Result | Predicted]) -> tuple[Item, ...]:
    """Failed strategies, then skipped ones; those that say the same stand together."""
    without = [row for row in results if isinstance(row, (Failed, Skipped))]
    return merged(
        Item(
            (words.name(row.strategy),),
            row.status,
            words.line(row.reason),
            words.block(row.detail) if isinstance(row, Failed) else "",
        )
        for row in sorted(without, key=lambda row: row.status)
    )


def merged(single: Iterable[Item]) -> tuple[Item, ...]:
    """Those with the same status, text and detail as one, in the order of the first of each."""
    alike = words.grouped(single, lambda item: (item.status, item.text, item.detail))
    return tuple(Item(tuple(n for item in same for n in item.names), *told) for told, same in alike.items())


def forecasts(predictions: Sequence[Prediction], notes: Sequence[Mapping[str, str]]) -> tuple[Row, ...]:
    """Strategies down, devices across; `notes` are what `overlaps` says of each.

    Where there is little room, those matter that come closest to the best of any of the first devices.
    """
    strategies = dict.fromkeys(r.strategy for p in predictions for r in p.results)
    columns = [
        {r.strategy: _forecast(made, r, said.get(r.strategy, "")) for r in made.results}
        for made, said in zip(predictions, notes, strict=True)
    ]
    found = {s: tuple(column.get(s, TableCell(NOTHING)) for column in columns) for s in strategies}
    told = [[c[i].sort for c in found.values()] for i in range(min(_FIRST, len(columns)))]
    best = [min((s for s in column if s is not None), default=1.0) for column in told]
    return tuple(
        Row(words.name(s), cells, rank=_rank(s, cells, best, predictions)) for s, cells in found.items()
    )


def _forecast(prediction: Prediction, row: Predicted | Skipped, note: str) -> TableCell:
    if isinstance(row, Skipped):
        return TableCell("not predicted", mark="quiet")
    chosen = prediction.recommendation is not None and prediction.recommendation.strategy == row.strategy
    return _time(row.likely_seconds, (row.low_seconds, row.high_seconds), note, "chosen" if chosen else "")


def _rank(
    strategy: str, cells: Sequence[TableCell], best: Sequence[float], predictions: Sequence[Prediction]
) -> float:
    """How many times the best it takes; what is recommended and the baseline always come first."""
    chosen = [made.recommendation for made in predictions[:_FIRST]]
    baselines = {(each and each.baseline) or BASELINE for each in chosen}
    if strategy in baselines or any(cell.mark == "chosen" for cell in cells[:_FIRST]):
        return -1.0
    told = zip(cells, best, strict=False)
    return min((cell.sort / least for cell, least in told if cell.sort is not None), default=float("inf"))


def forecast_rows(prediction: Prediction, notes: Mapping[str, str]) -> tuple[Row, ...]:
    """One device's strategies with the range and the memory, for a terminal."""
    told = [row for row in prediction.results if isinstance(row, Predicted)]
    cells = [_forecast(prediction, row, notes.get(row.strategy, "")) for row in told]
    return tuple(
        Row(
            words.name(row.strategy),
            (replace(cell, mark=""), TableCell(units.size(row.physical_bytes))),
            chosen=cell.mark == "chosen",
        )
        for row, cell in zip(told, cells, strict=True)
    )


def setup_costs(profile: Profile, rows: Sequence[Measured]) -> tuple[Row, ...]:
    """Set-up, what it costs more than the baseline's, what a frame saves, when that pays."""
    made, base, confidence = [], baseline(profile), profile.method.confidence
    final = over_baseline(profile, base.strategy) if base else {}
    for row in rows:
        against = (TableCell(NOTHING),) * 3
        if base is not None and base is not row:
            more, saved = row.setup_seconds - base.setup_seconds, base.median_seconds - row.median_seconds
            ratio = final.get(row.strategy) or stats.ratio_interval(
                base.rounds, row.rounds, confidence=confidence
            )
            against = _signed(more), _signed(saved), break_even(row, base, ratio)
        setup = TableCell(units.seconds(row.setup_seconds), sort=row.setup_seconds)
        made.append(Row(words.name(row.strategy), (setup, *against)))
    return tuple(made)


def _signed(seconds: float) -> TableCell:
    sign = "" if seconds == 0 else "+" if seconds > 0 else "\N{MINUS SIGN}"
    return TableCell(f"{sign}{units.seconds(abs(seconds))}", sort=seconds)


def break_even(row: Measured, base: Measured, ratio: stats.Ratio) -> TableCell:
    """After how many frames the set-up pays against the baseline; says so where the noise hides it.

    Both costs are linear: set-up + frames x median. They cross where the differences cancel; the range
    beneath is that of `ratio`, the baseline's time over this one's. The set-up itself is one figure and has
    no interval.
    """
    extra = row.setup_seconds - base.setup_seconds
    if ratio.low <= 1 <= ratio.high:
        return TableCell("frames tie with the baseline's")
    if ratio.low > 1 and extra <= 0:
        return TableCell("at once", sort=0)
    crossing = extra / (base.median_seconds - row.median_seconds)
    ends = sorted(extra / (base.median_seconds * (1 - 1 / end)) for end in (ratio.low, ratio.high))
    if ratio.low > 1:
        between = f"{math.ceil(ends[0])} to {math.ceil(ends[1])}"
        return TableCell(f"after {words.count(math.ceil(crossing), 'frame')}", between, sort=crossing)
    if crossing < 1:
        return TableCell("never")
    between = f"{math.floor(ends[0])} to {math.floor(ends[1])}"
    return TableCell(f"ahead for {words.count(math.floor(crossing), 'frame')} only", between)
