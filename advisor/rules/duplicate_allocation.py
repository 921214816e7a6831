"""duplicate-allocation: explicit copies on a shared DRAM hold every buffer twice."""

from collections.abc import Sequence

from advisor import units
from advisor.profiles.conclusions import Evidence
from advisor.rules.base import Case, Finding, Limits, Row, Rule, Threshold, passed
from advisor.strategies.registry import BASELINE
from advisor.verdicts.ties import LEAST_SAVING


def judge(case: Case, limits: Limits) -> Finding:
    """Advises a strategy that holds the buffers once, if a frame takes no longer for it."""
    baseline = case.baseline
    twice = units.size(baseline.physical_bytes)
    least = max(limits["saving"] * baseline.physical_bytes, limits["bytes"])
    once = [row for row in case.rows.values() if baseline.physical_bytes - row.physical_bytes >= least]
    if not once:
        said = f"No strategy needs at least {units.size(least)} less than {BASELINE}, which needs {twice}."
        return passed(said, _held(baseline))
    shown = [_held(row) for row in (baseline, *once)]
    as_fast = [row for row in once if row.no_slower(baseline)]
    if not as_fast:
        fastest = min(once, key=lambda row: row.seconds)
        said = (
            f"{_names(once)} would hold the buffers once ({units.size(fastest.physical_bytes)} instead of "
            f"{twice}), but may be slower: {fastest.takes} a frame, {units.times(fastest.over(baseline))} "
            f"that of {BASELINE}."
        )
        return passed(said, *shown, baseline.frame(), fastest.frame())
    better = min([row for row in as_fast if row is case.chosen] or as_fast, key=lambda row: row.seconds)
    cause = (
        f"On {case.device.name} CPU and GPU share one DRAM, and {BASELINE} holds each buffer in it twice: "
        f"{twice}. {_names(once)} {'hold' if len(once) > 1 else 'holds'} it once."
    )
    saved = baseline.physical_bytes - better.physical_bytes
    worth = (
        f"{better.strategy} needs {units.size(better.physical_bytes)}, {units.size(saved)} less, and is "
        f"{units.times(baseline.over(better))} as fast{', as predicted' if better.predicted else ''}."
    )
    return case.swap(baseline, better, cause, shown, worth=worth)


def _names(rows: Sequence[Row]) -> str:
    names = [row.strategy for row in rows]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _held(row: Row) -> Evidence:
    return row.figure(f"{row.strategy}: memory", row.physical_bytes, "bytes")


RULE = Rule(
    id="duplicate-allocation",
    title="Hold each buffer once: CPU and GPU share one memory",
    why="On a Jetson, cudaMalloc memory comes from the same DRAM as NumPy arrays. A program written "
    "for a card, with a host array, a device array and a copy between them, holds everything twice; "
    "on a 4 or 8 GB board that decides what fits.",
    bad="""
    host = np.empty(shape, np.float32)
    device = cupy.empty(shape, np.float32)  # in the same DRAM
    produce(host)
    device.set(host)
    compute(device)""",
    good="""
    host, device = managed_empty(shape, np.float32)  # one memory
    produce(host)
    compute(device)
    stream.synchronize()  # before the CPU touches host again""",
    memory_classes=("tegra", "tegra-io-coherent", "tegra-coherent", "coherent"),
    elsewhere="The GPU has its own memory: its copy of a buffer does not use host memory.",
    requires=(BASELINE,),
    one_dram=True,
    thresholds=(
        Threshold(
            "saving",
            0.10,
            "ratio",
            "share of the baseline's memory that must be saved",
            "a choice: published savings are close to 50 % (Choi et al., CCPE 33(4), 2021), so less than "
            "10 % has other causes",
            high=1.0,
        ),
        Threshold(
            "bytes",
            float(LEAST_SAVING),
            "bytes",
            "minimum saving worth a code change",
            "the granularity of CUDA's device allocations, 2 MiB: less can be rounding",
        ),
    ),
    sources=(
        "https://docs.nvidia.com/cuda/cuda-for-tegra-appnote/index.html#memory-management",
        "Choi et al., Concurrency and Computation: Practice and Experience 33(4), 2021",
        "NVIDIA GTC 2022, SE2600: explicit copies take twice the memory on Xavier NX",
    ),
    judge=judge,
)
