"""Whether the parts of a profile agree: what one names, another has."""

from __future__ import annotations

import math
from ast import literal_eval
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, groupby

import numpy as np

from advisor.profiles.conclusions import Recommendation
from advisor.profiles.row_figures import ScriptMeasured
from advisor.profiles.schema import (
    MOST_PERIOD,
    BufferRecord,
    Measured,
    Predicted,
    Profile,
    Result,
    WorkloadRecord,
)
from advisor.profiles.traces import Timeline
from advisor.texts import in_a_line, is_name

_MOST = 1e21
"""Bytes, operations, seconds of a frame: what can still be divided and added up."""
_LEAST = 1e-300
"""Seconds: the same."""
Problem = tuple[str, str]
"""The key, and what is wrong with it."""


def contradiction(profile: Profile) -> Problem | None:
    """The first part that names what no other part has, or that leaves out what has to be there."""
    return next(_contradictions(profile), None)


def _contradictions(profile: Profile) -> Iterator[Problem]:
    if profile.script is None:
        yield from _of_workload(profile.workload)
    yield from _of_rows(profile)
    yield from _of_verdicts(profile)
    yield from _of_advice(profile)
    yield from _of_traces(profile)
    if profile.script is None:
        yield from _of_traffic(profile)
    yield from _of_final(profile)


def _unknown(where: str, names: Iterable[str], known: Iterable[str], what: str) -> Iterator[Problem]:
    there = set(known)
    return ((where, f"there is no {what} {name!r}") for name in names if name not in there)


def _twice(where: str, names: Iterable[object], what: str) -> Iterator[Problem]:
    return ((where, f"the {what} {name!r} appears twice") for name, n in Counter(names).items() if n > 1)


def _of_rows(profile: Profile) -> Iterator[Problem]:
    buffers = [buffer.name for buffer in profile.workload.buffers]
    stages = [stage.name for stage in profile.workload.stages]
    yield from _twice("results", (row.strategy for row in profile.results), "strategy")
    for number, row in enumerate(profile.results):
        if isinstance(row, Measured):
            yield from _unknown(f"results.{number}.hints", row.hints, buffers, "buffer")
            if row.median_seconds < _LEAST:
                yield (
                    f"results.{number}.median_seconds",
                    f"{row.median_seconds:g} s is too little to divide by",
                )
            ends = row.interval_seconds
            yield from _outside(f"results.{number}.median_seconds", row.median_seconds, ends)
    yield from _twice("predictions", (made.device.name for made in profile.predictions), "device")
    for number, made in enumerate(profile.predictions):
        where = f"predictions.{number}.results"
        yield from _twice(where, (row.strategy for row in made.results), "strategy")
        for place, computed in enumerate(made.results):
            if isinstance(computed, Predicted):
                if not computed.terms:
                    yield f"{where}.{place}.terms", "it is empty"
                ends = (computed.low_seconds, computed.high_seconds)
                yield from _outside(f"{where}.{place}.likely_seconds", computed.likely_seconds, ends)
                yield from _unknown(f"{where}.{place}.over", computed.over, _figures(made.results), "row of")
                staged = (term for term in computed.terms if term.startswith(("host:", "device:")))
                named = (term.partition(":")[2] for term in staged)
                yield from _unknown(f"{where}.{place}.terms", named, stages, "stage")


def _figures(rows: Iterable[object]) -> list[str]:
    """Strategies that have a time."""
    return [row.strategy for row in rows if isinstance(row, (Measured, Predicted, ScriptMeasured))]


def _outside(where: str, value: float, ends: tuple[float, float]) -> Iterator[Problem]:
    if not ends[0] <= value <= ends[1]:
        yield where, f"{value:g} is not within {ends[0]:g} to {ends[1]:g}"


def _rows(profile: Profile) -> tuple[Result | ScriptMeasured, ...]:
    """Rows of the profile's own device, with figures or without."""
    return (*profile.results, *(profile.script.measured if profile.script else ()))


def _of_verdicts(profile: Profile) -> Iterator[Problem]:
    yield from _of_verdict("recommendation", profile.recommendation, _figures(_rows(profile)))
    for number, made in enumerate(profile.predictions):
        where = f"predictions.{number}.recommendation"
        yield from _of_verdict(where, made.recommendation, _figures(made.results))


def _of_verdict(where: str, told: Recommendation | None, rows: list[str]) -> Iterator[Problem]:
    """What it names has figures, and its ratio lies within its own interval."""
    if told is None:
        return
    named = {key: [name] for key in ("strategy", "baseline", "fastest") if (name := getattr(told, key))}
    several = {"tied_with": told.tied_with, "groups": chain(*told.groups), "excluded": told.excluded}
    for key, names in {**named, **several}.items():
        yield from _unknown(f"{where}.{key}", names, rows, "figure of")
    if told.speedup is not None and told.interval is not None:
        yield from _outside(f"{where}.speedup", told.speedup, told.interval)


def _of_advice(profile: Profile) -> Iterator[Problem]:
    known: dict[str, set[str]] = {}
    for device, rows in (
        (profile.device, _rows(profile)),
        *((p.device, p.results) for p in profile.predictions),
    ):
        known.setdefault(device.name, set()).update(row.strategy for row in rows)
    for number, advice in enumerate(profile.advice):
        yield from _unknown(f"advice.{number}.device", (advice.device,), known, "device")
        named = {"strategy": advice.strategy, "gain.over": advice.gain.over if advice.gain else None}
        for key, name in named.items():
            there = known.get(advice.device, ())
            yield from _unknown(f"advice.{number}.{key}", filter(None, (name,)), there, "row of")


def _of_traces(profile: Profile) -> Iterator[Problem]:
    here = [row.strategy for row in _rows(profile)]
    traced, missing = profile.trace.strategies, profile.trace.missing
    yield from _unknown("trace.strategies", (row.strategy for row in traced), here, "row of")
    yield from _unknown("trace.missing", (row.strategy for row in missing), here, "row of")
    drawn: dict[str, Timeline | None] = {
        f"results.{number}": row.timeline
        for number, row in enumerate(profile.results)
        if isinstance(row, Measured)
    }
    drawn |= {f"trace.strategies.{n}": trace.timeline for n, trace in enumerate(profile.trace.strategies)}
    for where, timeline in drawn.items():
        for number, span in enumerate(timeline.spans if timeline else ()):
            if span.end_seconds < span.begin_seconds:
                yield f"{where}.timeline.spans.{number}.end_seconds", "it ends before it begins"


def _of_workload(workload: WorkloadRecord) -> Iterator[Problem]:
    stages = [stage.name for stage in workload.stages]
    buffers = [buffer.name for buffer in workload.buffers]
    if not workload.frame_stages():
        yield "workload.stages", "no stage belongs to the frame"
    yield from _twice("workload.stages", stages, "stage")
    yield from _twice("workload.buffers", buffers, "buffer")
    if (period := math.lcm(*(stage.every for stage in workload.stages))) > MOST_PERIOD:
        yield "workload.stages", f"every has a period of {period} frames; the most is {MOST_PERIOD}"
    yield from _of_loops(workload)
    for number, name in enumerate(stages):
        if not name or name != in_a_line(name):
            yield f"workload.stages.{number}.name", f"{name!r} is no name in one line"
    for number, buffer in enumerate(workload.buffers):
        yield from _of_buffer(f"workload.buffers.{number}", buffer)
    for buffer in workload.buffers:
        where = f"workload.buffers.{buffer.name}"
        yield from _unknown(f"{where}.access", buffer.access, stages, "stage")
        yield from _unknown(f"{where}.regions", buffer.regions, buffer.access, "stage")
        yield from _unknown(f"{where}.valid", filter(None, [buffer.valid]), buffers, "buffer")
    for stage in workload.stages:
        named = (*stage.passes, *stage.arrays)
        yield from _unknown(f"workload.stages.{stage.name}", named, buffers, "buffer")


def _of_loops(workload: WorkloadRecord) -> Iterator[Problem]:
    """They are numbered in order, each is of stages in a row, and a buffer ends it."""
    runs = [loop for loop, _ in groupby(workload.frame_stages(), key=lambda stage: stage.loop) if loop]
    if [loop.number for loop in runs] != list(range(len(runs))):
        yield "workload.stages", "the loops are not numbered in the order of their stages"
    buffers = [buffer.name for buffer in workload.buffers]
    yield from _unknown("workload.stages", (loop.until for loop in runs), buffers, "buffer")
    for stage in workload.stages:
        if stage.loop and (stage.phase == "setup" or stage.every > 1):
            yield f"workload.stages.{stage.name}.loop", "a stage of set-up or of some frames is in no loop"


def _of_buffer(where: str, buffer: BufferRecord) -> Iterator[Problem]:
    if not is_name(buffer.name):
        yield f"{where}.name", f"{buffer.name!r} is no name of a variable"
    if min(buffer.shape, default=0) < 1:
        yield f"{where}.shape", f"{buffer.shape} has no elements"
    for stage, bounds in buffer.regions.items():
        if not _inside(bounds, buffer.shape):
            yield f"{where}.regions.{stage}", f"{bounds} does not lie in the shape {buffer.shape}"
    if buffer.valid is not None and buffer.regions:
        yield f"{where}.regions", "a buffer with a length has none"
    element = _element(buffer.dtype)
    if element is None:
        yield f"{where}.dtype", f"NumPy has no dtype {buffer.dtype!r}"
    elif (size := math.prod(buffer.shape) * element.itemsize) != buffer.bytes:
        yield f"{where}.bytes", f"{buffer.bytes} is not {size}, as shape and dtype make it"


def _inside(bounds: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> bool:
    """Whether they are a box with elements within that shape."""
    ends = zip(bounds, shape, strict=False)
    return len(bounds) == len(shape) and all(0 <= start < stop <= most for (start, stop), most in ends)


def _element(dtype: str) -> np.dtype[np.generic] | None:
    """The dtype of that text, which is NumPy's own for it; None where there is none."""
    try:
        # A structured one is the list or the table that makes it.
        found = np.dtype(literal_eval(dtype) if dtype.startswith(("[", "{")) else dtype)
    except (TypeError, ValueError, SyntaxError, RecursionError, MemoryError, OverflowError):
        return None
    return found if str(found) == dtype else None


def _of_traffic(profile: Profile) -> Iterator[Problem]:
    if profile.traffic is None:
        return
    stages = [stage.name for stage in profile.workload.stages]
    buffers = [buffer.name for buffer in profile.workload.buffers]
    moved, work = profile.traffic.traffic, profile.traffic.work
    yield from _unknown("traffic.traffic", (part.buffer for part in moved), buffers, "buffer")
    yield from _unknown("traffic.traffic", (part.stage for part in moved), stages, "stage")
    yield from _unknown("traffic.waits", (wait.stage for wait in profile.traffic.waits), stages, "stage")
    yield from _unknown("traffic.work", (part.stage for part in work), stages, "stage")
    yield from _unknown("traffic.valid_bytes", profile.traffic.valid_bytes, buffers, "buffer")
    bytes_moved = [amount for part in moved for amount in (part.bytes_read, part.bytes_written)]
    yield from _too_much("traffic.traffic", bytes_moved)
    for part in work:
        yield from _too_much("traffic.work", (part.flops or 0, part.temporary_bytes, part.seconds or 0))


def _too_much(where: str, amounts: Iterable[float]) -> Iterator[Problem]:
    return ((where, f"{amount:g} is implausibly large") for amount in amounts if amount > _MOST)


def _of_final(profile: Profile) -> Iterator[Problem]:
    known = profile.final.contestants if profile.final else {}
    stages = [stage.name for stage in profile.workload.stages]
    for where, blocks in (("blocks", profile.blocks), ("windows", profile.windows)):
        yield from _unknown(where, (block.contestant for block in blocks), known, "contestant")
        named = chain(*(block.host_seconds for block in blocks))
        yield from _unknown(f"{where}.host_seconds", named, stages, "stage")
        once = ((block.process, block.round, block.contestant) for block in blocks)
        yield from _twice(where, once, "process, round and contestant")
    if profile.final is not None:
        ran = (row.strategy for row in _rows(profile))
        yield from _unknown("final.contestants", profile.final.contestants.values(), ran, "row of strategy")
        for key in ("left", "alone", "dropped"):
            yield from _unknown(f"final.{key}", getattr(profile.final, key), known, "contestant")
