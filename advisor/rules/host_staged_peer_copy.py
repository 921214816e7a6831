"""host-staged-peer-copy: GPUs that cannot reach each other exchange data through host memory."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Limits, Rule, frame_share, not_applicable, passed
from advisor.rules.gpus import crossing_bytes, reach


def judge(case: Case, limits: Limits) -> Finding:
    """Warns where copies between such GPUs are a large part of a frame."""
    crossing = crossing_bytes(case)
    if not crossing:
        return not_applicable("No GPU reads what another one makes.")
    apart = {pair: size for pair, size in crossing.items() if reach(case, *pair) is False}
    if not apart:
        return not_applicable("The GPUs can reach each other's memory, or it is not known whether they can.")
    row = case.chosen or case.fastest()
    assert row is not None
    moved = Evidence(label="crosses between GPUs in a frame", value=sum(apart.values()), unit="bytes")
    share = row.part(row.transfer_seconds)
    if share < limits["share"]:
        return passed(
            f"Copies are only {units.percent(share)} of a frame of {row.strategy}.", moved, row.copies()
        )
    pairs = " and ".join(f"GPU {one} and GPU {other}" for one, other in apart)
    detail = (
        f"{pairs} cannot read each other's memory, so that {units.size(sum(apart.values()))} a frame cross "
        f"the link to the host twice: copies are {units.percent(share)} of a frame of {row.strategy}. Keep "
        "what one GPU makes on that GPU, or choose two that reach each other with --gpus: `advisor doctor` "
        "lists them. In a virtual machine, and with ACS or an IOMMU, PCIe peers may be cut off."
    )
    return Finding("advice", detail, evidence=(moved, row.copies(), row.frame()), inferred=True)


RULE = Rule(
    id="host-staged-peer-copy",
    title="Avoid copies between GPUs that cannot reach each other",
    why="cudaMemcpyPeerAsync works between any two GPUs. Where one cannot read the other's memory, the "
    "driver copies through host memory: each byte crosses the host's link "
    "twice, and both GPUs' other copies wait.",
    bad="""
    with cupy.cuda.Device(1):
        there = cupy.empty(shape, np.float32)
        there[...] = device  # of GPU 0: staged in host memory
        compute(there)""",
    good="""
    # Both kernels on the GPU that has the data:
    compute(device)
    compute(device)""",
    several_gpus=True,
    thresholds=(frame_share("share of a frame from which copies are worth removing"),),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#peer-to-peer-memory-copy",
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#iommu-on-linux",
    ),
    judge=judge,
)
