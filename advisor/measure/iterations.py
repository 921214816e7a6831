"""What the host decides within a frame: how often a loop runs, and how many rows of a buffer are valid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter

from advisor.errors import WorkloadError
from advisor.measure.written import Lines
from advisor.profiles.figures import Iterations
from advisor.profiles.schema import Loop, Measured, Result
from advisor.strategies.backend import Array
from advisor.strategies.schedule import InARow, parts
from advisor.workloads.binding import BoundWorkload
from advisor.workloads.stage_code import located

UNEVEN = 1.05
"""Times as many iterations, on average, from which times over different frames are not compared."""
_LOOKS = 1024
"""Iterations between two looks at the clock."""
Counts = Mapping[str, Sequence[int]]
"""By loop, in the words of `named`: its iterations in frames 0, 1, 2 and so on."""


@dataclass
class LoopCount:
    """One loop at work. `flag` reads the buffer that ends it, on the host."""

    loop: Loop
    flag: Callable[[], bool]
    now: int = 1
    """The iteration under way, from 1 on."""
    ended: bool = False
    frames: list[int] = field(default_factory=list)
    """The iterations of each frame so far."""
    end: float = inf
    """By the clock, when the time of the whole run is over."""

    def begin(self) -> None:
        self.now = 1

    def look(self, _: int = 0) -> None:
        """An iteration has come to its end, and the host sees its flag."""
        self.ended = self.flag()

    def again(self) -> bool:
        """Whether one more iteration begins; else the frame's count is kept.

        Raises `WorkloadError` where the run's time ends within one frame.
        """
        if self.ended or self.now >= self.loop.at_most:
            self.frames.append(self.now)
            return False
        if self.now % _LOOKS == 0 and perf_counter() > self.end:
            raise WorkloadError(
                f"{named(self.loop)} ran {self.now} iterations in frame {len(self.frames)} and did not end "
                "within --max-seconds",
                next_step="Set its buffer in a stage, lower at_most, or raise --max-seconds SECONDS.",
            )
        self.now += 1
        return True


def in_turn(steps: Sequence[InARow], counts: Mapping[int, LoopCount]) -> Iterator[InARow]:
    """The steps as they are done: those of later iterations until the host ends the loop."""
    for loop, again, row in parts(steps):
        if loop is None:
            yield from row
        elif not again:
            counts[loop.number].begin()
            yield from row
        else:
            while counts[loop.number].again():
                yield from row


def as_loops(steps: Sequence[InARow], lines: Sequence[Lines], counts: Mapping[int, LoopCount]) -> list[Lines]:
    loops: list[Lines] = []
    rest = iter(lines)
    for loop, again, row in parts(steps):
        body = [next(rest) for _ in row]
        if loop is not None and again:
            loops.append(Lines(("while again$():",), {"again$": counts[loop.number].again}))
            body = [replace(b, text=tuple(f"    {text}" for text in b.text)) for b in body]
        elif loop is not None:
            loops.append(Lines(("begin$()",), {"begin$": counts[loop.number].begin}))
        loops += body
    return loops


def named(loop: Loop | Iterations) -> str:
    return f"the loop with until={loop.until!r}" + (f" ({loop.number + 1})" if loop.number else "")


def counted(counts: Mapping[int, LoopCount]) -> Counts:
    return {named(count.loop): tuple(count.frames) for count in counts.values()}


def capped(counts: Mapping[int, LoopCount]) -> dict[str, int]:
    """The loops that their limit ended in every frame so far, and that limit."""
    return {
        named(count.loop): count.loop.at_most
        for count in counts.values()
        if count.frames and min(count.frames) == count.loop.at_most
    }


def unlike(counts: Counts, reference: Counts) -> dict[str, int]:
    """The first frame in which each loop ran another number of times."""
    pairs = {name: zip(ran, reference.get(name, ()), strict=False) for name, ran in counts.items()}
    first = {name: next((i for i, (a, b) in enumerate(both) if a != b), None) for name, both in pairs.items()}
    return {name: frame for name, frame in first.items() if frame is not None}


def difference(frame: int, counts: Counts, reference: Counts) -> str:
    differences = [
        f"in frame {frame}, {name} ran {counts_now[frame]} iterations; the reference run "
        f"ran {reference[name][frame]}"
        for name, counts_now in counts.items()
        if name in reference and counts_now[frame] != reference[name][frame]
    ]
    return "; ".join(differences)


def uneven(rows: Sequence[Result]) -> tuple[str, ...]:
    means: dict[str, dict[str, float]] = {}
    for row in rows:
        for ran in row.iterations if isinstance(row, Measured) else ():
            means.setdefault(named(ran), {})[row.strategy] = ran.mean
    return tuple(
        f"Strategies were timed over different frames: {loop} averaged "
        f"{', '.join(f'{mean:.3g} ({name})' for name, mean in of_it.items())} iterations per frame, so their "
        "times cannot be compared. Run again with a longer --max-seconds: the final times the same frames."
        for loop, of_it in means.items()
        if max(of_it.values()) > UNEVEN * min(of_it.values())
    )


def iteration_records(counts: Mapping[int, LoopCount], first: Counts) -> tuple[Iterations, ...]:
    """The profile's record: the counts of the first frames, and the mean of those since a reset."""
    return tuple(
        Iterations(
            number=count.loop.number,
            until=count.loop.until,
            counts=tuple(first.get(named(count.loop), ())),
            mean=sum(count.frames) / len(count.frames),
        )
        for count in counts.values()
    )


@dataclass(frozen=True)
class Most:
    """The smallest buffer of a length, its first dimension, and the stages that write the length."""

    buffer: str
    rows: int
    writers: str


def most_rows(bound: BoundWorkload) -> dict[str, Most]:
    most_of: dict[str, Most] = {}
    for name, buffer in bound.workload.buffers.items():
        rows, length = buffer.dimensions[0], buffer.valid
        if length is not None and (length not in most_of or rows < most_of[length].rows):
            written = (stage for stage in bound.stages if length in stage.use.writes())
            writers = (located(stage.name, stage.stage.function) for stage in written)
            most_of[length] = Most(name, rows, " or ".join(writers))
    return most_of


def valid_rows(length: str, array: Array, most: Most, frame: int) -> int:
    """The length that the array holds. Raises `WorkloadError` where the buffer has not so many rows."""
    rows, limits = int(array.flat[0]), f"0 to {most.rows}"
    if not 0 <= rows <= most.rows:
        raise WorkloadError(
            f"buffer {length!r} holds {rows} in frame {frame}; as the valid length of {most.buffer!r} it "
            f"must be {limits}",
            next_step=f"Set it to a value from {limits} where it is written, in stage {most.writers}.",
        )
    return rows
