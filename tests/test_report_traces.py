"""The report on what happened within a frame: from our own events, as nsys saw it, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import builders
import pytest
from rendering import Accepted, shown
from running import Command
from test_nsys_exports import managed, pinned

from advisor.nsys.exports import FileTrace, read
from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.profiles.traces import NoTrace, NsysTrace, Span, Timeline, thinned, worked
from advisor.report.blocks import Fold
from advisor.report.timelines import MOST_DRAWN, TimelineView
from advisor.report.traces import traces
from advisor.rules.advise import advise

DATA = Path(__file__).parent / "data"


def own(count: int = 1) -> Timeline:
    step = 0.004 / count
    spans = [
        Span(track="host", label=f"host:produce{i % 2}", begin_seconds=i * step, end_seconds=(i + 0.5) * step)
        for i in range(count)
    ]
    return Timeline(source="events", frame_seconds=0.004, spans=tuple(spans))


def of(trace: NsysTrace | None = None, **timelines: Timeline) -> Profile:
    names = {name.replace("_", "-"): timeline for name, timeline in timelines.items()}
    rows = tuple(builders.measured(name, 0.004, timeline=timeline) for name, timeline in names.items())
    changes: dict[str, Any] = {"trace": trace} if trace else {}
    return builders.profile(results=rows, **changes)


def seen(folder: Path) -> NsysTrace:
    files = (pinned(folder / "a.sqlite"), managed(folder / "b.sqlite"))
    missing = NoTrace(strategy="zero-copy", reason="the workload failed under nsys: no")
    strategies = tuple(one for file in files for one in read(file).strategies)
    return NsysTrace(tool="nsys 2023.4.4", strategies=strategies, missing=(missing,))


FAILED = NsysTrace(reason="nsys profile did not finish within 60 s", tool="nsys 2023.4.4")
PROFILES: dict[str, Callable[[Path], Profile]] = {
    "own": lambda _: of(pinned=own()),
    "own-on-a-cpu": lambda _: builders.cpu_profile(
        results=(builders.measured("pageable", 0.004, timeline=own()),)
    ),
    "nsys": lambda folder: of(seen(folder), pinned=own(), managed=own(), zero_copy=own()),
    "nsys-failed": lambda _: of(FAILED, pinned=own()),
    "h200": lambda _: advise(load(DATA / "h200-traced.json")),
}


@pytest.mark.parametrize("name", PROFILES)
def test_the_section_looks_as_accepted(name: str, accepted: Accepted, tmp_path: Path) -> None:
    (section,) = re.findall(
        r'<section id="frames">.*?</section>\n', shown(PROFILES[name](tmp_path), "html"), re.DOTALL
    )
    accepted(section, f"traces/{name}.html")


def test_a_timeline_of_very_many_spans_stays_small() -> None:
    many = own(count=300)
    drawn = thinned(many, MOST_DRAWN)
    assert len(drawn.spans) <= MOST_DRAWN
    assert sum(span.merged for span in drawn.spans) + drawn.left_out >= 300
    names = [f"s{i}" for i in range(14)]
    page = shown(of(**dict.fromkeys(names, many)), "html")
    alone = shown(of(**{name: own() for name in names}), "html")
    assert len(page) - len(alone) < 150_000


def test_the_command(tmp_path: Path, command: Command) -> None:
    file = pinned(tmp_path / "a.sqlite")
    done = command("trace", file)
    assert (done.code, done.err) == (0, "")
    assert "pinned: 2 steady frames" in done.out
    assert FileTrace.model_validate_json(command("trace", file, "--json").out) == read(file)
    assert command("trace", "b.sqlite").code == 5
    assert command("trace", file, "--format", "csv").code == 2, "--out is missing"


def test_many_migrations_are_drawn_by_direction_and_told_by_cause() -> None:
    """What nsys saw of `vector_add` on an H200."""
    (trace,) = read(DATA / "nsys" / "h200-managed.sqlite").strategies
    (fold,) = (b for b in traces(of(NsysTrace(strategies=(trace,)), managed=own())) if isinstance(b, Fold))
    (view,) = (block for block in fold.blocks if isinstance(block, TimelineView))
    (line,) = [line for line in view.lines if line.name == "migrations"]
    assert len(line.pieces) < MOST_DRAWN
    assert {re.sub(r"^\d+ × |: .*", "", piece.title) for piece in line.pieces} == {"to-device", "to-host"}
    causes = {
        f"{way}, {why}" for way in ("to-device", "to-host") for why in ("page fault", "speculative prefetch")
    }
    assert {row.label for row in view.rows if row.track == "migrations"} == causes
    moved = sum(m.seconds for m in trace.activity.migrations or ()) / trace.frames
    drawn = sum(worked(span) for span in trace.timeline.spans if span.track == "migration")
    assert drawn == pytest.approx(moved, rel=0.1), "the gaps between them are no work"
