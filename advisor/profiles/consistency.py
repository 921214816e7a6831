"""Whether the parts of a profile agree: what one names, another has."""

from __future__ import annotations

import math
from ast import literal_eval
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

import numpy as np

from advisor.profiles.base import Record
from advisor.profiles.crossings import ScriptRun
from advisor.profiles.schema import MOST_PERIOD, BufferRecord, Measured, Predicted, Profile, WorkloadRecord
from advisor.texts import in_a_line, is_name

_MOST = 1e21
"""Bytes, operations, seconds of a frame: what can still be divided and added up."""
_CONCLUDED = tuple(
    f"recommendation.{key}"
    for key in ("strategy", "baseline", "fastest", "tied_with", "groups.*", "excluded")
)
_REFERENCES = {
    "buffer": (
        "workload.buffers.*.valid", "workload.stages.*.passes", "workload.stages.*.arrays", "results.*.hints",
        "workload.stages.*.loop.until", "traffic.traffic.*.buffer", "traffic.valid_bytes",
    ),
    "stage": (
        "workload.buffers.*.access", "traffic.traffic.*.stage", "traffic.waits.*.stage",
        "traffic.work.*.stage", "blocks.*.host_seconds", "windows.*.host_seconds",
    ),
    "figure of": _CONCLUDED,
    "row of": ("trace.strategies.*.strategy", "trace.missing.*.strategy"),
    "contestant": (
        "blocks.*.contestant", "windows.*.contestant", "final.left", "final.alone", "final.dropped",
    ),
}  # fmt: skip
"""Places in a profile that name others, by what they name; `*` is each item of a list."""
_UNIQUE = {
    "workload.stages": ("stage", "name"),
    "workload.buffers": ("buffer", "name"),
    "results": ("strategy", "strategy"),
    "predictions": ("device", "device.name"),
    "predictions.*.results": ("strategy", "strategy"),
}
_AMOUNTS = (
    "traffic.traffic.*.bytes_read", "traffic.traffic.*.bytes_written", "traffic.work.*.flops",
    "traffic.work.*.temporary_bytes", "traffic.work.*.seconds",
)  # fmt: skip
_SPANS = "results.*.timeline.spans.*", "trace.strategies.*.timeline.spans.*"
_RATIOS = "recommendation", "predictions.*.recommendation"
Problem = tuple[str, str]
"""The key, and what is wrong with it."""


def contradictions(profile: Profile) -> Iterator[Problem]:
    """References to something missing, and missing parts; none if the profile is consistent."""
    if profile.script is None:
        yield from _of_workload(profile.workload)
    else:
        yield from _of_script(profile.script)
    for path, (what, key) in _UNIQUE.items():
        for where, records in _places(profile, path):
            yield from _twice(where, map(attrgetter(key), records), what)
    yield from _of_values(profile)
    yield from _of_references(profile)
    yield from _of_predictions(profile)
    yield from _of_advice(profile)
    for where, blocks in (("blocks", profile.blocks), ("windows", profile.windows)):
        once = ((block.process, block.round, block.contestant) for block in blocks)
        yield from _twice(where, once, "process, round and contestant")


def _of_values(profile: Profile) -> Iterator[Problem]:
    for where, row in _places(profile, "results.*"):
        if isinstance(row, Measured):
            yield from _outside(f"{where}.median_seconds", row.median_seconds, row.interval_seconds)
    for where, advice in _all(profile, _RATIOS):
        if advice.speedup is not None and advice.interval is not None:
            yield from _outside(f"{where}.speedup", advice.speedup, advice.interval)
    for where, span in _all(profile, _SPANS):
        if span.end_seconds < span.begin_seconds:
            yield f"{where}.end_seconds", "it ends before it begins"
    for where, amount in _all(profile, _AMOUNTS):
        if amount > _MOST:
            yield where, f"{amount:g} is implausibly large"


def _all(record: Record, paths: Iterable[str], where: str = "") -> Iterator[tuple[str, Any]]:
    return chain.from_iterable(_places(record, path, where) for path in paths)


def _places(value: Any, path: str, where: str = "") -> Iterator[tuple[str, Any]]:
    """The values at a path of a record, each with its place; None is passed over."""
    step, _, rest = path.partition(".")
    if step == "*":
        inner = [(f"{where}.{number}", each) for number, each in enumerate(value)]
    else:
        inner = [(f"{where}.{step}".lstrip("."), getattr(value, step, None))]
    for place, each in inner:
        if each is not None:
            yield from _places(each, rest, place) if rest else ((place, each),)


def _unknown(where: str, names: str | Iterable[str], known: Collection[str], what: str) -> Iterator[Problem]:
    listed = (names,) if isinstance(names, str) else names
    return ((where, f"there is no {what} {name!r}") for name in listed if name not in known)


def _twice(where: str, names: Iterable[object], what: str) -> Iterator[Problem]:
    return ((where, f"the {what} {name!r} appears twice") for name, n in Counter(names).items() if n > 1)


def _outside(where: str, value: float, ends: tuple[float, float]) -> Iterator[Problem]:
    if not ends[0] <= value <= ends[1]:
        yield where, f"{value:g} is not within {ends[0]:g} to {ends[1]:g}"


def _figures(rows: Iterable[object]) -> set[str]:
    return {row.strategy for row in rows if isinstance(row, (Measured, Predicted))}


def _of_references(profile: Profile) -> Iterator[Problem]:
    rows = {row.strategy for row in profile.results}
    known: dict[str, Collection[str]] = {
        "stage": {stage.name for stage in profile.workload.stages},
        "buffer": {buffer.name for buffer in profile.workload.buffers},
        "row of": rows,
        "figure of": _figures(profile.results),
        "contestant": profile.final.contestants if profile.final else (),
    }
    for kind, paths in _REFERENCES.items():
        for where, names in _all(profile, paths):
            yield from _unknown(where, names, known[kind], kind)
    if profile.final is not None:
        yield from _unknown("final.contestants", profile.final.contestants.values(), rows, "row of strategy")
        yield from _unknown("final.alias", profile.final.alias or (), known["contestant"], "contestant")


def _of_predictions(profile: Profile) -> Iterator[Problem]:
    stages = {stage.name for stage in profile.workload.stages}
    for at, prediction in _places(profile, "predictions.*"):
        known = _figures(prediction.results)
        for where, names in _all(prediction, _CONCLUDED, at):
            yield from _unknown(where, names, known, "figure of")
        for where, row in _places(prediction, "results.*", at):
            if not isinstance(row, Predicted):
                continue
            if not row.terms:
                yield f"{where}.terms", "it is empty"
            ends = (row.low_seconds, row.high_seconds)
            yield from _outside(f"{where}.likely_seconds", row.likely_seconds, ends)
            yield from _unknown(f"{where}.over", row.over, known, "row of")
            parts = (term.partition(":") for term in row.terms)
            named = (stage for side, _, stage in parts if side in ("host", "device"))
            yield from _unknown(f"{where}.terms", named, stages, "stage")


def _of_advice(profile: Profile) -> Iterator[Problem]:
    known = {profile.device.name: {row.strategy for row in profile.results}}
    for prediction in profile.predictions:
        rows = known.setdefault(prediction.device.name, set())
        rows.update(row.strategy for row in prediction.results)
    for where, record in _places(profile, "advice.*"):
        yield from _unknown(f"{where}.device", record.device, known, "device")
        for place, name in _all(record, ("strategy", "gain.over"), where):
            yield from _unknown(place, name, known.get(record.device, ()), "row of")


def _of_script(script: ScriptRun) -> Iterator[Problem]:
    loops, crossings = len(script.loops), len(script.crossings)
    for where, loop in _all(script, ("crossings.*.loop", "ceilings.*.loop"), "script"):
        if not 0 <= loop < loops:
            yield where, f"there is no loop {loop}"
    for where, crossing in _places(script, "advice.*.crossing", "script"):
        if crossing >= crossings:
            yield where, f"there is no crossing {crossing}"
    for where, each in _places(script, "crossings.*", "script"):
        if each.loop is not None and each.frames > script.loops[each.loop].frames:
            yield f"{where}.frames", f"its loop has {script.loops[each.loop].frames}"
    for where, figures in _all(script, ("predictions.*.seconds", "predictions.*.likely_seconds"), "script"):
        if len(figures) != crossings:
            yield where, f"it has {len(figures)} figures for {crossings} crossings"
    if script.overhead_seconds > script.seconds:
        yield "script.overhead_seconds", "it is more than the run took"


def _of_workload(workload: WorkloadRecord) -> Iterator[Problem]:
    if not workload.frame_stages():
        yield "workload.stages", "no stage belongs to the frame"
    if (period := math.lcm(*(stage.every for stage in workload.stages))) > MOST_PERIOD:
        yield "workload.stages", f"every has a period of {period} frames; the most is {MOST_PERIOD}"
    loops = [loop for loop, _ in groupby(workload.frame_stages(), key=lambda stage: stage.loop) if loop]
    if [loop.number for loop in loops] != list(range(len(loops))):
        yield "workload.stages", "the loops are not numbered in the order of their stages"
    for number, stage in enumerate(workload.stages):
        if not stage.name or stage.name != in_a_line(stage.name):
            yield f"workload.stages.{number}.name", f"{stage.name!r} is not a one-line name"
        if stage.loop and (stage.phase == "setup" or stage.every > 1):
            why = "a stage of set-up or of some frames cannot be in a loop"
            yield f"workload.stages.{stage.name}.loop", why
    for where, buffer in _places(workload, "buffers.*", "workload"):
        yield from _of_buffer(where, buffer)


def _of_buffer(where: str, buffer: BufferRecord) -> Iterator[Problem]:
    if not is_name(buffer.name):
        yield f"{where}.name", f"{buffer.name!r} is not a variable name"
    if min(buffer.shape, default=0) < 1:
        yield f"{where}.shape", f"{buffer.shape} has no elements"
    for stage, bounds in buffer.regions.items():
        ends = zip(bounds, buffer.shape, strict=False)
        inside = all(0 <= start < stop <= most for (start, stop), most in ends)
        if len(bounds) != len(buffer.shape) or not inside:
            yield f"{where}.regions.{stage}", f"{bounds} does not lie in the shape {buffer.shape}"
    yield from _unknown(f"{where}.regions", buffer.regions, buffer.access, "stage")
    if buffer.valid is not None and buffer.regions:
        yield f"{where}.regions", "a buffer with a length has none"
    element, name = None, buffer.dtype
    with suppress(TypeError, ValueError, SyntaxError, RecursionError, MemoryError, OverflowError):
        # A structured one is the list or the table that makes it.
        element = np.dtype(literal_eval(name) if name.startswith(("[", "{")) else name)
    if element is None or str(element) != name:
        yield f"{where}.dtype", f"NumPy has no dtype {name!r}"
    elif (size := math.prod(buffer.shape) * element.itemsize) != buffer.bytes:
        yield f"{where}.bytes", f"{buffer.bytes} is not {size}, as shape and dtype make it"
