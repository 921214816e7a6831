"""What happens within a frame on a real GPU: our own events, and nsys where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from on_gpu import CARDS, WORKLOADS, profiled

from advisor.nsys.capturing import NsysFailed, find
from advisor.profiles.schema import Profile

FOLDER = os.environ.get("ADVISOR_TEST_NSYS")
STRATEGIES = ("pinned", "pinned-pipelined", "zero-copy", "managed")


def profile(out: Path, *more: str, **variables: str) -> Profile:
    chosen = [part for name in STRATEGIES for part in ("--strategy", name)]
    quick = ("--set", "n=2**22", "--rounds", "1", "--max-seconds", "60")
    return profiled(out, WORKLOADS / "vector_add.py", *chosen, *quick, *more, **variables)


def test_the_timeline_of_our_own_events(tmp_path: Path) -> None:
    rows = profile(tmp_path).measured()
    for name, row in rows.items():
        assert row.timeline, name
        spans = row.timeline.spans
        assert all(s.end_seconds <= row.timeline.frame_seconds * 1.000001 for s in spans)
        assert {"host", "kernel"} <= {s.track for s in spans}, name
        assert row.timeline.frame_seconds < 3 * row.median_seconds, name
    pinned = rows["pinned"]
    copies = [s for s in pinned.timeline.spans if s.track == "copy"]
    assert [s.label for s in copies] == ["to-device", "to-device", "to-host"]
    taken = sum(s.end_seconds - s.begin_seconds for s in copies)
    assert taken == pytest.approx(pinned.transfer_seconds, rel=0.5)
    kernel = next(s for s in pinned.timeline.spans if s.track == "kernel")
    assert copies[1].end_seconds <= kernel.begin_seconds <= kernel.end_seconds <= copies[2].begin_seconds
    assert not [s for s in rows["zero-copy"].timeline.spans if s.track == "copy"]  # type: ignore[union-attr]


def test_what_nsys_sees(tmp_path: Path) -> None:
    nsys = Path(FOLDER) / "nsys" / "target-linux-x64" if FOLDER else None
    try:
        found = find(nsys)
    except NsysFailed as problem:
        pytest.skip(str(problem))
    path = f"{FOLDER}/nvtx:{os.environ.get('PYTHONPATH', '')}" if FOLDER else os.environ.get("PYTHONPATH", "")
    result = profile(tmp_path, "--trace", "nsys", "--nsys", str(found.path), PYTHONPATH=path)
    trace = result.trace
    assert trace.strategies, trace.reason
    pinned = trace.of("pinned")
    nbytes = 4 << 22
    assert pinned.copied_bytes("host-to-device", "pinned") == 2 * nbytes
    assert pinned.copied_bytes("device-to-host", "pinned") == nbytes
    assert pinned.idle_share is not None
    zero_copy = trace.of("zero-copy")
    assert not zero_copy.copied_bytes("host-to-device", "pinned")
    managed = trace.of("managed")
    assert managed
    if result.device.memory_class in CARDS:
        for moved in (managed.migrated_bytes("to-device"), managed.migrated_bytes("to-host")):
            assert moved is not None
            assert nbytes <= moved <= 4 * nbytes, "a and b one way, c the other, and what is moved along"
