"""The frame loop over two sets of buffers: frame i+1 is produced and uploaded while frame i computes.

A frame is cut in three: `head`, its host stages and uploads up to the first kernel; `body`, kernels and
copies up to the first wait; `tail`, the rest. Each turn runs the head of the next frame, queues its body,
and then waits for this frame's body and runs its tail. A set is used again only after its last frame ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from math import lcm
from typing import Any

from advisor.measure.frames import Action, FrameLoop, Watch
from advisor.measure.steps import Lines, Marks, ordering, recording, waiting, written
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
        **more: Any,
    ) -> None:
        super().__init__(bound, plan, sets[0], backend, **more)
        self._uploads, self._downloads = backend.new_stream(), backend.new_stream()
        second = FrameLoop(bound, plan, sets[1], backend, host_seconds=self.host_seconds, **more)
        self._sets = [parts_of(self), parts_of(second)]
        tails = [action.label for parts in self._sets[0] for action in parts.tail]
        self._kernels_in_tail = any(label.startswith("device:") for label in tails)
        self._begun: list[float] = []
        """When each frame that is under way began; the last may be the next one."""
        self._turns = self._all_turns()
        self._under_way: int | None = None
        """The frame that has begun and not ended."""

    def frame(self, index: int) -> None:
        turn = self._turn(index)
        self._under_way = None
        turn.and_next(index)
        self._under_way = index + 1

    def frame_alone(self, index: int) -> None:
        turn = self._turn(index)
        self._under_way = None
        turn.alone(index)

    def timed_frame(self, index: int) -> dict[str, float]:
        """One frame by itself on the first set, step by step: what each part takes without the others."""
        self._drop_begun()
        return super().timed_frame(index)

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        self._drop_begun()
        plain = self._turns
        self._turns = self._all_turns(watch)
        try:
            yield
        finally:
            self._turns = plain

    def _turn(self, index: int) -> _Turn:
        turn = self._turns[index % len(self._turns)]
        if index != self._under_way:
            self._drop_begun()
            turn.begin(index)
        return turn

    def _drop_begun(self) -> None:
        """Another frame than the next one is wanted: lets what was begun come to its end."""
        if self._under_way is not None:
            self.frame_alone(self._under_way)

    def _all_turns(self, watch: Watch | None = None) -> list[_Turn]:
        """For each frame until sets and period repeat; those with the same frames and sets are the same."""
        indices = range(lcm(SETS, self.period))
        frames = [(i % SETS, self._sets[i % SETS][i % self.period]) for i in indices]
        keys = [(number, id(parts)) for number, parts in frames]
        distinct = dict(zip(keys, frames, strict=True))
        queues = {key: self._queue(parts, f"set {number}") for key, (number, parts) in distinct.items()}
        pairs = list(zip(keys, [*keys[1:], keys[0]], strict=True))
        distinct_pairs = dict.fromkeys(pairs)
        turns = {(a, b): self._turn_of(queues[a], queues[b], watch) for a, b in distinct_pairs}
        return [turns[pair] for pair in pairs]

    def _turn_of(self, this: _Queue, following: _Queue, watch: Watch | None) -> _Turn:

        def run(*parts: Sequence[Action]) -> Callable[[int], None]:
            actions = list(chain(*parts))
            if watch is None:
                return self._in_a_row(actions)
            return partial(self._act_all, [*map(watch, actions)])

        begin, compute = (_of_next(actions) for actions in (following.begin, following.compute))
        rest = (this.finish, compute) if self._kernels_in_tail else (compute, this.finish)
        return _Turn(
            begin=run(this.begin, this.compute),
            and_next=self._in_frame(run(begin, *rest)),
            alone=self._in_frame(run(this.finish)),
        )

    def _queue(self, parts: Parts, key: str) -> _Queue:
        """A frame on one set: its actions, with the marks that order its streams. Downloads run beside the
        next frame's kernels, unless kernels follow the first wait."""
        marks = _Marks(self._backend, self._marks, key)
        clock = {"clock$": self._clock, "begun$": self._begun, "latencies$": self.latencies}
        begin = [_unranged(Lines(("begun$.append(clock$())",), clock))]
        begin += [_moving_on(action, self._uploads) for action in parts.head]
        compute: list[Action] = []
        if any(action.move for action in parts.head):
            begin.append(marks.record("uploaded", self._uploads))
            compute.append(marks.order(self._backend.stream, "uploaded"))
        latest: str | None = None
        for kind, group in groupby(parts.body, _kind):
            if kind == "download":
                compute += self._download(group, marks, latest)
                latest = "downloaded"
            else:
                compute += group
        if latest is None:
            compute.append(marks.record("computed"))
            latest = "computed"
        finish: list[Action] = []
        for kind, group in groupby(parts.tail, _kind):
            if kind == "wait":
                if latest is None:
                    finish.append(marks.record("late"))
                finish += [marks.wait(action, latest or "late") for action in group]
            elif kind == "download" and not self._kernels_in_tail:
                finish += self._download(group, marks, latest)
                latest = "downloaded"
            else:
                actions = list(group)
                finish += actions
                if any(action.on_stream for action in actions):
                    latest = None  # the main stream has nothing of the next frame
        finish.append(_unranged(Lines(("latencies$.append(clock$() - begun$.pop(0))",), clock)))
        return _Queue(begin, compute, finish)

    def _download(self, group: Iterable[Action], marks: _Marks, after: str | None) -> Iterator[Action]:
        """Copies to the host on their own stream, between marks."""
        if after is None:
            yield marks.record("computed")
        yield marks.order(self._downloads, after or "computed")
        yield from (_moving_on(action, self._downloads) for action in group)
        yield marks.record("downloaded", self._downloads)


@dataclass(frozen=True)
class _Marks:
    """Events of one set of buffers by name, each recorded again in every frame that uses the set."""

    backend: Backend
    marks: Marks
    set: str

    def record(self, name: str, stream: Any = None) -> Action:
        return _unranged(recording(self.backend, self.marks, (f"{self.set} {name}", 0), stream))

    def order(self, stream: Any, name: str) -> Action:
        return _unranged(ordering(self.backend, self.marks, (f"{self.set} {name}", 0), stream))

    def wait(self, action: Action, name: str) -> Action:
        lines = waiting(self.backend, self.marks, (f"{self.set} {name}", 0))
        return replace(action, lines=lines, run=written([lines]))


def _unranged(lines: Lines) -> Action:
    return Action("order", False, written([lines]), lines, None)


def _of_next(actions: Iterable[Action]) -> list[Action]:
    """The actions as they are done in a turn of the frame before."""

    def later(action: Action) -> Action:
        lines, run = action.lines, action.run
        if lines.call or any("index" in line for line in lines.text):
            lines = replace(lines, text=("index += 1", *lines.text, "index -= 1"))
        return replace(action, lines=lines, run=lambda index: run(index + 1))

    return list(map(later, actions))


def _kind(action: Action) -> str:
    return {"synchronize": "wait", "to-host": "download"}.get(action.label, "run")


def _moving_on(action: Action, stream: Any) -> Action:
    """A move on that stream; every other action as it is."""
    move = action.move
    if move is None or stream is None:
        return action
    lines = Lines(("move$(stream$)",), {"move$": move, "stream$": stream})
    return replace(action, run=lambda _: move(stream), lines=lines)


@dataclass(frozen=True, slots=True)
class _Queue:
    begin: Sequence[Action]
    """Host stages and uploads, up to the first kernel."""
    compute: Sequence[Action]
    """Kernels after the uploads, and downloads after the kernels."""
    finish: Sequence[Action]
    """Waits for the frame's own work, not for the next one's, and runs what comes after."""


@dataclass(frozen=True, slots=True)
class _Turn:
    begin: Callable[[int], None]
    and_next: Callable[[int], None]
    """Ends it, and begins the next one."""
    alone: Callable[[int], None]
    """Ends it."""


@dataclass(frozen=True)
class Parts:
    """A steady frame, cut where the host first has to wait."""

    head: tuple[Action, ...]
    body: tuple[Action, ...]
    tail: tuple[Action, ...]


def parts_of(loop: FrameLoop) -> list[Parts]:
    frames = [loop.actions(index) for index in range(loop.period, 2 * loop.period)]
    parts = {id(actions): cut(actions) for actions in frames}
    return [parts[id(actions)] for actions in frames]


def cut(steady: Sequence[Action]) -> Parts:
    """Head: up to the first kernel. Body: up to the first host stage or wait after it. Tail: the rest."""
    kernel = next(i for i, action in enumerate(steady) if action.label.startswith("device:"))
    queued = ("device:", "to-device", "to-host", "length")
    end = next((i for i in range(kernel, len(steady)) if not steady[i].label.startswith(queued)), len(steady))
    return Parts(tuple(steady[:kernel]), tuple(steady[kernel:end]), tuple(steady[end:]))
