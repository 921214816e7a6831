"""The frame loop over two sets of buffers: frame i+1 is produced and uploaded while frame i computes.

A frame is cut in three: `head`, its host stages and uploads up to the first kernel; `body`, kernels and
copies up to the first wait; `tail`, the rest. Each turn runs the head of the next frame, queues its body,
and then waits for this frame's body and runs its tail. A set is used again only after its last frame ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Literal

from advisor.measure.frames import Action, FrameLoop, Watch
from advisor.measure.nvtx_ranges import Ranges
from advisor.measure.sampling import Clock
from advisor.measure.written import Lines
from advisor.strategies.backend import Backend
from advisor.strategies.placements.base import Placed
from advisor.strategies.schedule import Plan
from advisor.workloads.binding import BoundWorkload

SETS = 2


class PipelinedLoop(FrameLoop):
    """Runs frames two at a time. `sets` holds the placed buffers of either set; the first is that of set-up,
    frame 0 and frames step by step."""

    overlaps = True

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
        self._sets = [parts_of(self), parts_of(second)]
        self._rows = self._all_rows()
        self._begun: dict[int, _Begun] = {}
        self._marks: dict[tuple[str, int], Any] = {}
        self._kernels_in_tail = any(_has_kernels(parts.tail) for parts in self._sets[0])

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
        plain = self._rows
        self._rows = self._all_rows(watch)
        try:
            yield
        finally:
            self._rows = plain

    def _turn(self, index: int, *, begin_next: bool) -> None:
        if index not in self._begun:
            self._drop_begun()
            self._begin(index)
            self._compute(index)
        listening = self._ranges.listening
        if listening:
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
            if listening:
                self._ranges.pop()

    def _begin(self, index: int) -> None:
        """Host stages and uploads of a frame, into the set that its last but one has left."""
        rows, started = self._rows_of(index), self._clock()
        rows.head(index)
        uploaded = self._mark("uploaded", index, self._uploads) if rows.uploads else None
        self._begun[index] = _Begun(started, uploaded)

    def _compute(self, index: int) -> None:
        """Kernels of a frame, after its uploads; then its downloads, after the kernels."""
        backend, begun = self._backend, self._begun[index]
        if begun.uploaded is not None:
            backend.order(backend.stream, begun.uploaded)
        done: Any = None
        for row in self._rows_of(index).body:
            if row.kind == "download":
                done = self._download(row, index, done)
            else:
                row.run(index)
        begun.computed = done or self._mark("computed", index)

    def _finish(self, index: int) -> None:
        """Waits for the frame's own work, not for the next one's, and runs what comes after."""
        begun = self._begun.pop(index)
        done = begun.computed
        for row in self._rows_of(index).tail:
            if row.kind == "wait":
                row.run(done or self._mark("late", index))
            elif row.kind == "download":
                done = self._download(row, index, done)
            else:
                row.run(index)
                if row.on_stream:  # a kernel in the tail: the main stream has nothing of the next frame
                    done = None
        self.latencies.append(self._clock() - begun.started)

    def _download(self, row: _Row, index: int, after: Any) -> Any:
        """Copies to the host beside the next frame's kernels; the mark behind the copies."""
        self._backend.order(self._downloads, after or self._mark("computed", index))
        row.run(index)
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

    def _rows_of(self, index: int) -> _Rows:
        return self._rows[index % SETS][index % self.period]

    def _all_rows(self, watch: Watch | None = None) -> list[list[_Rows]]:
        """For each set the frames of a period; those with the same steps are the same."""
        made = {id(parts): self._in_rows(parts, watch) for phases in self._sets for parts in phases}
        return [[made[id(parts)] for parts in phases] for phases in self._sets]

    def _in_rows(self, parts: Parts, watch: Watch | None = None) -> _Rows:
        """The parts of a frame made ready to run, each row without a look at anything between its steps."""
        tail: tuple[_Kind, ...] = ("wait",) if _has_kernels(parts.tail) else ("wait", "download")
        return _Rows(
            head=self._row(parts.head, self._uploads, watch),
            uploads=any(action.move for action in parts.head),
            body=self._cut_at(("download",), parts.body, watch),
            tail=self._cut_at(tail, parts.tail, watch),
        )

    def _cut_at(
        self, kinds: tuple[_Kind, ...], actions: Iterable[Action], watch: Watch | None
    ) -> tuple[_Row, ...]:
        """Rows of what is alike, where waits and downloads of those kinds stand between the rest."""

        def kind(action: Action) -> _Kind:
            found = _KINDS.get(action.label, "run")
            return found if found in kinds else "run"

        rows = []
        for what, group in groupby(actions, kind):
            some = tuple(group)
            if what == "wait":
                rows += [_Row("wait", self._waiting(action, watch)) for action in some]
                continue
            stream = self._downloads if what == "download" else None
            rows.append(_Row(what, self._row(some, stream, watch), any(action.on_stream for action in some)))
        return tuple(rows)

    def _row(self, actions: Iterable[Action], stream: Any, watch: Watch | None) -> Callable[[int], None]:
        """The actions one after the other, moves on that stream."""
        watched = actions if watch is None else map(watch, actions)
        ready = tuple(_moving_on(action, stream) for action in watched)
        return self._in_a_row(ready) if watch is None else partial(self._act_all, ready)

    def _waiting(self, action: Action, watch: Watch | None) -> Callable[[Any], None]:
        """Waits for a mark in the range of the action."""
        action = replace(action, move=self._backend.wait)
        call = (watch(action) if watch else action).move
        assert call is not None
        if not self._ranges.listening:
            return call

        def wait(mark: Any) -> None:
            self._ranges.push(action.attributes)
            try:
                call(mark)
            finally:
                self._ranges.pop()

        return wait


def _has_kernels(actions: Iterable[Action]) -> bool:
    return any(action.label.startswith("device:") for action in actions)


def _moving_on(action: Action, stream: Any) -> Action:
    """A move on that stream; every other action as it is."""
    move = action.move
    if move is None or stream is None:
        return action
    lines = Lines(("move$(stream)",), {"move$": move, "stream": stream})
    return replace(action, run=lambda _: move(stream), lines=lines)


_Kind = Literal["run", "wait", "download"]
_KINDS: dict[str, _Kind] = {"synchronize": "wait", "to-host": "download"}


@dataclass(frozen=True, slots=True)
class _Row:
    """Steps that run one after the other: `run` takes the frame's index, that of a wait the mark."""

    kind: _Kind
    run: Callable[[Any], object]
    on_stream: bool = False


@dataclass(frozen=True, slots=True)
class _Rows:
    """A frame on one set of buffers, ready to run."""

    head: Callable[[int], None]
    uploads: bool
    body: tuple[_Row, ...]
    tail: tuple[_Row, ...]


@dataclass(slots=True)
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


def parts_of(loop: FrameLoop) -> list[Parts]:
    """Each frame of a period, cut; those with the same steps are the same."""
    frames = [loop.actions(index) for index in range(loop.period, 2 * loop.period)]
    made = {id(actions): cut(actions) for actions in frames}
    return [made[id(actions)] for actions in frames]


def cut(steady: Sequence[Action]) -> Parts:
    """Head: up to the first kernel. Body: up to the first host stage or wait after it. Tail: the rest."""
    kernel = next(i for i, action in enumerate(steady) if action.label.startswith("device:"))
    queued = ("device:", "to-device", "to-host", "length")
    end = next((i for i in range(kernel, len(steady)) if not steady[i].label.startswith(queued)), len(steady))
    return Parts(tuple(steady[:kernel]), tuple(steady[kernel:end]), tuple(steady[end:]))
