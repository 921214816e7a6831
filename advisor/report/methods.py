"""How the figures were taken, and of what: the command, the rounds, the workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from advisor import units
from advisor.profiles.schema import Profile, StageRecord, Traffic
from advisor.report import words
from advisor.report.blocks import Fact
from advisor.rules.advise import silences
from advisor.rules.limits import changed
from advisor.rules.registry import RULES

CPU_LABEL = "measured on this CPU, not on a GPU"


def measured_label(profile: Profile) -> str:
    """Where the measured figures are from."""
    return CPU_LABEL if profile.device.kind == "cpu" else f"measured on {words.name(profile.device.name)}"


def method(profile: Profile, unmatched: str = "") -> tuple[Fact, ...]:
    """Order, sampling and the terms of the tables; `unmatched` is why the model stands not beside them."""
    taken = profile.method
    stopped = Counter(reason for row in profile.measured().values() for reason in row.stopped)
    return (
        Fact("Command", words.line(profile.command, 500)),
        Fact("Order", _order(profile)),
        *(Fact("Final", told) for told in _final(profile)),
        Fact("Time", f"at most {units.seconds(taken.max_seconds)} for the command"),
        Fact(
            "Figures",
            "median wall time of a steady frame, host stages included. Medians and ratios carry their "
            f"{units.percent(taken.confidence)} interval, from resampling processes and what they timed",
        ),
        Fact("Device path", "the frame without its host stages: copies, kernels and waiting"),
        Fact("Set-up", "allocate, pin, set-up stages and first frame; not part of the frame time"),
        *(Fact(f"Hints under {strategy}", told) for strategy, told in _hints(profile)),
        *(Fact("Sampling ended", _stops(stopped)) for _ in (1,) if stopped),
        *(Fact("Model", f"not compared with these figures: {why}") for why in (unmatched,) if why),
        Fact("Trace", words.line(profile.trace.reason, 300)),
    )


def _order(profile: Profile) -> str:
    taken = profile.method
    if profile.final is not None:
        return f"screening: each strategy in a fresh process, in an order shuffled with seed {taken.seed}"
    return (
        f"{words.count(len(taken.order) or taken.rounds, 'round')}; in each, every strategy runs in a fresh "
        f"process, in an order shuffled with seed {taken.seed}"
    )


def _final(profile: Profile) -> Iterator[str]:
    """How the best strategies met, and what a check of the run on itself gave."""
    final, chosen = profile.final, profile.recommendation
    if final is None:
        return
    anew = "set up once in each process" if final.kept_setup else "placed anew for each block"
    yield (
        f"{words.count(final.processes, 'process')} with all contestants, "
        f"{words.count(final.rounds, 'round')} in random order, blocks of "
        f"{words.count(final.frames, 'frame')}, buffers {anew}; "
        f"{words.count(final.looks, 'look')}, {'settled' if final.settled else 'until the time was up'}"
    )
    if chosen is not None and chosen.noise is not None:
        low, high = chosen.noise
        yield (
            f"Check: {words.name(final.contestants[final.alias])} under a second name took "
            f"{units.ratio(low)} to {units.ratio(high)} its own time"
        )


def _hints(profile: Profile) -> list[tuple[str, str]]:
    """What cudaMemAdvise was told of each buffer, by strategy."""
    return [
        (
            words.name(row.strategy),
            "; ".join(
                f"{words.name(buffer)}: {words.listing(words.name(h) for h in hints) or 'none'}"
                for buffer, hints in list(row.hints.items())[:40]
            ),
        )
        for row in profile.measured().values()
        if row.hints
    ]


def _stops(stopped: Counter[str]) -> str:
    return words.listing(
        f"{words.name(reason, 100)} ({words.count(n, 'time')})" for reason, n in stopped.most_common()
    )


def workload(profile: Profile) -> tuple[Fact, ...]:
    """File, parameters, buffers and the stages of a frame."""
    ran = profile.workload
    shapes = [" × ".join(map(str, b.shape[:6])) for b in ran.buffers]
    buffers = [
        f"{words.name(b.name)}: {words.name(b.dtype)} {shape}, {units.size(b.bytes)}"
        for b, shape in list(zip(ran.buffers, shapes, strict=True))[:40]
    ]
    stages = [f"{words.name(s.name)} ({_gets(s)})" for s in ran.frame_stages()[:40]]
    return (
        Fact("File", words.line(ran.file, 300)),
        Fact("SHA-256", words.name(ran.sha256, 64)),
        Fact("Parameters", pairs(ran.parameters) or "none"),
        Fact("Buffers", "; ".join(buffers)),
        Fact("Frame", " → ".join(stages)),
        *_traffic(profile),
    )


def _gets(stage: StageRecord) -> str:
    """The side, and the forms other than the side's own arrays in which the stage gets buffers."""
    return ", ".join([stage.side, *dict.fromkeys(stage.arrays.values())])


def _traffic(profile: Profile) -> list[Fact]:
    """What each stage moves of each buffer in one frame, and how that is known."""
    sizes = {b.name: b.bytes for b in profile.workload.buffers}
    rows = profile.traffic.traffic[:40] if profile.traffic else ()
    by_stage: dict[str, list[str]] = {}
    for row in rows:
        by_stage.setdefault(row.stage, []).append(_moved(row, sizes.get(row.buffer, 0)))
    return [Fact(f"Traffic of {words.name(stage)}", "; ".join(told)) for stage, told in by_stage.items()]


def _moved(row: Traffic, size: int) -> str:
    parts = [
        f"{verb} {units.size(count)}" + (f" ({units.digits(count / size)} passes)" if size else "")
        for verb, count in (("reads", row.bytes_read), ("writes", row.bytes_written))
        if count
    ]
    return f"{words.name(row.buffer)}: {' and '.join(parts) or 'not touched'}, {row.source}"


def pairs(values: dict[str, int | float | bool | str]) -> str:
    """a = 1, b = 2."""
    return ", ".join(f"{words.name(k)} = {words.name(str(v))}" for k, v in list(values.items())[:20])


_OBJECTIVES = {
    "time": "time, the latency of a frame",
    "footprint": "footprint: the least memory, then time",
    "latency-p99": "latency-p99: the 99th percentile of a frame's latency",
    "energy": "energy: joules of a frame, above the idle power",
    "throughput": "throughput: frames per second",
}


def preferences(profile: Profile) -> tuple[Fact, ...]:
    """Objective, memory budget, changed thresholds and silenced rules; nothing where all is by default."""
    wanted = profile.preferences
    return (
        *(Fact("Objective", _OBJECTIVES[wanted.objective]) for _ in (1,) if wanted.objective != "time"),
        *(Fact("Memory budget", units.size(b)) for b in (wanted.memory_budget_bytes,) if b),
        *_left_out(profile),
        *(
            Fact(f"Threshold {name}", f"{t.written(value)} (default {t.written(t.default)})")
            for name, (t, value) in changed(wanted, RULES).items()
        ),
        *(
            Fact("Silenced", f"{words.name(rule)}, by {words.line(by, 200)}")
            for rule, by in silences(profile).items()
        ),
    )


def _left_out(profile: Profile) -> tuple[Fact, ...]:
    """What the budget excludes, on the measured device and on each that was predicted."""
    chosen = [(profile.device, profile.recommendation)]
    chosen += [(p.device, p.recommendation) for p in profile.predictions]
    return tuple(
        Fact(
            f"Over the budget on {words.name(device.name)}",
            "; ".join(f"{words.name(name)} {why}" for name, why in recommendation.excluded.items()),
        )
        for device, recommendation in chosen
        if recommendation and recommendation.excluded
    )
