"""The page of a fleet: what each device should use, where one strategy serves all, and what had no result.

Made of rows, not of profiles, so that a thousand devices take a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from advisor import stats, units
from advisor.profiles.fleets import FleetRecord
from advisor.profiles.fleets import Row as FleetRow
from advisor.profiles.sweeps import link
from advisor.report import blocks, words
from advisor.report.blocks import columns, row
from advisor.report.page import Page, Section, filled, lead
from advisor.report.recommendations import UNSURE, nothing
from advisor.report.records import Record
from advisor.verdicts.tracks import OneForAll, least_cost

_STATUS = {"failed": "failed", "unfit": "cannot take part", "not run": "not run"}
_VERDICTS = {"near": "none clearly faster", "open": "undecided", "untrusted": "not trusted"}
_CONFIRM = "Start a worker on a machine with a GPU to confirm."
_LONGER = "Run again with a larger --max-seconds: a verdict is undecided."
_APPLY = "Open a device's report in the table for the code to change."
_CAPTION = "The recommended strategy of each device."
_COSTS = " Last column: the time of the one strategy for all, as a multiple of the device's best time."


def fleet_page(record: FleetRecord) -> Page:
    done = [row for row in record.rows if row.status == "profiled"]
    missing = [row for row in record.rows if row.status != "profiled"]
    names = dict.fromkeys(row.device for row in record.rows if row.status != "unfit")
    predicted = bool(done) and all(row.basis == "predicted" for row in done)
    by_value = words.grouped(done, lambda row: row.value).items()
    verdicts = [_verdict(words.name(value) if value else "", rows) for value, rows in by_value]
    if not done:
        verdicts = [
            nothing("", "No device was profiled", "", "Fix what is named below and run again.", UNSURE)
        ]
    each, gone = filled(_table(record, done)), "Without a result"
    notes = blocks.Banners("note", tuple(words.line(note, 500) for note in record.notes))
    sections = (
        lead(blocks.Verdicts(tuple(verdicts), named=bool(record.parameter)), notes),
        Section("devices", "Device by device", each, nav="Devices", brief=True),
        Section("missing", gone, (_missing(missing),) if missing else (), nav=gone, brief=True),
    )
    basis: blocks.Basis = "nothing" if not done else "predicted" if predicted else "measured"
    where = f"on {words.count(len(names), 'device')}"
    records = tuple(map(_record, record.rows))
    page = Page("fleet", "fleet", words.name(record.workload), sections, where=where, basis=basis)
    return replace(page, created=words.created(record.created), records=records)


def _record(row: FleetRow) -> Record:
    """The measured choice, or that nothing was measured; predictions are in the files of each device."""
    figures = row.model_dump(include={"device", "memory_class", "value", "status", "strategy", "verdict"})
    return {**figures, "kind": row.basis, "task_seconds": row.seconds, "reason": row.reason or None}


def _verdict(value: str, rows: Sequence[FleetRow]) -> blocks.Verdict:
    chosen = [row for row in rows if row.strategy]
    if not chosen:
        return _predicted(value, rows)
    alike = len({row.strategy for row in chosen}) == 1
    one, measured = least(rows), [row for row in rows if row.costs]
    doubtful = [row for row in chosen if row.verdict in ("open", "untrusted")]
    choices = ((f"use {words.code(str(row.strategy))}", words.name(row.device)) for row in chosen)
    headline = words.on_devices(choices, len(rows))
    predicted = all(row.basis == "predicted" for row in chosen)
    costs = words.one_for_all(one.strategy, one.cost, measured[one.device].device) if one else ""
    tone: blocks.Tone = "inconclusive" if doubtful else "clear" if alike else "tie"
    headline = f"Predicted: {headline}" if predicted else headline[:1].upper() + headline[1:]
    remark = ". ".join(filter(None, (costs, _confidence(chosen, rows))))
    step = _CONFIRM if predicted else _LONGER if doubtful else _APPLY
    basis: blocks.Basis = "predicted" if predicted else "measured"
    return blocks.Verdict(basis, tone, value, headline, next_step=step, remark=remark)


def _confidence(chosen: Sequence[FleetRow], rows: Sequence[FleetRow]) -> str:
    settled = sum(row.verdict not in ("open", "untrusted") for row in chosen)
    if any(row.basis == "predicted" for row in chosen):
        return f"Predicted on {words.count(len(chosen), 'device')}."
    every = (
        f"Settled on {words.devices([row.device for row in rows], len(rows))}."
        if len(rows) > 1
        else "Settled."
    )
    return every if settled == len(rows) else f"Settled on {settled} of {words.count(len(rows), 'device')}."


def _predicted(value: str, rows: Sequence[FleetRow]) -> blocks.Verdict:
    """The verdict without a GPU: what the first profile predicts; the others differ by their CPUs."""
    if any(row.basis == "measured" for row in rows):
        step = "Open the reports in the table: they say why."
        return blocks.Verdict("measured", "none", value, "No strategy is recommended", next_step=step)
    choices = words.on_devices(
        (f"use {words.code(one.strategy)}", words.name(one.device)) for one in rows[0].predicted
    )
    headline = f"Predicted: {choices}" if choices else "No strategy could be predicted"
    remark = "Confidence: none. Nothing was measured on a GPU."
    return blocks.Verdict("predicted", "inconclusive", value, headline, remark=remark, next_step=_CONFIRM)


def least(rows: Sequence[FleetRow]) -> OneForAll | None:
    """The one strategy for all measured devices that costs the least where it is the worst choice.

    Without intervals, which take long for a thousand devices; their own reports have them.
    """
    return least_cost(
        [{s: stats.Ratio(cost, cost, cost) for s, cost in r.costs.items()} for r in rows if r.costs]
    )


def _table(record: FleetRecord, done: Sequence[FleetRow]) -> blocks.Table | None:
    """A row for each device and value: the strategy, and what the one for all costs there."""
    best = {value: least(rows) for value, rows in words.grouped(done, lambda row: row.value).items()}
    costs = [row.costs.get(one.strategy) if (one := best[row.value]) else None for row in done]
    costed, rows = any(costs), []
    swept = [words.name(record.parameter)] if record.parameter else []
    heads = columns(*swept, "strategy", "verdict", figures=False)
    heads += (blocks.Column("one strategy for all", brief="one for all"),) * costed
    for each, cost in zip(done, costs, strict=True):
        value = [words.name(each.value.partition("=")[2])] * len(swept)
        basis = each.basis if each.predicted else blocks.NOTHING
        href = link(f"{each.folder}/report.html") if each.folder else ""
        verdict = _VERDICTS.get(each.verdict, each.verdict) if each.verdict else basis
        slower = "slower" * bool(cost and cost > 1 + stats.EQUIVALENCE)
        for_all = blocks.TableCell(units.ratio(cost) if cost else blocks.NOTHING, sort=cost, mark=slower)
        strategy, last = _strategy(each), [for_all] * costed
        rows.append(
            row(words.name(each.device), *value, strategy, verdict, *last, href=href, rank=-(cost or 0.0))
        )
    if not done:
        return None
    caption = _CAPTION + _COSTS * costed
    return blocks.Table(
        "fleet", "device", heads, tuple(rows), caption=caption, title="Devices:", codes=False, sortable=True
    )


def _strategy(row: FleetRow) -> blocks.TableCell:
    """The measured choice; else the predicted ones, with the devices that each is for."""
    if row.strategy:
        return blocks.TableCell(words.name(row.strategy), mark="chosen")
    choices = words.on_devices((words.name(one.strategy), words.name(one.device)) for one in row.predicted)
    return blocks.TableCell(choices or row.basis)


def _missing(rows: Sequence[FleetRow]) -> blocks.Items:
    alike = words.grouped(rows, lambda row: (row.status, row.reason, row.next_step))
    items = []
    for (status, reason, step), same in alike.items():
        names = tuple(words.name(f"{row.device} {row.value}".strip()) for row in same)
        text = words.line(f"{reason}. {step}" if step else reason, 500)
        items.append(blocks.Item(names, _STATUS[status], text))
    return blocks.Items(tuple(items), label="Without a result:", most=20)
