"""duplicate-allocation: explicit copies on a shared DRAM hold every buffer twice."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Limits, Row, passed
from advisor.strategies.registry import BASELINE
from advisor.verdicts.reasons import listing


def judge(case: Case, limits: Limits) -> Finding:
    baseline = case.baseline
    twice = units.size(baseline.physical_bytes)
    least = max(limits["saving"] * baseline.physical_bytes, limits["bytes"])
    once = [row for row in case.rows.values() if baseline.physical_bytes - row.physical_bytes >= least]
    if not once:
        reason = f"No strategy needs at least {units.size(least)} less than {BASELINE}, which needs {twice}."
        return passed(reason, _held(baseline))
    shown = [_held(row) for row in (baseline, *once)]
    names = listing([row.strategy for row in once])
    as_fast = [row for row in once if row.no_slower(baseline)]
    if not as_fast:
        fastest = min(once, key=lambda row: row.seconds)
        reason = (
            f"{names} would hold the buffers once ({units.size(fastest.physical_bytes)} instead of "
            f"{twice}), but may be slower: {fastest.takes} a frame, {units.times(fastest.over(baseline))} "
            f"that of {BASELINE}."
        )
        return passed(reason, *shown, baseline.frame(), fastest.frame())
    better = min([row for row in as_fast if row is case.chosen] or as_fast, key=lambda row: row.seconds)
    cause = (
        f"On {case.device.name} CPU and GPU share one DRAM, and {BASELINE} holds each buffer in it twice: "
        f"{twice}. {names} {'hold' if len(once) > 1 else 'holds'} it once."
    )
    saved = baseline.physical_bytes - better.physical_bytes
    worth = (
        f"{better.strategy} needs {units.size(better.physical_bytes)}, {units.size(saved)} less, and is "
        f"{units.times(baseline.over(better))} as fast{', as predicted' if better.predicted else ''}."
    )
    return case.swap(baseline, better, cause, shown, worth=worth)


def _held(row: Row) -> Evidence:
    return row.figure(f"{row.strategy}: memory", row.physical_bytes, "bytes")
