"""ping-pong-migration: managed pages that go back and forth because both sides use them in turn."""

from advisor import units
from advisor.rules.base import Case, Finding, Kind, Limits, Rule, Threshold, passed
from advisor.rules.rows import changes_of_side, shared
from advisor.rules.traced import Traced, migrations
from advisor.strategies.registry import BASELINE

_MANAGED = Kind("managed", lambda row: row.places(lambda placed: placed.managed))


def judge(case: Case, limits: Limits) -> Finding:
    """Warns against managed memory for buffers that change sides more often than a frame needs."""
    managed = min(case.of(_MANAGED), key=lambda row: row.seconds)
    # Over a coherent link no page has to move at all, so that the two changes of any shared buffer count.
    least = 2 if case.device.memory_class == "coherent" else limits["changes"]
    changes = {buffer.name: changes_of_side(buffer, case.workload) for buffer in shared(case.workload)}
    often = [buffer for buffer in shared(case.workload) if changes[buffer.name] >= least]
    if not often:
        most = max(changes.values(), default=0)
        said = f"A buffer changes sides at most {most} times a frame: it goes over and comes back once."
        return passed(said, managed.figure("changes of side of a buffer in a frame", most, "count"))
    moved = sum(buffer.bytes * changes[buffer.name] for buffer in often)
    shown = [
        *(managed.figure(f"changes of side of {b.name} in a frame", changes[b.name], "count") for b in often),
        managed.figure("bytes that change sides in a frame, at most", moved, "bytes"),
        managed.kernels(),
    ]
    named = ", ".join(f"{b.name} ({units.size(b.bytes)}) {changes[b.name]} times" for b in often)
    cause = f"In each frame buffers change sides: {named}."
    others = [row for row in case.rows.values() if not _MANAGED.has(row)]
    better = case.proposal(others, managed)
    if better is not None:
        cause += " At each change the pages that are touched move, by faults or by a prefetch, and a page "
        cause += "that both sides keep using spends its time on the link."
        return case.swap(managed, better, cause, [*shown, better.kernels()])
    nearest = case.fastest(row for row in others if row.strategy != BASELINE)
    beside = f", {nearest.takes}" if nearest else ""
    shown += [nearest.frame()] if nearest else []
    return passed(f"{cause} But nothing else is surely faster: {managed.takes} a frame{beside}.", *shown)


RULE = Rule(
    id="ping-pong-migration",
    title="Keep what both sides use in turn out of managed memory",
    why="Managed pages live on one side at a time. A buffer that the CPU looks at between two kernels, or a "
    "flag that both sides write, goes back and forth over the link with every turn. Where the link is "
    "coherent nothing would have to move at all: on GH200 such memory falls to 18 to 29 GB/s, where memory "
    "that stays in place is read at 330.",
    bad="""
    host, device = managed_empty(shape, np.float32)
    for _ in range(frames):
        compute(device)  # fetches its pages
        stream.synchronize()
        produce(host)  # and fetches them back""",
    good="""
    host = cupyx.empty_pinned(shape, np.float32)
    device = cupy.empty(shape, np.float32)
    for _ in range(frames):
        compute(device)
        device.get(stream=stream, out=host)
        produce(host)
        device.set(host, stream=stream)""",
    memory_classes=("discrete", "discrete-hmm", "coherent"),
    elsewhere="CPU and GPU share one DRAM: nothing migrates.",
    requires=(_MANAGED,),
    one_dram=False,
    thresholds=(
        Threshold(
            "changes",
            3,
            "count",
            "changes of side of a buffer in a frame, on a card; over a coherent link two are enough",
            "two are what any buffer needs that goes over and comes back once a frame",
        ),
    ),
    sources=(
        "https://dnhkng.github.io/posts/gh200-benchmarking: 18 to 29 GB/s by turns, 328 to 339 in place",
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#unified-memory-programming",
    ),
    traced=Traced((_MANAGED.example,), migrations),
    judge=judge,
)
