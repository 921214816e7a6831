"""What the doctor found, as a page."""

from __future__ import annotations

from advisor.profiles.checkup import Checkup
from advisor.report.blocks import Finding, Findings
from advisor.report.page import Page, Section
from advisor.version import __version__


def doctor_page(checkup: Checkup) -> Page:
    """The verdict, then for each finding what was found, what it means, what to do."""
    found = tuple(
        Finding(f.subject, f.state, f.found, f.means, next_step=f.next_step) for f in checkup.findings
    )
    return Page(
        kind="doctor",
        brand="doctor",
        title="advisor doctor",
        name=checkup.verdict,
        where="",
        basis="measured",
        sections=(Section("findings", "Findings", (Findings(found),)),),
        tool=f"advisor {__version__}",
    )
