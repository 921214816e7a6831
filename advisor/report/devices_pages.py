"""The page over several devices: HTML, Markdown, and plain text of 80 columns for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.report import templates, words
from advisor.report.devices_view import Column, LineupReport, lineup_view
from advisor.report.html import page
from advisor.report.markdown import code, escape, fence, prose
from advisor.report.page import Verdict
from advisor.report.terminal import WIDTH, failure_lines, wrap
from advisor.verdicts.device_comparison import Lineup

_NAME = 20
_GAP = 2


def render_lineup_html(lineup: Lineup) -> str:
    """One file that needs no network and no script; each device links to its own report beside it."""
    return page("lineup.html.j2", report=lineup_view(lineup))


def render_lineup_markdown(lineup: Lineup) -> str:
    """The sentences and one table, for a pull request's comment, under 10,000 characters."""
    made = templates.environment().get_template("lineup.md.j2")
    return made.render(report=lineup_view(lineup), md=escape, code=code, prose=prose, fence=fence)


def lineup_summary(lineup: Lineup) -> str:
    """The sentences, a table of strategies and devices, and each device's own verdict."""
    report = lineup_view(lineup)
    paragraphs = (
        wrap(report.title),
        *map(failure_lines, report.failures),
        *map(_verdict, report.verdicts),
        *_tables(report),
        *map(_device, report.columns),
        [line for note in report.notes for line in wrap(f"Note: {note}", hanging="    ")],
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, paragraphs) if lines) + "\n"


def _verdict(verdict: Verdict) -> Iterator[str]:
    yield from wrap(_plain(verdict.headline), "  ")
    yield from wrap(_plain(verdict.reason), "  ")
    for fact in verdict.facts:
        yield from wrap(f"{fact.label}: {fact.value} {fact.note}", "  ", "  ")
    if verdict.next_step:
        yield from wrap(f"Next: {_plain(verdict.next_step)}", "  ")


def _tables(report: LineupReport) -> Iterator[list[str]]:
    """As many devices beside one another as 80 columns hold, then the next ones."""
    left = list(range(len(report.columns))) if report.rows else []
    while left:
        fitting = _fitting(report, left)
        left = left[len(fitting) :]
        head = ["time per frame", *(_heading(report.columns[i]) for i in fitting)]
        body = [
            [words.name(s, _NAME), *(cells[i].sign + cells[i].value for i in fitting)]
            for s, cells in report.rows
        ]
        lines = words.table([head, *body], [False] + [True] * len(fitting))
        yield [f"  {line}" for line in lines]


def _fitting(report: LineupReport, left: list[int]) -> list[int]:
    """The first ones of these whose columns fit, one at least."""
    room, kept = WIDTH - 2 - _NAME, list[int]()
    for i in left:
        cells = [len(row[1][i].sign + row[1][i].value) for row in report.rows]
        room -= _GAP + max(len(_heading(report.columns[i])), *cells)
        if room < 0 and kept:
            break
        kept.append(i)
    return kept


def _heading(column: Column) -> str:
    return f"{words.name(column.device, 24)}{' (predicted)' if column.basis == 'predicted' else ''}"


def _device(column: Column) -> Iterator[str]:
    yield from wrap(f"{column.device} ({column.basis}): {_plain(column.verdict.headline)}", "", "    ")


def _plain(text: str) -> str:
    return text.replace("`", "")
