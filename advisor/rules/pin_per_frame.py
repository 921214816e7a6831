"""pin-per-frame: memory is page-locked or registered again in every frame."""

from advisor import units
from advisor.rules.base import Case, Finding, Limits, Rule, Threshold, estimate, not_applicable, passed


def judge(case: Case, limits: Limits) -> Finding:
    """Advises to lock once what the workload's own stages lock in their frames, seen through CuPy."""
    looked = [(row, row.page_locking) for row in case.rows.values() if row.page_locking is not None]
    if not looked:
        return not_applicable("Not observed: calls that page-lock memory are seen only on a GPU.")
    row, seen = max(looked, key=lambda pair: pair[1].seconds)
    shown = (
        row.figure(f"{row.strategy}: page-locking calls in a frame", seen.calls, "count"),
        row.figure(f"{row.strategy}: time of these calls", seen.seconds),
    )
    if seen.calls < limits["calls"]:
        unseen = "other libraries' calls are not seen"
        return passed(f"No stage page-locks memory in its frames through CuPy ({unseen}).", *shown)
    return Finding(
        "advice",
        f"In the frames of {row.strategy} the workload's own stages lock or unlock pages "
        f"{units.digits(seen.calls)} times each, {units.seconds(seen.seconds)} or "
        f"{units.percent(seen.seconds / row.seconds)} of a frame. Locking walks over all pages of the "
        "memory, and for a single copy costs more than it saves. Lock once, before the frames, and use the "
        "same memory again; or leave the copy to ordinary memory. The gain is the time of these calls.",
        evidence=shown,
        gain=estimate(seen.seconds),
    )


RULE = Rule(
    id="pin-per-frame",
    title="Page-lock once, before the frames, not in each of them",
    why="cudaHostAlloc and cudaHostRegister lock page by page and tell the GPU of each, which costs more "
    "than a copy from page-locked memory saves: pinning for every transfer is up to twice as slow as a "
    "plain copy. It pays where memory is locked once and used again.",
    bad="""
    for _ in range(frames):
        cupy.cuda.runtime.hostRegister(host.ctypes.data, host.nbytes, 0)
        device.set(host, stream=stream)
        stream.synchronize()
        cupy.cuda.runtime.hostUnregister(host.ctypes.data)""",
    good="""
    cupy.cuda.runtime.hostRegister(host.ctypes.data, host.nbytes, 0)
    for _ in range(frames):
        device.set(host, stream=stream)
        stream.synchronize()
    cupy.cuda.runtime.hostUnregister(host.ctypes.data)""",
    thresholds=(
        Threshold(
            "calls",
            0.5,
            "count",
            "calls in a frame that lock or unlock pages, on average",
            "one every other frame: fewer are a pool that grows, not a habit",
        ),
    ),
    sources=("pytorch/tutorials pinmem_nonblock.py: pinning for each copy is up to 2 times slower",),
    judge=judge,
)
