"""ping-pong-migration: managed pages that go back and forth because both sides use them in turn."""

from advisor import units
from advisor.devices.memory_class import moves_whole
from advisor.rules.base import Case, Finding, Kind, Limits, Traced, migrations, passed
from advisor.rules.rows import changes_of_side, shared
from advisor.strategies.registry import BASELINE

MANAGED = Kind("managed", lambda row: row.places(lambda placed: placed.managed))

_BY_PAGES = "At each change the touched pages migrate, by faults or prefetch."
_WHOLE = (
    "Without concurrentManagedAccess nothing migrates by pages: the driver moves each managed buffer that "
    "the CPU touched whole to the GPU before the next launch, and back when the CPU touches it."
)


def judge(case: Case, limits: Limits) -> Finding:
    managed = min(case.of(MANAGED), key=lambda row: row.seconds)
    whole = moves_whole(case.device.attributes)
    # Over a coherent link no page has to move at all, and what moves whole does so ten times slower than
    # copies: the two changes of any shared buffer count.
    least = 2 if whole or case.device.memory_class == "coherent" else limits["changes"]
    changes = {buffer.name: changes_of_side(buffer, case.workload) for buffer in shared(case.workload)}
    often = [buffer for buffer in shared(case.workload) if changes[buffer.name] >= least]
    if not often:
        most = max(changes.values(), default=0)
        reason = f"A buffer changes sides at most {most} times per frame: one round trip."
        return passed(reason, managed.figure("side changes of a buffer per frame", most, "count"))
    moved = sum(buffer.bytes * changes[buffer.name] for buffer in often)
    shown = [
        *(managed.figure(f"side changes of {b.name} per frame", changes[b.name], "count") for b in often),
        managed.figure("maximum bytes that change sides per frame", moved, "bytes"),
        managed.kernels(),
    ]
    named = ", ".join(f"{b.name} ({units.size(b.bytes)}) {changes[b.name]} times" for b in often)
    cause = f"Buffers change sides in each frame: {named}."
    others = [row for row in case.rows.values() if not MANAGED.has(row)]
    better = case.proposal(others, managed)
    if better is not None:
        cause += f" {_WHOLE if whole else _BY_PAGES}"
        return case.swap(managed, better, cause, [*shown, better.kernels()])
    nearest = case.fastest(row for row in others if row.strategy != BASELINE)
    beside = f", {nearest.takes}" if nearest else ""
    shown += [nearest.frame()] if nearest else []
    return passed(
        f"{cause} But no other strategy is clearly faster: {managed.takes} a frame{beside}.", *shown
    )


TRACED = Traced((MANAGED.example,), migrations)
