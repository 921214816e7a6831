"""Whether the parts of a profile agree: what one names, another has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from advisor.profiles.schema import Measured, Predicted, Profile, WorkloadRecord

_MOST = 1e21
"""Bytes, operations, seconds of a frame: what can still be divided and added up."""
Problem = tuple[str, str]
"""The key, and what is wrong with it."""


def contradiction(profile: Profile) -> Problem | None:
    """The first part that names what no other part has, or that leaves out what has to be there."""
    return next(_contradictions(profile), None)


def _contradictions(profile: Profile) -> Iterator[Problem]:
    yield from _of_rows(profile)
    if profile.script is None:
        yield from _of_workload(profile.workload)
        yield from _of_traffic(profile)
    yield from _of_final(profile)


def _unknown(where: str, names: Iterable[str], known: Iterable[str], what: str) -> Iterator[Problem]:
    there = set(known)
    return ((where, f"there is no {what} {name!r}") for name in names if name not in there)


def _twice(where: str, names: Iterable[object], what: str) -> Iterator[Problem]:
    return ((where, f"the {what} {name!r} appears twice") for name, n in Counter(names).items() if n > 1)


def _of_rows(profile: Profile) -> Iterator[Problem]:
    buffers = [buffer.name for buffer in profile.workload.buffers]
    yield from _twice("results", (row.strategy for row in profile.results), "strategy")
    for number, row in enumerate(profile.results):
        if isinstance(row, Measured):
            yield from _unknown(f"results.{number}.hints", row.hints, buffers, "buffer")
    for number, made in enumerate(profile.predictions):
        where = f"predictions.{number}.results"
        yield from _twice(where, (row.strategy for row in made.results), "strategy")
        for place, computed in enumerate(made.results):
            if isinstance(computed, Predicted) and not computed.terms:
                yield f"{where}.{place}.terms", "it is empty"


def _of_workload(workload: WorkloadRecord) -> Iterator[Problem]:
    stages = [stage.name for stage in workload.stages]
    buffers = [buffer.name for buffer in workload.buffers]
    if not workload.frame_stages():
        yield "workload.stages", "no stage belongs to the frame"
    yield from _twice("workload.stages", stages, "stage")
    yield from _twice("workload.buffers", buffers, "buffer")
    for buffer in workload.buffers:
        yield from _unknown(f"workload.buffers.{buffer.name}.access", buffer.access, stages, "stage")
    for stage in workload.stages:
        named = (*stage.passes, *stage.arrays)
        yield from _unknown(f"workload.stages.{stage.name}", named, buffers, "buffer")


def _of_traffic(profile: Profile) -> Iterator[Problem]:
    if profile.traffic is None:
        return
    stages = [stage.name for stage in profile.workload.stages]
    buffers = [buffer.name for buffer in profile.workload.buffers]
    moved, work = profile.traffic.traffic, profile.traffic.work
    yield from _unknown("traffic.traffic", (part.buffer for part in moved), buffers, "buffer")
    yield from _unknown("traffic.traffic", (part.stage for part in moved), stages, "stage")
    yield from _unknown("traffic.work", (part.stage for part in work), stages, "stage")
    bytes_moved = [amount for part in moved for amount in (part.bytes_read, part.bytes_written)]
    yield from _too_much("traffic.traffic", bytes_moved)
    for part in work:
        yield from _too_much("traffic.work", (part.flops or 0, part.temporary_bytes, part.seconds or 0))


def _too_much(where: str, amounts: Iterable[float]) -> Iterator[Problem]:
    return ((where, f"{amount:g} is implausibly large") for amount in amounts if amount > _MOST)


def _of_final(profile: Profile) -> Iterator[Problem]:
    known = profile.final.contestants if profile.final else {}
    for where, blocks in (("blocks", profile.blocks), ("windows", profile.windows)):
        yield from _unknown(where, (block.contestant for block in blocks), known, "contestant")
        once = ((block.process, block.round, block.contestant) for block in blocks)
        yield from _twice(where, once, "process, round and contestant")
    if profile.final is not None:
        ran = (row.strategy for row in profile.results)
        yield from _unknown("final.contestants", profile.final.contestants.values(), ran, "row of strategy")
