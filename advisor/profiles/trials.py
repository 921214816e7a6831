"""Trials: the effect of changing the memory of single lines of a script, measured in pairs; and the patch.

A trial imposes the change on the unchanged script while its loop runs, in blocks of frames that alternate
with blocks of the script as it is. `promised` is what the advice estimated before.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr

from advisor.profiles.amounts import Count, Interval, Positive, PositiveSeconds, Seconds
from advisor.profiles.base import Record, Text, Word, optional
from advisor.profiles.crossings import Place
from advisor.profiles.figures import RoundBlock

ChangeKind = Literal["lock", "reuse", "non-blocking", "pin-memory", "hoist", "allocator"]
TrialOutcome = Literal["faster", "not-faster", "open", "differs", "refused"]
"""faster: with 95 % confidence, and with equal results. open: not settled, for the reason given; without one,
more frames could settle it. differs: other results.
refused: it was not measured, or not kept, for the reason given."""


class TrialBlock(RoundBlock):
    """Consecutive frames of the script's loop under one contestant, without the first after a switch."""

    seconds: PositiveSeconds = Field(description="All frames together, until the GPU is done")


class Trial(Record):
    """One change, before or after it was tried."""

    name: Word = Field(description="Its name among the contestants of the blocks")
    kind: ChangeKind
    place: Place | None = optional("The line of the crossing")
    origin: Place | None = optional("The line that allocates or makes what crosses")
    title: Text
    outcome: TrialOutcome
    reason: Text = ""
    rule: Word | None = optional("The rule whose advice promised it")
    promised_seconds: Seconds | None = optional("Per frame, as estimated before")
    frame_seconds: PositiveSeconds | None = optional("Per frame, as measured")
    speedup: Positive | None = optional("The unchanged script's frame time over this one's")
    interval: Interval | None = optional("95 % interval of it, for all trials at once")
    in_patch: bool = False


class Patch(Record):
    """A unified diff of the user's files, and what the patched script gave."""

    text: Text
    folder: Text = optional("Where its names start from, seen from where the command ran", "")
    lines: Count = Field(description="Lines added and removed")
    left_out: tuple[Text, ...] = optional("Trials that could not be written as text, and why", ())
    equal: bool | None = optional("Whether its results equal the unchanged script's; None if not known")
    speedup: Positive | None = optional(
        "Time of the unchanged script over the patched one's, in separate processes"
    )
    interval: Interval | None = None
    promised_seconds: Seconds | None = optional("Per frame: those of its changes, at most the ceiling")
    reason: Text = optional("Why it was not run, failed, or is only code to consider", "")
    _exact: str = PrivateAttr("")
    _texts: Mapping[Path, tuple[str, str]] = PrivateAttr(default_factory=dict)

    def model_post_init(self, _: Any) -> None:
        self._exact = self.text

    @property
    def exact(self) -> str:
        """Its text as the user's files have it, to write. Pages and profiles hold it with secrets and names
        masked, and without carriage returns."""
        return self._exact

    @property
    def texts(self) -> Mapping[Path, tuple[str, str]]:
        """What it changes: by file the text as it is and as patched. A profile that is read has none."""
        return self._texts

    def with_texts(self, texts: Mapping[Path, tuple[str, str]]) -> Patch:
        self._texts = texts
        return self

    @property
    def holds(self) -> bool:
        """Whether its file is written: its results were compared and equal, and it was not slower."""
        return self._pays and self.equal is True

    @property
    def is_unproved(self) -> bool:
        """Whether it is only code to consider: not slower, but nothing tells whether results are equal."""
        return self._pays and self.equal is None

    @property
    def _pays(self) -> bool:
        return bool(self.text) and self.speedup is not None and self.speedup >= 1


class Trials(Record):
    """All trials of a script. `compared`: how results were compared; empty where nothing could be."""

    frame_seconds: PositiveSeconds | None = optional("The unchanged script, in the same blocks")
    loop: Count | None = optional("Index of the loop whose frames were timed")
    trials: tuple[Trial, ...] = ()
    blocks: tuple[TrialBlock, ...] = ()
    compared: tuple[Text, ...] = ()
    unlike: tuple[Text, ...] = optional(
        "Results that differed between two unchanged runs, so that they are not compared", ()
    )
    patch: Patch | None = None
    runs: Count = optional("Runs of the script after the recorded one", 0)
    seconds: Seconds = Field(description="All runs together")
    reason: Text = optional("Why nothing was tried, or not all", "")
