"""Profiles as HTML, Markdown, JSON and text for the terminal: pure functions of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from advisor.profiles.schema import Profile
from advisor.profiles.text_files import write_atomically
from advisor.report import html, markdown, markdown_page, terminal, text_page
from advisor.report.comparison_page import comparison_page
from advisor.report.devices_page import devices_page
from advisor.report.doctor_page import doctor_page
from advisor.report.page import Page
from advisor.report.script_page import script_page
from advisor.report.step_summary import append_step_summary
from advisor.report.sweep_page import sweep_page
from advisor.report.trace_page import trace_page

__all__ = [
    "FORMATS",
    "append_step_summary",
    "comparison_page",
    "devices_page",
    "doctor_page",
    "draw",
    "sweep_page",
    "trace_page",
    "render",
    "render_html",
    "render_markdown",
    "summary",
    "write",
    "write_page",
]


def draw(page: Page, form: str, *, bars: bool = False) -> str:
    """A page as html, md or txt; `bars` are for a terminal."""
    if form == "txt":
        return text_page.render(page, bars=bars)
    return html.render(page) if form == "html" else markdown_page.render(page)


def render_html(profile: Profile) -> str:
    """The page of one profile, of a workload or of a script."""
    if profile.script is not None:
        return draw(script_page(profile, profile.script), "html")
    return html.render_html(profile)


def render_markdown(profile: Profile) -> str:
    """The Markdown of one profile, of a workload or of a script."""
    if profile.script is not None:
        return draw(script_page(profile, profile.script), "md")
    return markdown.render_markdown(profile)


def summary(profile: Profile, *, bars: bool = False) -> str:
    """The terminal's text of one profile, of a workload or of a script."""
    if profile.script is not None:
        return draw(script_page(profile, profile.script), "txt")
    return terminal.summary(profile, bars=bars)


_RENDER: dict[str, Callable[[Profile], str]] = {"html": render_html, "md": render_markdown}
FORMATS = ("html", "md", "json")
PAGES = ("html", "md")
"""What there is of a comparison, and of several profiles."""


def render(profile: Profile, form: str) -> str:
    """The report as html, md or json."""
    return profile.to_json() if form == "json" else _RENDER[form](profile)


def write(profile: Profile, directory: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Writes report.html, report.md and profile.json, as `formats` names them; returns their paths.

    `directory` exists. The profile comes first, so that a report that fails loses nothing.
    Raises `FileProblem` where a file cannot be written.
    """
    written = []
    if "json" in formats:
        profile.save(directory / "profile.json")
        written.append(directory / "profile.json")
    for name, render in _RENDER.items():
        if name in formats:
            path = directory / f"report.{name}"
            write_atomically(path, render(profile))
            written.append(path)
    return written


def write_page(page: Page, directory: Path, formats: Sequence[str] = PAGES) -> list[Path]:
    """Writes the page as `formats` names them; returns the paths.

    Raises `FileProblem` where a file cannot be written.
    """
    written = [directory / f"{page.kind}.{form}" for form in PAGES if form in formats]
    for path in written:
        write_atomically(path, draw(page, path.suffix[1:]))
    return written
