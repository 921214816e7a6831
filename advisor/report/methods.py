"""How the figures were measured: the command, the rounds, the workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from advisor import units
from advisor.profiles.schema import Commit, Loop, Profile, StageRecord
from advisor.profiles.traces import Traffic
from advisor.report import words
from advisor.report.blocks import Fact
from advisor.report.mixes import searched
from advisor.rules.advise import silences
from advisor.rules.registry import RULES, changed

CPU_LABEL = "measured on this CPU, not on a GPU"
ON_CPU = "The workload ran here with NumPy instead of CuPy. These are not GPU times."

_OBJECTIVES = {
    "time": "time: the latency of a frame",
    "footprint": "footprint: the least memory, then time",
    "throughput": "throughput: frames per second",
    "latency-p99": "latency-p99: the 99th percentile of a frame's latency",
    "energy": "energy: joules per frame above idle power",
}


def measured_label(profile: Profile) -> str:
    """Where the measured figures are from."""
    return CPU_LABEL if profile.device.kind == "cpu" else f"measured on {words.name(profile.device.name)}"


def method(profile: Profile, unmatched: str = "") -> tuple[Fact, ...]:
    """Order, sampling and the terms of the tables; `unmatched` is why the model stands not beside them."""
    taken = profile.method
    stopped = Counter(reason for row in profile.measured().values() for reason in row.stopped).most_common()
    ended = words.listing(f"{words.name(why, 100)} ({words.count(n, 'time')})" for why, n in stopped)
    model = f"not compared with these figures: {unmatched}"
    seed = f"in random order (seed {taken.seed})"
    order = f"screening: each strategy in a fresh process, {seed}"
    if profile.final is None:
        rounds = words.count(len(taken.order) or taken.rounds, "round")
        order = f"{rounds}; in each, every strategy runs in a fresh process, {seed}"
    source = "by resampling processes and their timed frames"
    if profile.final is not None:
        source = "from the final's blocks; for ratios, from the rounds that have both"
    return (
        Fact("Command", words.line(profile.command, 500)),
        Fact("Order", order),
        *(Fact("Mixes", told) for told in searched(profile)),
        *(Fact("Final", told) for told in _final(profile)),
        Fact("Time limit", f"{units.seconds(taken.max_seconds)} for the command"),
        Fact(
            "Figures",
            "median wall time of a steady frame, host stages included. Medians and ratios have their "
            f"{units.percent(taken.confidence)} interval, {source}",
        ),
        Fact("Device path", "a frame without its host stages: copies, kernels and waits"),
        Fact("Set-up", "allocation, page-locking, set-up stages, first frame; not part of the frame time"),
        *_hints(profile),
        *_iterations(profile),
        *([Fact("Sampling ended", ended)] if stopped else []),
        *([Fact("Model", model)] if unmatched else []),
        Fact("Trace", words.line(profile.trace.reason, 300)),
    )


def _final(profile: Profile) -> Iterator[str]:
    """How the best strategies met, and what a check of the run on itself gave."""
    final, chosen = profile.final, profile.recommendation
    if final is None:
        return
    anew = "set up once in each process" if final.kept_setup else "newly placed for each block"
    yield (
        f"{words.count(final.processes, 'process')} with all contestants, "
        f"{words.count(final.rounds, 'round')} in random order, blocks of "
        f"{words.count(final.frames, 'frame')}, buffers {anew}; "
        f"{words.count(final.looks, 'interim look')}, {'settled' if final.settled else 'out of time'}"
    )
    if chosen is not None and chosen.noise is not None:
        low, high = chosen.noise
        yield (
            f"Control: {words.name(final.contestants[final.alias])} under a second name took "
            f"{units.ratio(low)} to {units.ratio(high)} its time"
        )


def _hints(profile: Profile) -> Iterator[Fact]:
    """What cudaMemAdvise was told of each buffer, by strategy."""
    for row in profile.measured().values():
        told = [
            f"{words.name(buffer)}: {words.listing(map(words.name, hints)) or 'none'}"
            for buffer, hints in list(row.hints.items())[:40]
        ]
        if told:
            yield Fact(f"cudaMemAdvise under {words.name(row.strategy)}", "; ".join(told))


def _iterations(profile: Profile) -> Iterator[Fact]:
    """How often each loop ran, by strategy: the mean of the timed frames, and the first frames one by one."""
    for loop in profile.workload.loops[:10]:
        told = [
            f"{words.name(row.strategy)}: {units.digits(ran.mean, 3)}{_counts(ran.counts)}"
            for row in profile.measured().values()
            for ran in row.iterations
            if ran.number == loop.number
        ]
        if told:
            yield Fact(f"Iterations per frame until {words.name(loop.until)}", "; ".join(told))


def _counts(counts: Sequence[int]) -> str:
    return f" (first frames: {', '.join(map(str, counts[:8]))})" if counts else ""


def _commit(at: Commit | None) -> Iterator[Fact]:
    if at is not None:
        differs = {True: ", with uncommitted changes", None: ", perhaps with uncommitted changes", False: ""}
        yield Fact("Commit", f"{at.revision}{differs[at.changed]}")


def workload(profile: Profile) -> tuple[Fact, ...]:
    """File, parameters, buffers, and the stages of a frame with what they get and move."""
    ran, buffers = profile.workload, []
    for b in ran.buffers[:40]:
        shape = " × ".join(map(str, b.shape[:6]))
        valid = f", valid length in {words.name(b.valid)}" if b.valid else ""
        buffers.append(f"{words.name(b.name)}: {words.name(b.dtype)} {shape}, {units.size(b.bytes)}{valid}")
    stages = [_run(loop, tuple(run)) for loop, run in groupby(ran.frame_stages()[:40], lambda s: s.loop)]
    # What each stage moves of each buffer in one frame, and how that is known.
    sizes = {b.name: b.bytes for b in ran.buffers}
    rows = profile.traffic.traffic[:40] if profile.traffic else ()
    by_stage = words.grouped(rows, lambda row: row.stage).items()
    moved = {stage: [_moved(row, sizes.get(row.buffer, 0)) for row in of_it] for stage, of_it in by_stage}
    return (
        Fact("File", words.line(ran.file, 300)),
        Fact("SHA-256", words.name(ran.sha256, 64)),
        *_commit(profile.commit),
        Fact("Parameters", pairs(ran.parameters) or "none"),
        Fact("Buffers", "; ".join(buffers)),
        Fact("Frame", " → ".join(stages)),
        *(Fact(f"Traffic of {words.name(stage)}", "; ".join(told)) for stage, told in moved.items()),
    )


def _run(loop: Loop | None, stages: Sequence[StageRecord]) -> str:
    """Stages in a row, those of a loop in brackets."""
    row = " → ".join(f"{words.name(s.name)} ({', '.join(_about(s))})" for s in stages)
    return row if loop is None else f"[{row}] until {words.name(loop.until)}, at most {loop.at_most} times"


def _about(stage: StageRecord) -> list[str]:
    """Its side, in which frames it runs, the forms of its arrays."""
    some = [f"every {stage.every} frames"] if stage.every > 1 else []
    return [stage.side, *some, *dict.fromkeys(stage.arrays.values())]


def _moved(row: Traffic, size: int) -> str:
    parts = [
        f"{verb} {units.size(count)}" + (f" ({units.digits(count / size)} passes)" if size else "")
        for verb, count in (("reads", row.bytes_read), ("writes", row.bytes_written))
        if count
    ]
    return f"{words.name(row.buffer)}: {' and '.join(parts) or 'not touched'}, {row.source}"


def pairs(values: Mapping[str, int | float | bool | str]) -> str:
    """a = 1, b = 2."""
    return ", ".join(f"{words.name(k)} = {words.name(str(v))}" for k, v in list(values.items())[:20])


def preferences(profile: Profile) -> tuple[Fact, ...]:
    """Objective, memory budget, changed thresholds and silenced rules; nothing where all is by default."""
    wanted, told = profile.preferences, []
    if wanted.objective != "time":
        told.append(Fact("Objective", _OBJECTIVES[wanted.objective]))
    if wanted.memory_budget_bytes:
        told.append(Fact("Memory budget", units.size(wanted.memory_budget_bytes)))
    # What the budget excludes, on the measured device and on each that was predicted.
    chosen = [(of.device.name, of.recommendation) for of in profile.predictions]
    for device, made in ((profile.device.name, profile.recommendation), *chosen):
        if made and made.excluded:
            out = (f"{words.name(name)} {why}" for name, why in made.excluded.items())
            told.append(Fact(f"Over the budget on {words.name(device)}", "; ".join(out)))
    for name, (threshold, value) in changed(wanted, RULES).items():
        default = f"default {threshold.written(threshold.default)}"
        told.append(Fact(f"Threshold {name}", f"{threshold.written(value)} ({default})"))
    for rule, by in silences(profile).items():
        told.append(Fact("Silenced", f"{words.name(rule)}, by {words.line(by, 200)}"))
    return tuple(told)
