"""Lines to draw spans on: what overlaps, as copies in both directions do, needs a line of its own."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.profiles.traces import Span, Timeline, Track

TRACKS: dict[Track, str] = {
    "host": "host",
    "copy": "copies",
    "kernel": "kernels",
    "migration": "migrations",
}
"""In the order drawn, with what they are called."""


def track(step: str) -> Track:
    """Where a step of ours is drawn: on the host's line, the copies', or the kernels'."""
    if step in ("to-device", "to-host"):
        return "copy"
    return "kernel" if step.startswith("device:") else "host"


def lanes(timeline: Timeline) -> list[tuple[Track, list[Span]]]:
    """The lines of a timeline from top to bottom; no two spans of one line overlap."""
    found: list[tuple[Track, list[Span]]] = []
    for one in TRACKS:
        found += [(one, lane) for lane in _parted([s for s in timeline.spans if s.track == one])]
    return found


def _parted(spans: Sequence[Span]) -> list[list[Span]]:
    """Each span on the first line that is free by then."""
    lines: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: (s.begin_seconds, s.end_seconds)):
        free = next((line for line in lines if line[-1].end_seconds <= span.begin_seconds), None)
        if free is None:
            lines.append(free := [])
        free.append(span)
    return lines


def merged(spans: Sequence[Span], gap: float) -> list[Span]:
    """Spans of one kind that follow one another within `gap` seconds become one."""
    found: dict[tuple[str, str], list[Span]] = {}
    for span in sorted(spans, key=lambda s: s.begin_seconds):
        row = found.setdefault((span.track, span.label), [])
        if row and span.begin_seconds - row[-1].end_seconds <= gap:
            end = max(row[-1].end_seconds, span.end_seconds)
            together = {
                "merged": row[-1].merged + span.merged,
                "worked_seconds": worked(row[-1]) + worked(span),
            }
            row[-1] = row[-1].model_copy(update={"end_seconds": end, **together})
        else:
            row.append(span)
    return [span for row in found.values() for span in row]


def worked(span: Span) -> float:
    """Its seconds without the gaps between the spans that it was merged of."""
    return span.end_seconds - span.begin_seconds if span.worked_seconds is None else span.worked_seconds


def thinned(timeline: Timeline, most: int) -> Timeline:
    """With at most so many spans to draw: neighbours of one kind are merged over ever larger gaps."""
    spans, gap = list(timeline.spans), timeline.frame_seconds / 1000
    while len(spans) > most and gap < timeline.frame_seconds:
        spans, gap = merged(spans, gap), gap * 2
    spans.sort(key=lambda span: (span.begin_seconds, span.end_seconds))
    left_out = timeline.left_out + max(len(spans) - most, 0)
    return timeline.model_copy(update={"spans": tuple(spans[:most]), "left_out": left_out})
