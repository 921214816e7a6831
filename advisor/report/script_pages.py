"""The report of a script as HTML, Markdown and text."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.profiles.schema import Profile
from advisor.profiles.scripts import ScriptRun
from advisor.report import html, markdown, templates, words
from advisor.report.script_view import ScriptReport, view
from advisor.report.terminal import MARK, wrap


def render_html(profile: Profile, script: ScriptRun) -> str:
    """The whole page."""
    return html.page("script.html.j2", report=view(profile, script), download=html.download(profile))


def render_markdown(profile: Profile, script: ScriptRun) -> str:
    """Verdict, one table and what is not known, for a pull request's comment."""
    made = templates.environment().get_template("script.md.j2")
    return made.render(
        report=view(profile, script),
        md=markdown.escape,
        code=markdown.code,
        prose=markdown.prose,
        fence=markdown.fence,
    )


def summary(profile: Profile, script: ScriptRun) -> str:
    """For a terminal, 80 columns."""
    report = view(profile, script)
    paragraphs = (
        wrap(f"{report.script} {report.arguments}".rstrip() + f" on {report.device}, as a script"),
        [*wrap(report.headline, "  "), *wrap(report.certainty, "  "), *wrap(report.reason, "  ")],
        *(wrap(f"Warning: {text}", "  ", "  ") for text in report.warnings),
        wrap(f"Next: {report.next_step}", "  "),
        _table(report),
        _range_table(report),
        [line for gap in report.gaps for line in _gap(gap.strategies, gap.status, gap.reason)],
        *(wrap(f"Note: {text}", hanging="    ") for text in report.notes),
        wrap(f"A script tells less than a workload. {report.more}"),
    )
    return "\n\n".join("\n".join(lines) for lines in map(list, paragraphs) if lines) + "\n"


def _table(report: ScriptReport) -> Iterator[str]:
    if not report.rows:
        return
    head = ("strategy", "run", f"{report.confidence} interval", f"vs {report.baseline}", "")
    body = [
        (r.strategy, r.run, r.between, r.ratio, r.ratio_between.replace("× to ", "–").replace("×", ""))
        for r in report.rows
    ]
    lines = words.table([head, *body], [False, True, True, True, True])
    marks = [False, *(row.tag == "recommended" for row in report.rows)]
    yield from (f"{MARK if mark else '  '}{line}" for mark, line in zip(marks, lines, strict=True))


def _range_table(report: ScriptReport) -> Iterator[str]:
    """The script as it is, range by range; the others are in the report."""
    if report.ranges and report.rows:
        yield f"Ranges under {report.rows[0].strategy} (times in one run):"
        lines = words.table([(words.name(r.name, 40), r.times[0]) for r in report.ranges], [False, True])
        yield from (f"  {line}" for line in lines)


def _gap(strategies: tuple[str, ...], status: str, reason: str) -> list[str]:
    return wrap(f"{words.listing(strategies)} {status}: {words.line(reason, 300)}", hanging="    ")
