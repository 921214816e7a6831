"""Which loops are frames: the outermost that repeat the same crossings, or the inner ones that carry them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from advisor.measure.recording.loops import Loop
from advisor.measure.recording.recorder import Record

LEAST = 3
"""Iterations with the same crossing that make a loop one that repeats: two may be chance."""
CARRIED = 0.9
"""Share of a loop's crossings, launches and time that its inner loops need to take its place: an epoch gives
way to its batches, a frame does not to a loop over a few of its tensors."""
FEW, MANY = 20, 20
"""A loop with fewer iterations than FEW has no interval of its frame's time (`assembling.BATCHES`). Inner
loops with MANY times as many, or LEAST times as many in each of its iterations as it has, take its place
where they carry its launches and most of its crossings: a solver that is run for three systems gives way to
its steps, however long a system takes to set up."""


def frame_loops(
    records: Sequence[Record], launches: Counter[Loop | None], named: Loop | None = None
) -> tuple[Loop, ...]:
    """In the order of their first lines' files and numbers; none where nothing repeats."""
    if named is not None:
        return (named,)
    repeating = {
        each.loop
        for record in records
        for each in record.loops
        if each.frames >= LEAST and _is_use(record, launches[each.loop])
    }
    chosen: dict[Loop, None] = {}
    for record in records:
        chain = [each.loop for each in record.loops if each.loop in repeating]
        if chain:
            chosen.update(dict.fromkeys(_carriers(chain[0], records, launches, repeating)))
    return tuple(sorted(chosen, key=lambda loop: (loop.file, loop.first)))


def _is_use(record: Record, launches: int) -> bool:
    """Not what page-locks buffers one by one, or waits for streams that got their work elsewhere."""
    event = record.event
    drains = event.kind == "wait" and event.call.endswith("ynchronize")
    return event.kind != "lock" and (launches > 0 or not drains)


def frame_of(record: Record, frames: Sequence[Loop]) -> int | None:
    """Which of the frames' loops a record is in, the innermost; None outside of them."""
    numbers = (frames.index(each.loop) for each in reversed(record.loops) if each.loop in frames)
    return next(numbers, None)


def _carriers(
    loop: Loop, records: Sequence[Record], launches: Counter[Loop | None], repeating: set[Loop]
) -> Iterable[Loop]:
    """The inner loops that carry the loop, theirs in turn, or the loop itself."""
    inside = [record for record in records if any(each.loop is loop for each in record.loops)]
    inner = dict.fromkeys(below[0] for record in inside if (below := _below(record, loop, repeating)))
    crossings = sum(record.count for record in inside)
    carried = sum(record.count for record in inside if _below(record, loop, repeating))
    many = min(MANY, LEAST * loop.turns) * loop.turns
    repeats_few = loop.turns < FEW and sum(each.turns for each in inner) >= many
    enough = (
        bool(inner)
        and carried >= (0.5 if repeats_few else CARRIED) * crossings
        and sum(launches[each] for each in inner) >= CARRIED * launches[loop]
        and (repeats_few or sum(max(each.seconds, each.whole) for each in inner) >= CARRIED * loop.seconds)
    )
    if not enough:
        return (loop,)
    return [each for one in inner for each in _carriers(one, records, launches, repeating)]


def _below(record: Record, loop: Loop, repeating: set[Loop]) -> list[Loop]:
    chain = [each.loop for each in record.loops]
    return [each for each in chain[chain.index(loop) + 1 :] if each in repeating]
