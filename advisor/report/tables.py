"""Rows and notes of tables: overlapping frames, strategies without figures, set-up costs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from advisor import stats, units
from advisor.devices.memory_class import explained
from advisor.profiles.conclusions import counts_latency
from advisor.profiles.schema import (
    LATE,
    Device,
    Failed,
    Measured,
    Predicted,
    Prediction,
    Profile,
    Result,
    Skipped,
)
from advisor.report import words
from advisor.report.blocks import NOTHING, Item, Row, TableCell
from advisor.rules.base import shares_dram


def apart(device: Device) -> bool:
    """Whether host and device have memories of their own, so that a footprint is the sum of both."""
    return device.kind != "cpu" and not shares_dram(device)


def memory_told(device: Device) -> str:
    """What its memory class means, as a sentence; nothing where that is not known."""
    kind = device.memory_class
    return f"Memory: {explained(kind, device.attributes)}." if kind else ""


def overlaps(profile: Profile, prediction: Prediction | None = None) -> dict[str, str]:
    """For strategies with overlapping frames: the other one of the two times, and the frame rate."""
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


def gaps(results: Iterable[Result | Predicted]) -> tuple[Item, ...]:
    """Failed strategies, then skipped ones; those that say the same stand together."""
    without = [row for row in results if isinstance(row, (Failed, Skipped))]
    return merged(
        Item(
            (words.name(row.strategy),),
            "not reached" if row.reason == LATE else row.status,
            words.line(row.reason),
            words.block(row.detail) if isinstance(row, Failed) else "",
        )
        for row in sorted(without, key=lambda row: row.status)
    )


def merged(single: Iterable[Item]) -> tuple[Item, ...]:
    """Joins gaps with the same status, text and detail, in order of first appearance."""
    alike = words.grouped(single, lambda item: (item.status, item.text, item.detail))
    return tuple(Item(tuple(n for item in same for n in item.names), *told) for told, same in alike.items())


def setup_costs(
    rows: Sequence[Measured], base: Measured | None, speeds: Mapping[str, stats.Ratio]
) -> tuple[Row, ...]:
    """Set-up, what it costs more than the baseline's, what a frame saves, when that pays.

    `speeds` are the baseline's time over each row's, with their intervals.
    """
    made = []
    for row in rows:
        against = (TableCell(NOTHING),) * 3
        if base is not None and row.strategy != base.strategy and row.strategy in speeds:
            more, saved = row.setup_seconds - base.setup_seconds, base.median_seconds - row.median_seconds
            against = _signed(more), _signed(saved), break_even(row, base, speeds[row.strategy])
        setup = TableCell(units.seconds(row.setup_seconds), sort=row.setup_seconds)
        made.append(Row(words.name(row.strategy), (setup, *against)))
    return tuple(made)


def _signed(seconds: float) -> TableCell:
    sign = "" if seconds == 0 else "+" if seconds > 0 else "\N{MINUS SIGN}"
    return TableCell(f"{sign}{units.seconds(abs(seconds))}", sort=seconds)


def break_even(row: Measured, base: Measured, ratio: stats.Ratio) -> TableCell:
    """After how many frames the set-up pays against the baseline; says so where the noise hides it.

    Both costs are linear: set-up + frames x median. They cross where the differences cancel; the range
    beneath is that of the ratio of their times. The set-up itself is one figure and has no interval.
    """
    extra = row.setup_seconds - base.setup_seconds
    if math.isinf(ratio.high):
        return TableCell("not in the final")
    if ratio.low <= 1 <= ratio.high:
        return TableCell("no clear difference per frame")
    if ratio.low > 1 and extra <= 0:
        return TableCell("immediately", sort=0)
    crossing = round(extra / (base.median_seconds * (1 - 1 / ratio.value)), 6)
    ends = sorted(extra / (base.median_seconds * (1 - 1 / end)) for end in (ratio.low, ratio.high))
    if ratio.low > 1:
        between = f"{math.ceil(ends[0])} to {math.ceil(ends[1])}"
        return TableCell(f"after {words.count(math.ceil(crossing), 'frame')}", between, sort=crossing)
    if crossing < 1:
        return TableCell("never")
    between = f"{math.floor(ends[0])} to {math.floor(ends[1])}"
    return TableCell(f"only for {words.count(math.floor(crossing), 'frame')}", between)
