"""Rules on copies: from pageable memory, staged, small, in turns, there and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.profiles.schema import BufferRecord
from advisor.rules.base import (
    Case,
    Finding,
    Limits,
    advice,
    few_copies,
    not_applicable,
    passed,
    text,
    unbeaten,
)
from advisor.rules.rows import Row, Traced, copies, fastest, idle, in_order, pageable_bytes, shared
from advisor.strategies.registry import BASELINE
from advisor.strategies.schedule import Step


def pageable_transfer(case: Case, limits: Limits) -> Finding:
    baseline = case.baseline
    if few := few_copies(baseline, limits):
        return few
    cheaper = (row for row in case.rows.values() if row.transfer_seconds < baseline.transfer_seconds)
    better = case.proposal(cheaper, baseline)
    if better is None:
        others = (row for row in case.rows.values() if row is not baseline)
        return unbeaten(baseline, min(others, key=lambda row: row.seconds, default=None))
    locked = next((row for row in case.copying() if row.locks), None)
    rows = {row.strategy: row for row in (baseline, locked or better, better)}
    where = f"On {case.device.name} they copy within the DRAM that CPU and GPU share"
    if not case.one_dram:
        stages = "may stage" if case.device.memory_class == "coherent" else "stages"
        where = f"The driver {stages} them in its own page-locked buffer, and the host waits"
    cost = f"Copies from and to pageable memory take {_of_frame(baseline)}."
    cause = f"{cost} {where}; {better.strategy} {_copies_less(better)}."
    evidence: list[Evidence] = [item for row in rows.values() for item in (row.copies(), *row.rate())]
    shared = case.one_dram and not better.transfer_seconds and not better.overlaps
    title = "Drop the copies: CPU and GPU share one memory" if shared else None
    return case.swap(baseline, better, cause, evidence, title=title)


def _copies_less(better: Row) -> str:
    if better.overlaps:
        return "copies while other work continues"
    return "copies directly from and to page-locked memory" if better.transfer_seconds else "makes no copies"


def _of_frame(row: Row) -> str:
    """36.9 ms of pageable's frame (43 % of its parts, predicted)."""
    share = units.percent(row.part(row.transfer_seconds))
    of = f"of its parts{', predicted' * row.predicted}"
    return f"{units.seconds(row.transfer_seconds)} of {row.strategy}'s frame ({share} {of})"


TRACED_PAGEABLE = Traced((BASELINE,), copies, pageable_bytes, "no copy from or to pageable memory")
_STAGED = "staged"


def staged_transfer(case: Case, limits: Limits) -> Finding:
    staged = case.rows[_STAGED]
    if few := few_copies(staged, limits):
        return few
    cheaper = (row for row in case.rows.values() if row.transfer_seconds < staged.transfer_seconds)
    better = case.proposal(cheaper, staged)
    if better is None:
        others = (row for row in case.rows.values() if row.strategy not in (_STAGED, BASELINE))
        return unbeaten(staged, fastest(others))
    # The pool rounds up, so that it may hold twice the buffers.
    held = [staged.figure(f"{_STAGED}: page-locked pool", staged.pinned_bytes, "bytes")]
    evidence = [staged.copies(), *staged.rate(), *(held if staged.pinned_bytes else ())]
    evidence += [better.copies(), *better.rate()]
    shared = case.one_dram and not better.transfer_seconds and not better.overlaps
    title = "Drop cupy.asarray from the frame: CPU and GPU share one memory" if shared else None
    cause = (
        "cupy.asarray of a NumPy array first copies it on the CPU into CuPy's page-locked pool, then to "
        f"the device{', in the same DRAM' if case.one_dram else ''}: including downloads, "
        f"{_of_frame(staged)}. {better.strategy} {_copies_less(better)}."
    )
    return case.swap(staged, better, cause, evidence, title=title)


TRACED_STAGED = Traced(
    (_STAGED,),
    copies,
    cause=lambda traced: traced.copied_bytes("host-to-device", "pinned"),
    unseen="no upload from page-locked memory",
)


def hidden_host_copy(case: Case, limits: Limits) -> Finding:
    external = ", ".join(buffer.name for buffer in case.workload.buffers if buffer.external)
    if not external:
        return not_applicable("No buffer is marked external.")
    copying = [row for row in case.rows.values() if row.host_copy_seconds]
    subject = case.chosen if case.chosen in copying else fastest(copying)
    if subject is None or subject.host_copy_seconds is None:
        return passed("No strategy here copies external buffers on the CPU.")
    share = subject.part(subject.host_copy_seconds)
    if share < limits["share"]:
        little = f"only {units.percent(share)} of a frame of {subject.strategy}"
        return passed(f"The CPU's copies of {external} are {little}.")
    evidence = subject.figure(f"{subject.strategy}: the CPU's own copies", subject.host_copy_seconds)
    cause = (
        f"The data of {external} arrives in memory that {subject.strategy} cannot use. The CPU copies "
        f"between the two {subject.take} {units.seconds(subject.host_copy_seconds)}, "
        f"{units.percent(share)} of a frame: the copy that the strategy should avoid, made by hand."
    )
    better = case.proposal((row for row in case.rows.values() if not row.host_copy_seconds), subject)
    if better is not None:
        cause = f"{cause} {better.strategy} uses that memory directly."
        return case.swap(subject, better, cause, [evidence])
    if case.chosen is not None and not case.chosen.host_copy_seconds:
        return passed(f"The recommended {case.chosen.strategy} uses {external} where the data arrives.")
    # Without the copies a frame takes what is left: an estimate, since nobody ran it.
    return advice(
        f"{cause} No strategy that uses that memory directly is clearly faster. Let the source write into "
        "the program's own arrays (a `dst=` or `out=` argument, buffers passed to the decoder or "
        "camera), which removes the copy. The gain is the time of the copies.",
        evidence,
        subject.frame(),
        saved=subject.host_copy_seconds,
        title="Produce the data in place: pass the source the memory that the GPU uses",
        lines=case.lines([buffer.name for buffer in case.workload.buffers if buffer.external]),
    )


def small_transfers(case: Case, limits: Limits) -> Finding:
    baseline = case.baseline
    steps = case.copies(BASELINE)
    if not steps or not baseline.transfer_seconds:
        return passed("Nothing is copied between the sides in a frame.")
    iterations = [case.traffic.times(loop) for loop in case.workload.loops]
    often = {(step.action, step.loop, step.again): step.times(iterations) for step, _ in steps}
    copies = sum(step.times(iterations) for step, _ in steps)
    mean = sum(moved * step.times(iterations) for step, moved in steps) / copies
    each, size = baseline.transfer_seconds / copies, units.size(mean)
    evidence = (
        baseline.figure("copies in a frame", round(copies), "count"),
        baseline.figure("bytes of a copy, on average", mean, "bytes"),
        baseline.figure(f"{BASELINE}: time of a copy, on average", each),
        baseline.figure(f"{BASELINE}: all copies", baseline.transfer_seconds),
    )
    if mean > limits["bytes"]:
        return passed(f"A copy moves {size} on average, so bandwidth dominates its cost.")
    if few := few_copies(baseline, limits):
        return few
    number = f"{round(copies)} {'copy' if round(copies) == 1 else 'copies'}"
    spent = f"{units.seconds(baseline.transfer_seconds)} of a frame of {units.seconds(baseline.seconds)}"
    mostly = "at that size the cost is the call, not the bytes"
    cause = f"{number} of {size} on average {baseline.take} {spent}: {mostly}."
    cheaper = (row for row in case.rows.values() if row.transfer_seconds < baseline.transfer_seconds)
    better = case.proposal(cheaper, baseline)
    if better is not None:
        return case.swap(baseline, better, cause, evidence)
    # What goes in one direction at one time can be copied at once.
    spared = round(copies - sum(often.values()))
    if not spared:
        return passed(f"{cause} Their number is minimal, and no other strategy is clearly faster.")
    return advice(
        f"{cause} No other strategy is clearly faster, but buffers copied in the same direction can be "
        f"parts of one array and one copy: {spared} fewer, each about {units.seconds(each)} regardless of "
        "size.",
        *evidence,
        saved=spared * each,
        title="Batch the small copies: one array per direction",
        lines=case.lines([step.name for step, _ in steps]),
        inferred=True,
    )


_SERIAL = "pinned"
_OVERLAPPED = "pinned-pipelined"


def serial_copies(case: Case, limits: Limits) -> Finding:
    serial, overlapped = (case.rows.get(_SERIAL) or case.rows.get(BASELINE), case.rows.get(_OVERLAPPED))
    if serial is None:
        return case.without(_SERIAL)
    path = serial.part(serial.transfer_seconds + serial.device_seconds)
    if not serial.transfer_seconds or path < limits["share"]:
        little = f"Copies and kernels are {units.percent(path)} of a frame of {serial.strategy}"
        return passed(f"{little}: there is little to overlap.")
    if overlapped is None:
        return case.without(_OVERLAPPED)
    chosen = case.chosen
    if chosen is not None and chosen is not overlapped and chosen.no_slower(overlapped):
        return passed(f"The recommended {chosen.strategy} is as fast without a second set of buffers.")
    if not overlapped.beats(serial):
        return passed(f"Overlapping is not clearly faster: {overlapped.takes} a frame, {serial.takes}.")
    late = overlapped.result.latency_seconds
    evidence = [serial.copies(), serial.kernels(), serial.stages()]
    evidence += [overlapped.figure(f"{_OVERLAPPED}: latency of a frame", late)] if late is not None else []
    cause = (
        f"In a frame of {serial.strategy}, copies ({units.seconds(serial.transfer_seconds)}), kernels "
        f"({units.seconds(serial.device_seconds)}) and host stages ({units.seconds(serial.host_seconds)}) "
        f"{'are predicted to ' * serial.predicted}run one after another. With two sets of buffers the next "
        "frame is produced and uploaded while this one computes."
    )
    swap = case.swap(serial, overlapped, cause, evidence, worth=_overlapping(serial, overlapped))
    # Frames are done more often, and each takes longer: that is time saved for throughput alone.
    return swap if chosen is overlapped else replace(swap, gain=None)


def _overlapping(serial: Row, overlapped: Row) -> str:
    done = "is predicted to finish" if overlapped.predicted else "finishes"
    more = overlapped.physical_bytes - serial.physical_bytes
    late = overlapped.result.latency_seconds
    return text(
        f"{overlapped.strategy} {done} {units.times(serial.over(overlapped))} as many frames per second: "
        f"{units.seconds(overlapped.seconds)} between finished frames, {units.seconds(serial.seconds)} "
        f"with {serial.strategy}.",
        f"It takes {units.size(more)} more memory." if more > 0 else "",
        f"Latency is {units.seconds(late)}; --objective throughput ignores latency." if late else "",
    )


TRACED_SERIAL = Traced((_SERIAL, BASELINE), idle)


def device_resident(case: Case, limits: Limits) -> Finding:
    steps = case.copies(BASELINE)
    every = {b.name: _between(b, case, [step for step, _ in steps]) for b in shared(case.workload)}
    between = {name: stages for name, stages in every.items() if stages}
    if not between:
        return passed("No buffer goes to the host and comes back in a frame.")
    names, chosen = ", ".join(between), case.chosen
    if chosen is not None and not chosen.transfer_seconds:
        nothing = f"the recommended {chosen.strategy} copies nothing"
        return passed(f"{names} would be copied both ways in each frame, but {nothing}.")
    # The recommended strategy's copies count, else the baseline's, or the fastest one's.
    known = [row for row in case.rows.values() if row.transfer_seconds and row.transfer_bytes]
    preferred = [row for row in (case.chosen, case.rows.get(BASELINE)) if row in known]
    row = preferred[0] if preferred else fastest(known)
    if row is None or not row.transfer_bytes:
        return not_applicable("No strategy that copies has both bytes and times.")
    often = {stage.name: case.traffic.times(stage.loop) for stage in case.workload.frame_stages()}
    most = {name: max(size for step, size in steps if step.name == name) for name in between}
    moved = round(2 * sum(most[name] * max(map(often.__getitem__, between[name])) for name in between))
    saved = row.transfer_seconds * min(moved / row.transfer_bytes, 1.0)
    stages = list(dict.fromkeys(chain(*between.values())))
    if row.part(saved) < limits["share"]:
        share = units.percent(row.part(saved))
        return passed(f"{names} are copied both ways in a frame, but that is only {share} of it.")
    return advice(
        f"Copied to the CPU for {', '.join(stages)} and back in the same frame: {names}, {units.size(moved)} "
        "both ways. Written with CuPy, the same work leaves the data on the GPU. At the copy rate of "
        f"{row.strategy} this saves {units.seconds(saved)} per frame, not counting its time on the GPU.",
        row.figure("bytes copied down and up again in a frame", moved, "bytes"),
        row.copies(),
        *row.rate(),
        *(row.stages([name]) for name in stages if name in row.host_stages),
        saved=saved,
        lines=case.lines(between, stages),
        inferred=True,
    )


def _between(buffer: BufferRecord, case: Case, steps: Sequence[Step]) -> list[str]:
    """Host stages between device stages, where copies of the buffer go down and up for them."""
    if {step.action for step in steps if step.name == buffer.name} != {"to-device", "to-host"}:
        return []
    touched = [stage for stage in in_order(case.workload) if stage.name in buffer.access]
    kernels = [i for i, stage in enumerate(touched) if stage.side == "device"]
    return [s.name for s in touched[kernels[0] : kernels[-1]] if s.side == "host"] if kernels else []
