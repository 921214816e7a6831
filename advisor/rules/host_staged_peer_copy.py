"""host-staged-peer-copy: GPUs that cannot reach each other exchange data through host memory."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import (
    Case,
    Finding,
    Limits,
    advice,
    crossing_bytes,
    not_applicable,
    passed,
    reach,
)


def judge(case: Case, limits: Limits) -> Finding:
    crossing = crossing_bytes(case)
    if not crossing:
        return not_applicable("No GPU reads what another one writes.")
    apart = {pair: size for pair, size in crossing.items() if reach(case, *pair) is False}
    if not apart:
        return not_applicable("The GPUs can access each other's memory, or it is not known whether they can.")
    row = case.chosen or case.fastest()
    assert row is not None
    moved = Evidence(label="copied between GPUs in a frame", value=sum(apart.values()), unit="bytes")
    share = row.part(row.transfer_seconds)
    if share < limits["share"]:
        return passed(
            f"Copies are only {units.percent(share)} of a frame of {row.strategy}.", moved, row.copies()
        )
    pairs = " and ".join(f"GPU {one} and GPU {other}" for one, other in apart)
    detail = (
        f"{pairs} cannot access each other's memory, so {units.size(sum(apart.values()))} per frame cross "
        f"the link to the host twice: copies are {units.percent(share)} of a frame of {row.strategy}. Keep "
        "the data on one GPU, or choose two GPUs with peer access with --gpus: `advisor doctor` lists them. "
        "A virtual machine, ACS or an IOMMU can prevent peer access over PCIe."
    )
    return advice(detail, moved, row.copies(), row.frame(), inferred=True)
