"""Profiles as HTML, Markdown, JSON and text for the terminal: pure functions of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from advisor.profiles import Profile, write_atomically
from advisor.report.html import render_html
from advisor.report.markdown import render_markdown
from advisor.report.step_summary import append_step_summary
from advisor.report.sweep_pages import render_sweep_html, render_sweep_markdown
from advisor.report.sweep_text import sweep_summary
from advisor.report.terminal import summary
from advisor.series import Series

__all__ = [
    "FORMATS",
    "append_step_summary",
    "render_html",
    "render_markdown",
    "render_sweep_html",
    "render_sweep_markdown",
    "summary",
    "sweep_summary",
    "write",
    "write_sweep",
]

_RENDER: dict[str, Callable[[Profile], str]] = {"html": render_html, "md": render_markdown}
_RENDER_SWEEP: dict[str, Callable[[Series], str]] = {
    "html": render_sweep_html,
    "md": render_sweep_markdown,
}
FORMATS = ("html", "md", "json")


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


def write_sweep(series: Series, directory: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Writes sweep.html and sweep.md, as `formats` names them; returns their paths.

    Raises `FileProblem` where a file cannot be written.
    """
    written = []
    for name, render in _RENDER_SWEEP.items():
        if name in formats:
            path = directory / f"sweep.{name}"
            write_atomically(path, render(series))
            written.append(path)
    return written
