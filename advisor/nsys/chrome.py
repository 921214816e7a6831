"""Frame timelines in the Trace Event format, which ui.perfetto.dev and chrome://tracing open.

The format's description: "Trace Event Format", Google, JSON Object Format with complete events ("X") and
metadata events ("M"); times are in microseconds. Events of one line never overlap, as Perfetto requires.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from advisor.profiles.schema import Profile
from advisor.profiles.text_files import write_atomically
from advisor.profiles.traces import Timeline, lanes

FILE_NAME = "frames.trace.json"
_SOURCES = {"events": "CUDA events", "nsys": "recorded by nsys"}
_ON_CPU = "on this CPU, not on a GPU"
_MICROSECONDS = 1e6


def write(profile: Profile, directory: Path) -> Path:
    """Writes `frames.trace.json` and returns its path. Raises `FileProblem` when that cannot be done."""
    path = directory / FILE_NAME
    write_atomically(path, json.dumps(trace_events(profile), indent=1, allow_nan=False) + "\n")
    return path


def trace_events(profile: Profile) -> dict[str, Any]:
    """One process for each strategy and source, a thread for each line of its timeline."""
    events: list[dict[str, Any]] = []
    for pid, (strategy, timeline) in enumerate(timelines(profile), start=1):
        where = _ON_CPU if profile.device.kind == "cpu" else _SOURCES[timeline.source]
        events += _process(pid, f"{strategy} ({where})", timeline)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "tool": f"advisor {profile.tool.version}",
            "workload": profile.workload.name,
            "device": profile.device.name,
            "note": "One steady frame of each strategy, instrumented. Measured times are in profile.json.",
        },
    }


def timelines(profile: Profile) -> Iterator[tuple[str, Timeline]]:
    """Every timeline with its strategy: CUDA events, then what nsys recorded; of a script only that."""
    rows = profile.measured()
    for strategy in dict.fromkeys((*rows, *(trace.strategy for trace in profile.trace.strategies))):
        row = rows.get(strategy)
        if row and row.timeline:
            yield strategy, row.timeline
        traced = profile.trace.of(strategy)
        if traced and traced.timeline:
            yield strategy, traced.timeline


def _process(pid: int, name: str, timeline: Timeline) -> Iterator[dict[str, Any]]:
    yield from _labels("process", pid, 0, name)
    for tid, (line, spans) in enumerate(lanes(timeline), start=1):
        yield from _labels("thread", pid, tid, line)
        for span in spans:
            yield {
                "name": span.label,
                "cat": span.track,
                "ph": "X",
                "ts": span.begin_seconds * _MICROSECONDS,
                "dur": (span.end_seconds - span.begin_seconds) * _MICROSECONDS,
                "pid": pid,
                "tid": tid,
                "args": {"merged": span.merged} if span.merged > 1 else {},
            }


def _labels(what: str, pid: int, tid: int, name: str) -> Iterator[dict[str, Any]]:
    for field, value in (("name", name), ("sort_index", tid or pid)):
        yield {"name": f"{what}_{field}", "ph": "M", "pid": pid, "tid": tid, "args": {field: value}}
