"""The report on what happened within a frame: from our own events, as nsys saw it, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import builders
import pytest
from rendering import shown
from running import Command
from test_nsys_exports import managed, pinned

from advisor.nsys.exports import FileTrace, read
from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.profiles.traces import NoTrace, NsysTrace, Span, Timeline, thinned, worked
from advisor.report.blocks import Block, Fact, Facts, Fold, Prose
from advisor.report.timelines import MOST_DRAWN, TimelineView
from advisor.report.traces import traces
from advisor.rules.advise import advise


def own(label: str = "host:produce", count: int = 1) -> Timeline:
    step = 0.004 / count
    spans = [
        Span(track="host", label=f"{label}{i % 2}", begin_seconds=i * step, end_seconds=(i + 0.5) * step)
        for i in range(count)
    ]
    return Timeline(source="events", frame_seconds=0.004, spans=tuple(spans))


def of(trace: NsysTrace | None = None, **timelines: Timeline) -> Profile:
    names = {name.replace("_", "-"): timeline for name, timeline in timelines.items()}
    rows = tuple(builders.measured(name, 0.004, timeline=made) for name, made in names.items())
    changes: dict[str, Any] = {"trace": trace} if trace else {}
    return builders.profile(results=rows, **changes)


@dataclass(frozen=True)
class Frame:
    """What the section says of one strategy; one of them has a timeline."""

    strategy: str
    timeline: TimelineView
    figures: tuple[Fact, ...]
    steps: tuple[Fact, ...]
    said: str


@dataclass(frozen=True)
class Told:
    frames: tuple[Frame, ...]
    nsys: str


def told_of(profile: Profile) -> Told:
    found = traces(profile)
    frames = tuple(frame_of(block) for block in found if isinstance(block, Fold))
    return Told(frames, " ".join(block.text for block in found if isinstance(block, Prose)))


def frame_of(fold: Fold) -> Frame:
    def facts(blocks: Iterable[Block]) -> tuple[Fact, ...]:
        return tuple(fact for block in blocks if isinstance(block, Facts) for fact in block.facts)

    timeline: Any = next((block for block in fold.blocks if isinstance(block, TimelineView)), None)
    steps = [inner for block in fold.blocks if isinstance(block, Fold) for inner in block.blocks]
    said = " ".join(block.text for block in fold.blocks if isinstance(block, Prose))
    return Frame(fold.title.split("`")[1], timeline, facts(fold.blocks), facts(steps), said)


def seen(tmp_path: Path) -> NsysTrace:
    found = [
        *read(pinned(tmp_path / "a.sqlite")).strategies,
        *read(managed(tmp_path / "b.sqlite")).strategies,
    ]
    return NsysTrace(tool="nsys 2023.4.4", strategies=tuple(found))


def test_where_a_frame_was_recorded_is_told() -> None:
    rows = (builders.measured("pageable", 0.004, timeline=own()),)
    page = shown(builders.cpu_profile(results=rows), "html")
    assert "recorded on this CPU" in page
    assert "CUDA events" not in page
    (frame,) = told_of(of(pinned=own())).frames
    assert frame.timeline.source == "recorded with CUDA events"
    assert "these are not the measured times" in frame.timeline.how
    assert frame.figures == ()
    page = shown(of(pinned=own()), "html")
    assert "recorded with CUDA events" in page
    assert 'href="#frames"' in page


def test_what_nsys_saw_takes_the_place_of_our_own_events(tmp_path: Path) -> None:
    told = told_of(of(seen(tmp_path), pinned=own(), managed=own(), zero_copy=own()))
    assert [f.timeline.source for f in told.frames if f.timeline] == ["recorded by nsys"]
    assert [frame.strategy for frame in told.frames] == ["pinned", "managed"], "with figures, if no timeline"
    assert "traced times are not used" in told.nsys
    values = {entry.label: entry.value for entry in told.frames[0].figures}
    assert values["copies host-to-device"] == "300 B (pinned to device; 1 copy, 3.00 ms; 0.100 MB/s)"
    assert values["GPU idle"] == "60 % of the traced frame"
    assert values["allocated, device"] == "768 B (2 allocations, the largest 512 B)"
    faults = (
        "Not observed: page faults by the CPU and page faults by the GPU (no managed memory was allocated)."
    )
    assert faults in told.frames[0].said
    by_range = {entry.label: entry.value for entry in told.frames[0].steps}
    assert by_range["to-device"] == "50.0 µs each, 1 time; copies host-to-device 300 B"
    assert by_range["device:add"] == "30.0 µs each, 1 time; kernel add 1.00 ms"
    pages = {entry.label: entry.value for entry in told.frames[1].figures}
    assert (pages["page faults by the CPU"], pages["page faults by the GPU"]) == ("2", "16")


def test_a_timeline_is_a_picture_with_a_key(tmp_path: Path) -> None:
    (frame, _) = told_of(of(seen(tmp_path), pinned=own(), managed=own())).frames
    assert [(line.name, [piece.category for piece in line.pieces]) for line in frame.timeline.lines] == [
        ("host", ["host", "wait"]),
        ("copies", ["transfer"]),
        ("kernels", ["kernel"]),
    ]
    assert frame.timeline.lines[1].pieces[0].x == "30.00%"
    assert frame.timeline.lines[1].pieces[0].width == "30.00%"
    assert [piece.name for piece in frame.timeline.lines[0].pieces] == ["1", "2 synchronize"]
    rows = {row.label: row.text for row in frame.timeline.rows}
    assert rows["host-to-device, pinned"] == "copies: host-to-device, pinned 3.00 ms"


def test_a_timeline_of_very_many_spans_stays_small() -> None:
    many = own(count=300)
    drawn = thinned(many, MOST_DRAWN)
    assert len(drawn.spans) <= MOST_DRAWN
    assert sum(span.merged for span in drawn.spans) + drawn.left_out >= 300
    names = [f"s{i}" for i in range(14)]
    page = shown(of(**dict.fromkeys(names, many)), "html")
    alone = shown(of(**{name: own() for name in names}), "html")
    assert len(page) - len(alone) < 150_000


def test_a_trace_that_failed_or_a_strategy_that_is_missing_is_told(tmp_path: Path) -> None:
    failed = NsysTrace(reason="nsys profile did not finish within 60 s", tool="nsys 2023.4.4")
    told = told_of(of(failed, pinned=own()))
    assert told.nsys == "No nsys trace: nsys profile did not finish within 60 s"
    assert told.frames[0].timeline.source == "recorded with CUDA events"
    says = "No nsys trace: nsys profile did not finish"
    assert says in shown(of(failed, pinned=own()), "html")
    assert says in shown(of(failed, pinned=own()), "md")
    missing = NoTrace(strategy="zero-copy", reason="the workload failed under nsys: no")
    trace = seen(tmp_path).model_copy(update={"missing": (missing,)})
    assert (
        "`zero-copy` has no trace: the workload failed under nsys: no."
        in told_of(of(trace, pinned=own())).nsys
    )


# For the terminal


def test_the_command(tmp_path: Path, command: Command) -> None:
    file = pinned(tmp_path / "a.sqlite")
    done = command("trace", file)
    assert (done.code, done.err) == (0, "")
    assert "pinned: 2 steady frames" in done.out
    assert FileTrace.model_validate_json(command("trace", file, "--json").out) == read(file)
    assert command("trace", "b.sqlite").code == 5


# What nsys saw on a real GPU

HOSTS = ("managed", "pinned", "pinned-pipelined", "zero-copy")


@pytest.fixture(scope="module")
def h200() -> dict[str, Frame]:
    """The section's frame of each export in tests/data/nsys, one to a profile; medians of 4 ms."""
    data = Path(__file__).parent / "data" / "nsys"
    seen = tuple(read(data / f"h200-{name}.sqlite").strategies[0] for name in HOSTS)
    trace = NsysTrace(strategies=seen)
    each = (told_of(of(trace, **{name.replace("-", "_"): own()})).frames for name in HOSTS)
    return {frame.strategy: frame for (frame,) in each}


def written(frame: Frame) -> dict[str, list[str]]:
    return {line.name: [piece.name for piece in line.pieces] for line in frame.timeline.lines}


def test_pieces_bear_the_number_of_the_key(h200: dict[str, Frame]) -> None:
    frame = h200["pinned-pipelined"]
    assert written(frame) == {
        "host": ["1 produce", "", "3 consume"],
        "copies": ["4", "4", "5"],
        "kernels": [""],
    }
    assert [(row.number, row.text) for row in frame.timeline.rows[:4]] == [
        ("1", "host: produce 4.10 ms"),
        ("2", "host: synchronize 8.08 µs"),
        ("3", "host: consume 1.69 ms"),
        ("4", "copies: host-to-device, pinned 2 times, 609 µs"),
    ]


def test_many_migrations_are_drawn_by_direction_and_told_by_cause(h200: dict[str, Frame]) -> None:
    frame = h200["managed"]
    (line,) = [line for line in frame.timeline.lines if line.name == "migrations"]
    assert len(line.pieces) < MOST_DRAWN
    assert {re.sub(r"^\d+ × |: .*", "", piece.title) for piece in line.pieces} == {"to-device", "to-host"}
    told = {row.label for row in frame.timeline.rows if row.track == "migrations"}
    assert told == {
        f"{way}, {cause}"
        for way in ("to-device", "to-host")
        for cause in ("page fault", "speculative prefetch")
    }
    traced = read(Path(__file__).parent / "data" / "nsys" / "h200-managed.sqlite").strategies[0]
    moved = sum(m.seconds for m in traced.activity.migrations or ()) / traced.frames
    spans = traced.timeline.spans if traced.timeline else ()
    drawn = sum(worked(span) for span in spans if span.track == "migration")
    assert drawn == pytest.approx(moved, rel=0.1), "the gaps between them are no work"


def test_the_page_of_a_traced_profile() -> None:
    made = advise(load(Path(__file__).parent / "data" / "h200-traced.json"))
    page = shown(made, "html").replace("\N{NO-BREAK SPACE}", " ")
    assert page.count('<desc id="timeline-desc">A frame of ') == 1
    assert f"One frame of {made.recommendation.strategy}, " in page
    assert "these are not the measured times, whose median is " in page
    assert "pageable: copied host-to-device from pageable memory, recorded by nsys, per frame" in page
    assert "Each strategy also ran under nsys 2023.4.4; traced times are not used." in shown(made, "md")
