"""The frame loop over two sets of buffers: frame i+1 is produced and uploaded while frame i computes.

A frame is cut in three: `head`, its host stages and uploads up to the first kernel; `body`, kernels and
copies up to the first wait; `tail`, the rest. Each turn runs the head of the next frame, queues its body,
and then waits for this frame's body and runs its tail. A set is used again only after its last frame ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, groupby
from math import lcm
from typing import Any

from advisor.measure.frames import Action, FrameLoop, Watch
from advisor.measure.steps import Lines
from advisor.strategies.backend import Backend
from advisor.strategies.placement import Placed
from advisor.strategies.schedule import Plan
from advisor.workloads.binding import BoundWorkload

SETS = 2
Actions = Sequence[Action]


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
        super().__init__(bound, plan, sets, backend, **more)
        self._uploads, self._downloads = backend.new_stream(), backend.new_stream()
        second = FrameLoop(bound, plan, sets[1:], backend, host_seconds=self.host_seconds, **more)
        self._loops: tuple[FrameLoop, ...] = (self, second)
        tails = chain.from_iterable(cut(actions)[2] for actions in self._phases)
        self._kernels_in_tail = any(action.label.startswith("device:") for action in tails)
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
        count = lcm(SETS, self.period)
        frames = [(index % SETS, self._loops[index % SETS].actions(count + index)) for index in range(count)]
        keys = [(number, id(actions)) for number, actions in frames]
        queues = {key: self._queue(*frame) for key, frame in dict(zip(keys, frames, strict=True)).items()}
        pairs = list(zip(keys, [*keys[1:], keys[0]], strict=True))
        turns = {(a, b): self._turn_of(queues[a], queues[b], watch) for a, b in dict.fromkeys(pairs)}
        return [turns[pair] for pair in pairs]

    def _turn_of(self, this: _Queue, following: _Queue, watch: Watch | None) -> _Turn:

        def run(*parts: Actions, is_frame: bool = True) -> Callable[[int], None]:
            actions = list(chain(*parts))
            return self._written([*map(watch, actions)] if watch else actions, is_frame=is_frame)

        begin, compute = (list(map(_later, actions)) for actions in (following.begin, following.compute))
        rest = (this.finish, compute) if self._kernels_in_tail else (compute, this.finish)
        return _Turn(
            begin=run(this.begin, this.compute, is_frame=False),
            and_next=run(begin, *rest),
            alone=run(this.finish),
        )

    def _queue(self, number: int, steady: Actions) -> _Queue:
        """A frame on the set of that number: its actions, with the marks that order its streams. Downloads
        run beside the next frame's kernels, unless kernels follow the first wait."""
        head, body, tail = cut(steady)
        clock = {"clock$": self._clock, "begun$": self._begun, "latencies$": self.latencies}
        begin = [_unranged(Lines(("begun$.append(clock$())",), clock))]
        begin += [_moving_on(action, self._uploads) for action in head]
        compute: list[Action] = []
        if any("stream$" in action.lines.names for action in head):
            begin.append(self._mark(number, "uploaded", self._uploads))
            compute.append(self._order(number, "uploaded", self._backend.stream))
        latest: str | None = None
        for kind, group in groupby(body, _kind):
            if kind == "download":
                compute += self._download(group, number, latest)
                latest = "downloaded"
            else:
                compute += group
        if latest is None:
            compute.append(self._mark(number, "computed"))
            latest = "computed"
        finish: list[Action] = []
        for kind, group in groupby(tail, _kind):
            actions = list(group)
            if kind == "wait":
                if latest is None:
                    finish.append(self._mark(number, "late"))
                lines = self._marks.wait(self._backend, (number, latest or "late"))
                finish += [self._named(action.label, lines) for action in actions]
            elif kind == "download" and not self._kernels_in_tail:
                finish += self._download(actions, number, latest)
                latest = "downloaded"
            else:
                finish += actions
                if any(action.on_stream for action in actions):
                    latest = None  # the main stream has nothing of the next frame
        finish.append(_unranged(Lines(("latencies$.append(clock$() - begun$.pop(0))",), clock)))
        return _Queue(begin, compute, finish)

    def _download(self, group: Iterable[Action], number: int, after: str | None) -> Iterator[Action]:
        """Copies to the host on their own stream, between marks."""
        if after is None:
            yield self._mark(number, "computed")
        yield self._order(number, after or "computed", self._downloads)
        yield from (_moving_on(action, self._downloads) for action in group)
        yield self._mark(number, "downloaded", self._downloads)

    def _mark(self, number: int, name: str, stream: Any = None) -> Action:
        return _unranged(self._marks.record(self._backend, (number, name), stream))

    def _order(self, number: int, name: str, stream: Any) -> Action:
        return _unranged(self._marks.order(self._backend, (number, name), stream))


def _unranged(lines: Lines) -> Action:
    return Action("order", lines)


def _later(action: Action) -> Action:
    """The action as it is done in a turn of the frame before."""
    lines = action.lines
    if not any("index" in line for line in lines.text) and not lines.call:
        return action
    return replace(action, lines=replace(lines, text=("index += 1", *lines.text, "index -= 1")))


def _kind(action: Action) -> str:
    return {"synchronize": "wait", "to-host": "download"}.get(action.label, "run")


def _moving_on(action: Action, stream: Any) -> Action:
    """A move on that stream; every other action as it is."""
    names = action.lines.names
    if "stream$" not in names:
        return action
    return replace(action, lines=replace(action.lines, names={**names, "stream$": stream}))


@dataclass(frozen=True, slots=True)
class _Queue:
    begin: Actions
    """Host stages and uploads, up to the first kernel."""
    compute: Actions
    """Kernels after the uploads, and downloads after the kernels."""
    finish: Actions
    """Waits for the frame's own work, not for the next one's, and runs what comes after."""


@dataclass(frozen=True, slots=True)
class _Turn:
    begin: Callable[[int], None]
    and_next: Callable[[int], None]
    alone: Callable[[int], None]


def cut(steady: Actions) -> tuple[Actions, Actions, Actions]:
    """Head: up to the first kernel. Body: up to the first host stage or wait after it. Tail: the rest."""
    kernel = next(i for i, action in enumerate(steady) if action.label.startswith("device:"))
    queued = ("device:", "to-device", "to-host", "length")
    end = next((i for i in range(kernel, len(steady)) if not steady[i].label.startswith(queued)), len(steady))
    return steady[:kernel], steady[kernel:end], steady[end:]
