"""peer-access-off: what one GPU makes for another goes through the host although they reach each other."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import (
    PEER,
    Case,
    Finding,
    Limits,
    crossing_bytes,
    not_applicable,
    passed,
    reach,
    unbeaten,
)
from advisor.strategies.registry import BASELINE


def judge(case: Case, limits: Limits) -> Finding:
    crossing = crossing_bytes(case)
    if not crossing:
        return not_applicable("No GPU reads what another one writes.")
    if not all(reach(case, *pair) for pair in crossing):
        return not_applicable(
            "The GPUs cannot access each other's memory, or it is not known whether they can."
        )
    baseline, peer = case.baseline, case.rows[PEER]
    share = baseline.part(baseline.transfer_seconds)
    if share < limits["share"]:
        little = f"Copies are only {units.percent(share)} of a frame of {BASELINE}."
        return passed(little, baseline.copies(), peer.copies())
    others = (row for row in case.rows.values() if row.transfer_seconds < baseline.transfer_seconds)
    if case.proposal(others, baseline) is not peer:
        return unbeaten(baseline, peer)
    between = sum(crossing.values())
    cause = (
        f"{units.size(between)} per frame are copied between the GPUs, which can access each other's memory. "
        "Without peer access they go through the host and cross its link twice."
    )
    moved = Evidence(label="copied between GPUs in a frame", value=between, unit="bytes")
    return case.swap(baseline, peer, cause, (moved, baseline.copies(), peer.copies()))
