"""pinned-over-budget: so much memory is page-locked that the rest of the machine goes short."""

from advisor import units
from advisor.rules.base import Case, Finding, Kind, Limits, Rule, Threshold, not_applicable, passed
from advisor.strategies.registry import BASELINE

_LOCKING = Kind("pinned", lambda row: row.pinned_bytes > 0, "No strategy here page-locks memory.")


def judge(case: Case, limits: Limits) -> Finding:
    """Warns where the recommended strategy, or all that is fast, locks a large part of the memory."""
    memory = _memory(case)
    if memory is None:
        return not_applicable("How much memory the host of this device has is not known.")
    subject = case.chosen or case.fastest() or case.of(_LOCKING)[0]
    shown = [
        subject.figure(f"{subject.strategy}: page-locked", subject.pinned_bytes, "bytes"),
        subject.figure("memory that this program may use", memory, "bytes"),
    ]
    if not subject.pinned_bytes:
        return passed(f"{subject.strategy} page-locks nothing.", *shown)
    # RLIMIT_MEMLOCK binds mlock; what the driver locks does not count in VmLck.
    limit = case.machine.host.locked_memory_limit if case.machine and case.machine.host else None
    shown += [subject.figure("limit of mlock (ulimit -l)", limit, "bytes")] if isinstance(limit, int) else []
    share = subject.pinned_bytes / memory
    locks = f"{subject.strategy} page-locks {units.size(subject.pinned_bytes)}, {units.percent(share)} of the"
    if share < limits["share"]:
        return passed(f"{locks} memory of {units.size(memory)}.", *shown)
    cause = (
        f"{locks} {units.size(memory)} there are. Locked pages cannot be swapped nor given to the page "
        "cache: other programs slow down or fail first, then further page-locking does."
    )
    most = limits["share"] * memory
    lean = [row for row in case.rows.values() if row.pinned_bytes < most and row.strategy != BASELINE]
    fitting = [row for row in lean if row.fits]
    better = case.fastest(row for row in fitting if row.no_slower(subject)) or case.proposal(lean, subject)
    if better is None:
        cause += (
            " No strategy that locks less is as fast. Lock a few buffers of a fixed size and pass the data "
        )
        cause += "through them in parts, or lock only what is copied in every frame."
        return Finding("advice", cause, evidence=tuple(shown))
    locked = units.size(better.pinned_bytes) if better.pinned_bytes else "nothing"
    worth = f"{better.strategy} locks {locked}: {better.takes} a frame."
    title = f"Lock less memory: {better.strategy} is as fast"
    return case.swap(subject, better, cause, shown, worth=worth, title=title)


def _memory(case: Case) -> int | None:
    """The host's memory, or what its control group may use; on one DRAM the device tells it too."""
    machine = case.machine
    if machine is None:
        total = case.device.attributes.get("total_global_mem") if case.one_dram else None
        return int(total) if total else None
    limit = machine.host.memory_limit if machine.host else None
    known = [size for size in (machine.memory_bytes, limit) if isinstance(size, int) and size > 0]
    return min(known, default=None)


RULE = Rule(
    id="pinned-over-budget",
    title="Lock less memory: page-locked memory is lost to everybody else",
    why="Page-locked memory is a scarce resource. It stays in DRAM whether it is used or not; the more there "
    "is of it the less is left for other programs and the page cache, and allocations of it fail long before "
    "ordinary ones do. On a Jetson the GPU's memory comes out of the same DRAM.",
    bad="""
    host = cupyx.empty_pinned(total, np.uint8)  # all of the file
    source.readinto(host)
    device = cupy.empty(total, np.uint8)
    device.set(host, stream=stream)
    compute(device)""",
    good="""
    host = cupyx.empty_pinned(4 << 20, np.uint8)  # one part, again and again
    device = cupy.empty(4 << 20, np.uint8)
    while count := source.readinto(host):
        device[:count].set(host[:count], stream=stream)
        compute(device[:count])
        stream.synchronize()  # before the next part replaces it""",
    requires=(_LOCKING,),
    thresholds=(
        Threshold(
            "share",
            0.5,
            "ratio",
            "page-locked part of the memory that the program may use",
            "a choice: the CUDA C++ Programming Guide warns of it without a figure; half is what Linux lets "
            "a tmpfs take by default (tmpfs(5))",
            high=1.0,
        ),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#page-locked-host-memory",
        "https://man7.org/linux/man-pages/man5/tmpfs.5.html",
    ),
    judge=judge,
)
