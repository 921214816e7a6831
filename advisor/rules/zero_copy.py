"""Rules on memory in place: read again, read in part, through textures, and caches that differ by Jetson."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from advisor import units
from advisor.rules.base import WRITE_COMBINED, Case, Finding, Kind, Limits, advice, not_applicable, passed
from advisor.rules.rows import Reads, Row, fastest, shared
from advisor.strategies.registry import BASELINE

_ZERO_COPY = "zero-copy"


def zero_copy_reread(case: Case, limits: Limits) -> Finding:
    zero_copy = case.rows[_ZERO_COPY]
    if not case.reads:
        return not_applicable("No kernel reads a buffer that the CPU uses too.")
    # On a card, data that no frame renews is read again too: in each frame, where one copy would do.
    again = [r for r in case.reads if r.passes >= limits["passes"] or not (r.new_each_frame or case.one_dram)]
    if not again and all(read.known for read in case.reads):
        most = max(case.reads, key=lambda read: read.passes)
        once = f"about once a frame ({most.buffer}: {units.digits(most.passes)} times)"
        return passed(f"Kernels read each shared buffer {once}, which suits zero-copy memory.")
    quicker = [r for r in case.rows.values() if case.slowdown(zero_copy, r) >= limits["slowdown"]]
    # Page-locked memory in place that no cache of the GPU serves is zero-copy by another name.
    alike = [r for r in quicker if r.in_place and not r.gpu_caches and r.places_all(lambda p: p.locks)]
    better = case.proposal((row for row in quicker if row not in alike), zero_copy)
    counted = "; ".join(_count(read, limits) for read in again)
    if better is None:
        # Frames that overlap may hide all of their kernels: there is no time to show.
        others = [row for row in case.rows.values() if row is not zero_copy and row.device_seconds]
        nearest = min(others, key=lambda row: (row.strategy == BASELINE, row.seconds), default=None)
        both = [zero_copy, *([nearest] if nearest else [])]
        times = (f"{r.takes} a frame, {units.seconds(r.device_seconds)} of it in kernels" for r in both)
        what = f"Kernels read zero-copy memory again ({counted})" * bool(again)
        what = what or "How often kernels read is not known"
        return passed(f"{what}, but no other strategy is clearly faster: {'; '.join(times)}.")
    worth = (
        f"Kernels {better.take} {units.seconds(zero_copy.device_seconds)} with zero-copy and "
        f"{units.seconds(better.device_seconds)} with {better.strategy}; a whole zero-copy frame takes "
        f"{units.times(zero_copy.over(better))} the time. The gain is relative to zero-copy."
    )
    evidence = [
        zero_copy.figure(f"reads of {read.buffer} by {', '.join(read.stages)}", read.passes, "count")
        for read in again
    ]
    evidence += [zero_copy.kernels(), better.kernels(), zero_copy.copies(), better.copies()]
    basis = f" ({counted})" if counted else ", judging by their time (declare `passes` to confirm)"
    cause = f"Kernels re-read zero-copy memory{basis}. {_way(case, again, better)}"
    title = "Copy once instead of reading through the link"
    if case.one_dram:
        title = "Keep re-read buffers in memory the GPU caches"
    return case.swap(zero_copy, better, cause, evidence, worth=worth, title=title)


def _way(case: Case, again: Sequence[Reads], better: Row) -> str:
    """The way that every pass over zero-copy memory takes, and what kernels read in its place."""
    way = "the GPU does not cache page-locked memory, so every pass goes to DRAM"
    where = "memory that the GPU caches" if better.gpu_caches else "other memory"
    if not case.one_dram:
        amount = units.size(sum(read.bytes * read.passes for read in again))
        way = f"every pass not served by caches crosses the link{f', up to {amount} a frame' * bool(again)}"
        where = "the card's own memory"
    return f"On {case.device.name} {way}. With {better.strategy}, kernels read {where}."


def _count(read: Reads, limits: Limits) -> str:
    """Passes only where there is more than about one: fewer are re-read in the next frame, if at all."""
    passes = f"{units.digits(read.passes)} times{'' if read.known else ', at least'}"
    counts = [passes] if read.passes >= limits["passes"] else []
    counts += [f"by {', '.join(read.calls)}"] if counts and read.calls else []
    counts += [] if read.new_each_frame else ["the same data in each frame"]
    return f"{read.buffer}: {', '.join(counts)}"


def zero_copy_uncoalesced(case: Case, limits: Limits) -> Finding:
    zero_copy, copied = case.rows[_ZERO_COPY], case.copying()[0]
    obstacle = _obstacle(zero_copy, case, limits["passes"])
    # Bytes of shared buffers that kernels read or write in a frame, the larger: links carry both at once.
    names = {buffer.name for buffer in shared(case.workload)}
    stages = {stage.name for stage in case.workload.frame_stages("device")}
    accesses = [t for t in case.traffic.traffic if t.buffer in names and t.stage in stages]
    used = max(sum(r.bytes * r.passes for r in case.reads), sum(t.bytes_written for t in accesses))
    expected = _expected(case, copied, used)
    if obstacle or not expected:
        return not_applicable(obstacle or f"{copied.strategy} has no times to compare with.")
    excess = zero_copy.device_seconds / expected
    bytes_used = zero_copy.figure("bytes of shared buffers that kernels use, both directions", used, "bytes")
    evidence = (zero_copy.kernels(), copied.kernels(), bytes_used, *copied.rate())
    if excess < limits["slowdown"]:
        took = f"{units.seconds(zero_copy.device_seconds)}, {units.ratio(excess)} what the bytes"
        return passed(f"Kernels on zero-copy memory take {took} they use explain.")
    cause = (
        f"Kernels use {units.size(used)} of zero-copy memory about once per frame and take "
        f"{units.seconds(zero_copy.device_seconds)}, of which the bytes explain {units.seconds(expected)}. "
        "The likely cause is uncoalesced access: only part of each fetched line is used."
    )
    better = case.proposal(case.rows.values(), zero_copy)
    if better is None:
        none = f"But no other strategy is clearly faster: {zero_copy.takes} a frame."
        return passed(f"{cause} {none}")
    cause += " Coalesce the accesses (neighbouring threads, neighbouring elements), or copy the buffer once."
    return case.swap(zero_copy, better, cause, evidence, inferred=True)


def _obstacle(zero_copy: Row, case: Case, least: float) -> str:
    """Why nothing can be said of strides, or nothing."""
    if zero_copy.predicted:
        return "The model assumes that kernels use whole cache lines; it cannot see strides."
    if not case.reads or not all(read.known for read in case.reads):
        return "The number of bytes kernels use is not known."
    again = [read.buffer for read in case.reads if read.passes >= least]
    if again:
        return f"Kernels re-read {', '.join(again)}: see zero-copy-reread."
    return "" if zero_copy.device_seconds else "No zero-copy kernel was timed separately."


def _expected(case: Case, copied: Row, used: float) -> float | None:
    """Seconds: on one DRAM those of the same kernels on device memory; else those of the bytes, if more."""
    if case.one_dram:
        return copied.device_seconds
    if not (copied.transfer_bytes and copied.transfer_seconds):
        return None
    return max(copied.device_seconds, used * copied.transfer_seconds / copied.transfer_bytes)


def texture_in_mapped_memory(case: Case, limits: Limits) -> Finding:
    names = [stage.name for stage in case.workload.frame_stages("device") if stage.textures]
    sampled = [read for read in case.reads if set(read.stages) & set(names)]
    if not sampled:
        return not_applicable("No stage samples, through a texture, a buffer that the CPU also uses.")
    zero_copy, copied = case.rows[_ZERO_COPY], case.copying()[0]
    buffers = ", ".join(dict.fromkeys(read.buffer for read in sampled))
    what = f"Textures over {buffers} are sampled in {', '.join(names)}."
    if zero_copy.predicted:
        # The model has no figure of it: a prediction of memory in place is no ground to choose it.
        reason = f"{what} The prediction counts plain reads: no published figures cover textures there."
        if not (case.chosen and case.chosen.in_place):
            return passed(reason)
        title = "Measure textures over zero-copy memory before choosing it"
        measure = f"{reason} Measure {case.chosen.strategy} on the device before choosing it."
        lines = case.lines([read.buffer for read in sampled], names)
        return advice(measure, zero_copy.kernels(), title=title, lines=lines)
    evidence = (zero_copy.kernels(), copied.kernels(), copied.copies())
    cause = (
        f"{what} Kernels take {units.seconds(zero_copy.device_seconds)} on zero-copy memory, and with "
        f"{copied.strategy} {units.seconds(copied.device_seconds)} beside copies of "
        f"{units.seconds(copied.transfer_seconds)}."
    )
    if case.slowdown(zero_copy, copied) < limits["slowdown"]:
        return passed(cause)
    better = case.proposal((row for row in case.rows.values() if not row.in_place), zero_copy)
    if better is None:
        return passed(f"{cause} But no strategy that copies is clearly faster.")
    why = "The texture cache is small, and its misses are fetched again from host memory."
    return case.swap(zero_copy, better, f"{cause} {why}", evidence, inferred=True)


CACHED = Kind("zero-copy-registered", lambda row: row.in_place and row.gpu_caches)
UNCACHED = Kind("managed", lambda row: row.in_place and not row.gpu_caches)


def coherence_reversed(case: Case, _: Limits) -> Finding:
    cached, uncached, chosen = case.of(CACHED), case.of(UNCACHED), case.chosen
    subject = case.rows.get(UNCACHED.example) or min(uncached, key=lambda row: row.seconds)
    if chosen is not None and (chosen in uncached or all(chosen.beats(row) for row in cached)):
        return passed(f"{chosen.strategy} is better here: {chosen.takes} a frame, {cached[0].takes}.")
    better = case.proposal(cached, subject)
    if better is None:
        return passed(f"Cached memory is not clearly faster: {subject.takes} a frame, {cached[0].takes}.")
    kind = "registered" if better.places(lambda placed: placed.own.registered) else "ordinary"
    cause = (
        f"On Xavier and Orin the GPU caches managed memory and not page-locked memory. On {case.device.name} "
        "it caches registered and pageable memory in its L2, and neither managed nor allocated page-locked "
        f"memory. Kernels {better.take} {units.seconds(subject.device_seconds)} with {subject.strategy} and "
        f"{units.seconds(better.device_seconds)} with {kind} memory."
    )
    return case.swap(subject, better, cause, [subject.kernels(), better.kernels()])


def uncached_host_read(case: Case, limits: Limits) -> Finding:
    touched = {buffer.name: case.workload.touching(buffer, "host") for buffer in shared(case.workload)}
    reads = [
        (name, stage) for name, modes in touched.items() for stage, mode in modes.items() if mode != "out"
    ]
    if not reads:
        return not_applicable("No host stage reads a buffer that kernels use too.")
    readers, stages = (list(dict.fromkeys(names)) for names in zip(*reads, strict=True))
    uncached = [row for row in case.rows.values() if _reads_uncached(row, readers)]
    cached = [row for row in case.rows.values() if not _reads_uncached(row, readers)]
    if not uncached:
        return case.without("pinned")
    reference = min(cached, key=lambda row: row.spent(stages), default=None)
    if reference is None or not reference.spent(stages):
        return not_applicable("No strategy whose memory the CPU caches has figures to compare with.")
    slow = [row for row in uncached if row.spent(stages) >= limits["slowdown"] * reference.spent(stages)]
    subject = case.chosen if case.chosen in slow else fastest(slow)
    example = subject or max(uncached, key=lambda row: row.spent(stages))
    evidence = (example.stages(stages), reference.stages(stages))
    reason = (
        f"The stages that read shared buffers take {_span(example, stages)} with {example.strategy} and "
        f"{_span(reference, stages)} with {reference.strategy}"
    )
    if subject is None:
        return passed(f"{reason}: reading page-locked memory costs the CPU nothing here.")
    better = case.proposal(cached, subject)
    if better is None:
        return passed(f"{reason}, but no other strategy is clearly faster.")
    cause = (
        f"On {case.device.name} the CPU does not cache page-locked memory: every read goes to DRAM. "
        f"{', '.join(stages)} read{'s' if len(stages) == 1 else ''} {', '.join(readers)}: "
        f"{_span(subject, stages)} with {subject.strategy}, {_span(better, stages)} with {better.strategy}."
    )
    return case.swap(subject, better, cause, evidence)


def _reads_uncached(row: Row, buffers: Iterable[str]) -> bool:
    placed = [row.placements[buffer] for buffer in buffers if buffer in row.placements]
    return any(not placement.cpu_caches(row.memory_class) for placement in placed)


def _span(row: Row, stages: list[str]) -> str:
    return f"{units.seconds(row.spent(stages))}{' (predicted)' if row.predicted else ''}"


def system_memory_available(case: Case, _: Limits) -> Finding:
    system, baseline = case.rows["system"], case.baseline
    others = [row for row in case.rows.values() if row not in (system, baseline)]
    rival = case.chosen if case.chosen in others else fastest(others)
    reach = f"Kernels reach pageable memory, but {{}}: {system.takes} a frame, {{}}."
    if not system.beats(baseline):
        return passed(reach.format("copies are not slower", baseline.takes))
    if rival is not None and not system.no_slower(rival):
        return passed(reach.format("explicitly allocated memory is faster, or may be", rival.takes))
    cause = (
        f"Kernels on {case.device.name} can use the address of a NumPy array directly: no copies, no "
        "page-locking, no special allocation."
    )
    evidence = [system.kernels(), *([rival.frame()] if rival else [])]
    return case.swap(baseline, system, cause, evidence)


def write_combined_read(case: Case, limits: Limits) -> Finding:
    if any(row.predicted for row in case.of(WRITE_COMBINED)):
        return not_applicable("The model assumes that the CPU never reads write-combined memory.")
    pairs = [(row, plain, stages) for row, plain in case.twins() if (stages := _stages(case, row))]
    if not pairs:
        return not_applicable(
            "No buffer that the host only writes has figures both with and without write-combining."
        )
    slowdowns = [row.spent(stages) / (plain.spent(stages) or math.inf) for row, plain, stages in pairs]
    slowdown = max(slowdowns)
    combined, plain, stages = pairs[slowdowns.index(slowdown)]
    # What these stages were seen to read of the memory that they say they only write.
    accesses = [t for t in case.traffic.traffic if t.stage in stages and t.buffer in combined.write_combined]
    read = sum(t.bytes_read for t in accesses if t.source == "traced")
    evidence = [combined.stages(stages), plain.stages(stages)]
    evidence += [combined.figure("reads of write-combined memory by the CPU", read, "bytes")] if read else []
    if slowdown < limits["slowdown"]:
        took = f"{units.ratio(slowdown)} the time they take on plain page-locked memory ({combined.strategy})"
        return passed(f"The stages that write write-combined memory take {took}.")
    why = "They read it back, or write it out of order in pieces smaller than a cache line."
    if read:
        why = f"They read {units.size(read)} of it per frame, past the caches."
    cause = (
        f"{', '.join(stages)} {'take' if len(stages) > 1 else 'takes'} "
        f"{units.seconds(combined.spent(stages))} on write-combined memory and "
        f"{units.seconds(plain.spent(stages))} on plain page-locked memory ({plain.strategy}). {why}"
    )
    better = case.proposal((row for row in case.rows.values() if not WRITE_COMBINED.has(row)), combined)
    if better is None:
        return passed(f"{cause} But no strategy without it is clearly faster.")
    return case.swap(combined, better, cause, evidence, inferred=not read)


def _stages(case: Case, combined: Row) -> Sequence[str]:
    """The host stages of a frame that touch write-combined memory."""
    buffers = [b for b in case.workload.buffers if b.name in combined.write_combined]
    hosts = [stage.name for stage in case.workload.frame_stages("host")]
    return [stage for stage in hosts if any(stage in buffer.access for buffer in buffers)]


def write_combined_without_gain(case: Case, _: Limits) -> Finding:
    pairs = case.twins()
    if not pairs:
        return case.without("pinned")
    slower = [(row, plain) for row, plain in pairs if plain.beats(row)]
    if not slower:
        row, plain = next((pair for pair in pairs if pair[0] is case.chosen), pairs[0])
        times = f"{units.times(row.over(plain))} the time of {plain.strategy}"
        return passed(f"Write-combining does not clearly cost time: {row.strategy} has {times}.")
    row, plain = max(slower, key=lambda pair: pair[0].over(pair[1]).value)
    chosen = [one for one in [case.chosen] if one is not None and not WRITE_COMBINED.has(one)]
    better = case.proposal((*chosen, plain), row) or plain
    cause = (
        f"{row.strategy} takes {units.times(row.over(plain))} the time of {plain.strategy}, the same "
        "strategy with plain page-locked memory: write-combining costs time here instead of saving it."
    )
    evidence = [one.copies() if row.transfer_seconds else one.kernels() for one in (row, plain)]
    return case.swap(row, better, cause, evidence)
