"""The GPU libraries that are recorded, and what plays the GPU for them where there is none."""

from __future__ import annotations

from advisor.measure.recording.events import LibraryRecorder, StandIn


def library_recorders() -> tuple[LibraryRecorder, ...]:
    return ()


def stand_ins() -> tuple[StandIn, ...]:
    return ()
