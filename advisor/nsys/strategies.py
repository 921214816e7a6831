"""Each strategy in a capture of ours: its steady frames, step by step.

Work on the GPU belongs to the step whose call launched it, found by the correlation id; what has none
(migrations, faults) belongs to the step the host was in when it began. nsys makes a table only when there is
something to go into it. A missing table is not 0; but where another table shows that nsys looked, nothing was
there to be seen, and that is a figure: none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Sequence
from statistics import median

import numpy as np

from advisor.nsys.database import BLOCK, THREAD_BITS, UNKNOWN, Database, Integers, Tables
from advisor.nsys.ranges import Frame, seconds, union
from advisor.nsys.work import (
    Calls,
    Row,
    allocations,
    copy_kinds,
    gpu_rows,
    move_kinds,
    read_calls,
    read_work,
    timeline,
)
from advisor.profiles.traces import Activity, Allocations, RangeTrace, StrategyTrace, track

_ON_HOST = ("host:", "host-copy", "synchronize")
"""Steps that the host itself does; the calls of the others return at once, or their work is the GPU's."""
_WAITED_FOR = re.compile("(Event|Stream|Device|Ctx)Synchronize")
_WAITS = {"Event": "event", "Stream": "stream"}
_MOST_SUMS = 5000
"""Kinds of copies, or names of kernels, in each step."""
_NONE = "nsys wrote no table for them: none occurred, or they were not recorded"
_UNMANAGED = "no managed memory was allocated"
_UNSEEN = (
    "managed memory was allocated, but nsys recorded no migration: none occurred, or nsys cannot record "
    "them here"
)
_FAULTS = {"cpu_page_faults": Tables.CPU_FAULTS, "gpu_page_faults": Tables.GPU_FAULTS}
_TABLES = {**_FAULTS, "kernels": Tables.KERNELS, "allocations": Tables.MEMORY}


def strategies(database: Database, frames: Sequence[Frame]) -> tuple[StrategyTrace, ...]:
    sums = _StepSums(database, frames)
    by_strategy: defaultdict[str, list[Frame]] = defaultdict(list)
    for frame in frames:
        by_strategy[frame.strategy].append(frame)
    return tuple(_strategy(database, name, mine, sums) for name, mine in by_strategy.items())


def _strategy(database: Database, name: str, frames: Sequence[Frame], sums: _StepSums) -> StrategyTrace:
    mine = {step: number for (strategy, step), number in sums.numbers.items() if strategy == name}
    steps: defaultdict[str, list[float]] = defaultdict(list)
    for step in (step for frame in frames for step in frame.steps):
        steps[step.name].append((step.end - step.begin) / 1e9)
    allocated = allocations(database, sorted({frame.process for frame in frames}))
    missing = sums.absent(allocated)
    middle = sorted(frames, key=lambda f: f.end - f.begin)[len(frames) // 2]
    # The GPU's own work stands in the place of the steps that it does, where that was recorded.
    on_host = [step for step in middle.steps if step.name.startswith(_ON_HOST) or not sums.works]
    drawn: list[Row] = [(track(step.name), step.name, step.begin, step.end) for step in on_host]
    for work in (work for work in sums.works if work.process == middle.process):
        drawn += gpu_rows(database, work, middle.begin, middle.end)
    return StrategyTrace(
        strategy=name,
        frames=len(frames),
        frame_seconds=median((frame.end - frame.begin) / 1e9 for frame in frames),
        activity=sums.activity(mine.values(), missing),
        idle_share=sums.idle_share(frames),
        allocations=allocated,
        ranges=tuple(
            RangeTrace(
                name=step,
                count=len(lasted),
                seconds=median(lasted),
                activity=sums.activity({mine[step]} if step in mine else set(), missing),
            )
            for step, lasted in steps.items()
        ),
        timeline=timeline(drawn, middle.begin, middle.end),
        absent=missing,
    )


def _stretches(frame: Frame) -> Iterator[tuple[str, int, int]]:
    """A frame cut into its steps and what lies between them; the last nanosecond is in it."""
    at = frame.begin
    for step in frame.steps:
        if step.begin > at:
            yield "", at, step.begin - 1
        if step.end > step.begin >= at:
            yield step.name, step.begin, step.end - 1
            at = step.end
    yield "", at, frame.end


class _StepSums:
    """Sums of copies, migrations, kernels, waits and faults, by step and kind."""

    def __init__(self, database: Database, frames: Sequence[Frame]) -> None:
        self._database = database
        self.numbers: dict[tuple[str, str], int] = {}
        """Each step of a strategy; "" is between the steps."""
        cuts: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for frame in frames:
            for step, begin, end in _stretches(frame):
                number = self.numbers.setdefault((frame.strategy, step), len(self.numbers))
                cuts[frame.process].append((begin, end, number))
        self._cuts = {process: np.array(sorted(rows), np.int64).T for process, rows in cuts.items()}
        # Work that a frame launched may run after its end.
        slack = max(frame.end - frame.begin for frame in frames)
        first, last = min(frame.begin for frame in frames), max(frame.end for frame in frames) + slack
        self._around = f'"start" <= {last} AND {{}} >= {first}'
        self._sums: defaultdict[str, dict[tuple[int, int], Integers]] = defaultdict(dict)
        calls = read_calls(database, self._around.format('"end"'))
        self.works = read_work(database, self._around.format('"end"'), device_copies=True)
        self._work(calls)
        # Waits by the call: nsys 2023.4 records cudaStreamWaitEvent, in which no host waits, as a kind of
        # wait of the host's, and cudaEventSynchronize as another than it is (seen on an H200).
        for process, mine in calls.items():
            at = mine.of("waits")
            begins, ends = mine.intervals(at)
            self._add("synchronizations", process, begins, mine.columns["name"][at], ends - begins, begins)
        self._faults()
        self._described = self._descriptions()

    def _work(self, calls: dict[int, Calls]) -> None:
        for work in self.works:
            own = calls.get(work.process)
            kinds = {"copies": work.copies, "kernels": work.kernels, "migrations": work.moved}
            for kind, columns in kinds.items():
                for begin in range(0, len(columns.get("start", ())), BLOCK):
                    part = {name: column[begin : begin + BLOCK] for name, column in columns.items()}
                    moments, lasted = part["start"], part["end"] - part["start"]
                    if kind != "migrations" and own is not None:
                        moments = own.began(part["call"], moments)
                    key = part["name"] + 1 if kind == "kernels" else part["kind"]
                    self._add(kind, work.process, moments, key, lasted, part.get("bytes", lasted))

    def _add(
        self, kind: str, process: int, moments: Integers, keys: Integers, lasted: Integers, sizes: Integers
    ) -> None:
        """Adds rows up by step and key; rows in no step, and work with a key below 0, are left out."""
        if process not in self._cuts:
            return
        begins, ends, numbers = self._cuts[process]
        at = np.searchsorted(begins, moments, side="right") - 1
        rows = np.flatnonzero((at >= 0) & (moments <= ends[at]) & (keys >= 0))
        steps = numbers[at[rows]] << 32 | keys[rows]
        kinds, which = np.unique(steps, return_inverse=True)
        which = which.reshape(-1)
        figures = [np.bincount(which, weights) for weights in (None, sizes[rows], lasted[rows])]
        for step, *sums in zip(kinds.tolist(), *(each.tolist() for each in figures), strict=True):
            place = step >> 32, step & 0xFFFFFFFF
            self._sums[kind][place] = self._sums[kind].get(place, np.zeros(3)) + sums
        if len(self._sums[kind]) > _MOST_SUMS * len(self.numbers):
            raise ValueError(f"it has more than {_MOST_SUMS} kinds of {kind}")

    def _faults(self) -> None:
        columns, around = ("start", "globalPid", "numberOfPageFaults"), self._around.format('"start"')
        for kind, table in _FAULTS.items():
            blocks = self._database.blocks(table, columns, around) if self._database.readable(table) else ()
            for block in blocks:
                counts = np.where(block["numberOfPageFaults"] == UNKNOWN, 1, block["numberOfPageFaults"])
                for process in self._cuts:
                    at = block["globalPid"] // THREAD_BITS == process
                    zeros = np.zeros(int(at.sum()), np.int64)
                    self._add(kind, process, block["start"][at], zeros, zeros, counts[at])

    def _descriptions(self) -> dict[str, dict[int, dict[str, str | None]]]:
        """What each key of a figure stands for, in the fields of its record."""
        database, kernels, waits = self._database, self._sums["kernels"], self._sums["synchronizations"]
        strings = database.strings([key - 1 for _, key in kernels] + [key for _, key in waits])
        waited = {key: _WAITED_FOR.search(strings[key]) for _, key in waits}
        return {
            "copies": {
                number: {"kind": way, "source": source, "destination": target}
                for work in self.works
                for number, way, source, target in copy_kinds(database, work.copies)
            },
            "migrations": {
                number: {"direction": way, "cause": cause}
                for work in self.works
                for number, way, cause in move_kinds(database, work.moved)
            },
            "kernels": {key: {"name": strings.get(key - 1, "unnamed")} for _, key in kernels},
            "synchronizations": {
                key: {"kind": f"{_WAITS.get(one[1] if one else '', 'context')} sync"}
                for key, one in waited.items()
            },
        }

    def _rows(self, kind: str, steps: Collection[int]) -> dict[int, tuple[int, int, float]]:
        """Count, bytes and seconds by key, the longest first."""
        rows: dict[int, Integers] = {}
        for (step, key), sums in self._sums[kind].items():
            if step in steps:
                rows[key] = rows.get(key, 0) + sums
        ordered = sorted(rows.items(), key=lambda row: (-row[1][2], row[0]))
        return {key: (int(count), round(size), round(ns) / 1e9) for key, (count, size, ns) in ordered}

    def activity(self, steps: Collection[int], absent: Container[str]) -> Activity:
        """The sums of some steps as one record; None for what is absent."""
        figures: dict[str, object] = {}
        for figure, described in self._described.items():
            sized = figure in ("copies", "migrations")
            figures[figure] = tuple(
                {**described[key], "count": count, "seconds": lasted, **({"bytes": size} if sized else {})}
                for key, (count, size, lasted) in self._rows(figure, steps).items()
                if key in described
            )
        figures |= {kind: self._rows(kind, steps).get(0, (0, 0, 0.0))[1] for kind in _FAULTS}
        return Activity.model_validate({name: each for name, each in figures.items() if name not in absent})

    def idle_share(self, frames: Sequence[Frame]) -> float | None:
        """The share of the frames in which no GPU did anything; None where none was seen to work."""
        if not self.works:
            return None
        worked = 0.0
        for process in {frame.process for frame in frames}:
            mine = [(f.begin, f.end) for f in frames if f.process == process]
            busy = union([piece for work in self.works if work.process == process for piece in work.busy()])
            worked += seconds((*np.array(mine, np.int64).T,), busy)
        return max(1 - worked / (sum(f.end - f.begin for f in frames) / 1e9), 0.0)

    def absent(self, allocated: Sequence[Allocations] | None) -> dict[str, str]:
        """The figures that the export cannot tell, each with the reason."""
        database = self._database
        reasons = {} if database.copies_known() else {"copies": _NONE, "migrations": _NONE}
        reasons |= {figure: _NONE for figure, table in _TABLES.items() if not database.readable(table)}
        managed = None if allocated is None else any(each.kind.startswith("managed") for each in allocated)
        if managed is False:
            reasons |= dict.fromkeys(_FAULTS & reasons.keys(), _UNMANAGED)
        if managed and not any(work.moved for work in self.works):
            reasons.setdefault("migrations", _UNSEEN)
        if not self.works:
            reasons["idle_share"] = "nsys recorded no GPU work"
        if not database.has(Tables.CALLS):
            reasons |= {"calls": _NONE, "synchronizations": _NONE}
        return reasons
