"""What HEAD computes against what BASE computes from the same inputs, and what work frames of HEAD change.

Where frames do different work, times and results differ by design, so that no gate applies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from advisor import units
from advisor.profiles.schema import WorkloadRecord
from advisor.texts import listed

_FEW = 3
_SMALL_SHARE, _NEARLY_ALL = 0.001, 0.995
_TWICE = 2.0


@dataclass(frozen=True)
class BufferDifference:
    """How one buffer of HEAD differs from BASE's in the first frame in which it does.

    `largest` is the largest absolute error, at the index `place` where all elements were compared.
    `shapes`: of BASE and HEAD, where they are not the same. `values`: HEAD's and BASE's where the error is
    largest. `explained`: what rounding explains near zero.
    """

    buffer: str
    frame: int
    wrong: int = 0
    elements: int = 0
    largest: float | None = None
    place: tuple[int, ...] | None = None
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    values: tuple[str, str] = ("", "")
    explained: float = 0.0

    @property
    def sentence(self) -> str:
        if self.shapes:
            return f"`{self.buffer}` has shape {list(self.shapes[1])} instead of {list(self.shapes[0])}"
        share, same = self.wrong / self.elements, self.elements - self.wrong
        count = f"{units.digits(share * 100, 2)} % of its"
        if share < _SMALL_SHARE:
            count = f"{self.wrong} of its {self.elements}"
        elif share >= _NEARLY_ALL:
            count = f"all but {same} of its" if same else "all of its"
        largest = "" if self.largest is None else f", largest {self.largest:.2g}"
        place = f" at {list(self.place)}" if self.place is not None else ""
        late = f" from frame {self.frame} on" if self.frame else ""
        return f"`{self.buffer}` differs in {count} elements{largest}{place}{late}"


@dataclass(frozen=True)
class Results:
    """Results of both versions, compared buffer by buffer.

    `unrepeatable`: buffers that differ between two runs of BASE. `unsteady`: between two of HEAD alone.
    `gone`: those that HEAD does not have.
    `absent`: why none were compared. `values`: parameters that are HEAD's in both, where BASE has others.
    """

    compared: tuple[str, ...] = ()
    different: tuple[BufferDifference, ...] = ()
    unrepeatable: tuple[str, ...] = ()
    unsteady: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    absent: str = ""
    values: str = ""

    @property
    def sentence(self) -> str:
        """`HEAD computes something else: ...`; empty where it does not, or where that is unknown."""
        if not self.different:
            return ""
        differences = [each.sentence for each in self.different[:_FEW]]
        more = len(self.different) - _FEW
        differences += [f"{more} more"] if more > 0 else []
        with_values = f" with {self.values} in both" * bool(self.values)
        return f"HEAD computes something else{with_values}: {'; '.join(differences)}"

    @property
    def notes(self) -> Iterator[str]:
        """What was not compared, and why."""
        for names, side in ((self.unrepeatable, "BASE"), (self.unsteady, "HEAD, but not of BASE")):
            if names:
                yield f"Two runs of {side} differ in {_listed(names)}, so these results were not compared."
        if self.gone and not self.absent:
            yield f"HEAD has no {_listed(self.gone)}, so these results of BASE were not compared."
        if self.absent:
            yield f"Results of BASE and HEAD were not compared: {self.absent}."


NO_RESULTS = Results(absent="profiles hold times, not results")


def changed_work(base: WorkloadRecord, head: WorkloadRecord) -> tuple[str, ...]:
    """Parameters with other values and buffers of another size, which both have."""
    both = (name for name in base.parameters if name in head.parameters)
    changes = [
        f"`{name}` is {head.parameters[name]} instead of {base.parameters[name]}"
        for name in both
        if base.parameters[name] != head.parameters[name]
    ]
    sizes = {buffer.name: math.prod(buffer.shape) for buffer in base.buffers}
    grown: dict[str, list[str]] = {}
    for buffer in head.buffers:
        before, now = sizes.get(buffer.name), math.prod(buffer.shape)
        if before is not None and before != now:
            grown.setdefault(_size(before, now), []).append(buffer.name)
    for size, names in grown.items():
        changes.append(f"{_listed(names)} {'is' if len(names) == 1 else 'are'} {size}")
    return tuple(changes)


def retyped(base: WorkloadRecord, head: WorkloadRecord) -> tuple[str, ...]:
    """Buffers of both whose elements have another type, which gates apply to: the result is the same."""
    dtypes = {buffer.name: buffer.dtype for buffer in base.buffers}
    return tuple(
        f"`{buffer.name}` is {buffer.dtype} instead of {dtypes[buffer.name]}"
        for buffer in head.buffers
        if dtypes.get(buffer.name, buffer.dtype) != buffer.dtype
    )


def _size(before: int, now: int) -> str:
    if before and now and (now / before >= _TWICE or before / now >= _TWICE):
        factor = units.digits(max(now / before, before / now), 2)
        return f"{factor} times as large" if now > before else f"{factor} times smaller"
    share = abs(now / before - 1) * 100 if before else math.inf
    return f"{share:.2g} % {'larger' if now > before else 'smaller'}" if before else "no longer empty"


def _listed(names: Sequence[str]) -> str:
    return listed([f"`{name}`" for name in names], _FEW)
