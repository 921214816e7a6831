"""The page over a sweep as HTML and as Markdown."""

from __future__ import annotations

from advisor.profiles.sweeps import Series
from advisor.report import templates
from advisor.report.html import page
from advisor.report.markdown import code, escape, fence, prose
from advisor.report.sweep import sweep_view


def render_sweep_html(series: Series) -> str:
    """One file that needs no network and no script; each value links to its own report beside it."""
    return page("sweep.html.j2", report=sweep_view(series))


def render_sweep_markdown(series: Series) -> str:
    """The sentences and a table per device, for a pull request's comment."""
    made = templates.environment().get_template("sweep.md.j2")
    return made.render(report=sweep_view(series), md=escape, code=code, prose=prose, fence=fence)
