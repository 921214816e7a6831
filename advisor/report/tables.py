"""Rows for the tables: the strategies side by side, what is missing and why, and the predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from advisor import units
from advisor.profiles.preferences import begin_to_end
from advisor.profiles.schema import Device, Failed, Measured, Predicted, Prediction, Profile, Result, Skipped
from advisor.report import words
from advisor.rules.base import shares_dram
from advisor.stats import ratio_interval
from advisor.strategies.registry import BASELINE
from advisor.verdicts.words import counted

NOTHING = "–"


@dataclass(frozen=True)
class Cell:
    """A figure, and beneath it what qualifies it: an interval, a condition."""

    value: str
    note: str = ""
    more: str = ""
    """What else must be known of it."""
    sort: float | None = None
    """What its column is sorted by; None comes last."""


@dataclass(frozen=True)
class Row:
    """A measured strategy beside the others; `tag` is "recommended", "baseline" or nothing."""

    strategy: str
    tag: str
    frame: Cell
    share: float
    """Its median as a part of the slowest one's, for a bar."""
    ratio: Cell
    device_path: Cell
    footprint: Cell
    verified: bool


@dataclass(frozen=True)
class Gap:
    """Strategies without figures for the same reason. `detail` is what their process said last."""

    strategies: tuple[str, ...]
    status: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Forecast:
    """A predicted strategy on one device, or why there is none."""

    likely: str
    between: str
    footprint: str
    recommended: bool
    latency: str = ""
    declined: str = ""
    sort: float = 0.0
    """The likely seconds."""
    baseline: bool = False
    """Whether the others are held against it."""


@dataclass(frozen=True)
class Forecasts:
    """Strategies down, devices across; a cell is None where the model was not asked."""

    devices: tuple[str, ...]
    apart: tuple[bool, ...]
    """Whether each device has a memory of its own."""
    rows: tuple[tuple[str, tuple[Forecast | None, ...]], ...]


def apart(device: Device) -> bool:
    """Whether host and device have memories of their own, so that a footprint is the sum of both."""
    return device.kind != "cpu" and not shares_dram(device)


def baseline(profile: Profile) -> Measured | None:
    """What ratios and break-even compare with: the recommendation's baseline, else `pageable`."""
    named = profile.recommendation.baseline if profile.recommendation else None
    return profile.measured().get(named or BASELINE)


def rows(profile: Profile, notes: Mapping[str, str] = MappingProxyType({})) -> tuple[Row, ...]:
    """The measured strategies in the order of the file; `notes` are what `overlaps` says of them."""
    base, measured = baseline(profile), profile.measured()
    slowest = max((row.median_seconds for row in measured.values()), default=1.0)
    return tuple(_row(profile, row, base, slowest, notes.get(row.strategy, "")) for row in measured.values())


def _row(profile: Profile, row: Measured, base: Measured | None, slowest: float, note: str) -> Row:
    chosen = profile.recommendation.strategy if profile.recommendation else None
    tag = "recommended" if row.strategy == chosen else "baseline" if row is base else ""
    interval = words.seconds_between(*row.interval_seconds)
    return Row(
        strategy=words.name(row.strategy),
        tag=tag,
        frame=Cell(units.seconds(row.median_seconds), interval, _more(row, note), row.median_seconds),
        share=row.median_seconds / slowest,
        ratio=_ratio(profile, row, base),
        device_path=Cell(units.seconds(row.device_path_seconds), sort=row.device_path_seconds),
        footprint=_footprint(row),
        verified=row.verified,
    )


def _more(row: Measured, note: str) -> str:
    """What else must be known of its time: of frames that overlap, and why the final was without it."""
    return "; ".join(filter(None, (note, words.line(row.outside, 100) if row.outside else "")))


def overlaps(profile: Profile, prediction: Prediction | None = None) -> dict[str, str]:
    """Of frames that overlap, by strategy: the other one of the two times, and the rate of frames."""
    results = prediction.results if prediction else profile.results
    told: dict[str, str] = {}
    for row in results:
        if isinstance(row, (Measured, Predicted)) and row.latency_seconds is not None:
            between = row.median_seconds if isinstance(row, Measured) else row.likely_seconds
            rate = f"{units.digits(1 / between)} frames/s"
            if begin_to_end(profile.preferences.objective):
                told[row.strategy] = f"begin to end; one is done every {units.seconds(between)}, {rate}"
            else:
                told[row.strategy] = f"latency {units.seconds(row.latency_seconds)}, {rate}"
    return told


def _ratio(profile: Profile, row: Measured, base: Measured | None) -> Cell:
    if base is None:
        return Cell(NOTHING, "no baseline")
    if row is base:
        return Cell(units.ratio(1.0), sort=1.0)
    chosen = profile.recommendation
    of_time = chosen and counted(chosen.objective).noun == "time"
    if chosen and of_time and chosen.strategy == row.strategy and chosen.speedup and chosen.interval:
        return Cell(units.ratio(chosen.speedup), words.ratio_between(*chosen.interval), sort=chosen.speedup)
    method = profile.method
    found = ratio_interval(base.rounds, row.rounds, confidence=method.confidence, seed=method.seed)
    return Cell(units.ratio(found.value), words.ratio_between(found.low, found.high), sort=found.value)


def _footprint(row: Measured) -> Cell:
    requested = sum(row.footprint.requested.values())
    reserved = sum(row.footprint.reserved.values())
    note = f"asked for {units.size(requested)}" if reserved > requested else ""
    return Cell(units.size(row.footprint.physical_bytes), note, sort=row.footprint.physical_bytes)


def gaps(results: Iterable[Result | Predicted]) -> tuple[Gap, ...]:
    """Failed strategies, then skipped ones; those that say the same stand together."""
    without = [r for r in results if isinstance(r, (Failed, Skipped))]
    return together(_gap(r) for r in sorted(without, key=lambda r: r.status))


def _gap(row: Failed | Skipped) -> Gap:
    detail = words.block(row.detail) if isinstance(row, Failed) else ""
    return Gap((words.name(row.strategy),), row.status, words.line(row.reason), detail)


def together(single: Iterable[Gap]) -> tuple[Gap, ...]:
    """Those with the same status, reason and detail as one, in the order of the first of each."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for gap in single:
        alike.setdefault((gap.status, gap.reason, gap.detail), []).extend(gap.strategies)
    return tuple(Gap(tuple(names), *told) for told, names in alike.items())


def forecasts(predictions: tuple[Prediction, ...], notes: Sequence[Mapping[str, str]]) -> Forecasts:
    """All predictions in one table; `notes` are what `overlaps` says of each."""
    strategies = dict.fromkeys(r.strategy for p in predictions for r in p.results)
    by_device = [{r.strategy: r for r in p.results} for p in predictions]
    return Forecasts(
        devices=tuple(words.name(p.device.name) for p in predictions),
        apart=tuple(apart(p.device) for p in predictions),
        rows=tuple(
            (
                words.name(s),
                tuple(
                    _forecast(p, cells.get(s), said.get(s, ""))
                    for p, cells, said in zip(predictions, by_device, notes, strict=True)
                ),
            )
            for s in strategies
        ),
    )


def _forecast(prediction: Prediction, row: Predicted | Skipped | None, note: str) -> Forecast | None:
    if row is None:
        return None
    chosen = prediction.recommendation
    baseline = row.strategy == ((chosen and chosen.baseline) or BASELINE)
    if isinstance(row, Skipped):
        told = words.line(row.reason, 200)
        return Forecast("", "", "", recommended=False, declined=told, baseline=baseline)
    return Forecast(
        likely=units.seconds(row.likely_seconds),
        between=words.seconds_between(row.low_seconds, row.high_seconds),
        footprint=units.size(row.physical_bytes),
        recommended=chosen is not None and chosen.strategy == row.strategy,
        latency=note,
        sort=row.likely_seconds,
        baseline=baseline,
    )
