"""A frame's timeline from CUDA events: the host's clock for its steps, the stream's marks for its own.

Needs no tool. Three frames are watched and the middle one is kept, so that of frames that overlap all of
one period is seen. The stream's clock is fitted to the host's at one mark, right after a wait: on a GPU
the two agree within a few microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from advisor.measure.frames import Action, FrameLoop
from advisor.measure.sampling import Clock
from advisor.profiles.traces import Span, Timeline, track
from advisor.strategies.backend import Backend, wait_for_all

MOST_SPANS = 300
WATCHED = 3
"""Frames that a timeline takes."""


@dataclass(frozen=True)
class _Seen:
    label: str
    begin: float
    end: float
    marks: tuple[Any, Any] | None
    """The marks before and after work on a stream."""
    gpu: int = 0


class Recorder:
    """Watches a loop's actions. One recorder makes one timeline."""

    def __init__(self, backend: Backend, clock: Clock = time.perf_counter) -> None:
        self._backend = backend
        self._clock = clock
        self._seen: list[_Seen] = []
        wait_for_all(backend)
        self._anchors = [gpu.timestamp() for gpu in backend.gpus]
        self._zero = clock()

    def timeline(self, loop: FrameLoop, index: int) -> Timeline | None:
        """Runs the frames `index` to `index + WATCHED - 1`; None where the clock saw no time pass."""
        with loop.watched(self.watch):
            loop.frame(index)
            begin = self._clock()
            loop.frame(index + 1)
            end = self._clock()
            loop.frame_alone(index + WATCHED - 1)
        wait_for_all(self._backend)
        if end <= begin:
            return None
        spans = [span for seen in self._seen if (span := self._span(seen, begin, end))]
        spans.sort(key=lambda span: (span.begin_seconds, span.end_seconds))
        shown = tuple(spans[:MOST_SPANS])
        return Timeline(
            source="events", frame_seconds=end - begin, spans=shown, left_out=len(spans) - len(shown)
        )

    def watch(self, action: Action) -> Action:
        """The action, noting when it runs."""
        move = action.move

        def run(index: int) -> None:
            self._note(action, lambda: action.run(index), None)

        def moved(stream: Any = None) -> None:
            assert move is not None
            mover = move
            self._note(action, lambda: mover(stream), stream)

        return replace(action, run=run, move=moved if move else None)

    def _note(self, action: Action, call: Callable[[], object], stream: Any) -> None:
        backend = self._backend.gpus[action.gpu]
        first = backend.timestamp(stream) if action.on_stream else None
        begin = self._clock()
        call()
        end = self._clock()
        marks = (first, backend.timestamp(stream)) if action.on_stream else None
        self._seen.append(_Seen(action.label, begin, end, marks, action.gpu))

    def _span(self, seen: _Seen, begin: float, end: float) -> Span | None:
        """Within the frame from `begin` to `end`; None outside of it."""
        first, last = seen.begin, seen.end
        if seen.marks is not None:
            gpu, anchor = self._backend.gpus[seen.gpu], self._anchors[seen.gpu]
            first, last = (self._zero + gpu.seconds_between(anchor, mark) for mark in seen.marks)
        first, last = max(first, begin), min(last, end)
        if last <= first:
            return None
        several = seen.marks is not None and len(self._anchors) > 1
        return Span(
            track=track(seen.label),
            label=seen.label,
            begin_seconds=first - begin,
            end_seconds=last - begin,
            gpu=seen.gpu if several else None,
        )
