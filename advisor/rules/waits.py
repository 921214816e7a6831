"""Rules on waiting: for values, for the host, and results that were not waited for."""

from __future__ import annotations

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.profiles.schema import WRONG_RESULTS
from advisor.rules.base import Case, Finding, Limits, advice, not_applicable, passed
from advisor.rules.rows import fastness, placements, strategy_named
from advisor.strategies.registry import BASELINE


def implicit_wait(case: Case, limits: Limits) -> Finding:
    if not case.traffic.work:
        return not_applicable("The device stages were not traced.")
    if not (waits := case.traffic.waits):
        return passed("No device stage waits for the GPU.")
    count = sum(wait.count for wait in waits)
    spared, row = count * limits["seconds"], case.baseline
    waited = f"Device stages wait for the GPU {count:g} {'time' if count == 1 else 'times'}"
    calls = ", ".join(f"{wait.call} in {wait.stage} ({wait.line})" for wait in waits)
    if row.part(spared) < limits["share"]:
        frame = f"a frame of {units.seconds(row.seconds)}"
        return passed(f"{waited}, {units.percent(row.part(spared))} of {frame}: {calls}.")
    unpredicted = " (not part of the predicted time)" if row.predicted else ""
    advised = " ".join(dict.fromkeys(wait.write for wait in waits))
    return advice(
        f"{waited} in a frame: {calls}. Each copies a value to the host and returns when all earlier work is "
        f"done: at least {units.seconds(limits['seconds'])}, during which nothing is launched{unpredicted}. "
        f"{advised}",
        Evidence(label="waits in a frame", value=count, unit="count"),
        row.figure("minimum time of these waits", spared),
        row.frame(),
        saved=spared,
        lines=tuple(dict.fromkeys(wait.line for wait in waits)),
        inferred=True,
    )


def host_bound_frame(case: Case, limits: Limits) -> Finding:
    best = min(case.rows.values(), key=fastness)
    subject = case.rows.get(BASELINE) or best
    if not subject.parts_seconds:
        return not_applicable("No part of a frame was timed separately.")
    share = subject.part(subject.host_seconds)
    most = f"Host stages are {units.percent(share)} of a frame of {subject.strategy}"
    if share < limits["share"]:
        return passed(f"{most}{' as predicted' * subject.predicted}: the placement of the data matters.")
    if best is not subject and subject.over(best).low > 1 / limits["share"]:
        return passed(f"{most}, but {best.strategy} makes them faster too.")
    beside = subject.parts_seconds - subject.host_seconds
    longest = sorted(subject.host_stages.items(), key=lambda item: -item[1])[:3]
    stages = ", ".join(f"{name} {units.seconds(seconds)}" for name, seconds in longest)
    return advice(
        f"The CPU's own stages are {units.percent(share)} of a frame of {subject.strategy} ({stages}"
        f"{', as predicted' if subject.predicted else ''}). Even if kernels, copies and waits took no "
        f"time, a frame would be at most {units.ratio(1 / share)} as fast, so the memory strategy makes "
        "little difference. Speed up these stages, move them to the GPU, or overlap frames.",
        *(subject.figure(f"{subject.strategy}: {name}", seconds) for name, seconds in longest),
        subject.figure(f"{subject.strategy}: kernels, copies and waits", beside),
        lines=case.lines(stages=[name for name, _ in longest]),
    )


def missing_synchronisation(case: Case, _: Limits) -> Finding:
    if case.machine is None:
        return not_applicable("Nothing ran on this device, so there are no results to compare.")
    wrong = {name: why for name, why in case.absent.items() if why.startswith(WRONG_RESULTS)}
    agree = [row.strategy for row in case.rows.values() if row.measured and row.measured.verified]
    if not wrong and not agree:
        return not_applicable("The results of the strategies could not be compared.")
    if not wrong:
        return passed("All strategies gave the same results.")
    waiting = [name for name in agree if _waits(case, name)]
    if any(_waits(case, name) for name in wrong) or not waiting:
        differ = f"Results of {', '.join(wrong)} differ, but nothing points to a missing synchronization"
        none = "no strategy with synchronous copies was right while the others failed"
        return passed(f"{differ}: {none}.")
    name, why = next(iter(wrong.items()))
    return advice(
        f"The results of {', '.join(wrong)} are wrong ({name}: {why.removeprefix(WRONG_RESULTS)}), those of "
        f"{', '.join(waiting)} are right. The latter wait for the GPU in a synchronous copy; the others "
        "wait only for the stream that device stages run on. Look for work on your own streams, kernels "
        "launched from another thread, and arrays kept from an earlier frame. Run that work on the stage "
        "parameter `stream`, or synchronize before the stage returns. Your program needs the same "
        "synchronization before the CPU reads.",
        Evidence(label="strategies whose results differ", value=len(wrong), unit="count"),
        Evidence(label="strategies whose results agree", value=len(agree), unit="count"),
        lines=case.lines(stages=[stage.name for stage in case.workload.frame_stages("device")]),
        inferred=True,
    )


def _waits(case: Case, strategy: str) -> bool:
    """Its copies to the host return when all that was on the stream is done."""
    placed = placements(strategy_named(strategy, case.mixes), case.workload).values()
    return any(placement.traits(case.device).blocking for placement in placed)
