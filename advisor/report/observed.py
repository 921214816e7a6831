"""What a trace saw, in figures per frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from advisor import units
from advisor.profiles.traces import Activity, Migrations, StrategyTrace
from advisor.report import words
from advisor.report.blocks import Fact

NONE = "none"
"""It was looked for, and not there."""
_CALLED = {"cpu_page_faults": "page faults by the CPU", "gpu_page_faults": "page faults by the GPU"}


def facts(seen: Activity, frames: int) -> Iterator[Fact]:
    """All of it, per frame."""
    for label, value, note in figures(seen, frames):
        yield Fact(label, f"{value} ({note})" if note else value)


def steps(trace: StrategyTrace) -> Iterator[tuple[str, str]]:
    """Each range with the host's time in it, and what was launched or happened there; per frame."""
    for step in trace.ranges:
        times = _number(step.count, trace.frames, "time")
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
        each = f"{_number(c.count, frames, 'copy')}, {units.seconds(c.seconds / frames)}"
        yield f"copies {c.kind}", units.size(round(c.bytes / frames)), _joined(path, each, rate)
    yield from _migrations(seen.migrations or (), frames)
    for who, faults in (("CPU", seen.cpu_page_faults), ("GPU", seen.gpu_page_faults)):
        if faults is not None:
            yield f"page faults by the {who}", _plain(faults / frames), ""
    for k in seen.kernels or ():
        runs = _number(k.count, frames, "run")
        yield f"kernel {words.name(k.name)}", units.seconds(k.seconds / frames), runs
    for s in seen.synchronizations or ():
        yield f"waits, {s.kind}", units.seconds(s.seconds / frames), _number(s.count, frames, "wait")


def _migrations(seen: Sequence[Migrations], frames: int) -> Iterator[tuple[str, str, str]]:
    """All that moved one way, then by cause."""
    for direction in dict.fromkeys(m.direction for m in seen):
        mine = [m for m in seen if m.direction == direction]
        total = units.size(round(sum(m.bytes for m in mine) / frames))
        causes = [
            (m.cause or "cause unknown")
            + (f" {units.size(round(m.bytes / frames))}" if len(mine) > 1 else "")
            + f" in {_number(m.count, frames, 'move')}"
            for m in mine
        ]
        lasted = units.seconds(sum(m.seconds for m in mine) / frames)
        yield f"migrations {direction}", total, f"{', '.join(causes)}; {lasted}"


def _number(count: int, frames: int, noun: str) -> str:
    """How many a frame: 1 run, 2.5 runs."""
    return f"{_plain(count / frames)} {noun if count == frames else words.plural(noun)}"


def _plain(value: float) -> str:
    return str(round(value)) if value == round(value) else units.digits(value)


def _joined(path: str, each: str, rate: float | None) -> str:
    parts = [path, each, units.rate(rate) if rate else ""]
    return "; ".join(part for part in parts if part)


def not_observed(absent: Mapping[str, str]) -> list[str]:
    """The figures that are absent, called as where they are there; those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for figure, why in absent.items():
        by_reason.setdefault(why, []).append(_CALLED.get(figure, figure.replace("_", " ")))
    return [f"{words.listing(names)} ({words.line(why, 200)})" for why, names in by_reason.items()]
