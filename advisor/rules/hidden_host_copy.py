"""hidden-host-copy: data that arrives elsewhere is copied into the memory that was to spare a copy."""

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Limits, Row, Rule, estimate, frame_share, not_applicable, passed


def judge(case: Case, limits: Limits) -> Finding:
    """Advises a strategy that takes the memory as it comes; else to produce the data in place."""
    external = ", ".join(buffer.name for buffer in case.workload.buffers if buffer.external)
    if not external:
        return not_applicable("No buffer is marked external.")
    copying = [row for row in case.rows.values() if row.host_copy_seconds]
    subject = case.chosen if case.chosen in copying else case.fastest(copying)
    if subject is None or subject.host_copy_seconds is None:
        row = case.chosen or case.fastest()
        return passed("No strategy here copies external buffers on the CPU.", *([row.frame()] if row else []))
    share = subject.part(subject.host_copy_seconds)
    if share < limits["share"]:
        little = f"only {units.percent(share)} of a frame of {subject.strategy}"
        return passed(f"The CPU's copies of {external} are {little}.", _copying(subject))
    cause = (
        f"The data of {external} arrives in other memory than {subject.strategy} needs. The CPU's copies "
        f"between the two {subject.take} {units.seconds(subject.host_copy_seconds)}, {units.percent(share)} "
        "of a frame: the copy that the strategy was to spare, made by hand."
    )
    better = case.proposal((row for row in case.rows.values() if not row.host_copy_seconds), subject)
    if better is not None:
        cause = f"{cause} {better.strategy} takes the memory as it is."
        return case.swap(subject, better, cause, [_copying(subject)])
    if case.chosen is not None and not case.chosen.host_copy_seconds:
        said = f"{case.recommended}, which is recommended, takes {external} where the data arrives."
        return passed(said, case.chosen.frame(), _copying(subject))
    return _in_place(subject, cause)


def _in_place(subject: Row, cause: str) -> Finding:
    """Without the copies a frame takes what is left: an estimate, since nobody ran it."""
    return Finding(
        "advice",
        f"{cause} No strategy that takes the memory as it comes is surely faster. Let the source write into "
        "the program's own arrays (a `dst=` or `out=` argument, a decoder's or camera's own buffers), and "
        "the copy is gone: the gain is the time of the copies.",
        title="Produce the data in place: give the source the memory that the GPU uses",
        evidence=(_copying(subject), subject.frame()),
        gain=estimate(subject.host_copy_seconds),
    )


def _copying(row: Row) -> Evidence:
    return row.figure(f"{row.strategy}: the CPU's own copies", row.host_copy_seconds or 0.0)


RULE = Rule(
    id="hidden-host-copy",
    title="Register the memory that the data arrives in, in place of copying it",
    why="np.copyto(managed, image) keeps the copy that managed, mapped or page-locked memory was meant to "
    "remove, and the memory for it: a pass over the data on the CPU, often as slow as the transfer. Memory "
    "that somebody else allocated can be registered where it is; or the data is produced in the right "
    "memory to begin with.",
    bad="""
    host = cupyx.empty_pinned(shape, np.float32)
    for _ in range(frames):
        np.copyto(host, image)  # the copy that it was to spare
        device.set(host, stream=stream)
        stream.synchronize()""",
    good="""
    pages = image.ctypes.data
    cupy.cuda.runtime.hostRegister(pages, image.nbytes, 0)  # once
    for _ in range(frames):
        device.set(image, stream=stream)  # from where the data arrives
        stream.synchronize()""",
    thresholds=(
        frame_share("part of a frame that the CPU's own copies take, from which they are worth removing"),
    ),
    sources=("https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#page-locked-host-memory",),
    judge=judge,
)
