"""zero-copy-uncoalesced: kernels that use a small part of each line they fetch of zero-copy memory."""

from advisor import units
from advisor.rules.base import Case, Finding, Limits, Row, not_applicable, passed
from advisor.rules.rows import shared

_SUBJECT = "zero-copy"


def judge(case: Case, limits: Limits) -> Finding:
    zero_copy, copied = case.rows[_SUBJECT], case.copying()[0]
    obstacle = _obstacle(zero_copy, case, limits["passes"])
    # Bytes of shared buffers that kernels read or write in a frame, the larger: links carry both at once.
    names = {buffer.name for buffer in shared(case.workload)}
    stages = {stage.name for stage in case.workload.frame_stages("device")}
    seen = [t for t in case.traffic.traffic if t.buffer in names and t.stage in stages]
    used = max(sum(r.bytes * r.passes for r in case.reads), sum(t.bytes_written for t in seen))
    expected = _expected(case, copied, used)
    if obstacle or not expected:
        return not_applicable(obstacle or f"{copied.strategy} has no times to compare with.")
    excess = zero_copy.device_seconds / expected
    bytes_used = zero_copy.figure("bytes of shared buffers that kernels use, both directions", used, "bytes")
    shown = (zero_copy.kernels(), copied.kernels(), bytes_used, *copied.rate())
    if excess < limits["slowdown"]:
        took = f"{units.seconds(zero_copy.device_seconds)}, {units.ratio(excess)} what the bytes"
        return passed(f"Kernels on zero-copy memory take {took} they use explain.", *shown)
    cause = _cause(case, zero_copy, copied, used, expected)
    better = case.proposal(case.rows.values(), zero_copy)
    if better is None:
        return passed(f"{cause} But no other strategy is clearly faster: {zero_copy.takes} a frame.", *shown)
    cause += " Coalesce the accesses (neighbouring threads, neighbouring elements), or copy the buffer once."
    return case.swap(zero_copy, better, cause, shown, inferred=True)


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


def _cause(case: Case, zero_copy: Row, copied: Row, used: float, expected: float) -> str:
    on_device = case.one_dram or expected == copied.device_seconds
    against = "on device memory" if on_device else "for a copy of as many bytes"
    return (
        f"Kernels use {units.size(used)} of zero-copy memory about once per frame and take "
        f"{units.seconds(zero_copy.device_seconds)}, compared with {units.seconds(expected)} {against}. "
        "The likely cause is uncoalesced access: only part of each fetched line of 32 to 128 bytes is "
        "used, and no cache keeps the rest."
    )
