"""What the doctor says: one finding for each thing that matters."""

from __future__ import annotations

from functools import partial
from typing import Literal

from advisor.profiles.base import Record

State = Literal["ok", "limited", "missing", "info"]
"""limited and missing cost something, which `means` says; info is a fact that has no better."""


class Finding(Record):
    """One line: what was found, what it means for the user, how to get the rest."""

    subject: str
    state: State
    found: str
    means: str
    next_step: str = ""


def _finding(state: State, subject: str, found: str, means: str, next_step: str = "") -> Finding:
    return Finding(subject=subject, state=state, found=found, means=means, next_step=next_step)


ok = partial(_finding, "ok")
limited = partial(_finding, "limited")
missing = partial(_finding, "missing")
info = partial(_finding, "info")


class Checkup(Record):
    """All findings. `ready`: `advisor profile` can do its job here."""

    ready: bool
    verdict: str
    findings: tuple[Finding, ...]
