"""From what was noted of a run to its record: frames chosen, lines merged, times scaled."""

from __future__ import annotations

import linecache
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from advisor import stats
from advisor.measure.recording.calls import wrapper_costs
from advisor.measure.recording.host_memory import LineContents, Origins, Source
from advisor.measure.recording.loops import Loop, Loops, Site, head_cost
from advisor.measure.recording.recorder import ScriptRecorder
from advisor.measure.recording.records import ALIKE, Record, alike
from advisor.profiles.crossings import (
    ACCOUNTED,
    CopyCost,
    Crossing,
    LineLoop,
    Origin,
    Place,
    Repeats,
    ScriptRun,
    SourceFile,
)

_COPIES = ("upload", "download", "lock")
BATCHES = 10
"""Stretches of neighbours whose means the interval of a frame's time is made from."""
OUTLIER = 10
"""Times the median: a longer iteration compiles, saves or validates, and is no frame as the others are."""
LEAST_TURNS = 3
"""Iterations with the same crossing that make a loop one that repeats: two may be chance."""
CARRIED = 0.9
"""Share of a loop's crossings, launches and time that its inner loops need to take its place: an epoch gives
way to its batches, a frame does not to a loop over a few of its tensors."""
FEW, MANY = 20, 20
"""A loop with fewer iterations than FEW has no interval of its frame's time (`BATCHES`). Inner loops with
MANY times as many, or LEAST_TURNS times as many in each of its iterations as it has, take its place where
they carry its launches and most of its crossings: a solver that is run for three systems gives way to its
steps, however long a system takes to set up."""


@dataclass(frozen=True)
class Assembler:
    """Completes the run's record; `start` is the folder that the script was started in."""

    recorder: ScriptRecorder
    start: Path
    overhead: Callable[[Loop], tuple[float, float]]
    """Seconds that recording took of a loop's, and of an iteration whose calls were only counted."""
    named: Loop | None = None

    def completed(self, run: ScriptRun) -> ScriptRun:
        """The run with its loops, crossings and sources."""
        records = list(self.recorder.records.values())
        for record in records:
            self.recorder.read_marks(record)
        loops = frame_loops(records, self.recorder.launches, self.named)
        groups: dict[tuple[Any, ...], list[Record]] = {}
        for record in records:
            site = record.site
            key = (site.file, site.line, *alike(record.event), frame_of(record, loops))
            groups.setdefault(key, []).append(record)
        crossings = [self._crossing(group, key[-1], loops) for key, group in groups.items()]
        crossings.sort(key=lambda each: (each.place.file, each.place.line))
        behind = [self._behind(loop, number, crossings) for number, loop in enumerate(loops)]
        parts = {
            "loops": tuple(self._loop(loop, records, wait) for loop, wait in zip(loops, behind, strict=True)),
            "crossings": tuple(crossings),
            "sources": tuple(self._sources(records, loops)),
        }
        return run.model_copy(update=parts)

    def _place(self, file: str, line: int) -> Place:
        text = linecache.getline(str(self.start / file), line).strip()[:500]
        return Place(file=self._name(file), line=line, text=text)

    def _name(self, file: str) -> str:
        path = self.start / file
        return str(path.relative_to(self.start)) if path.is_relative_to(self.start) else str(path)

    def _site(self, site: Site | None) -> Place | None:
        return self._place(site.file, site.line) if site else None

    def _behind(self, loop: Loop, number: int, crossings: Sequence[Crossing]) -> float:
        """Seconds of a frame that the line behind it waits for a loop whose copies take longer than it."""
        inside = [each for each in crossings if each.loop == number and each.asynchronous]
        if sum(each.stream_seconds or 0.0 for each in inside) <= loop.seconds:
            return 0.0
        file, last = self._name(loop.file), loop.last
        outside = [each for each in crossings if each.loop is None and each.place.file == file]
        waits = (each.kernel_seconds for each in outside if each.place.line > last and each.kernel_seconds)
        return next(waits, 0.0) / max(loop.turns, 1)

    def _loop(self, loop: Loop, records: Sequence[Record], behind: float) -> LineLoop:
        """behind: seconds of a frame after the loop, for which its copies are waited for."""
        steady, untimed = (seconds + behind for seconds in _steady(loop, records))
        frame = float(np.mean(steady)) if self.recorder.has_gpu and len(steady) else None
        overhead, counting = self.overhead(loop)
        bound = float(np.mean(untimed)) - counting if len(untimed) >= 2 * BATCHES else None
        return LineLoop(
            place=self._place(loop.file, loop.first),
            last_line=loop.last,
            frames=max(loop.turns, 1),
            frame_seconds=frame,
            interval_seconds=_interval(steady) if frame and len(steady) >= 2 * BATCHES else None,
            untimed_seconds=bound if frame and bound and 0 < bound < frame else None,
            copy_cost=self._copy_cost(loop, frame, records) if frame else None,
            seconds=loop.seconds,
            overhead_seconds=overhead,
            named=loop is self.named,
        )

    def _copy_cost(self, loop: Loop, frame: float, records: Sequence[Record]) -> CopyCost | None:
        """None also if some of the loop's copies could not be subtracted."""
        stretches = self.recorder.copy_costs.loops.get(loop)
        if stretches is None:
            return None
        lines = {(site.file, site.line) for site in stretches.sites}
        whole = measured = 0.0
        for record in records:
            if loop in record.chain and record.event.kind in _COPIES:
                seconds = _times(record).get("host_seconds", 0.0)
                whole += seconds
                measured += seconds * ((record.site.file, record.site.line) in lines)
        return stretches.measured(frame) if measured >= ACCOUNTED * whole else None

    def _crossing(self, group: Sequence[Record], loop: int | None, loops: Sequence[Loop]) -> Crossing:
        first, event = group[0], group[0].event
        times = [_times(record) for record in group] if self.recorder.has_gpu else []
        summed: Any = {name: sum(each.get(name, 0) for each in times) for name in set().union(*times)}
        frame = loops[loop] if loop is not None else None
        inside = sum(each.frames for record in group for each in record.loops if each.loop is frame)
        watched, unread = (sum(getattr(each, name) for each in group) for name in ("watched", "unread"))
        count = sum(record.count for record in group)
        return Crossing(
            place=self._place(first.site.file, first.site.line),
            **dict(zip(ALIKE, alike(event), strict=True)),
            library=event.library,
            loop=loop,
            count=count,
            bytes=sum(record.bytes for record in group),
            varies=any(record.varies for record in group),
            frames=min(inside, frame.turns) if frame else 0,
            **summed,
            origin=self._origin(group),
            repeats=self._repeats([record.contents for record in group if record.contents]),
            unread=round(unread / watched * count) if unread else None,
            holds_back=self._site(next((r.holds_back for r in group if r.holds_back), None)),
        )

    def _origin(self, group: Iterable[Record]) -> Origin | None:
        """The source of most of those looked at."""
        looked = sum((record.sources for record in group), Counter[Source]())
        if not looked:
            return None
        source = looked.most_common(1)[0][0]
        again = sum(record.looked - 1 for record in group if record.looked)
        new = 2 * sum(record.fresh for record in group) > again if source.site and again else None
        kept = any(record.kept for record in group)
        return Origin(kind=source.kind, place=self._site(source.site), each_frame=new, kept=kept)

    def _repeats(self, contents: Sequence[LineContents]) -> Repeats | None:
        names = ("checked", "compared", "same", "returned", "latest")
        sums: Any = {name: sum(getattr(each, name) for each in contents) for name in names}
        if not sums["checked"]:
            return None
        origin = next((each.returned_from for each in contents if each.returned_from), None)
        return Repeats(
            **sums,
            returned_from=self._site(origin),
            complete=all(each.complete for each in contents),
            false_share=max(each.false_share for each in contents),
        )

    def _sources(self, records: Sequence[Record], loops: Sequence[Loop]) -> Iterator[SourceFile]:
        """The files with crossings, with the other lines that these name, and with loops."""
        places = (place for r in records for place in (r.site, *(s.site for s in r.sources), r.holds_back))
        for file in dict.fromkeys(place.file for place in (*places, *loops) if place):
            lines = tuple(line.rstrip("\n")[:500] for line in linecache.getlines(str(self.start / file)))
            if lines:
                yield SourceFile(file=self._name(file), lines=lines)


def _steady(loop: Loop, records: Iterable[Record]) -> tuple[stats.Floats, stats.Floats]:
    """Seconds of the iterations whose calls were timed, or of all where none was, and of the others if all
    have the same lines; after the first and after each line that at least every second one has has appeared.

    The first have the same iterations as the calls' means, so that a line's share is right where iterations
    differ: with medians of all, the lines of a loop on an H200 added up to more than a frame.
    """
    inside = [each for record in records for each in record.loops if each.loop is loop]
    usual = [each.first for each in inside if 2 * each.frames >= loop.turns]
    warm_up = min(max([1, *usual]), loop.turns // 2)
    seconds, numbers, timed = (np.asarray(each) for each in (loop.times, loop.numbers, loop.timed))
    steady = (numbers > warm_up) & (seconds > 0)
    is_timed = steady & (timed > 0) if (steady & (timed > 0)).any() else steady
    if is_timed.any():
        steady = steady & (seconds <= OUTLIER * np.median(seconds[is_timed]))
    alike = all(each.frames >= loop.turns - each.first for each in inside if each.last > warm_up)
    return seconds[steady & is_timed], seconds[steady & ~is_timed & alike]


def _interval(seconds: stats.Floats) -> tuple[float, float]:
    """95 % of the mean, by means of batches: what drifts or alternates makes it wider (Law and Kelton,
    "Simulation Modeling and Analysis", 9.5.3)."""
    logs = np.log([part.mean() for part in np.array_split(seconds, BATCHES)])
    half = stats.student_upper(0.025, BATCHES - 1) * float(logs.std(ddof=1)) / math.sqrt(BATCHES)
    mean = float(seconds.mean())
    return mean * math.exp(-half), mean * math.exp(half)


def _times(record: Record) -> dict[str, float | int]:
    """Seconds of all of a record's crossings, scaled from the steady ones; none where none was timed.

    What a call took beyond those that waited for kernels before was a wait for kernels.
    """
    cold, steady = record.times
    calls = steady if steady.calls else cold
    apart = steady if steady.apart else cold
    copies = steady if steady.timed else cold
    figures: dict[str, float | int] = {"timed": cold.timed + steady.timed}
    if calls.calls:
        each = calls.seconds / calls.calls
        host = min(apart.host_seconds / apart.apart, each) if apart.apart else each
        figures["host_seconds"] = host * record.count
        figures["kernel_seconds"] = (each - host) * record.count
    if copies.timed:
        figures["stream_seconds"] = copies.stream_seconds / copies.timed * record.count
    return figures


def frame_loops(
    records: Sequence[Record], launches: Counter[Loop | None], named: Loop | None = None
) -> tuple[Loop, ...]:
    """In the order of their first lines' files and numbers; none where nothing repeats."""
    if named is not None:
        return (named,)
    repeating: set[Loop] = set()
    for record in records:
        event = record.event
        # Not what page-locks buffers one by one, or waits for streams that got their work elsewhere.
        drains = event.kind == "wait" and event.call.endswith("ynchronize")
        for each in record.loops if event.kind != "lock" else ():
            if each.frames >= LEAST_TURNS and (launches[each.loop] > 0 or not drains):
                repeating.add(each.loop)
    chosen: dict[Loop, None] = {}
    for record in records:
        chain = [loop for loop in record.chain if loop in repeating]
        if chain:
            chosen.update(dict.fromkeys(_carriers(chain[0], records, launches, repeating)))
    return tuple(sorted(chosen, key=lambda loop: (loop.file, loop.first)))


def frame_of(record: Record, frames: Sequence[Loop]) -> int | None:
    """Which of the frames' loops a record is in, the innermost; None outside of them."""
    return next((frames.index(loop) for loop in reversed(record.chain) if loop in frames), None)


def _carriers(
    loop: Loop, records: Sequence[Record], launches: Counter[Loop | None], repeating: set[Loop]
) -> Iterable[Loop]:
    """The inner loops that carry the loop, theirs in turn, or the loop itself."""
    crossings, carried = 0, 0
    inner: dict[Loop, None] = {}
    for record in records:
        if loop in (chain := record.chain):
            crossings += record.count
            below = [each for each in chain[chain.index(loop) + 1 :] if each in repeating]
            carried += record.count * bool(below)
            inner |= dict.fromkeys(below[:1])
    many = min(MANY, LEAST_TURNS * loop.turns) * loop.turns
    repeats_few = loop.turns < FEW and sum(each.turns for each in inner) >= many
    enough = (
        sum(each.turns for each in inner) > loop.turns  # one turn in each iteration is the same frame
        and carried >= (0.5 if repeats_few else CARRIED) * crossings
        and sum(launches[each] for each in inner) >= CARRIED * launches[loop]
        and (repeats_few or sum(max(each.seconds, each.whole) for each in inner) >= CARRIED * loop.seconds)
    )
    if not enough:
        return (loop,)
    return [each for one in inner for each in _carriers(one, records, launches, repeating)]


def overheads(
    recorder: ScriptRecorder, loops: Loops, origins: Origins, seconds: float
) -> Callable[[Loop | None], tuple[float, float]]:
    """Estimates, at the end of a run of so many seconds: what recording took of a loop, or of the run (None),
    over which allocations are taken as even; and of an iteration if its calls are only counted."""
    wrapper, launch, repeat = wrapper_costs(loops)
    head, allocations = head_cost(), origins.cost() / seconds

    def crossings(record: Record) -> float:
        """Crossings of a line that were neither timed nor only counted cost what timed ones do, without
        detail."""
        each = record.noting / record.noted if record.noted else 0.0
        noted = record.count - record.repeats
        return record.overhead + (noted - record.detailed) * each + noted * wrapper + record.repeats * repeat

    def overhead(loop: Loop | None) -> tuple[float, float]:
        whole = loop.seconds if loop else seconds
        inside = [r for r in recorder.records.values() if loop is None or loop in r.chain]
        heads = {each for record in inside for each in record.chain} if loop else loops.all
        launches = recorder.launches[loop] * launch
        others = launches + sum(each.called for each in heads) * head + allocations * whole
        noted = sum(map(crossings, inside)) + recorder.launch_overhead[loop]
        counted = sum(record.count for record in inside) * repeat
        return min(noted + others, whole), (counted + others) / max(loop.turns if loop else 1, 1)

    return overhead
