"""Frames that overlap, with CuPy: two sets of buffers, and a stream each for uploads, kernels, downloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.profiles.schema import BufferRecord, Device, WorkloadRecord
from advisor.rules.placed import shared
from advisor.rules.snippets import helpers
from advisor.rules.snippets.cupy_code import two_memories
from advisor.rules.snippets.serial import arguments, arrival, planned, stage_comment
from advisor.strategies.overlap import doubled
from advisor.strategies.registry import Strategy
from advisor.strategies.schedule import Step, stage_uses

_QUEUED = ("device", "to-device", "to-host")


def overlapping(strategy: Strategy, workload: WorkloadRecord, device: Device) -> str:
    """Functions `begin`, `finish` and `frames`; what only one set is needed of is taken once."""
    twice = set(doubled(stage_uses(workload, "frame")))
    both = shared(workload)
    writer = _Writer(workload, {buffer.name for buffer in both}, twice)
    steps = planned(strategy, workload, device)
    head, body, tail = _cut(steps.steady)
    once = [s for s in steps.first if s not in steps.steady and s.action == "to-device"]
    lines = [
        *f"{helpers.IMPORTS}{helpers.PINNED}".splitlines(),
        *_buffers([b for b in both if b.name in twice], [b for b in both if b.name not in twice]),
        *(f"{s.name}_device.set({s.name}, stream=kernels)  # once, after set-up" for s in once),
        *("", "", "def begin(slot):", '    """Queues a frame up to where the CPU has to wait for it."""'),
        *writer.begin(head, body),
        *("", "", "def finish(slot):", '    """Waits for that frame alone, and does the rest of it."""'),
        *writer.finish(tail),
        *_LOOP.splitlines(),
    ]
    return "\n".join(lines) + "\n"


_LOOP = '''

def frames(count):
    """Frame i + 1 is produced and uploaded while frame i computes."""
    begin(slots[0])
    for index in range(count):
        if index + 1 < count:
            begin(slots[(index + 1) % 2])
        finish(slots[index % 2])
'''


def _buffers(twice: Sequence[BufferRecord], once: Sequence[BufferRecord]) -> Iterator[str]:
    yield from ("", "", "class Slot:", '    """The buffers of one frame in flight."""', "")
    yield "    def __init__(self):"
    for buffer in twice:
        call = f"pinned_empty({arguments(buffer)})"
        yield from (f"        self.{line}" for line in two_memories(call, buffer))
        yield from (f"        {line}" for line in arrival(buffer))
    if not twice:
        yield "        pass"
    yield from ("", "", "slots = [Slot(), Slot()]")
    for buffer in once:
        yield from two_memories(f"pinned_empty({arguments(buffer)})", buffer)
        yield from arrival(buffer)
    yield "uploads, kernels, downloads = (cupy.cuda.Stream(non_blocking=True) for _ in range(3))"


def _cut(steady: Sequence[Step]) -> tuple[Sequence[Step], Sequence[Step], Sequence[Step]]:
    """Before the first kernel; what is queued from there on; from the first wait or host stage on."""
    kernel = next(i for i, step in enumerate(steady) if step.action == "device")
    rest = range(kernel, len(steady))
    end = next((i for i in rest if steady[i].action not in _QUEUED), len(steady))
    return steady[:kernel], steady[kernel:end], steady[end:]


class _Writer:
    """Writes steps with the buffers of a slot, and those that there is one of."""

    def __init__(self, workload: WorkloadRecord, shared: set[str], twice: set[str]) -> None:
        self._workload = workload
        self._shared = shared
        self._twice = twice

    def _at(self, name: str) -> str:
        return f"slot.{name}" if name.removesuffix("_device") in self._twice else name

    def _stage(self, step: Step) -> str:
        return stage_comment(step, self._workload, self._shared, self._at)

    def _move(self, step: Step, stream: str) -> str:
        host, device = self._at(step.name), self._at(f"{step.name}_device")
        if step.action == "to-device":
            return f"{device}.set({host}, stream={stream})"
        return f"{device}.get(stream={stream}, out={host}, blocking=False)"

    def begin(self, head: Sequence[Step], body: Sequence[Step]) -> Iterator[str]:
        """Host stages and uploads; kernels behind the uploads; downloads behind the kernels."""
        for step in head:
            yield f"    {self._move(step, 'uploads') if step.action == 'to-device' else self._stage(step)}"
        yield "    kernels.wait_event(uploads.record())"
        last = "kernels"
        for step in body:
            if step.action == "to-host":
                yield "    downloads.wait_event(kernels.record())"
                yield f"    {self._move(step, 'downloads')}"
                last = "downloads"
            else:
                yield from self._on_kernels(step)
        yield f"    slot.done = {last}.record()"

    def finish(self, tail: Sequence[Step]) -> Iterator[str]:
        """The wait for what `begin` queued; any later kernels and copies on the kernels' stream."""
        yield "    slot.done.synchronize()"
        queued = False
        for step in tail:
            if step.action == "host":
                yield f"    {self._stage(step)}"
            elif step.action != "synchronize":
                queued = True
                yield from self._on_kernels(step)
            elif queued:
                queued = False
                yield "    kernels.synchronize()"

    def _on_kernels(self, step: Step) -> Iterator[str]:
        if step.action == "device":
            yield "    with kernels:"
            yield f"        {self._stage(step)}"
            yield "        pass"
        else:
            yield f"    {self._move(step, 'kernels')}"
