"""prefetch-unsupported: cudaMemPrefetchAsync fails here, and what does its work."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Limits, compared, not_applicable, passed, text
from advisor.strategies.registry import BASELINE

_ATTACHED = "managed-prefetch"
_PLAIN = "managed"


def judge(case: Case, _: Limits) -> Finding:
    concurrent = case.device.attributes.get("concurrent_managed_access")
    if concurrent is None:
        return not_applicable("concurrentManagedAccess is not known, so neither is support for prefetching.")
    if concurrent:
        return not_applicable("Prefetching is supported: concurrentManagedAccess is 1.")
    attached, plain, chosen = case.rows.get(_ATTACHED), case.rows.get(_PLAIN), case.chosen
    if attached is None or plain is None:
        return case.without(_PLAIN if attached else _ATTACHED)
    flag = Evidence(label="concurrentManagedAccess", value=float(concurrent), unit="count")
    shown = (flag, attached.frame(), plain.frame())
    fact = f"On {case.device.name} cudaMemPrefetchAsync returns an error (concurrentManagedAccess is 0)."
    if not attached.beats(plain):
        times = f"{units.times(attached.over(plain))} the time of plain managed memory"
        return passed(f"{fact} Attaching to a stream instead takes {times}: use neither.", *shown)
    if chosen is not None and chosen is not attached and chosen.no_slower(attached):
        fast = f"the recommended {chosen.strategy} is as fast: {chosen.takes} per frame"
        return passed(
            f"{fact} Attaching to a stream is faster than plain managed memory, but {fast}.", *shown
        )
    beaten = BASELINE in case.rows and attached.beats(case.baseline)
    worth = text(compared(attached, plain), "It beats the baseline too." if beaten else "")
    cause = (
        f"{fact} cudaStreamAttachMemAsync replaces it: cudaMemAttachSingle before a kernel cleans the "
        "CPU's caches once, cudaMemAttachHost returns the memory to the CPU, and buffers that no kernel "
        "uses are not affected."
    )
    return case.swap(plain, attached, cause, [flag], worth=worth)
