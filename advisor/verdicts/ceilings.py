"""The time in a script's frames that memory can change, and where the rest of a frame is.

A frame is an iteration of the loop that repeats the same crossings; without one it is the whole run.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from advisor.profiles.crossings import SHARED, Ceiling, Crossing, CrossingKind, LineLoop, ScriptRun

LITTLE = 0.03
"""A smaller share of a frame is not worth a change of the code: without it a frame is at most 1.03 times as
fast (Amdahl's law), less than what counts as a difference between runs (`stats.EQUIVALENCE`)."""


@dataclass(frozen=True)
class Scope:
    """The frames that crossings are counted in. `seconds` is of one; None where it was not measured."""

    number: int | None
    loop: LineLoop | None
    frames: int
    seconds: float | None
    crossings: tuple[tuple[int, Crossing], ...]
    """Each with its index in the run."""
    shares_memory: bool = False
    """Whether the program has memory that CPU and GPU both reach."""

    @property
    def untimed_seconds(self) -> float | None:
        """A frame without timed calls, where that is shorter: without recording none takes longer. On an H200
        the timed calls of a frame of 20.5 µs took 24.0 µs."""
        return (self.loop and self.loop.untimed_seconds) or self.seconds

    @property
    def needs_waits(self) -> bool:
        """Whether a wait may guard memory of the host: that of copies that are, or were asked to be,
        asynchronous (page-locking makes them so), or memory that is shared."""
        copies = (c for _, c in self.crossings if c.asynchronous or c.non_blocking)
        return self.shares_memory or any(not c.staged for c in copies)

    @property
    def copied_bytes(self) -> float:
        return sum(c.bytes for _, c in self.crossings if c.kind in ("upload", "download")) / self.frames


def scopes(run: ScriptRun) -> tuple[Scope, ...]:
    """Each loop with crossings, the slowest first; the run as a whole where there is none."""
    shares, loops = any(what.startswith(SHARED) for what in run.unseen), []
    for number, loop in enumerate(run.loops):
        its = tuple((i, c) for i, c in enumerate(run.crossings) if c.loop == number)
        if its:
            loops.append(Scope(number, loop, loop.frames, loop.frame_seconds, its, shares))
    loops.sort(key=lambda scope: (scope.seconds or 0.0) * scope.frames, reverse=True)
    every = tuple(enumerate(run.crossings))
    seconds = None if run.played else run.seconds - run.overhead_seconds
    whole = Scope(None, None, 1, seconds if seconds and seconds > 0 else None, every)
    return tuple(loops) or ((whole,) if every else ())


def around(run: ScriptRun) -> tuple[tuple[int, Crossing], ...]:
    """Crossings before, after and outside of the loops that have some."""
    inside = {i for scope in scopes(run) for i, _ in scope.crossings}
    return tuple((i, c) for i, c in enumerate(run.crossings) if i not in inside)


def path_seconds(crossing: Crossing) -> float | None:
    """The part of a crossing that memory can change: of a copy the longer of what host and stream spend; of a
    wait the call alone, not the kernels that it waits for. None where nothing was timed.

    A call that returns when its copy is done (a download, from page-locked memory, PyTorch's that blocks) has
    all of it: on an H200 an upload and a download so counted took 1.24 ms, and removing both spared 1.22.
    """
    spent = [s for s in (crossing.host_seconds, crossing.stream_seconds) if s is not None]
    returns_late = crossing.kind == "download" or crossing.memory == "pinned" or crossing.library == "torch"
    blocks = crossing.asynchronous is False and not crossing.non_blocking and returns_late
    if crossing.kind in ("wait", "lock") or (blocks and crossing.host_seconds is not None):
        return crossing.host_seconds
    return max(spent, default=None)


def spared_seconds(crossing: Crossing) -> float | None:
    """Expected saving of a frame without the crossing; sums of it count no second twice.

    From or to pageable memory the host copies or waits, so that its calls follow one another, as it does for
    PyTorch's copies that block; spans in the stream overlap the host's next work, and on an H200 promised 1.5
    times what was gained.
    """
    blocks = crossing.library == "torch" and crossing.kind != "wait" and not crossing.non_blocking
    by_call = (crossing.memory == "pageable" or blocks) and crossing.host_seconds is not None
    return crossing.host_seconds if by_call else path_seconds(crossing)


def line_seconds(crossing: Crossing) -> float | None:
    """All that the line spends, kernels that it waits for included."""
    own = path_seconds(crossing)
    return own if own is None else own + (crossing.kernel_seconds or 0.0)


def ceilings(run: ScriptRun) -> tuple[Ceiling, ...]:
    """One for each scope that was measured."""
    return tuple(_ceiling(scope) for scope in scopes(run) if scope.seconds is not None)


def _ceiling(scope: Scope) -> Ceiling:
    whole, most = scope.seconds, scope.untimed_seconds
    assert whole is not None
    assert most is not None
    spent = defaultdict[CrossingKind, float](float)
    for _, crossing in scope.crossings:
        spent[crossing.kind] += (path_seconds(crossing) or 0.0) / scope.frames
    waits, locks = spent["wait"], spent["lock"]
    copies, between = sum(spent.values()) - waits, None
    cost = scope.loop.copy_cost if scope.loop else None
    is_more = max(copies + waits, (cost.interval_seconds[0] if cost else 0.0)) > LITTLE * whole
    if cost and is_more:
        low, high = cost.interval_seconds
        ends = low + locks, max(high + locks, copies)  # each leaves something out
        copies = max(cost.seconds + locks, copies)
        low, high = (min(end + waits, most) for end in ends)
        between = low, high
    fit = min(1.0, most / (copies + waits)) if copies + waits else 1.0
    return Ceiling(
        loop=scope.number,
        copy_seconds=fit * copies,
        wait_seconds=fit * waits,
        of_seconds=whole,
        interval_seconds=between,
    )


def ceiling_of(run: ScriptRun, scope: Scope, device: str | None = None) -> Ceiling | None:
    """The ceiling of a scope as measured, or as predicted for a device."""
    candidates = (c for c in run.ceilings if c.loop == scope.number and c.device == device)
    return next(candidates, None)


def is_little(ceiling: Ceiling) -> bool:
    """Whether memory is not what the frame's time goes to."""
    return ceiling.share is not None and ceiling.share < LITTLE


def elsewhere(scope: Scope, ceiling: Ceiling) -> tuple[float, float]:
    """Seconds of a frame that memory cannot change: kernels that a call waits for, and all else."""
    whole = ceiling.of_seconds or 0.0
    rest = max(0.0, whole - ceiling.seconds)
    kernels = min(rest, sum(c.kernel_seconds or 0.0 for _, c in scope.crossings) / scope.frames)
    return kernels, rest - kernels
