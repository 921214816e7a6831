"""The data of traces in a profile: a frame's timeline, what nsys recorded, what the traced CPU run saw.

Times under a tool are usually longer, so they are kept beside the measured ones and never replace them. What
nsys did not look for was not observed: None, with the reason in `absent`, and never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from advisor.profiles.amounts import Amount, Bytes, Count, Number, Positive, PositiveSeconds, Seconds, Share
from advisor.profiles.base import Name, Record, Text, Word, optional, table

Track = Literal["host", "copy", "kernel", "migration"]
TRACKS: dict[Track, str] = {"host": "host", "copy": "copies", "kernel": "kernels", "migration": "migrations"}
"""The lines of a timeline in the order drawn, with what they are called where there is one GPU."""
Direction = Literal["to-device", "to-host", "device-to-device"]


class Span(Record):
    """Something that lasted, from the begin of the frame on; what reaches beyond the frame is cut."""

    track: Track
    label: Name = Field(description="host:<stage>, synchronize, to-device; nsys's word where it saw it")
    begin_seconds: Seconds
    end_seconds: Seconds
    gpu: int | None = optional("Which of several GPUs did it, by its number in the workload")
    merged: Number = optional("Number of equal spans merged because they are too close to draw", 1)
    worked_seconds: Seconds | None = optional("Merged spans without the gaps between them")


class Timeline(Record):
    """One steady frame. `events`: our own marks; the stream's are fitted to the host's clock within µs."""

    source: Literal["events", "nsys"]
    frame_seconds: PositiveSeconds = Field(description="Length of this frame, slowed by recording")
    spans: tuple[Span, ...]
    left_out: Count = optional("Spans beyond those that are kept", 0)


class Copies(Record):
    """Copies of one kind; the kinds are nsys's own words in lower case."""

    kind: Word = Field(description="host-to-device, device-to-host, ...")
    source: Word | None = optional("Kind of memory: pageable, pinned, device, ...")
    destination: Word | None = None
    count: Number
    bytes: Bytes
    seconds: Seconds = Field(description="On the GPU's clock, added up")

    @property
    def host_memory(self) -> str | None:
        return self.destination if self.kind == "device-to-host" else self.source

    @property
    def bytes_per_second(self) -> float | None:
        """Rate while copying; None where the copies took no measurable time."""
        return self.bytes / self.seconds if self.seconds > 0 else None


class Migrations(Record):
    """Pages of managed memory that moved."""

    direction: Direction
    cause: Word | None = optional("page fault, user prefetch, eviction, ...")
    count: Number
    bytes: Bytes
    seconds: Seconds


class Kernels(Record):
    """Runs of one kernel."""

    name: Text
    count: Number
    seconds: Seconds


class Synchronizations(Record):
    """Times the host waited, by what for."""

    kind: Word
    count: Number
    seconds: Seconds


class Allocations(Record):
    """Memory of one kind that CUDA was asked for, over the whole process."""

    kind: Word
    count: Number
    bytes: Bytes
    largest_bytes: Bytes


class Activity(Record):
    """Activity that nsys recorded; None for kinds that it did not observe."""

    copies: tuple[Copies, ...] | None = None
    migrations: tuple[Migrations, ...] | None = None
    cpu_page_faults: Count | None = None
    gpu_page_faults: Count | None = None
    kernels: tuple[Kernels, ...] | None = None
    synchronizations: tuple[Synchronizations, ...] | None = None


class RangeTrace(Record):
    """One range of the steady frames: what was launched in it, and what faulted or moved meanwhile."""

    name: Name
    count: Number
    seconds: Seconds = Field(description="Median of the host's time in it")
    activity: Activity


class StrategyTrace(Record):
    """Trace of one strategy by nsys, in its steady frames; `activity` adds all frames up."""

    strategy: Word
    frames: Number
    frame_seconds: PositiveSeconds = Field(description="Median under the tool; not the measured time")
    activity: Activity
    idle_share: Share | None = optional("Share of the frames without a kernel, copy, memset or migration")
    allocations: tuple[Allocations, ...] | None = None
    ranges: tuple[RangeTrace, ...] = ()
    timeline: Timeline | None = None
    absent: dict[Word, Text] = table("What was not observed, and why")

    def migrated_bytes(self, direction: Direction) -> float | None:
        """Bytes of managed memory that moved that way in one frame; None where none was observed."""
        migrations = self.activity.migrations
        if migrations is None:
            return None
        return sum(moved.bytes for moved in migrations if moved.direction == direction) / self.frames

    def faults(self) -> tuple[float | None, float | None]:
        """Page faults in one frame on managed memory: by the CPU, by the GPU."""
        counts = (self.activity.cpu_page_faults, self.activity.gpu_page_faults)
        cpu, gpu = (None if count is None else count / self.frames for count in counts)
        return cpu, gpu

    def copied_bytes(self, kind: str, memory: str) -> float | None:
        """Bytes of such copies in one frame, by the host's memory; None where no copy at all was observed."""
        copies = self.activity.copies
        if copies is None:
            return None
        return sum(c.bytes for c in copies if (c.kind, c.host_memory) == (kind, memory)) / self.frames


class NoTrace(Record):
    """Why there is none of a strategy that was to be traced."""

    strategy: Word
    reason: Text


class NsysTrace(Record):
    """Traces by nsys, or in `reason` why there are none."""

    reason: Text = ""
    tool: Word | None = optional("nsys's name and version")
    strategies: tuple[StrategyTrace, ...] = ()
    missing: tuple[NoTrace, ...] = ()
    notes: tuple[Text, ...] = ()

    def of(self, strategy: str) -> StrategyTrace | None:
        return next((trace for trace in self.strategies if trace.strategy == strategy), None)


def track(step: str) -> Track:
    """Where a step of ours is drawn: on the host's line, the copies', or the kernels'."""
    if step in ("to-device", "to-host", "to-peer"):
        return "copy"
    return "kernel" if step.startswith("device:") else "host"


def line_of(span: Span) -> str:
    """Name of its line: its track, with the number of the GPU where there are several."""
    return TRACKS[span.track] if span.gpu is None else f"GPU {span.gpu} {TRACKS[span.track]}"


def in_lines(span: Span) -> tuple[int, int]:
    """Sorts spans by the lines they are drawn on: the host's, then GPU by GPU."""
    return -1 if span.gpu is None else span.gpu, list(TRACKS).index(span.track)


def lanes(timeline: Timeline) -> list[tuple[str, list[Span]]]:
    """The lines of a timeline from top to bottom, by name; no two spans of one line overlap."""
    lines: dict[str, list[list[Span]]] = {line_of(s): [] for s in sorted(timeline.spans, key=in_lines)}
    for span in sorted(timeline.spans, key=lambda s: (s.begin_seconds, s.end_seconds)):
        # On the first line that is free by then.
        row = lines[line_of(span)]
        line = next((line for line in row if line[-1].end_seconds <= span.begin_seconds), None)
        if line is None:
            row.append(line := [])
        line.append(span)
    return [(name, line) for name, row in lines.items() for line in row]


def merged(spans: Sequence[Span], gap: float) -> list[Span]:
    """Spans of one kind that follow one another within `gap` seconds become one."""
    rows: dict[tuple[str, str], list[Span]] = {}
    for span in sorted(spans, key=lambda s: s.begin_seconds):
        row = rows.setdefault((line_of(span), span.label), [])
        if row and span.begin_seconds - row[-1].end_seconds <= gap:
            end = max(row[-1].end_seconds, span.end_seconds)
            together = {
                "merged": row[-1].merged + span.merged,
                "worked_seconds": worked(row[-1]) + worked(span),
            }
            row[-1] = row[-1].model_copy(update={"end_seconds": end, **together})
        else:
            row.append(span)
    return [span for row in rows.values() for span in row]


def worked(span: Span) -> float:
    """Its seconds without the gaps between the spans that it was merged of."""
    return span.end_seconds - span.begin_seconds if span.worked_seconds is None else span.worked_seconds


def thinned(timeline: Timeline, most: int) -> Timeline:
    """The timeline with at most so many spans: neighbours of one kind are merged over ever larger gaps."""
    spans, gap = list(timeline.spans), timeline.frame_seconds / 1000
    while len(spans) > most and gap < timeline.frame_seconds:
        spans, gap = merged(spans, gap), gap * 2
    spans.sort(key=lambda span: (span.begin_seconds, span.end_seconds))
    left_out = timeline.left_out + max(len(spans) - most, 0)
    return timeline.model_copy(update={"spans": tuple(spans[:most]), "left_out": left_out})


class Again(Record):
    """Bytes of a buffer that a library's routine reads again after its first pass, served by no cache."""

    call: Text
    where: Text | None = optional("File and line of the call")
    bytes: Amount = Field(description="Counted over a link (advisor/measure/routines.toml)")
    shared_bytes: Amount = optional("What every multiprocessor reads for itself", 0)
    readers: float = Field(default=1, ge=1, description="How many of them at most: the blocks that read it")


class Traffic(Record):
    """Bytes of one buffer that one stage reads and writes in a frame, counting every pass over the data."""

    stage: Name
    buffer: Word
    bytes_read: Amount
    bytes_written: Amount
    source: Literal["traced", "declared", "assumed"] = Field(
        description="Seen by tracing, declared by the user, or assumed to be one pass"
    )
    again: tuple[Again, ...] = ()


class StageWork(Record):
    """Work of a stage in the traced CPU run, beside its buffers. `seconds` was measured on this CPU."""

    stage: Name
    flops: float | None = None
    temporary_bytes: Amount = optional("Read and written in temporary arrays", 0)
    twin: bool = optional("Seen in its CPU twin: on the GPU it is a kernel of the user's", False)
    calls: Count | None = optional("NumPy calls that did work; None where the GPU runs another function")
    issue_seconds: Seconds | None = optional(
        "Host time of these calls on an H200's host "
        "(advisor/measure/routines.py); None where the GPU runs another function"
    )
    uncounted: tuple[Word, ...] = optional("Calls whose arithmetic is not known, such as factorizations", ())
    seconds: Seconds | None = None


class HostRates(Record):
    """One thread of the CPU that ran the trace over memory that no cache holds, in the same run."""

    read_bytes_per_second: Positive
    write_bytes_per_second: Positive


class Wait(Record):
    """A call in a device stage that waits for the GPU."""

    stage: Name
    line: Text = Field(description="File and line: pipeline.py:23")
    call: Text
    write: Text = Field(description="What to write in its place")
    count: Positive = Field(description="Times in a frame")
