"""Mixes: each shared buffer has a placement of its own, named by the strategy that has it for all buffers.

A mix is data, `{"table": "zero-copy", "weights": "pinned"}`. Within a profile its short name is `hybrid-1`;
between profiles two mixes are the same where their placements are. Those that can be searched are made of the
placements that differ on a device.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TypeVar

from advisor.errors import UsageError, nearest
from advisor.profiles.base import Record, cleaned, optional
from advisor.profiles.figures import Row
from advisor.profiles.schema import BufferRecord, Device, Profile, WorkloadRecord
from advisor.strategies import registry
from advisor.strategies.placement import Placement
from advisor.strategies.registry import BASELINE, STRATEGIES, Strategy, by_name, to_place

AnyRow = TypeVar("AnyRow", bound=Row)
PREFIX = "hybrid-"
_SHORT_NAME = re.compile(rf"\b{PREFIX}\d+\b")
PLACEMENTS = {s.name: s.placement for s in STRATEGIES if not s.pipelined}
"""By name, in the order of the strategies."""
_OVERLAPPING = next(strategy for strategy in STRATEGIES if strategy.pipelined)


class MixRecord(Record):
    """A mix as passed to a process: what was chosen, and how all other buffers are placed."""

    chosen: dict[str, str]
    rest: str
    pipelined: bool = optional("Frames overlap", False)


@dataclass(frozen=True)
class Mix(Strategy):
    """A strategy with a placement for each buffer: the chosen ones, and one for the rest."""

    chosen: tuple[tuple[str, str], ...] = ()
    rest: str = BASELINE

    def unavailable(self, device: Device) -> str | None:
        used = dict.fromkeys((*dict(self.chosen).values(), self.rest))
        reasons = (PLACEMENTS[name].unavailable(device) for name in used)
        if refused := next(filter(None, reasons), None):
            return refused
        placed = [PLACEMENTS[name] for name in used] if self.pipelined else []
        if any(placement.traits(device).exclusive for placement in placed):
            return (
                f"the CPU of {device.name} must not touch managed memory while a kernel runs "
                "(concurrentManagedAccess is 0), so frames cannot overlap"
            )
        if any(placement.staged for placement in placed):
            return "each copy through CuPy's pool makes a new array, so frames cannot overlap"
        return None

    def assigned(self, workload: WorkloadRecord) -> dict[str, str]:
        chosen = dict(self.chosen)
        return {buffer.name: chosen.get(buffer.name, self.rest) for buffer in to_place(workload)}

    def record(self) -> MixRecord:
        return MixRecord(chosen=dict(self.chosen), rest=self.rest, pipelined=self.pipelined)

    def _chosen(self, buffer: BufferRecord) -> Placement:
        return PLACEMENTS[dict(self.chosen).get(buffer.name, self.rest)]


def mix(name: str, chosen: Mapping[str, str], rest: str = BASELINE, *, pipelined: bool = False) -> Mix:
    """The mix of that short name. Its change of code is that of its largest part, and one more: two ways to
    place buffers are more to keep apart than one."""
    parts = [by_name(each).code_change for each in {*chosen.values(), rest}]
    parts += [_OVERLAPPING.code_change] if pipelined else []
    title = label(chosen, pipelined=pipelined)
    return Mix(
        name,
        title,
        PLACEMENTS[rest],
        code_change=max(parts) + 1,
        description=title,
        searched=(),
        pipelined=pipelined,
        chosen=tuple(chosen.items()),
        rest=rest,
    )


def label(placements: Mapping[str, str], *, pipelined: bool = False) -> str:
    """`table: zero-copy, weights: pinned`."""
    placed = [f"{buffer}: {placement}" for buffer, placement in placements.items()]
    return ", ".join([*placed, *["overlapping frames"] * pipelined])


def identity(row: Row) -> str:
    """The key of a row in comparisons of profiles: a mix by its placements, any other by its name."""
    if not row.placements:
        return row.strategy
    return label(dict(sorted(row.placements.items())), pipelined=row.pipelined)


def requested(chosen: Mapping[str, str], bases: Sequence[Strategy]) -> tuple[Mix, ...]:
    """These placements, and each of the strategies for the buffers that they do not name."""
    return tuple(
        mix(f"{PREFIX}{n}", chosen, one.name if one.name in PLACEMENTS else "pinned", pipelined=one.pipelined)
        for n, one in enumerate(bases, start=1)
    )


def known(name: str, mixes: Mapping[str, MixRecord]) -> Strategy:
    record = mixes.get(name)
    return mix(name, record.chosen, record.rest, pipelined=record.pipelined) if record else by_name(name)


def of_row(row: Row) -> Strategy | None:
    """The strategy of a saved row; None for one that this version does not know."""
    if row.placements:
        if not set(row.placements.values()) <= PLACEMENTS.keys():
            return None
        return mix(row.strategy, row.placements, pipelined=row.pipelined)
    return next((strategy for strategy in STRATEGIES if strategy.name == row.strategy), None)


def mixes_of(profile: Profile) -> dict[str, Row]:
    """The rows of mixes by their short name, measured ones before predicted ones."""
    predicted = (row for prediction in profile.predictions for row in prediction.results)
    rows: Iterable[Row] = (*profile.results, *predicted)
    named: dict[str, Row] = {}
    for row in rows:
        if row.placements:
            named.setdefault(row.strategy, row)
    return named


def named_by_placements(profile: Profile) -> Profile:
    """The profile with each mix called by its placements in place of its short name."""
    names = {name: identity(row) for name, row in mixes_of(profile).items()}
    return cleaned(profile, lambda text, _: names.get(text, text)) if names else profile


def numbered_alike(profiles: Sequence[Profile]) -> list[Profile]:
    """The profiles with one number for each mix in all of them: alone, each numbers its own."""
    numbers: dict[str, str] = {}
    numbered_profiles = []
    for profile in profiles:
        names = {
            name: numbers.setdefault(identity(row), f"{PREFIX}{len(numbers) + 1}")
            for name, row in mixes_of(profile).items()
        }
        same = all(name == new for name, new in names.items())
        numbered_profiles.append(profile if same else cleaned(profile, partial(_renamed, names)))
    return numbered_profiles


def _renamed(names: Mapping[str, str], text: str, _: object) -> str:
    return _SHORT_NAME.sub(lambda match: names.get(match[0], match[0]), text)


def strategies_of(profile: Profile) -> dict[str, Strategy]:
    mixes = ((name, of_row(row)) for name, row in mixes_of(profile).items())
    return {s.name: s for s in STRATEGIES} | {name: one for name, one in mixes if one}


def noted(row: AnyRow, strategy: object, workload: WorkloadRecord) -> AnyRow:
    if not isinstance(strategy, Mix):
        return row
    update = {"placements": strategy.assigned(workload), "pipelined": strategy.pipelined}
    return row.model_copy(update=update)


def require_placements(chosen: Mapping[str, str], called: str) -> None:
    """Raises `UsageError` for a name that is no placement's; `called` is what the option is called."""
    for buffer, placement in chosen.items():
        if placement not in PLACEMENTS:
            near = nearest(placement, list(PLACEMENTS), 2)
            wrong = f"{called} {buffer}={placement}: there is no placement {placement!r}{near}"
            raise UsageError(wrong, next_step=f"Choose from {', '.join(PLACEMENTS)}.")


def require_fits(strategies: Iterable[object], workload: WorkloadRecord, device: Device) -> None:
    """Raises `UsageError` for a mix that this workload has no use for, or a GPU cannot do."""
    for one in strategies:
        if isinstance(one, Mix):
            _require_fits(one, workload, device)


def _require_fits(one: Mix, workload: WorkloadRecord, device: Device) -> None:
    placed = [buffer.name for buffer in to_place(workload)]
    listed = f"Buffers that CPU and GPU, or several GPUs, share: {', '.join(placed) or 'none'}."
    used = registry.sides(workload)
    for buffer, placement in one.chosen:
        wrong, step = "", listed
        if buffer not in used:
            wrong = f"there is no buffer {buffer!r}{nearest(buffer, placed)}"
        elif buffer not in placed:
            only = {"host": "the CPU", "device": "the GPU"}[next(iter(used[buffer]), "host")]
            wrong = f"only {only} uses the buffer {buffer!r}, so it stays there"
        elif PLACEMENTS[placement].between_gpus and buffer not in registry.crossing(workload):
            wrong = f"no GPU reads what another one writes of the buffer {buffer!r}"
            step = f"Use {buffer}=pinned, which is the same there."
        elif device.kind == "cuda":
            wrong = PLACEMENTS[placement].unavailable(device) or ""
            step = "Choose another placement; see `advisor strategies`."
        if wrong:
            raise UsageError(f"--placement {buffer}={placement}: {wrong}", next_step=step)
    if same := uniform(one.assigned(workload), pipelined=one.pipelined):
        wrong = f"--placement: every shared buffer has the placement of {same}, so this is not a mix"
        raise UsageError(wrong, next_step=f"Run that strategy: --strategy {same}.")


def uniform(placements: Mapping[str, str], *, pipelined: bool = False) -> str | None:
    """The strategy that places all buffers so; None where there is none."""
    if len(set(placements.values())) != 1:
        return None
    same = next(iter(placements.values()))
    overlapping = _OVERLAPPING.name if PLACEMENTS[same] == _OVERLAPPING.placement else None
    return overlapping if pipelined else same


def numbered(one: Mix, number: int) -> Mix:
    return replace(one, name=f"{PREFIX}{number}")


MOST_BUFFERS = 8
"""The largest ones are changed, of more."""
MOST_EXHAUSTIVE = 4
"""Buffers of which all mixes can be measured: 256 of four."""

Placed = Mapping[str, str]
"""Placement by buffer."""


def tried_for(device: Device, among: registry.SearchedFor) -> tuple[str, ...]:
    """The placements that are tried for these buffers on that device, in the order of the strategies."""
    searched = (strategy for strategy in STRATEGIES if among in strategy.searched)
    return tuple(strategy.name for strategy in searched if strategy.unavailable(device) is None)


def alike(workload: WorkloadRecord, name: str) -> dict[str, str]:
    return {buffer.name: name for buffer in to_place(workload)}


def choices(workload: WorkloadRecord, device: Device) -> dict[str, tuple[str, ...]]:
    """The placements that are tried for each of the buffers whose placement is searched for; external memory
    can be registered where it is, too, and what crosses between GPUs be copied from one to the other."""
    one_memory = (device.memory_class or "").startswith("tegra")
    names = tried_for(device, "one-memory" if one_memory else "cards")
    external = {buffer.name for buffer in workload.buffers if buffer.external}
    further = tuple(name for name in tried_for(device, "external") if name not in names)
    between = registry.crossing(workload) if workload.gpus > 1 else ()
    peers = tried_for(device, "between-gpus")
    largest = sorted(to_place(workload), key=lambda buffer: -buffer.bytes)[:MOST_BUFFERS]
    return {b.name: names + further * (b.name in external) + peers * (b.name in between) for b in largest}


def changes(placed: Placed, tried: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Every mix in which one of the buffers is placed otherwise."""
    for buffer, names in tried.items():
        yield from ({**placed, buffer: name} for name in names if name != placed[buffer])


def every_mix(tried: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    for choice in product(*tried.values()):
        placed = dict(zip(tried, choice, strict=True))
        if not uniform(placed):
            yield placed


def used_alike(workload: WorkloadRecord) -> bool:
    """Whether all shared buffers have about the same size and the same uses."""
    return len({_use(buffer, workload) for buffer in to_place(workload)}) < 2


def _use(buffer: BufferRecord, workload: WorkloadRecord) -> tuple[object, ...]:
    uses = tuple((s.side, s.phase, s.name, buffer.access.get(s.name)) for s in workload.stages)
    touched = tuple(use for use in uses if use[-1])
    return round(math.log2(max(buffer.bytes, 1))), buffer.external, bool(buffer.regions), touched
