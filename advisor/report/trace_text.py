"""What nsys saw, as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from advisor import units
from advisor.nsys.exports import FileTrace, WholeTrace
from advisor.profiles.traces import Activity, Migrations, StrategyTrace
from advisor.report import words

NONE = "none"
"""It was looked for, and not there."""
_CALLED = {"cpu_page_faults": "page faults by the CPU", "gpu_page_faults": "page faults by the GPU"}


def trace_text(told: FileTrace) -> str:
    """One file: each strategy with its figures per frame, or the totals."""
    lines = [told.tool or "an export of nsys that does not say its version"]
    for note in told.notes:
        lines.append(f"note: {words.line(note)}")
    for trace in told.strategies:
        lines += ["", *_strategy(trace)]
    if told.whole:
        lines += ["", "None of advisor's ranges is in it; in all:", *_whole(told.whole)]
    lines += ["", "Times under a tool are mostly longer than without it; they are not the measured ones."]
    return "\n".join(lines)


def _strategy(trace: StrategyTrace) -> Iterator[str]:
    frames = "1 steady frame" if trace.frames == 1 else f"{trace.frames} steady frames"
    yield f"{words.name(trace.strategy)}: {frames} of {units.seconds(trace.frame_seconds)}, figures per frame"
    yield from _activity(trace.activity, trace.frames, "  ")
    if trace.idle_share is not None:
        yield f"  GPU idle: {units.percent(trace.idle_share)} of the frame"
    for name, value in steps(trace):
        yield f"  in {name}: {value}"
    yield from _absent(trace.absent)


def _whole(whole: WholeTrace) -> Iterator[str]:
    yield from _activity(whole.activity, 1, "  ")
    if whole.idle_share is not None and whole.seconds is not None:
        yield f"  GPU idle: {units.percent(whole.idle_share)} of {units.seconds(whole.seconds)}"
    yield from _absent(whole.absent)


def _activity(seen: Activity, frames: int, indent: str) -> Iterator[str]:
    for label, value, note in figures(seen, frames):
        yield f"{indent}{label}: {value}{f' ({note})' if note else ''}"


def steps(trace: StrategyTrace) -> Iterator[tuple[str, str]]:
    """Each range with the host's time in it, and what was launched or happened there; per frame."""
    for step in trace.ranges:
        times = _number(step.count, trace.frames, "time", "times")
        seen = [
            f"{label} {value}"
            for label, value, _ in figures(step.activity, trace.frames)
            if value not in ("0", NONE)
        ]
        yield words.name(step.name), "; ".join([f"{units.seconds(step.seconds)} each, {times}", *seen])


def figures(seen: Activity, frames: int) -> Iterator[tuple[str, str, str]]:
    """Label, value and what qualifies it, of everything that was observed; per frame."""
    if seen.copies == ():
        yield "copies", NONE, ""
    for c in seen.copies or ():
        path = " to ".join(part for part in (c.source, c.destination) if part)
        rate = c.bytes_per_second
        each = _each(c.count, frames, c.seconds, "copy", "copies")
        yield f"copies {c.kind}", units.size(round(c.bytes / frames)), _joined(path, each, rate)
    yield from _migrations(seen.migrations or (), frames)
    for who, faults in (("CPU", seen.cpu_page_faults), ("GPU", seen.gpu_page_faults)):
        if faults is not None:
            yield f"page faults by the {who}", _plain(faults / frames), ""
    for k in seen.kernels or ():
        runs = _number(k.count, frames, "run", "runs")
        yield f"kernel {words.name(k.name)}", units.seconds(k.seconds / frames), runs
    for s in seen.synchronizations or ():
        yield f"waits, {s.kind}", units.seconds(s.seconds / frames), _number(s.count, frames, "wait", "waits")


def _migrations(seen: Sequence[Migrations], frames: int) -> Iterator[tuple[str, str, str]]:
    """All that moved one way, then by cause."""
    for direction in dict.fromkeys(m.direction for m in seen):
        mine = [m for m in seen if m.direction == direction]
        total = units.size(round(sum(m.bytes for m in mine) / frames))
        causes = [
            (m.cause or "cause unknown")
            + (f" {units.size(round(m.bytes / frames))}" if len(mine) > 1 else "")
            + f" in {_number(m.count, frames, 'move', 'moves')}"
            for m in mine
        ]
        lasted = units.seconds(sum(m.seconds for m in mine) / frames)
        yield f"migrations {direction}", total, f"{', '.join(causes)}; {lasted}"


def _each(count: int, frames: int, seconds: float, one: str, several: str) -> str:
    return f"{_number(count, frames, one, several)}, {units.seconds(seconds / frames)}"


def _number(count: int, frames: int, one: str, several: str) -> str:
    """How many a frame: 1 run, 2.5 runs."""
    return f"{_plain(count / frames)} {one if count == frames else several}"


def _plain(value: float) -> str:
    return str(round(value)) if value == round(value) else units.digits(value)


def _joined(path: str, each: str, rate: float | None) -> str:
    parts = [path, each, units.rate(rate) if rate else ""]
    return "; ".join(part for part in parts if part)


def not_observed(absent: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Each reason, with the figures that are absent for it, as they are called where they are there."""
    by_reason: dict[str, list[str]] = {}
    for figure, why in absent.items():
        by_reason.setdefault(why, []).append(_CALLED.get(figure, figure.replace("_", " ")))
    yield from by_reason.items()


def _absent(absent: Mapping[str, str]) -> Iterator[str]:
    for why, names in not_observed(absent):
        yield f"  not observed: {', '.join(names)} ({why})"
