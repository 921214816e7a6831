"""What tools saw: within a frame or a run on a profile's page, and of a file of nsys as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from advisor import units
from advisor.nsys.exports import FileTrace
from advisor.profiles.schema import Profile
from advisor.profiles.traces import Activity, Migrations, StrategyTrace
from advisor.report import blocks, words
from advisor.report.charts import recommended
from advisor.report.page import Page, Section, filled
from advisor.report.programs import program_page
from advisor.report.timelines import timeline_view

SLOWER = "Traced times are usually longer than untraced ones and are not used for the verdict."
NONE = "none"
"""It was looked for, and not there."""
_PAGE = 4096
"""Bytes: static memory below it comes with loading any kernel, whatever the strategy."""
_CALLED = {"cpu_page_faults": "page faults by the CPU", "gpu_page_faults": "page faults by the GPU"}


def traces(profile: Profile) -> tuple[blocks.Block, ...]:
    """The timeline of one strategy, the recommended or else the fastest; and what nsys recorded of each.

    Nothing where no timeline was recorded and no trace was asked for.
    """
    rows, trace = profile.measured(), profile.trace
    seen, chosen = {name: trace.of(name) for name in rows}, recommended(profile)
    recorded = {name: (found and found.timeline) or rows[name].timeline for name, found in seen.items()}
    drawn = {name: timeline for name, timeline in recorded.items() if timeline}
    first = min(drawn, key=lambda name: (name != chosen, rows[name].median_seconds), default=None)
    frames = []
    for name, traced in seen.items():
        picture = (timeline_view(name, rows[name].median_seconds, drawn[name]),) if name == first else ()
        if parts := (*picture, *(_seen(traced) if traced else ())):
            frames.append(_fold(profile, name, parts))
    return _told(profile, frames)


def _told(profile: Profile, found: list[blocks.Fold]) -> tuple[blocks.Block, ...]:
    trace, said = profile.trace, ""
    asked = trace.reason != "not asked for"
    if not found and not asked:
        return ()
    if asked and trace.strategies:
        missing = (
            f" {words.code(m.strategy)} has no trace: {words.line(m.reason, 200)}." for m in trace.missing
        )
        tool = words.name(trace.tool or "nsys")
        said = f"Each strategy also ran under {tool}; traced times are not used.{''.join(missing)}"
    elif asked:
        said = f"No nsys trace: {words.line(trace.reason, 400)}"
    notes = (blocks.Prose(words.line(note, 300), forms="html") for note in trace.notes)
    alone = [replace(frame, open=True) for frame in found] if len(found) == 1 else found
    return filled(blocks.Prose(said, forms="html md"), *notes, *alone)


def _fold(profile: Profile, strategy: str, parts: tuple[blocks.Block, ...]) -> blocks.Fold:
    here = recommended(profile) == strategy
    return blocks.Fold(f"{words.code(strategy)}{' (recommended)' * here}", parts, open=here)


def _seen(traced: StrategyTrace) -> tuple[blocks.Block, ...]:
    lasted = units.seconds(traced.frame_seconds)
    title = f"per frame, over {words.count(traced.frames, 'steady frame')} of {lasted}"
    absent = f" Not observed: {'; '.join(not_observed(traced.absent))}." if traced.absent else ""
    figures = [*facts(traced.activity, traced.frames, traced.idle_share, "the traced frame")]
    for made in traced.allocations or ():
        if not made.kind.endswith("static") or made.bytes >= _PAGE:
            sizes = f"{words.count(made.count, 'allocation')}, the largest {units.size(made.largest_bytes)}"
            figures.append(
                blocks.Fact(f"allocated, {words.name(made.kind)}", f"{units.size(made.bytes)} ({sizes})")
            )
    return filled(
        blocks.Prose(f"Recorded by nsys, {title}.{absent}"),
        blocks.Facts(tuple(figures)),
        blocks.Fold("By range", filled(blocks.Facts(tuple(steps(traced))))),
    )


def facts(seen: Activity, frames: int, idle: float | None, whole: str) -> Iterator[blocks.Fact]:
    """All of it, per frame; `idle` is the GPU's idle share of the `whole`."""
    for label, value, note in figures(seen, frames):
        yield blocks.Fact(label, f"{value} ({note})" if note else value)
    if idle is not None:
        yield blocks.Fact("GPU idle", f"{units.percent(idle)} of {whole}")


def steps(trace: StrategyTrace) -> Iterator[blocks.Fact]:
    """Each range with the host's time in it, and what was launched or happened there; per frame."""
    for step in trace.ranges:
        found = figures(step.activity, trace.frames)
        seen = [f"{label} {value}" for label, value, _ in found if value not in ("0", NONE)]
        times = f"{units.seconds(step.seconds)} each, {_number(step.count, trace.frames, 'time')}"
        yield blocks.Fact(words.name(step.name), "; ".join([times, *seen]))


def figures(seen: Activity, frames: int) -> Iterator[tuple[str, str, str]]:
    """Label, value and what qualifies it, of everything that was observed; per frame."""
    if seen.copies == ():
        yield "copies", NONE, ""
    for c in seen.copies or ():
        path = " to ".join(part for part in (c.source, c.destination) if part)
        each = f"{_number(c.count, frames, 'copy')}, {units.seconds(c.seconds / frames)}"
        rate = units.rate(c.bytes_per_second) if c.bytes_per_second else ""
        yield (
            f"copies {c.kind}",
            units.size(round(c.bytes / frames)),
            "; ".join(filter(None, (path, each, rate))),
        )
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
    for direction, mine in words.grouped(seen, lambda m: m.direction).items():
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


def not_observed(absent: Mapping[str, str]) -> list[str]:
    """The figures that are absent, called as where they are there; those with the same reason together."""
    by_reason = words.grouped(absent, lambda figure: absent[figure])
    return [
        f"{words.listing(_CALLED.get(n, n.replace('_', ' ')) for n in names)} ({words.line(why, 200)})"
        for why, names in by_reason.items()
    ]


def trace_page(told: FileTrace) -> Page:
    """One file of advisor's own: each strategy with its figures per frame. Of any other, its GPUs."""
    if told.program is not None:
        return program_page(told.program, told.tool, told.notes)
    tool = told.tool or "nsys export of unknown version"
    parts = [blocks.Banners("note", tuple(map(words.line, told.notes))), *map(_strategy, told.strategies)]
    return Page(
        kind="trace",
        brand="trace",
        name=tool,
        sections=(Section("figures", "Figures", filled(*parts, blocks.Prose(SLOWER)), brief=True),),
        records=tuple(
            {
                "kind": "traced",
                **each.model_dump(include={"strategy", "frames", "frame_seconds", "idle_share"}),
            }
            for each in told.strategies
        ),
    )


def _strategy(trace: StrategyTrace) -> blocks.Block:
    frames = f"{words.count(trace.frames, 'steady frame')} of {units.seconds(trace.frame_seconds)}"
    ranges = [replace(fact, label=f"in {fact.label}") for fact in steps(trace)]
    found = facts(trace.activity, trace.frames, trace.idle_share, "the frame")
    seen = *found, *ranges, *_unseen(trace.absent)
    return blocks.Facts(seen, f"{words.name(trace.strategy)}: {frames}, figures per frame")


def _unseen(absent: Mapping[str, str]) -> Iterator[blocks.Fact]:
    return (blocks.Fact("not observed", why) for why in not_observed(absent))
