"""What nsys saw of vector_add on an H200, held against what is known to be true of it.

Three float32 buffers a, b and c: each frame a and b go to the GPU and c comes back. 16 MiB each, 4 MiB each
for managed memory. How the files were made stands in tests/data/nsys/README.md.
"""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path

import pytest
from every import every

from advisor.nsys.exports import read
from advisor.profiles.traces import StrategyTrace

DATA = Path(__file__).parent / "data" / "nsys"
MIB = 1 << 20
STRATEGIES = ("pageable", "staged", "pinned", "pinned-pipelined", "zero-copy", "managed")


@cache
def traced(strategy: str) -> StrategyTrace:
    told = read(DATA / f"h200-{strategy}.sqlite")
    assert told.tool == "NVIDIA Nsight Systems 2023.4.4.54"
    assert told.notes == ()
    (one,) = told.strategies
    assert one.strategy == strategy
    return one


def waits(trace: StrategyTrace) -> dict[str, int]:
    return {s.kind: s.count for s in trace.activity.synchronizations or ()}


@every(
    ("strategy", "up", "down"),
    [
        ("pageable", "pageable", "pageable"),
        ("staged", "pinned", "pageable"),
        ("pinned", "pinned", "pinned"),
        ("pinned-pipelined", "pinned", "pinned"),
    ],
)
def test_two_uploads_and_one_download_of_the_kind_that_the_strategy_says(
    strategy: str, up: str, down: str
) -> None:
    trace = traced(strategy)
    copies = {(c.kind, c.source, c.destination): (c.count, c.bytes) for c in trace.activity.copies or ()}
    n = trace.frames
    assert copies == {
        ("host-to-device", up, "device"): (2 * n, 2 * n * 16 * MIB),
        ("device-to-host", "device", down): (n, n * 16 * MIB),
    }
    assert trace.activity.migrations == ()


def test_frames_that_overlap_are_whole() -> None:
    trace = traced("pinned-pipelined")
    assert trace.frames == 4
    assert {step.name: step.count for step in trace.ranges} == {
        "host:produce": 4,
        "to-device": 8,
        "device:add": 4,
        "to-host": 4,
        "synchronize": 4,
        "host:consume": 4,
    }
    assert traced("pinned").frames == 5


def test_zero_copy_copies_nothing() -> None:
    trace = traced("zero-copy")
    assert (trace.activity.copies, trace.activity.migrations) == ((), ())
    assert trace.copied_bytes("host-to-device") == 0
    (kernel,) = trace.activity.kernels or ()
    assert 40e9 < 48 * MIB * kernel.count / kernel.seconds < 126e9, "the link carries all of it, both ways"


def test_managed_memory_moves_whole_both_ways() -> None:
    trace = traced("managed")
    assert trace.activity.copies == ()
    assert trace.migrated_bytes("to-device") == 3 * 4 * MIB
    assert trace.migrated_bytes("to-host") == 3 * 4 * MIB
    assert trace.absent == {}
    causes = {(m.direction, m.cause) for m in trace.activity.migrations or ()}
    each = [
        (way, cause) for way in ("to-device", "to-host") for cause in ("page fault", "speculative prefetch")
    ]
    assert causes == set(each)
    cpu, gpu = trace.faults()
    assert cpu == 36
    assert gpu == 84.5
    steps = {step.name: step.activity for step in trace.ranges}
    assert {name for name, seen in steps.items() if seen.cpu_page_faults} == {"host:produce", "host:consume"}
    assert {name for name, seen in steps.items() if seen.gpu_page_faults} == {"device:add", "synchronize"}


@every("strategy", [s for s in STRATEGIES if s != "managed"])
def test_why_there_are_no_page_faults(strategy: str) -> None:
    why = "no managed memory was allocated"
    assert traced(strategy).absent == {"cpu_page_faults": why, "gpu_page_faults": why}
    assert traced(strategy).faults() == (None, None)


@every(
    ("strategy", "expected"),
    [
        ("pageable", {"stream sync": 15}),
        ("staged", {"event sync": 10, "stream sync": 5}),
        ("pinned", {"stream sync": 5}),
        ("pinned-pipelined", {"event sync": 4}),
        ("zero-copy", {"stream sync": 5}),
    ],
)
def test_waits_are_named_by_the_call(strategy: str, expected: dict[str, int]) -> None:
    assert waits(traced(strategy)) == expected


@every("strategy", ["pageable", "staged", "pinned"])
def test_the_gpu_idles_but_for_its_copies_and_kernels(strategy: str) -> None:
    trace = traced(strategy)
    done = [c.seconds for c in trace.activity.copies or ()] + [
        k.seconds for k in trace.activity.kernels or ()
    ]
    with sqlite3.connect(DATA / f"h200-{strategy}.sqlite") as export:
        (total,) = export.execute(
            "SELECT SUM(end - start) FROM NVTX_EVENTS JOIN StringIds ON id = textId "
            "WHERE value = 'frame' AND int64Value > 2"
        ).fetchone()
    assert trace.idle_share == pytest.approx(1 - sum(done) / (total / 1e9), abs=1e-6)


# The timeline


def test_the_timeline_of_many_migrations_is_whole() -> None:
    trace = traced("managed")
    assert trace.timeline.left_out == 0
    assert len(trace.timeline.spans) <= 300
    hosts = [span.label for span in trace.timeline.spans if span.track == "host"]
    assert hosts == ["host:produce", "synchronize", "host:consume"]
    moved = [span for span in trace.timeline.spans if span.track == "migration"]
    assert moved[-1].begin_seconds > 0.7 * trace.timeline.frame_seconds
    many = [span for span in moved if span.merged > 1]
    assert many
    for span in many:
        assert span.worked_seconds is not None
        assert 0 < span.worked_seconds < span.end_seconds - span.begin_seconds
