"""The frame loop over two sets of buffers: frame i+1 is produced and uploaded while frame i computes.

A frame is cut in three: `head`, its host stages and uploads up to the first kernel; `body`, kernels and
copies up to the first wait; `tail`, the rest. Each turn runs the head of the next frame, queues its body,
and then waits for this frame's body and runs its tail. A set is used again only after its last frame ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from advisor.measure.frames import Action, FrameLoop, Watch
from advisor.measure.nvtx_ranges import Ranges
from advisor.measure.sampling import Clock
from advisor.strategies.backend import Backend
from advisor.strategies.placements.base import Placed
from advisor.strategies.schedule import Plan
from advisor.workloads.binding import BoundWorkload

SETS = 2


class PipelinedLoop(FrameLoop):
    """Runs frames two at a time. `sets` holds the placed buffers of either set; the first is that of set-up,
    frame 0 and frames step by step."""

    def __init__(
        self,
        bound: BoundWorkload,
        plan: Plan,
        sets: Sequence[dict[str, Placed]],
        backend: Backend,
        *,
        seed: int,
        ranges: Ranges,
        clock: Clock = time.perf_counter,
    ) -> None:
        super().__init__(bound, plan, sets[0], backend, seed=seed, ranges=ranges, clock=clock)
        self._uploads, self._downloads = backend.new_stream(), backend.new_stream()
        host = self.host_seconds
        second = FrameLoop(
            bound, plan, sets[1], backend, seed=seed, ranges=ranges, clock=clock, host_seconds=host
        )
        self._parts = [cut(self.steady), cut(second.steady)]
        self._begun: dict[int, _Begun] = {}
        self._marks: dict[tuple[str, int], Any] = {}
        self._kernels_in_tail = any(a.label.startswith("device:") for a in self._parts[0].tail)

    def frame(self, index: int) -> None:
        """Ends this frame and begins the next one. This is what is timed."""
        self._turn(index, begin_next=True)

    def frame_alone(self, index: int) -> None:
        """Ends this frame and begins no other, so that its results can be looked at."""
        self._turn(index, begin_next=False)

    def timed_frame(self, index: int) -> dict[str, float]:
        """One frame by itself on the first set, step by step: what each part takes without the others."""
        self._drop_begun()
        return super().timed_frame(index)

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        """Frames within it run their actions as `watch` makes them; it ends with nothing under way."""
        self._drop_begun()
        plain = self._parts
        self._parts = [parts.map(watch, self._backend.wait) for parts in plain]
        try:
            yield
        finally:
            self._parts = plain

    def _turn(self, index: int, *, begin_next: bool) -> None:
        if index not in self._begun:
            self._drop_begun()
            self._begin(index)
            self._compute(index)
        self._ranges.push_frame(index)
        try:
            if begin_next:
                self._begin(index + 1)
                if not self._kernels_in_tail:
                    self._compute(index + 1)
            self._finish(index)
            if begin_next and self._kernels_in_tail:
                self._compute(index + 1)
        finally:
            self._ranges.pop()

    def _begin(self, index: int) -> None:
        """Host stages and uploads of a frame, into the set that its last but one has left."""
        parts, started = self._parts[index % SETS], self._clock()
        uploaded = False
        for action in parts.head:
            if action.move is None:
                self.act(action, index)
            else:
                self._move(action, self._uploads)
                uploaded = True
        self._begun[index] = _Begun(
            started, self._mark("uploaded", index, self._uploads) if uploaded else None
        )

    def _compute(self, index: int) -> None:
        """Kernels of a frame, after its uploads; then its downloads, after the kernels."""
        backend, begun = self._backend, self._begun[index]
        if begun.uploaded is not None:
            backend.order(backend.stream, begun.uploaded)
        done: Any = None
        for action in self._parts[index % SETS].body:
            if action.label == "to-host":
                done = self._download(action, index, done or self._mark("computed", index))
            else:
                self.act(action, index)
        begun.computed = done or self._mark("computed", index)

    def _finish(self, index: int) -> None:
        """Waits for the frame's own work, not for the next one's, and runs what comes after."""
        backend, begun = self._backend, self._begun.pop(index)
        done = begun.computed
        for action in self._parts[index % SETS].tail:
            if action.label == "synchronize":
                self._within(action, action.move or backend.wait, done or self._mark("late", index))
            elif action.label == "to-host" and not self._kernels_in_tail:
                done = self._download(action, index, done)
            else:
                self.act(action, index)
                if action.on_stream:  # a kernel in the tail: the main stream has nothing of the next frame
                    done = None
        self.latencies.append(self._clock() - begun.started)

    def _download(self, action: Action, index: int, after: Any) -> Any:
        """Copies to the host beside the next frame's kernels; the mark behind the copy."""
        self._backend.order(self._downloads, after)
        self._move(action, self._downloads)
        return self._mark("downloaded", index, self._downloads)

    def _mark(self, what: str, index: int, stream: Any = None) -> Any:
        """A mark behind a stream's work: that of the last frame but one, which is over."""
        key = what, index % SETS
        made = self._marks[key] = self._backend.mark(stream, self._marks.get(key))
        return made

    def _drop_begun(self) -> None:
        """Another frame than the next one is wanted: lets what was begun come to its end."""
        for index in sorted(self._begun):
            self._finish(index)

    def _move(self, action: Action, stream: Any) -> None:
        assert action.move is not None
        self._within(action, action.move, stream)

    def _within(self, action: Action, call: Callable[[Any], object], argument: Any) -> None:
        """A call in the range of an action."""
        self._ranges.push(action.attributes)
        try:
            call(argument)
        finally:
            self._ranges.pop()


@dataclass
class _Begun:
    """A frame under way: when it began, the mark after its uploads, the mark after all its queued work."""

    started: float
    uploaded: Any
    computed: Any = None


@dataclass(frozen=True)
class Parts:
    """A steady frame, cut where the host first has to wait."""

    head: tuple[Action, ...]
    body: tuple[Action, ...]
    tail: tuple[Action, ...]

    def map(self, watch: Watch, wait: Callable[[Any], None]) -> Parts:
        """The same with other actions; those of the tail that wait do so by `wait`, which is watched too."""
        tail = (replace(a, move=wait) if a.label == "synchronize" else a for a in self.tail)
        return Parts(tuple(map(watch, self.head)), tuple(map(watch, self.body)), tuple(map(watch, tail)))


def cut(steady: Sequence[Action]) -> Parts:
    """Head: up to the first kernel. Body: up to the first host stage or wait after it. Tail: the rest."""
    kernel = next(i for i, action in enumerate(steady) if action.label.startswith("device:"))
    queued = ("device:", "to-device", "to-host")
    end = next((i for i in range(kernel, len(steady)) if not steady[i].label.startswith(queued)), len(steady))
    return Parts(tuple(steady[:kernel]), tuple(steady[kernel:end]), tuple(steady[end:]))
