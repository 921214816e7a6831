"""A comparison for a terminal: plain text of at most 80 columns, the gates and the verdict first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.report import words
from advisor.report.compare_view import CompareReport, DeviceView, GateView, Side, compare_view
from advisor.report.terminal import WIDTH, wrap
from advisor.verdicts.comparing import Comparison, Ruling

_NAME = 18
_MOST_REASONS = 6


def compare_summary(
    found: Comparison, rulings: Sequence[Ruling] = (), files: tuple[str, str] = ("", "")
) -> str:
    """Gates, comparability, the verdict and the table of each device, advice that is new or gone."""
    report = compare_view(found, rulings, files)
    paragraphs = (
        _title(report),
        *map(_gate, report.gates),
        _comparable(report),
        *(part for device in report.devices for part in (_verdict(device, report), _table(device, report))),
        *map(_gaps, report.devices),
        _advice(report),
        [line for note in report.notes for line in wrap(f"Note: {note}", hanging="    ")],
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, paragraphs) if lines) + "\n"


def _title(report: CompareReport) -> Iterator[str]:
    where = "predicted. Nothing was measured on a GPU." if report.predicted else f"on {report.device}"
    yield from wrap(f"{report.workload}, HEAD against BASE{':' * report.predicted} {where}")
    for side in report.sides:
        yield from wrap(_side(side), "  ", "    ")


def _side(side: Side) -> str:
    return f"{side.label}: {', '.join(filter(None, (side.file, side.created, side.tool)))}"


def _gate(gate: GateView) -> Iterator[str]:
    yield from wrap(f"Gate {gate.gate}: {gate.status}", "  ")
    for reason in gate.reasons[:_MOST_REASONS]:
        yield from wrap(_plain(reason), "    ", "  ")
    if len(gate.reasons) > _MOST_REASONS:
        yield f"    and {len(gate.reasons) - _MOST_REASONS} more"


def _comparable(report: CompareReport) -> Iterator[str]:
    yield from wrap(report.statement, "  ")
    for condition in report.differing:
        yield from wrap(f"{condition.what}: {condition.base}; now {condition.head}", "    ", "  ")
    if report.alike:
        yield from wrap(f"The same: {report.alike}.", "  ")
    if report.unknown:
        yield from wrap(f"Not known of both: {report.unknown}.", "  ")


def _verdict(device: DeviceView, report: CompareReport) -> Iterator[str]:
    if len(report.devices) > 1:
        yield from wrap(device.device, "  ")
    verdict = device.verdict
    certainty = f" ({verdict.certainty})" if verdict.certainty else ""
    yield from wrap(_plain(verdict.headline) + certainty, "  ")
    yield from wrap(_plain(verdict.reason), "  ")
    if verdict.next_step:
        yield from wrap(f"Next: {verdict.next_step}", "  ")


def _table(device: DeviceView, report: CompareReport) -> Iterator[str]:
    """Strategies down; memory has a line of its own where it changed, since 80 columns are few."""
    if not device.rows:
        return
    interval = "range" if device.basis == "predicted" else f"{report.confidence} interval"
    head = ("strategy", "BASE", "HEAD", "ratio", interval, "verdict")
    body = [
        (words.name(r.strategy, _NAME), r.base, r.head, r.ratio, _short(r.between), r.outcome)
        for r in device.rows
    ]
    yield from wrap("Predicted time per frame:" * (device.basis == "predicted"), "  ")
    right = [False, True, True, True, True, False]
    yield from (f"  {line}"[:WIDTH] for line in words.table([head, *body], right))
    for row in device.rows:
        if row.memory_changed:
            yield from wrap(f"{row.strategy}: memory {row.memory}", "  ", "  ")


def _short(between: str) -> str:
    return between.replace("× to ", "–").replace("×", "").replace(" to ", "–")


def _gaps(device: DeviceView) -> Iterator[str]:
    for gap in device.gaps:
        yield from wrap(f"{words.listing(gap.names)} {gap.status}: {gap.text}", hanging="    ")


def _advice(report: CompareReport) -> Iterator[str]:
    for title, told in (("New advice", report.new_advice), ("Advice gone", report.gone_advice)):
        for each in told:
            yield from wrap(f"{title}: {_plain(each.title)} on {each.where} ({each.rule})", hanging="    ")


def _plain(text: str) -> str:
    return text.replace("`", "")
