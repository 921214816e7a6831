"""The machine and its software, how it was measured, and the workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from advisor import units
from advisor.profiles.redaction import WITHHELD
from advisor.profiles.schema import Loop, Profile, StageRecord
from advisor.profiles.system_state import Limit
from advisor.profiles.traces import Traffic
from advisor.report import words
from advisor.report.blocks import Fact
from advisor.report.mixes import searched
from advisor.rules.advise import silences
from advisor.rules.registry import RULES, changed


def environment(profile: Profile) -> tuple[Fact, ...]:
    recorded = profile.environment
    facts = (
        ("Environment", recorded.absent.get("environment")),
        ("Host", recorded.host_name),
        ("System", None if recorded.system == WITHHELD else f"{recorded.system}, {recorded.machine}"),
        ("Python", None if recorded.python == WITHHELD else recorded.python),
        ("CPU", recorded.cpu_model),
        ("CPU cores", recorded.cpu_count),
        ("Memory", _size(recorded.memory_bytes or None)),
    )
    host: tuple[tuple[str, object], ...] = ()
    if state := recorded.host:
        nodes = []
        for node in state.numa_nodes[:16]:
            parts = f"CPUs {words.name(node.cpus)}" if node.cpus else "no CPUs", _size(node.memory_bytes)
            nodes.append(f"{node.node} ({', '.join(filter(None, parts))})")
        inside = (name for name, there in (("WSL", state.wsl), ("a container", state.container)) if there)
        host = (
            ("NUMA nodes", "; ".join(nodes)),
            ("NUMA node of the GPU", state.gpu_numa_node),
            ("Memory available before the run", _size(state.memory_available_bytes)),
            ("Memory limit (cgroup)", _size(state.memory_limit)),
            ("Locked-memory limit", _size(state.locked_memory_limit)),
            ("Transparent huge pages", state.huge_pages),
            ("CPU affinity", state.allowed_cpus),
            ("Runs in", words.listing(inside)),
        )
    of_gpu, packages, attributes = recorded.gpu, recorded.packages, profile.device.attributes
    pairs = (*facts, *of_gpu.items(), *packages.items(), *host, *attributes.items())
    known = ((label, value) for label, value in pairs if value not in (None, ""))
    return tuple(Fact(words.name(label), words.line(str(value), 300)) for label, value in known)


def _size(value: Limit | None) -> str:
    return value if isinstance(value, str) else "" if value is None else units.size(value)


CPU_TITLE = "Measured on this CPU, not on a GPU"
ON_CPU = "The workload ran here with NumPy instead of CuPy. These are not GPU times."

_UNCOMMITTED = {True: ", with uncommitted changes", None: ", perhaps with uncommitted changes", False: ""}
_OBJECTIVES = {
    "time": "time: the latency of a frame",
    "footprint": "footprint: the least memory, then time",
    "throughput": "throughput: frames per second",
    "latency-p99": "latency-p99: the 99th percentile of a frame's latency",
    "energy": "energy: joules per frame above idle power, over the blocks that are above it",
}


def method(profile: Profile) -> tuple[Fact, ...]:
    """Order, sampling and the terms of the tables."""
    sampling, final = profile.method, profile.final
    seed, source = f"in random order (seed {sampling.seed})", "by resampling processes and their timed frames"
    rounds = words.count(len(sampling.order) or sampling.rounds, "round")
    order = f"{rounds}; in each, every strategy runs in a fresh process, {seed}"
    mean, times = "median", "Medians"
    if final is not None:
        order = f"screening: each strategy in a fresh process, {seed}"
        source = "from the final's blocks; for ratios, from the rounds that have both"
        mean, times = "geometric mean over blocks of the", "Times"
    figures = f"{mean} wall time of a steady frame, host stages included. {times} and ratios have their"
    hints = []
    for row in profile.measured().values():
        buffers = list(row.hints.items())[:40]
        texts = (f"{words.name(b)}: {words.listing(map(words.name, h)) or 'none'}" for b, h in buffers)
        hints += [Fact(f"cudaMemAdvise under {words.name(row.strategy)}", "; ".join(texts))] * bool(buffers)
    return (
        Fact("Order", order),
        *(Fact("Mixes", text) for text in searched(profile)),
        *(Fact("Final", text) for text in _final(profile)),
        Fact("Time limit", f"{units.seconds(sampling.max_seconds)} for the command"),
        Fact("Figures", f"{figures} {units.percent(sampling.confidence)} interval, {source}"),
        Fact("Device path", "a frame without its host stages: copies, kernels and waits"),
        Fact("Set-up", "allocation, page-locking, set-up stages, first frame; not part of the frame time"),
        *hints,
        Fact("Trace", words.line(profile.trace.reason, 300)),
    )


def _final(profile: Profile) -> Iterator[str]:
    final, chosen = profile.final, profile.recommendation
    if final is None:
        return
    placed = "set up once in each process" if final.kept_setup else "newly placed for each block"
    yield (
        f"{words.count(final.processes, 'process')} with all contestants, "
        f"{words.count(final.rounds, 'round')} in random order, blocks of "
        f"{words.count(final.frames, 'frame')}, buffers {placed}; "
        f"{words.count(final.looks, 'interim look')}, {'settled' if final.settled else 'out of time'}"
    )
    if final.alias and chosen is not None and chosen.noise is not None:
        name, between = words.name(final.contestants[final.alias]), map(units.ratio, chosen.noise)
        yield f"Control: {name} under a second name took {' to '.join(between)} its time"


def workload(profile: Profile) -> tuple[Fact, ...]:
    ran, buffers = profile.workload, []
    for b in ran.buffers[:40]:
        shape = " × ".join(map(str, b.shape[:6]))
        valid = f", valid length in {words.name(b.valid)}" if b.valid else ""
        buffers.append(f"{words.name(b.name)}: {words.name(b.dtype)} {shape}, {units.size(b.bytes)}{valid}")
    stages = [_run(loop, run) for loop, run in groupby(ran.frame_stages()[:40], lambda s: s.loop)]
    # What each stage moves of each buffer in one frame, and how that is known.
    sizes = {b.name: b.bytes for b in ran.buffers}
    rows = profile.traffic.traffic[:40] if profile.traffic else ()
    by_stage = words.grouped(rows, lambda row: row.stage).items()
    moved = {stage: [_moved(row, sizes.get(row.buffer, 0)) for row in of_it] for stage, of_it in by_stage}
    return (
        Fact("File", words.line(ran.file, 300)),
        Fact("SHA-256", words.name(ran.sha256, 64)),
        *([Fact("Commit", f"{at.revision}{_UNCOMMITTED[at.changed]}")] if (at := profile.commit) else []),
        Fact("Parameters", pairs(ran.parameters) or "none"),
        Fact("Buffers", "; ".join(buffers)),
        Fact("Frame", " → ".join(stages)),
        *(Fact(f"Traffic of {words.name(stage)}", "; ".join(texts)) for stage, texts in moved.items()),
    )


def _run(loop: Loop | None, stages: Iterable[StageRecord]) -> str:
    """Stages in a row with side, frames and forms of arrays, those of a loop in brackets."""
    texts = []
    for stage in stages:
        some = [f"every {stage.every} frames"] if stage.every > 1 else []
        about = ", ".join((stage.side, *some, *dict.fromkeys(stage.arrays.values())))
        texts.append(f"{words.name(stage.name)} ({about})")
    row = " → ".join(texts)
    return row if loop is None else f"[{row}] until {words.name(loop.until)}, at most {loop.at_most} times"


def _moved(row: Traffic, size: int) -> str:
    parts = []
    for verb, count in (("reads", row.bytes_read), ("writes", row.bytes_written)):
        passes = f" ({units.digits(count / size)} passes)" if size else ""
        parts += [f"{verb} {units.size(count)}{passes}"] * bool(count)
    return f"{words.name(row.buffer)}: {' and '.join(parts) or 'not touched'}, {row.source}"


def pairs(values: Mapping[str, int | float | bool | str]) -> str:
    return ", ".join(f"{words.name(k)} = {words.name(str(v))}" for k, v in list(values.items())[:20])


def preferences(profile: Profile) -> tuple[Fact, ...]:
    """Objective, memory budget, changed thresholds and silenced rules; nothing where all is by default."""
    wanted, facts = profile.preferences, []
    if wanted.objective != "time":
        facts.append(Fact("Objective", _OBJECTIVES[wanted.objective]))
    if wanted.memory_budget_bytes:
        facts.append(Fact("Memory budget", units.size(wanted.memory_budget_bytes)))
    # What the budget excludes, on the measured device and on each that was predicted.
    chosen = [(of.device.name, of.recommendation) for of in profile.predictions]
    for device, recommendation in ((profile.device.name, profile.recommendation), *chosen):
        if recommendation and recommendation.excluded:
            out = (f"{words.name(name)} {why}" for name, why in recommendation.excluded.items())
            facts.append(Fact(f"Over the budget on {words.name(device)}", "; ".join(out)))
    for name, (threshold, value) in changed(wanted, RULES).items():
        default = f"default {threshold.written(threshold.default)}"
        facts.append(Fact(f"Threshold {name}", f"{threshold.written(value)} ({default})"))
    for rule, by in silences(profile).items():
        facts.append(Fact("Silenced", f"{words.name(rule)}, by {words.line(by, 200)}"))
    return tuple(facts)
