"""Which GPU's stream must wait for which: work on different GPUs overlaps where no buffer orders it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TypeAlias

from advisor.strategies.parts import buffer_of
from advisor.strategies.schedule import Place, Step

Memory: TypeAlias = tuple[str, Place]
"""A buffer's memory in a place; of a buffer with one memory for all, the place is empty."""


@dataclass(frozen=True)
class _Use:
    """What a step did to a memory: its GPU, its place in the list of steps, and whether it wrote."""

    gpu: int
    at: int
    wrote: bool


@dataclass
class Streams:
    """The steps that GPUs were given, each GPU's in order, since the host waited for it last.

    A step that touches what another GPU has written, or overwrites what another reads, comes after that: its
    stream waits for a mark behind the other's step, and the host for nothing.
    """

    uses: defaultdict[Memory, list[_Use]] = field(default_factory=lambda: defaultdict(list))
    after: dict[tuple[int, int], int] = field(default_factory=dict)
    """For a GPU and another: the last step of the other that its stream has waited for."""
    last: dict[int, int] = field(default_factory=dict)
    """The last step of each GPU."""
    marks: dict[int, int] = field(default_factory=dict)
    """Steps behind which there is a mark, and its number."""

    def add(
        self, steps: list[Step], step: Step, reads: Collection[Memory], writes: Collection[Memory]
    ) -> None:
        """Appends the step to the list, behind the waits that it needs."""
        for other, at in sorted(self._awaited(step.gpu, reads, writes).items()):
            last = _end_of_row(steps, at)
            number = self.marks.setdefault(last, len(self.marks))
            self.after[step.gpu, other] = last
            steps.append(Step("order", str(number), gpu=step.gpu, source=other))
        steps.append(step)
        self.last[step.gpu] = len(steps) - 1
        for memory in reads:
            self.uses[memory].append(_Use(step.gpu, len(steps) - 1, wrote=False))
        for memory in writes:
            self.uses[memory] = [_Use(step.gpu, len(steps) - 1, wrote=True)]

    def _awaited(self, gpu: int, reads: Collection[Memory], writes: Collection[Memory]) -> dict[int, int]:
        """For each other GPU, the last of its steps that must be over first."""
        found: dict[int, int] = {}
        for memory in (*reads, *writes):
            for use in self.uses.get(memory, ()):
                matters = use.gpu != gpu and (use.wrote or memory in writes)
                if matters and use.at > self.after.get((gpu, use.gpu), -1):
                    found[use.gpu] = max(use.at, found.get(use.gpu, -1))
        return found

    def settle(self, gpu: int) -> set[int]:
        """The host has waited for that GPU: which are done with it, those among them whose last step it came
        after."""
        done = {gpu} | {
            other for other, last in self.last.items() if self.after.get((gpu, other), -1) >= last
        }
        for memory, uses in self.uses.items():
            self.uses[memory] = [use for use in uses if use.gpu not in done]
        return done

    def marked(self, steps: list[Step]) -> list[Step]:
        """The steps with their marks, after which none of them is waited for any more."""
        found = []
        for at, step in enumerate(steps):
            found.append(step)
            if at in self.marks:
                found.append(Step("mark", str(self.marks[at]), gpu=step.gpu))
        self.uses.clear()
        self.after.clear()
        self.last.clear()
        self.marks.clear()
        return found


def _end_of_row(steps: list[Step], at: int) -> int:
    """The last of the moves of one buffer, part by part, that begin there: one mark does for them."""
    kinds = [(s.action, s.gpu, s.source, buffer_of(s.name)) for s in steps[at:]]
    alike = takewhile(lambda kind: kind == kinds[0], kinds[1:] if steps[at].action != "device" else ())
    return at + sum(1 for _ in alike)
