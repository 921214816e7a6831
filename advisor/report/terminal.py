"""The summary for a terminal: plain text of at most 80 columns, the verdict first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from advisor.profiles.schema import Profile
from advisor.report import words
from advisor.report.page import Failure, Verdict
from advisor.report.tables import Forecasts
from advisor.report.view import Report, view

WIDTH = 80
MARK = "→ "
BOTH = "memory: host and device together"
BAR, SHADED_BAR = 8, 12
"""Cells of the longest bar. What is predicted is shaded; a shade has no eighths, and more cells instead."""
ADVICE, MOST_SAVED = 3, 50
"""So many pieces of advice, and so many columns for what each saves."""
_EIGHTHS = " ▏▎▍▌▋▊▉"


def summary(profile: Profile, *, bars: bool = False) -> str:
    """Verdict, next step, a small table, and every strategy without figures with its reason.

    `bars` are for a terminal, where they take the place of the ratios' intervals.
    """
    report = view(profile)
    paragraphs = (
        _title(report),
        *map(failure_lines, report.failures),
        wrap(report.doubtful, "  "),
        *(_verdict(v, named=report.predicted) for v in report.verdicts),
        _cautions(report),
        wrap(f"Next: {report.next_step}", "  ") if report.next_step else [],
        *_forecasts(report.forecasts, bars),
        wrap(report.model_error_brief),
        _measured(report, bars),
        _advice(report),
        _gaps(report),
        _remarks(report),
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, paragraphs) if lines) + "\n"


def _title(report: Report) -> Iterator[str]:
    if report.predicted and not report.predictions:
        yield from wrap(f"{report.workload}: without a GPU")
    elif report.predicted:
        yield from wrap(f"{report.workload}: predicted. Nothing was measured on a GPU.")
    else:
        yield from wrap(f"{report.workload} on {report.device}")


def failure_lines(failure: Failure) -> Iterator[str]:
    """What failed, the end of its traceback, and what to do."""
    yield from wrap(failure.headline, "  ", "  ")
    yield from (f"      {line}" for line in failure.excerpt.splitlines())
    yield from wrap(f"Next: {failure.next_step}", "    ", "  ")


def _verdict(verdict: Verdict, *, named: bool) -> Iterator[str]:
    indent = "  "
    if named:
        yield from wrap(verdict.device, indent)
        indent += "  "
    certainty = f" ({verdict.certainty})" if verdict.certainty else ""
    yield from wrap(verdict.headline + certainty, indent)
    if verdict.basis == "predicted" and verdict.facts:
        time = verdict.facts[0]
        yield from wrap(f"{time.label} {time.value}, {time.note}", indent)
    for entry in verdict.certainties:
        yield from wrap(f"{entry.label}: {entry.value}", indent, "  ")
    if verdict.basis != "predicted" and not verdict.certainties:
        yield from wrap(verdict.reason, indent)
    if verdict.next_step:
        yield from wrap(f"Next: {verdict.next_step}", indent)


def _measured(report: Report, bars: bool) -> Iterator[str]:
    if not report.rows:
        return
    if report.predicted:
        yield from wrap(f"Frames {report.measured_label}:")
    head = ("strategy", "frame", f"{report.confidence} interval", "memory", f"vs {report.baseline}", "")
    body = [
        (
            row.strategy,
            row.frame.value,
            row.frame.note,
            row.footprint.value,
            row.ratio.value,
            bar(row.share) if bars else row.ratio.note.replace("× to ", "–").replace("×", ""),
        )
        for row in report.rows
    ]
    marks = [row.tag == "recommended" for row in report.rows]
    yield from _table(head, body, marks, bars=bars)
    if report.apart:
        yield from wrap(f"({BOTH})", "  ")
    for row in report.rows:
        if row.frame.more:
            yield from wrap(f"({row.strategy}: {row.frame.more})", "  ")


def _forecasts(forecasts: Forecasts, bars: bool) -> Iterator[Iterator[str]]:
    for i, device in enumerate(forecasts.devices):
        cells = [(strategy, row[i]) for strategy, row in forecasts.rows]
        told = [(s, c) for s, c in cells if c is not None and not c.declined]
        if told:
            slowest = max(c.sort for _, c in told)
            drawn = [(shaded(c.sort / slowest),) if bars else () for _, c in told]
            body = [(s, c.likely, c.between, c.footprint, *d) for (s, c), d in zip(told, drawn, strict=True)]
            head = ("strategy", "predicted", "range", "memory", *([""] if bars else []))
            lines = _table(head, body, [c.recommended for _, c in told], bars=bars)
            both = f" ({BOTH})" if forecasts.apart[i] else ""
            notes = (line for s, c in told if c.latency for line in wrap(f"({s}: {c.latency})", "  "))
            yield iter([*wrap(f"Predicted time per frame on {device}{both}:"), *lines, *notes])


def bar(share: float) -> str:
    """A measured share of the longest bar, to an eighth of a cell."""
    full, eighths = divmod(max(1, round(8 * BAR * share)), 8)
    return "█" * full + _EIGHTHS[eighths].strip()


def shaded(share: float) -> str:
    """A predicted share of the longest bar."""
    return "░" * max(1, round(SHADED_BAR * share))


def _table(
    head: Sequence[str], body: Sequence[Sequence[str]], marks: Sequence[bool], *, bars: bool
) -> list[str]:
    """Aligned columns; the names give way where the figures need the width."""
    figures = sum(max(len(row[i]) for row in (head, *body)) + 2 for i in range(1, len(head)))
    room = max(12, WIDTH - len(MARK) - figures)
    cut = [(words.name(row[0], room), *(words.line(cell, 20) for cell in row[1:])) for row in (head, *body)]
    right = [False] + [True] * (len(head) - 1)
    right[-1] = not bars
    lines = words.table(cut, right)
    return [
        f"{MARK if marked else ' ' * len(MARK)}{line}"
        for line, marked in zip(lines, (False, *marks), strict=True)
    ]


def _advice(report: Report) -> Iterator[str]:
    """Titles of the first pieces of advice on what was measured, a line each, with what they save."""
    told = [f for f in report.fired if f.outcome == "advice" and report.device in f.devices]
    if report.predicted or report.doubtful or not told:
        return
    saved = [words.line(finding.saves, MOST_SAVED) for finding in told[:ADVICE]]
    room = WIDTH - 4 - max(map(len, saved))
    rows = [(words.line(f.title, room), text) for f, text in zip(told, saved, strict=False)]
    more = f"{len(told) - ADVICE} more, " if len(told) > ADVICE else ""
    yield "Advice (times are per frame):"
    yield from (f"  {line}" for line in words.table(rows, [False, True]))
    yield f"  ({more}reasons and code: see the report)"


def _gaps(report: Report) -> Iterator[str]:
    """One line for each reason, with all the strategies it holds for."""
    told = [(gap.status, gap) for gap in report.gaps if gap.status != "failed"]  # those are said above
    for prediction in report.predictions:
        told += [(f"not predicted on {prediction.device}", gap) for gap in prediction.declined]
    for status, gap in told:
        text = f"{words.listing(gap.names)} {status}: {words.line(gap.text, 300)}"
        yield from wrap(text, hanging="    ")


def _cautions(report: Report) -> Iterator[str]:
    for text in report.cautions:
        yield from wrap(f"Warning: {text}", "  ", "  ")
    if report.further:
        yield from wrap(f"and {words.count(len(report.further), 'more warning')} below", "  ")


def _remarks(report: Report) -> Iterator[str]:
    told = [("Note", text) for text in report.notes] + [("Warning", text) for text in report.further]
    told += [(entry.label, entry.value) for entry in report.preferences]
    for kind, text in told:
        yield from wrap(f"{kind}: {text}", hanging="    ")


def wrap(text: str, indent: str = "", hanging: str = "") -> list[str]:
    """Lines of at most 80 columns; `hanging` goes before all but the first."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + hanging, break_on_hyphens=False
    )
