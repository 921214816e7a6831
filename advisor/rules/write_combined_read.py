"""write-combined-read: the CPU reads memory that it can only write quickly."""

from __future__ import annotations

from dataclasses import dataclass

from advisor import units
from advisor.profiles.schema import Evidence
from advisor.rules.base import Case, Limits, Rule, Threshold
from advisor.rules.findings import Finding, not_applicable, passed
from advisor.rules.twins import WRITE_COMBINED, Twins, twins


@dataclass(frozen=True)
class _Pair:
    """Twins, the host stages that touch the write-combined memory, and the bytes they read of it."""

    rows: Twins
    stages: tuple[str, ...]
    bytes_read: float

    @property
    def slowdown(self) -> float:
        """Time of these stages over the same on plain memory."""
        plain = self.rows.plain.spent(self.stages)
        return self.rows.combined.spent(self.stages) / plain if plain else 0.0


def judge(case: Case, limits: Limits) -> Finding:
    """Warns where host stages on write-combined memory are much slower than on plain page-locked memory."""
    if any(row.predicted for row in case.of(WRITE_COMBINED)):
        return not_applicable("The model takes it that the CPU never reads write-combined memory.")
    pairs = [pair for rows in twins(case) if (pair := _pair(rows, case)).stages]
    if not pairs:
        return not_applicable("No buffer that the host only writes has figures with and without it.")
    worst = max(pairs, key=lambda pair: pair.slowdown)
    combined, shown = worst.rows.combined, _evidence(worst)
    if worst.slowdown < limits["slowdown"]:
        return passed(
            f"The stages that write write-combined memory take {units.ratio(worst.slowdown)} the time they "
            f"take on plain page-locked memory ({combined.strategy}).",
            *shown,
        )
    cause = _cause(worst)
    better = case.proposal((row for row in case.rows.values() if not WRITE_COMBINED.has(row)), combined)
    if better is None:
        return passed(f"{cause} But no strategy without it is surely faster.", *shown)
    return case.swap(combined, better, cause, shown, inferred=not worst.bytes_read)


def _pair(rows: Twins, case: Case) -> _Pair:
    buffers = [b for b in case.workload.buffers if b.name in rows.buffers]
    hosts = [stage.name for stage in case.workload.frame_stages("host")]
    stages = tuple(stage for stage in hosts if any(stage in buffer.access for buffer in buffers))
    seen = [t for t in case.traffic.traffic if t.stage in stages and t.buffer in rows.buffers]
    return _Pair(rows, stages, sum(t.bytes_read for t in seen if t.source == "traced"))


def _cause(pair: _Pair) -> str:
    combined, plain = pair.rows.combined, pair.rows.plain
    why = (
        f"They read {units.size(pair.bytes_read)} of it in a frame, which bypasses the caches."
        if pair.bytes_read
        else "They read it back, or write it out of order, in pieces smaller than a line."
    )
    return (
        f"{', '.join(pair.stages)} {'take' if len(pair.stages) > 1 else 'takes'} "
        f"{units.seconds(combined.spent(pair.stages))} on write-combined memory and "
        f"{units.seconds(plain.spent(pair.stages))} on plain page-locked memory ({plain.strategy}). {why}"
    )


def _evidence(pair: _Pair) -> tuple[Evidence, ...]:
    combined, plain = pair.rows.combined, pair.rows.plain
    read = combined.figure("reads of write-combined memory by the CPU", pair.bytes_read, "bytes")
    return combined.stages(pair.stages), plain.stages(pair.stages), *([read] if pair.bytes_read else [])


RULE = Rule(
    id="write-combined-read",
    title="Never let the CPU read write-combined memory",
    why="Write-combined memory is not cached: writes are gathered in a few line-sized buffers and go out in "
    "order, but each read goes to DRAM by itself. A sum into the array (a += x), a stage that reads back "
    "what it wrote, or writes in scattered places cost more than such memory can ever gain.",
    example="Example card, made-up figures: produce takes 18.0 ms on write-combined memory and 4.00 ms on "
    "plain page-locked memory (pinned). They read 32.0 MiB of it in a frame, which bypasses the caches. "
    "pinned takes 20.0 ms a frame and write-combined 34.0 ms: 1.70× (1.70× to 1.70×) as fast. The gain is "
    "against write-combined.",
    memory_classes=("tegra-io-coherent", "tegra-coherent", "discrete", "discrete-hmm", "coherent"),
    elsewhere="Page-locked memory is not cached by the CPU there, write-combined or not: see "
    "uncached-host-read.",
    requires=(WRITE_COMBINED,),
    thresholds=(
        Threshold(
            "slowdown",
            1.5,
            "ratio",
            "time of the host stages that touch write-combined memory, over their time on plain memory",
            "chosen between 1, which writing in order should take, and about 6 for reading (The CUDA "
            "Handbook, 5.1.4)",
            low=1.0,
        ),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#write-combining-memory",
        "N. Wilt, The CUDA Handbook, 5.1.4",
    ),
    judge=judge,
)
