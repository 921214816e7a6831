"""Profiles, sweeps and comparisons as pages; pages as HTML, Markdown and text. Pure functions of the data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from advisor.errors import FileProblem
from advisor.profiles import outputs
from advisor.profiles.conclusions import Checkup
from advisor.profiles.schema import Profile
from advisor.profiles.sweeps import ProfileSet
from advisor.report import html, markdown, terminal
from advisor.report.blocks import Finding, Findings
from advisor.report.comparison_page import comparison_page
from advisor.report.history_page import history_page
from advisor.report.mixes import described
from advisor.report.page import Page, Section
from advisor.report.profile_page import profile_page, with_headlines
from advisor.report.records import records_of_points, to_csv, to_json
from advisor.report.script_lines import lines_comparison_page
from advisor.report.script_page import script_page
from advisor.report.several_pages import devices_page, workloads_page
from advisor.report.sweep_page import sweep_page
from advisor.report.traces import trace_page
from advisor.report.versions_page import uncompared_page, versions_page
from advisor.strategies.mixes import numbered_alike

__all__ = [
    "FORMATS", "PAGES", "append_step_summary", "comparison_page", "doctor_page", "history_page",
    "lines_comparison_page", "names", "page_of", "render", "trace_page", "uncompared_page", "versions_page",
    "write",
]  # fmt: skip

FORMATS = ("html", "md", "json")
"""Forms of a notebook's profile, unless it says otherwise."""
PAGES = ("html", "md", "csv")
"""Forms of a comparison, and of several profiles."""


_PAGES_OF_SETS = {"sweep": sweep_page, "devices": devices_page, "workloads": workloads_page}


def page_of(subject: Profile | ProfileSet, *, targets_first: bool = False) -> Page:
    """The page of one profile, of a workload or of a script, or over several.

    targets_first: of a profile that was measured, the devices that were predicted come first.
    """
    if isinstance(subject, ProfileSet):
        numbered = iter(numbered_alike(subject.profiles))
        points = [replace(p, profile=next(numbered)) if p.profile else p for p in subject.points]
        together = replace(subject, points=points)
        # Of other workloads, a mix keeps the name that it has in its own profile.
        records = records_of_points(subject if subject.kind == "workloads" else together)
        page = replace(_PAGES_OF_SETS[subject.kind](together), records=records)
        return described(page, *together.profiles)
    if subject.script:
        return script_page(subject, subject.script)
    page = profile_page(subject, targets_first=targets_first)
    return described(replace(page, profile=with_headlines(subject)), subject)


def render(page: Page, form: str, *, bars: bool = False, width: int = 80) -> str:
    """A page as html, md, text, or its figures as csv; as json its profile, or the figures of several. `bars`
    are for a terminal.

    Text is txt, which fits a screen, details, which is all of it, or verdict.
    """
    if form in ("txt", "details"):
        return terminal.render(page, bars=bars, details=form == "details", width=width)
    if form == "verdict":
        return terminal.verdict(page)
    if form == "json":
        return page.profile.to_json() if page.profile else to_json(page.records)
    if form == "csv":
        return to_csv(page.records)
    return html.render(page) if form == "html" else markdown.render(page)


def write(page: Page, directory: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Writes the page, such as report.html and report.md, and profile.json, as `formats` names them.

    `directory` exists. The profile comes first, so that a report that fails loses nothing. Returns the paths.
    Raises `FileProblem` where a file cannot be written.
    """
    ordered = [form for form in ("json", *PAGES) if form in formats]
    pairs = zip(names(page.kind, ordered), ordered, strict=True)
    return [outputs.write(directory, name, render(page, form)) for name, form in pairs]


def names(kind: str, formats: Sequence[str]) -> list[str]:
    """The files that `write` writes for a page of that kind; profile.json for that of one profile."""
    return [f"{kind}.{form}" if form in PAGES or kind != "report" else "profile.json" for form in formats]


def append_step_summary(page: Page) -> None:
    """Appends a page in Markdown to the file that $GITHUB_STEP_SUMMARY names, if it names one.

    Raises `FileProblem` where that file cannot be written.
    """
    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not name:
        return
    try:
        # Nobody is waited for: a FIFO may have no reader.
        descriptor = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            file.write(render(page, "md") + "\n")
    except OSError as problem:
        raise FileProblem(f"$GITHUB_STEP_SUMMARY cannot be written: {name}: {problem.strerror}") from None


def doctor_page(checkup: Checkup) -> Page:
    findings = tuple(
        Finding(f.subject, f.state, f.found, f.means, next_step=f.next_step) for f in checkup.findings
    )
    sections = (Section("findings", "Findings", (Findings(findings),), brief=True),)
    return Page(kind="doctor", brand="doctor", name=checkup.verdict, sections=sections)
