"""coherence-reversed: what was right on Orin, managed memory, is what Thor's GPU does not cache."""

from advisor import units
from advisor.rules.base import Case, Finding, Kind, Limits, passed

CACHED = Kind("zero-copy-registered", lambda row: row.in_place and row.gpu_caches)
UNCACHED = Kind("managed", lambda row: row.in_place and not row.gpu_caches)


def judge(case: Case, _: Limits) -> Finding:
    cached, uncached, chosen = case.of(CACHED), case.of(UNCACHED), case.chosen
    subject = case.rows.get(UNCACHED.example) or min(uncached, key=lambda row: row.seconds)
    if chosen is not None and (chosen in uncached or all(chosen.beats(row) for row in cached)):
        still = f"the recommended {chosen.strategy} is still better here"
        reason = f"{still}: {chosen.takes} a frame, {cached[0].takes}."
        return passed(reason, chosen.frame(), cached[0].frame())
    better = case.proposal(cached, subject)
    if better is None:
        free = f"The GPU does not cache {subject.strategy} memory, at no measurable cost"
        reason = f"{free}: {subject.takes} a frame, {cached[0].takes}."
        return passed(reason, subject.kernels(), cached[0].kernels())
    kind = "registered" if better.places(lambda placed: placed.own.registered) else "ordinary"
    cause = (
        f"On Xavier and Orin the GPU caches managed memory and not page-locked memory. On {case.device.name} "
        "it caches registered and pageable memory in its L2, and neither managed nor allocated page-locked "
        f"memory. Kernels {better.take} {units.seconds(subject.device_seconds)} with {subject.strategy} and "
        f"{units.seconds(better.device_seconds)} with {kind} memory."
    )
    return case.swap(subject, better, cause, [subject.kernels(), better.kernels()])
