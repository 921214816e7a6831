"""What a script's crossings take on a device where they were not measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from advisor.devices.entries import CatalogueEntry
from advisor.model import terms
from advisor.model.machines import Machine
from advisor.model.terms import DRAWS, Values, constant, span
from advisor.profiles.crossings import Ceiling, Crossing, LinePrediction, ScriptRun
from advisor.verdicts.ceilings import Scope, scopes

_PLAYED = "Bytes and counts are of a run without a GPU ({}); a GPU's frame time is not predicted."


def occurrence(crossing: Crossing, machine: Machine, memory: str = "") -> Values | None:
    """Seconds of one occurrence; None where the model has no figure: page-locking, managed memory.

    memory: as if the host memory were of this kind, and the host waited before it uses that again. Memory of
    an unknown kind counts as pageable.
    """
    kind = memory or crossing.memory
    if crossing.kind == "lock" or (kind == "managed" and crossing.kind != "wait"):
        return None
    busy = constant(1.0) if machine.calibrated else machine.model("slower_clocks")
    if crossing.kind == "wait":
        return busy * (machine.get("pageable_copy_call_seconds") + machine.get("synchronize_seconds"))
    way = "pinned" if kind == "pinned" or crossing.staged else "pageable"
    residual = busy * machine.model("unexplained") * machine.model(f"unexplained_{way}")
    waits = kind == "pinned" and (bool(memory) or not crossing.asynchronous)
    wait = busy * machine.get("synchronize_seconds") if waits else 0.0  # a pageable call's has its own
    return np.asarray(residual * _copy(crossing, machine, pinned=kind == "pinned") + wait)


def _copy(crossing: Crossing, machine: Machine, *, pinned: bool) -> Values:
    size = crossing.bytes / crossing.count
    to: Literal["to_device", "to_host"] = "to_device" if crossing.kind == "upload" else "to_host"
    link = machine.get(f"pinned_{to}_bytes_per_second")
    direct = np.asarray(terms.copy(size, machine.get("pinned_copy_call_seconds"), link))
    if pinned:
        return direct
    if crossing.staged:  # the library's own copy into its page-locked memory comes before
        return direct + size / machine.get("host_copy_bytes_per_second")
    call = machine.get("pageable_copy_call_seconds")
    return np.asarray(terms.copy(size, call, machine.pageable_rate(to)))


def predict_crossings(run: ScriptRun, target: CatalogueEntry) -> tuple[LinePrediction, tuple[Ceiling, ...]]:
    """The crossings' seconds on the target, and what memory can change in a frame there."""
    machine = Machine(target)
    drawn = [occurrence(crossing, machine) for crossing in run.crossings]
    spans = [None if each is None else span(each) for each in drawn]
    prediction = LinePrediction(
        device=target.name,
        seconds=tuple(None if each is None else (each[0], each[2]) for each in spans),
        likely_seconds=tuple(None if each is None else each[1] for each in spans),
        assumptions=tuple(_assumptions(run, target)),
    )
    return prediction, tuple(_ceiling(scope, drawn, target.name) for scope in scopes(run))


def _ceiling(scope: Scope, drawn: list[Values | None], device: str) -> Ceiling:
    """The sums are taken draw by draw: what lines share does not cancel as independent ranges would."""
    sums = {True: constant(0.0), False: constant(0.0)}
    for i, crossing in scope.crossings:
        seconds = drawn[i]
        if seconds is not None:
            waits = crossing.kind == "wait"
            sums[waits] = sums[waits] + seconds * (crossing.count / scope.frames)
    low, likely, high = span(sums[True] + sums[False])
    whole = float(sums[True][0] + sums[False][0])
    fit = likely / whole if whole else 1.0
    return Ceiling(
        loop=scope.number,
        copy_seconds=fit * float(sums[False][0]),
        wait_seconds=fit * float(sums[True][0]),
        predicted=True,
        interval_seconds=(low, high) if whole else None,
        device=device,
    )


def _assumptions(run: ScriptRun, target: CatalogueEntry) -> Iterator[str]:
    yield (
        f"All times for {target.name} are predicted, not measured. Ranges are the 5th to 95th percentile of "
        f"{DRAWS} simulated devices. Copies and waits count as if nothing ran beside them."
    )
    if run.played:
        yield _PLAYED.format(run.played)
    if any(c.memory == "unknown" and c.kind in ("upload", "download") for c in run.crossings):
        yield "Host memory of an unknown kind counts as pageable."
    if any(c.kind == "lock" for c in run.crossings):
        yield "The time of page-locking is not predicted."
    if any(c.memory == "managed" for c in run.crossings):
        yield "Copies from and to managed memory are not predicted."
