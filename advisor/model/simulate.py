"""All strategies of one workload on one device, in every draw; and a script's crossings where they were not
measured.

What the terms leave unexplained are factors that only widen ranges: every likely value has the factor 1. Two
are common to all strategies of a device (its kernels and host code are not the average ones; a Jetson's
clocks may not be at their top), and cancel out of their ratios. The other belongs to the way a strategy moves
data, and does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from advisor import units
from advisor.devices.entries import CatalogueEntry, moves_whole
from advisor.model import terms
from advisor.model.context import NOTHING, Context, Learned
from advisor.model.machines import Machine, shares_memory
from advisor.model.several_gpus import frame_on_several, unknown, unknown_strategy
from advisor.model.steady_frame import Frame, Timed, by_part, overlapped, timed_steps
from advisor.model.terms import DRAWS, Values, constant, span
from advisor.profiles.conclusions import Objective, counts_latency
from advisor.profiles.crossings import Ceiling, Crossing, LinePrediction, ScriptRun
from advisor.profiles.figures import Iterations
from advisor.profiles.schema import Trace, WorkloadRecord
from advisor.profiles.traces import StageWork, Traffic
from advisor.strategies.placement import Placement
from advisor.strategies.registry import STRATEGIES, Strategy
from advisor.strategies.schedule import share_of
from advisor.verdicts.ceilings import Scope, scopes

Way = Literal["pinned", "pageable", "in_place", "managed", "prefetched", "whole"]


@dataclass(frozen=True)
class Simulated:
    """One strategy: seconds by part and in all, in every draw; `latency` only where frames overlap."""

    parts: dict[str, Values]
    seconds: Values
    latency: Values | None
    physical_bytes: int

    def counted(self, objective: Objective) -> Values:
        """The time that the objective uses: the latency of a frame, or the time between finished frames."""
        return self.latency if self.latency is not None and counts_latency(objective) else self.seconds


def simulate(
    workload: WorkloadRecord,
    trace: Trace | None,
    machine: Machine,
    strategies: Sequence[Strategy] = STRATEGIES,
    learned: Learned = NOTHING,
    *,
    first_frames: bool = False,
) -> dict[str, Simulated | str]:
    """Each strategy's figures on that device, or the reason there are none.

    Stages that nothing was traced of are taken as their annotations and declared passes say. `first_frames`:
    of a run of few frames, for published figures of such runs.
    """
    known = with_declared(workload, trace)
    unknown_work = "" if isinstance(known, str) else _unknown_work(workload, known, learned)
    outcomes: dict[str, Simulated | str] = {}
    for strategy in strategies:
        device = machine.entry.device()
        refused = (
            unknown(workload, machine)
            or strategy.unavailable(device)
            or strategy.unsuited(workload)
            or unknown_strategy(strategy, workload, machine)
            or unknown_work
        )
        if refused or isinstance(known, str):
            outcomes[strategy.name] = refused or str(known)
            continue
        at = Context(workload, known, strategy, machine, learned, first_frames)
        memory = int(machine.entry.figures.memory_bytes.value)
        needed = at.physical_bytes() if machine.shares_memory else at.device_bytes()
        large = f"needs {units.size(needed)} of device memory; the device has {units.size(memory)}"
        outcomes[strategy.name] = _simulated(at) if needed <= memory else large
    return outcomes


def _simulated(at: Context) -> Simulated:
    if at.workload.gpus > 1:
        parts = frame_on_several(at, [list(_with_residual(at, steps)) for steps in Frame(at).period()])
    else:
        steps = list(_with_residual(at, timed_steps(at)))
        parts = overlapped(at, steps) if at.strategy.pipelined else by_part(steps)
    seconds = sum(parts.values(), constant(0.0))
    # An overlapping frame begins in one turn of the loop and ends in the next.
    latency = 2 * seconds if at.strategy.pipelined and at.workload.gpus == 1 else None
    return Simulated(parts, seconds, latency, at.physical_bytes())


def _with_residual(at: Context, steps: Iterable[Timed]) -> Iterator[Timed]:
    """The steps with the factor common to a frame; on the device path, that of the way to move data too."""
    machine = at.machine
    # Calibrated figures are those of the clocks that the device ran at.
    slower = constant(1.0) if machine.calibrated else machine.model("slower_clocks")
    common = slower * machine.model("unexplained")
    for step, seconds in steps:
        factor = common**at.learned.unexplained
        if step.action != "host":
            way = way_of(at.placement_of(step), machine.entry)
            factor = factor * machine.model(f"unexplained_{way}") ** at.learned.unexplained
        yield step, seconds * factor


def way_of(placement: Placement, entry: CatalogueEntry) -> Way:
    """How a strategy moves data: managed memory by faults, on request, or whole before each launch.

    On one memory, managed memory is used in place like any other.
    """
    if placement.device_kind == "device":
        return "pinned" if placement.locks else "pageable"
    if not placement.managed or shares_memory(entry):
        return "in_place"
    if moves_whole(entry.device().attributes):
        return "whole"
    return "prefetched" if placement.prefetched else "managed"


def _unknown_work(workload: WorkloadRecord, trace: Trace, learned: Learned) -> str:
    """Why nothing can be said of a device stage that tracing saw none of, that declares nothing and that was
    not timed on a GPU: its arithmetic may be any; empty where there is no such stage."""
    uncounted = {work.stage: work.uncounted for work in trace.work}
    for stage in workload.frame_stages("device"):
        if (calls := uncounted.get(stage.name)) and stage.name not in learned.kernel_factor:
            return (
                f"how long {', '.join(calls)} of device stage {stage.name!r} takes on a GPU is not known: "
                f"state the arithmetic that takes as long, device({stage.name}, flops=...)"
            )
        its = [t for t in trace.traffic if t.stage == stage.name]
        used = [t for t in its if t.bytes_read] or its
        untraced = bool(used) and all(t.source == "assumed" for t in used)
        if untraced and not stage.passes and stage.flops is None and stage.name not in learned.kernel_factor:
            passes = ", ".join(f'"{t.buffer}": 1' for t in used[:3])
            return (
                f"the operations of device stage {stage.name!r} could not be traced, so its arithmetic is "
                f"unknown: state it, device({stage.name}, flops=..., passes={{{passes}}})"
            )
    return ""


def with_declared(workload: WorkloadRecord, trace: Trace | None) -> Trace | str:
    """The trace, completed for stages that did not run; or why there is nothing to predict from.

    A device stage counts the passes and arithmetic it declares. A host stage that could not run because what
    it needs was never computed counts one pass over each buffer, assumed.
    """
    observed = trace or Trace()
    stages = {traffic.stage for traffic in observed.traffic}
    added: list[Traffic] = []
    for stage in workload.frame_stages():
        touched = [b for b in workload.buffers if stage.name in b.access]
        if not touched or stage.name in stages:
            continue
        if stage.side == "device" and not stage.passes:
            lead = "nothing was traced, because the workload did not run on the CPU; " * (trace is None)
            return (
                f"{lead}the traffic of {stage.side} stage {stage.name!r} is unknown: give it a CPU twin, "
                "device(function, cpu=numpy_twin), or state its passes, device(function, passes={...})"
            )
        for b in touched:
            mode, passes = b.access[stage.name], stage.passes.get(b.name, 1.0)
            size = observed.valid_bytes.get(b.name, b.bytes) * share_of(b, stage.name)
            added.append(
                Traffic(
                    stage=stage.name,
                    buffer=b.name,
                    bytes_read=0.0 if mode == "out" else passes * size,
                    bytes_written=0.0 if mode == "in" else size,
                    source="declared" if stage.side == "device" else "assumed",
                )
            )
    known = {w.stage for w in observed.work}
    declared = (s for s in workload.frame_stages("device") if s.name not in known and s.flops)
    work = (*observed.work, *(StageWork(stage=s.name, flops=s.flops) for s in declared))
    most = (Iterations(number=o.number, until=o.until, counts=(), mean=o.at_most) for o in workload.loops)
    iterations = observed.iterations or tuple(most)
    return observed.model_copy(
        update={"traffic": (*observed.traffic, *added), "work": work, "iterations": iterations}
    )


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
    size, pinned = crossing.bytes / crossing.count, kind == "pinned"
    to: Literal["to_device", "to_host"] = "to_device" if crossing.kind == "upload" else "to_host"
    way = "pinned" if pinned or crossing.staged else "pageable"
    rate = machine.get(f"pinned_{to}_bytes_per_second") if way == "pinned" else machine.pageable_rate(to)
    copy = terms.copy(size, machine.get(f"{way}_copy_call_seconds"), rate)
    if crossing.staged and not pinned:  # the library's own copy into its page-locked memory comes before
        copy = copy + size / machine.get("host_copy_bytes_per_second")
    residual = busy * machine.model("unexplained") * machine.model(f"unexplained_{way}")
    waits = pinned and (bool(memory) or not crossing.asynchronous)
    wait = busy * machine.get("synchronize_seconds") if waits else 0.0  # a pageable call's has its own
    return np.asarray(residual * copy + wait)


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
