"""write-combined-without-gain: write-combined memory whose copies are no faster for it, or slower."""

from advisor import units
from advisor.rules.base import WRITE_COMBINED, Case, Finding, Limits, passed


def judge(case: Case, _: Limits) -> Finding:
    pairs = case.twins()
    if not pairs:
        return case.without("pinned")
    slower = [(row, plain) for row, plain in pairs if plain.beats(row)]
    if not slower:
        row, plain = next((pair for pair in pairs if pair[0] is case.chosen), pairs[0])
        takes = "is predicted to take" if row.predicted else "takes"
        how = f"{row.strategy} {takes} {units.times(row.over(plain))} the time of {plain.strategy}"
        pays = "pays" if row.beats(plain) else "is neither clearly slower nor clearly worth the restrictions"
        return passed(f"{how}: write-combining {pays}.", row.frame(), plain.frame())
    row, plain = max(slower, key=lambda pair: pair[0].over(pair[1]).value)
    chosen = [one for one in [case.chosen] if one is not None and not WRITE_COMBINED.has(one)]
    better = case.proposal((*chosen, plain), row) or plain
    cause = (
        f"{row.strategy} takes {units.times(row.over(plain))} the time of {plain.strategy}, the same "
        "strategy with plain page-locked memory: write-combining costs time here instead of saving it."
    )
    shown = [one.copies() if row.transfer_seconds else one.kernels() for one in (row, plain)]
    return case.swap(row, better, cause, shown)
