"""missing-synchronisation: results that are right with synchronous copies and wrong without them."""

from advisor.profiles.conclusions import Evidence
from advisor.profiles.schema import WRONG_RESULTS
from advisor.rules.base import Case, Finding, Limits, advice, not_applicable, passed
from advisor.rules.rows import placements


def judge(case: Case, _: Limits) -> Finding:
    if case.machine is None:
        return not_applicable("Nothing ran on this device, so there are no results to compare.")
    wrong = {name: why for name, why in case.failed.items() if why.startswith(WRONG_RESULTS)}
    agree = [row.strategy for row in case.rows.values() if row.verified]
    if not wrong and not agree:
        return not_applicable("The results of the strategies could not be compared.")
    right = _count("strategies whose results agree", len(agree))
    if not wrong:
        return passed("All strategies gave the same results.", right)
    shown = (_count("strategies whose results differ", len(wrong)), right)
    waiting = [name for name in agree if _waits(case, name)]
    if any(_waits(case, name) for name in wrong) or not waiting:
        differ = f"Results of {', '.join(wrong)} differ, but nothing points to a missing synchronization"
        none = "no strategy with synchronous copies was right while the others failed"
        return passed(f"{differ}: {none}.", *shown)
    name, why = next(iter(wrong.items()))
    return advice(
        f"The results of {', '.join(wrong)} are wrong ({name}: {why.removeprefix(WRONG_RESULTS)}), those of "
        f"{', '.join(waiting)} are right. The latter wait for the GPU in a synchronous copy; the others "
        "wait only for the stream that device stages run on. Look for work on your own streams, kernels "
        "launched from another thread, and arrays kept from an earlier frame. Run that work on the stage "
        "parameter `stream`, or synchronize before the stage returns. Your program needs the same "
        "synchronization before the CPU reads.",
        *shown,
        inferred=True,
    )


def _waits(case: Case, strategy: str) -> bool:
    """Its copies to the host return when all that was on the stream is done."""
    placed = placements(strategy, case.workload, case.mixes).values()
    return any(placement.traits(case.device).blocking for placement in placed)


def _count(label: str, value: int) -> Evidence:
    return Evidence(label=label, value=value, unit="count")
