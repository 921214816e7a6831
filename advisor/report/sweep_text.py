"""The summary of a sweep for a terminal: plain text of at most 80 columns, the sentences first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.profiles.sweeps import Series
from advisor.report import words
from advisor.report.page import Verdict
from advisor.report.sweep import SweepDevice, SweepReport, SweepRow, sweep_view
from advisor.report.terminal import WIDTH, failure_lines, wrap

_GAP = 2
_REASON_LENGTH = 300


def sweep_summary(series: Series) -> str:
    """The sentences of each device, a table of values and strategies, and every value without figures."""
    report = sweep_view(series)
    shown = [device for device in report.devices if device.basis != "cpu"]
    paragraphs = (
        _title(report),
        *map(failure_lines, report.failures),
        *(_verdict(verdict, named=len(shown) > 1 or report.predicted) for verdict in report.verdicts),
        wrap(f"Next: {report.next_step}", "  ") if report.next_step else [],
        *(_table(device, report.parameter) for device in shown),
        _legend(shown),
        *map(_gaps, shown),
        [
            line
            for gap in report.missing
            for line in wrap(f"{words.listing(gap.names)} {gap.status}: {gap.text}", "", "    ")
        ],
        [line for note in report.notes for line in wrap(f"Note: {note}", "", "    ")],
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, paragraphs) if lines) + "\n"


def _title(report: SweepReport) -> list[str]:
    if report.predicted:
        return wrap(f"{report.title}: predicted. Nothing was measured on a GPU.")
    return wrap(f"{report.title} on {report.device}" if report.device else report.title)


def _verdict(verdict: Verdict, *, named: bool) -> Iterator[str]:
    yield from wrap(verdict.device if named else "", "  ")
    indent = "    " if named else "  "
    yield from wrap(verdict.headline, indent)
    yield from wrap(verdict.reason, indent)
    yield from wrap(f"Next: {verdict.next_step}" * bool(verdict.next_step), indent)


def _table(device: SweepDevice, parameter: str) -> Iterator[str]:
    rows = [row for row in device.rows if row.cells]
    if not rows:
        return
    head = "Predicted time per frame" if device.basis == "predicted" else "Time per frame"
    yield from wrap(f"{head} on {device.device}:")
    columns = [
        [device.strategies[i], *(_figure(row, i) for row in rows)] for i in range(len(device.strategies))
    ]
    first = [words.name(parameter, 20), *(words.name(row.value, 20) for row in rows)]
    fitting = _fitting(columns, rows, WIDTH - 2 - max(map(len, first)))
    chosen = [first, *(columns[i] for i in fitting)]
    for line in words.table(list(zip(*chosen, strict=True)), [True] * len(chosen)):
        yield f"  {line}"
    if len(fitting) < len(columns):
        left = words.count(len(columns) - len(fitting), "more strategy")
        yield f"  {left} in the report."


def _figure(row: SweepRow, index: int) -> str:
    cell = row.cells[index]
    return f"{cell.sign}{cell.value}"


def _fitting(columns: Sequence[Sequence[str]], rows: Sequence[SweepRow], width: int) -> list[int]:
    """As many columns as fit, those that are the best somewhere before the others, in their own order."""
    matter = {i for row in rows for i, cell in enumerate(row.cells) if cell.mark == "chosen"}
    kept: list[int] = []
    for i in sorted(range(len(columns)), key=lambda i: (i not in matter, i)):
        needed = _GAP + max(map(len, columns[i]))
        if needed <= width:
            kept.append(i)
            width -= needed
    return sorted(kept)


def _legend(devices: Sequence[SweepDevice]) -> list[str]:
    signs = {cell.sign for device in devices for row in device.rows for cell in row.cells}
    told = [
        text
        for sign, text in (("→ ", "→ recommended"), ("≈ ", "≈ not told apart from the best"))
        if sign in signs
    ]
    return [", ".join(told)] if told else []


def _gaps(device: SweepDevice) -> Iterator[str]:
    where = f" on {device.device}" if device.basis == "predicted" else ""
    for gap in device.gaps:
        if gap.status != "failed":  # those are said above, before the verdicts
            reason = words.line(gap.text, _REASON_LENGTH)
            yield from wrap(f"{words.listing(gap.names)} {gap.status}{where}: {reason}", "", "    ")
