"""peer-access-off: what one GPU makes for another goes through the host although they reach each other."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Limits, Rule, frame_share, not_applicable, passed, unbeaten
from advisor.rules.gpus import PEER, crossing_bytes, reach
from advisor.strategies.registry import BASELINE


def judge(case: Case, limits: Limits) -> Finding:
    """Advises peer where GPUs reach each other and copies between them are faster than through the host."""
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


RULE = Rule(
    id="peer-access-off",
    title="Enable peer access and copy from GPU to GPU",
    why="GPUs connected by NVLink, or below one PCIe switch, can copy to each other directly once peer "
    "access is enabled. Without it the driver stages copies between them in host memory: two H200s "
    "connected by NVLink copy at 38 GB/s without peer access and at 387 GB/s with it.",
    bad="""
    host = cupy.asnumpy(device)  # from GPU 0 to the host
    with cupy.cuda.Device(1):
        compute(cupy.asarray(host))  # and from there to GPU 1""",
    good="""
    with cupy.cuda.Device(1):
        cupy.cuda.runtime.deviceEnablePeerAccess(0)  # once
        there = cupy.empty(shape, np.float32)
        ends = there.data.ptr, 1, device.data.ptr, 0
        current = cupy.cuda.get_current_stream()
        cupy.cuda.runtime.memcpyPeerAsync(*ends, there.nbytes, current.ptr)
        compute(there)""",
    requires=(BASELINE, PEER),
    several_gpus=True,
    thresholds=(frame_share(f"share of a `{BASELINE}` frame from which copies are worth removing"),),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#peer-to-peer-memory-access",
        "measured: two H200s connected by NVLink, CUDA 13: 38 GB/s without peer access, 387 GB/s with it",
    ),
    judge=judge,
)
