"""zero-copy-reread: kernels that read a zero-copy buffer again, past the GPU's caches or over the link."""

from collections.abc import Sequence

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Limits, Reads, Row, not_applicable, passed
from advisor.strategies.registry import BASELINE

_SUBJECT = "zero-copy"


def judge(case: Case, limits: Limits) -> Finding:
    zero_copy = case.rows[_SUBJECT]
    if not case.reads:
        return not_applicable("No kernel reads a buffer that the CPU uses too.")
    # On a card, data that no frame renews is read again too: in each frame, where one copy would do.
    again = [r for r in case.reads if r.passes >= limits["passes"] or not (r.new_each_frame or case.one_dram)]
    if not again and all(read.known for read in case.reads):
        most = max(case.reads, key=lambda read: read.passes)
        once = f"about once a frame ({most.buffer}: {units.digits(most.passes)} times)"
        reason = f"Kernels read each shared buffer {once}, which suits zero-copy memory."
        return passed(reason, _passes(most, zero_copy))
    quicker = [r for r in case.rows.values() if case.slowdown(zero_copy, r) >= limits["slowdown"]]
    # Page-locked memory in place that no cache of the GPU serves is zero-copy by another name.
    alike = [r for r in quicker if r.in_place and not r.gpu_caches and r.places_all(lambda p: p.locks)]
    better = case.proposal((row for row in quicker if row not in alike), zero_copy)
    if better is None:
        return _nothing_better(again, case, zero_copy, limits)
    worth = (
        f"Kernels {better.take} {units.seconds(zero_copy.device_seconds)} with zero-copy and "
        f"{units.seconds(better.device_seconds)} with {better.strategy}; a whole zero-copy frame takes "
        f"{units.times(zero_copy.over(better))} the time. The gain is relative to zero-copy."
    )
    shown = [*(_passes(read, zero_copy) for read in again), zero_copy.kernels(), better.kernels()]
    shown += [zero_copy.copies(), better.copies()]
    cause = f"{_cause(case, again, limits)} {_cure(case, better)}"
    title = "Copy once instead of reading through the link"
    if case.one_dram:
        title = "Keep re-read buffers in memory the GPU caches"
    return case.swap(zero_copy, better, cause, shown, worth=worth, title=title)


def _nothing_better(again: Sequence[Reads], case: Case, zero_copy: Row, limits: Limits) -> Finding:
    """Re-reads, or an unknown number of them, that no other strategy but the one in use makes cheaper."""
    others = [row for row in case.rows.values() if row is not zero_copy]
    nearest = min(others, key=lambda row: (row.strategy == BASELINE, row.seconds), default=None)
    both = [zero_copy, *([nearest] if nearest else [])]
    figures = "; ".join(
        f"{row.takes} a frame, {units.seconds(row.device_seconds)} of it in kernels" for row in both
    )
    return passed(
        f"{_what(again, limits)}, but no other strategy is clearly faster: {figures}.",
        *(_passes(read, zero_copy) for read in again),
        *(item for row in both for item in (row.kernels(), row.frame())),
    )


def _cause(case: Case, again: Sequence[Reads], limits: Limits) -> str:
    counted = "; ".join(_count(read, limits) for read in again)
    seen = f" ({counted})" if counted else ", judging by their time (declare `passes` to confirm)"
    begin = f"Kernels re-read zero-copy memory{seen}. On {case.device.name}"
    if case.one_dram:
        return f"{begin} the GPU does not cache page-locked memory, so every pass goes to DRAM."
    amount = units.size(sum(read.bytes * read.passes for read in again))
    crosses = f" Up to {amount} cross it per frame." if again else ""
    return f"{begin} every pass not served by caches crosses the link.{crosses}"


def _cure(case: Case, better: Row) -> str:
    if not case.one_dram:
        return f"With {better.strategy}, kernels read the card's own memory."
    if better.places(lambda placed: placed.managed):
        if better.gpu_caches:
            return "Managed memory is cached on both sides and also needs no copy."
        return "Managed memory is not cached there either, but kernels on it are faster here."
    if better.in_place:
        return f"With {better.strategy}, kernels read pageable memory, which Thor's GPU caches in its L2."
    return f"With {better.strategy}, kernels read device memory, which the GPU caches."


def _what(again: Sequence[Reads], limits: Limits) -> str:
    """What is read more than once in a frame, and what only each frame reads again."""
    often = [_count(read, limits) for read in again if read.passes >= limits["passes"]]
    anew = [read.buffer for read in again if read.passes < limits["passes"]]
    parts = [f"re-read {', '.join(often)}"] if often else []
    parts += [f"read the same data of {', '.join(anew)} in every frame"] if anew else []
    return f"Kernels {' and '.join(parts)}" if again else "How often kernels read is not known"


def _count(read: Reads, limits: Limits) -> str:
    """Passes only where there is more than about one: fewer are re-read in the next frame, if at all."""
    passes = f"{units.digits(read.passes)} times{'' if read.known else ', at least'}"
    counts = [passes] if read.passes >= limits["passes"] else []
    counts += [f"by {', '.join(read.calls)}"] if counts and read.calls else []
    counts += [] if read.new_each_frame else ["the same data in each frame"]
    return f"{read.buffer}: {', '.join(counts)}"


def _passes(read: Reads, row: Row) -> Evidence:
    return row.figure(f"reads of {read.buffer} by {', '.join(read.stages)}", read.passes, "count")
