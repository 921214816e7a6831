"""A comparison as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.report import templates
from advisor.report.compare_view import compare_view
from advisor.report.html import page
from advisor.report.markdown import code, escape, fence, prose
from advisor.verdicts.comparing import Comparison, Ruling

_MOST_ROWS = 10
_MOST_DEVICES = 3


def render_compare_html(
    found: Comparison, rulings: Sequence[Ruling] = (), files: tuple[str, str] = ("", "")
) -> str:
    """One file that needs no network and no script."""
    return page("compare.html.j2", report=compare_view(found, rulings, files))


def render_compare_markdown(
    found: Comparison, rulings: Sequence[Ruling] = (), files: tuple[str, str] = ("", "")
) -> str:
    """Gates, verdict and table for a pull request's comment, under 10,000 characters."""
    made = templates.environment().get_template("compare.md.j2")
    report = compare_view(found, rulings, files)
    return made.render(
        report=report,
        md=escape,
        code=code,
        prose=prose,
        fence=fence,
        most_devices=_MOST_DEVICES,
        most_rows=_MOST_ROWS if len(report.devices) == 1 else _MOST_ROWS // 2,
    )
