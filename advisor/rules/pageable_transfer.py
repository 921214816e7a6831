"""pageable-transfer: copies from and to pageable memory, which the driver stages while the host waits."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import (
    Case,
    Finding,
    Limits,
    Row,
    Traced,
    copies,
    pageable_bytes,
    passed,
    text,
    unbeaten,
)
from advisor.rules.lines import LineCase
from advisor.rules.snippets.lines import pinned
from advisor.strategies.registry import BASELINE


def judge(case: Case, limits: Limits) -> Finding:
    baseline = case.baseline
    share = baseline.part(baseline.transfer_seconds)
    if share < limits["share"]:
        little = f"Copies are only {units.percent(share)} of a frame of {BASELINE}."
        nothing = "Nothing is copied between the sides in a frame."
        return passed(little if baseline.transfer_seconds else nothing, baseline.copies())
    cheaper = (row for row in case.rows.values() if row.transfer_seconds < baseline.transfer_seconds)
    better = case.proposal(cheaper, baseline)
    if better is None:
        others = (row for row in case.rows.values() if row is not baseline)
        return unbeaten(baseline, min(others, key=lambda row: row.seconds, default=None))
    locked = next((row for row in case.copying() if row.locks), None)
    same = ""
    if locked and locked.transfer_seconds:
        took = units.seconds(locked.transfer_seconds)
        same = f"The same copies from page-locked memory {locked.take} {took}."
    shown = {row.strategy: row for row in (baseline, locked or better, better)}
    cause = text(
        f"Copies from and to pageable memory are {units.percent(share)} of a frame of {BASELINE}, "
        f"{units.seconds(baseline.transfer_seconds)}{' as predicted' if baseline.predicted else ''}.",
        _cause(case, better),
        same,
    )
    evidence: list[Evidence] = [item for row in shown.values() for item in (row.copies(), *row.rate())]
    shared = case.one_dram and not better.transfer_seconds and not better.overlaps
    title = "Drop the copies: CPU and GPU share one memory" if shared else None
    return case.swap(baseline, better, cause, evidence, title=title)


def _cause(case: Case, better: Row) -> str:
    if case.one_dram:
        moved = f"On {case.device.name} they copy within the DRAM that CPU and GPU share"
        if better.overlaps:
            return f"{moved}; {better.strategy} copies too, while other work continues."
        if better.transfer_seconds:
            return f"{moved}; {better.strategy} still copies, but faster."
        return f"{moved}; {better.strategy} needs none."
    passes = "may stage them in" if case.device.memory_class == "coherent" else "passes them through"
    staged = f"The driver {passes} its own page-locked buffer, and the host waits"
    if better.overlaps:
        return f"{staged}; {better.strategy} copies from page-locked memory while other work continues."
    if better.transfer_seconds:
        return f"{staged}; from page-locked memory the copy engine reads directly."
    return f"{staged}; {better.strategy} makes none."


TRACED = Traced((BASELINE,), copies, pageable_bytes, "no copy from or to pageable memory")


def judge_line(case: LineCase, limits: Limits) -> Finding | None:
    crossing = case.crossing
    if not case.is_copy or crossing.memory != "pageable" or crossing.staged or crossing.non_blocking:
        return None
    return page_locked(
        case,
        limits,
        "The driver passes it through its own page-locked buffer, and the host waits.",
    )


def page_locked(case: LineCase, limits: Limits, cause: str) -> Finding | None:
    """One page-locked array that is kept, in place of what the line copies now."""
    crossing, up = case.crossing, case.crossing.kind == "upload"
    saved = (case.seconds - (case.pinned_seconds or case.seconds)) * case.times
    if not case.is_worth(saved, limits):
        return None
    origin = crossing.origin
    seen = f" ({case.at(origin.place)})" if origin and origin.place else ""
    made = seen.strip(" ()") or "where it is made"
    fresh = "It is new memory in each frame, whose pages the first write has to find." if _fresh(case) else ""
    return case.advice(
        f"Keep one page-locked array for {case.what}",
        f"{case.moved} {'from' if up else 'into'} pageable memory. {cause}",
        fresh,
        f"The gain holds if what makes the data{seen} can write into that array." if up else "",
        saved=saved,
        after=pinned(case.line, up=up, before=case.before_loop, made=made),
        change="lock" if up else "reuse",
    )


def _fresh(case: LineCase) -> bool:
    return bool(case.crossing.origin and case.crossing.origin.each_frame)
