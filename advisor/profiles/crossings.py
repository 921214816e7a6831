"""Crossings between host and GPU by source line, as `advisor profile SCRIPT` records them.

Counts, bytes and times are of one run of the unchanged script. Times of a machine without a GPU are absent:
they are predicted for named devices instead (`LinePrediction`), and never stand where measured ones do.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from advisor.profiles.amounts import Bytes, Count, Interval, Number, PositiveSeconds, Seconds, Share
from advisor.profiles.base import Record, Text, Word, optional
from advisor.profiles.conclusions import Advice

Library = Literal["cupy", "torch", "numba"]
CrossingKind = Literal["upload", "download", "wait", "lock"]
"""wait: the host stands until the GPU is done, and next to nothing is copied (a scalar counts as a wait).
lock: host memory is page-locked or registered."""
HostMemory = Literal["pageable", "pinned", "managed", "unknown"]
ACCOUNTED = 0.95
"""Share of the bytes that the driver copied: with less of them on lines, the rest is listed as not seen."""
KERNEL_ARGUMENT = "kernel argument"
"""The call of Numba's copies of a NumPy array given to a kernel: up before the kernel, and down after it."""
SHARED = "What the host reads and writes of managed or mapped memory"
"""Among what was not seen of a run: a wait may then guard such an access."""
PROCESSES = "What crosses in"
"""Begins what was not seen of other processes."""
OriginKind = Literal["numpy", "mmap", "bytes", "torch", "foreign"]


class Place(Record):
    """A source line. `file` as in a traceback, relative to the working directory where that is possible."""

    file: Text
    line: Number
    text: Text = optional("The line itself, without its indentation", "")


class CopyCost(Record):
    """Time that copies add to a frame, other lines included: measured by frames without them."""

    frames: Number = Field(description="Frames without copies; no other figure includes them")
    seconds: Seconds
    interval_seconds: Interval = Field(description="95 %")


class LineLoop(Record, extra="ignore"):  # earlier profiles have warm_up
    """A loop of the script, or of a module of its own, in which the same crossings repeat."""

    place: Place
    last_line: Number
    frames: Number = Field(description="Iterations, warm-up included")
    frame_seconds: PositiveSeconds | None = optional(
        "Mean of the steady iterations with timed calls; None without a GPU"
    )
    interval_seconds: Interval | None = optional("95 % interval of that mean")
    untimed_seconds: PositiveSeconds | None = optional(
        "Mean of the steady iterations without timed calls, less what counting took, where it is shorter"
    )
    seconds: Seconds = Field(description="All iterations, on the host's clock")
    overhead_seconds: Seconds | None = optional("What recording took of that, at least")
    copy_cost: CopyCost | None = optional("None if too few frames could be compared, or without a GPU")
    named: bool = optional("Chosen by --frame", False)


class Origin(Record):
    """Where the host memory of a crossing comes from."""

    kind: OriginKind
    place: Place | None = optional("The line that allocated it, where that was seen")
    each_frame: bool | None = optional("Whether it is new memory in each frame")
    kept: bool = optional("Whether the program holds a download while later ones are made", False)


class Repeats(Record):
    """Comparison of the bytes themselves, in a sample of the crossings of a line."""

    checked: Number = Field(description="Crossings whose bytes were looked at")
    compared: Count = optional("How many came right after one whose bytes were looked at too", 0)
    same: Count = optional("How many of those compared equal the line's crossing before", 0)
    returned: Count = optional("How many uploads equal what a download had brought", 0)
    returned_from: Place | None = optional("The line of that download")
    latest: Count = optional("How many of those returned that line had downloaded last", 0)
    complete: bool = Field(description="Whether every byte was compared; else a sample of them")
    false_share: Share = Field(description="Upper bound of the share of changes that the sample misses")


class Crossing(Record):
    """All events of one kind on one source line, in one loop or outside of loops.

    Seconds are totals of `count`. Those of a loop are scaled from its steady frames: the first frame's
    compilation and allocation are not in them.
    """

    place: Place
    kind: CrossingKind
    call: Word = Field(description="cupy.asarray, Tensor.to, copy_to_host, ...")
    library: Library
    loop: int | None = optional("Index into the loops; None before, after and outside of them")
    count: Number
    bytes: Bytes = 0
    varies: bool = optional("Not all of a sample had as many bytes", False)
    frames: Count = optional("Frames of the loop in which it occurs", 0)
    memory: HostMemory = "unknown"
    staged: bool = optional("It went through the library's own page-locked memory", False)
    asynchronous: bool | None = optional("Whether the call returned before the copy was done")
    non_blocking: bool = optional("An asynchronous copy was asked for: non_blocking=True, a stream", False)
    host_seconds: Seconds | None = optional("The calls, less waits for earlier kernels; None without a GPU")
    kernel_seconds: Seconds | None = optional("What the calls waited for earlier kernels")
    stream_seconds: Seconds | None = optional("The copies' time by CUDA events, scaled from those timed")
    timed: Count = optional("Copies that events timed", 0)
    origin: Origin | None = None
    repeats: Repeats | None = None
    unread: int | None = optional("Uploads that nothing read before the next, scaled from a sample")
    holds_back: Place | None = optional("For a wait: the next line that gives the GPU work")


class Ceiling(Record):
    """The time in a frame that memory can change: copies and avoidable waits.

    Waiting for kernels is not in it. The time that other lines lose to copies is in it where it was measured.
    """

    loop: int | None = optional("Index into the loops; None: the whole run")
    copy_seconds: Seconds
    wait_seconds: Seconds
    of_seconds: PositiveSeconds | None = optional(
        "Length of the frame or run; None where it was not measured"
    )
    predicted: bool = False
    interval_seconds: Interval | None = optional(
        "Interval of the sum: 95 % by frames without copies, up to the calls' time; predicted: 5th to 95th "
        "percentile"
    )
    device: Word | None = optional("The device it is predicted for")

    @property
    def seconds(self) -> float:
        return self.copy_seconds + self.wait_seconds

    @property
    def share(self) -> float | None:
        return self.seconds / self.of_seconds if self.of_seconds else None


class LinePrediction(Record):
    """Predicted times of the crossings on another device, in the order of `crossings`."""

    device: Word
    seconds: tuple[Interval | None, ...] = Field(description="One occurrence: 5th and 95th percentile")
    likely_seconds: tuple[PositiveSeconds | None, ...]
    assumptions: tuple[Text, ...] = ()


class SourceFile(Record):
    """A file of the user's, for the page and for patches."""

    file: Text
    lines: tuple[Text, ...]


class CopiedBytes(Record):
    """Between host and GPU, by all streams and threads of the process, as the driver counts them."""

    up: Bytes
    down: Bytes
    up_on_lines: Bytes
    down_on_lines: Bytes = Field(description="With the numbers that waits bring")

    @property
    def share(self) -> float | None:
        """The share of these bytes that lines account for; None where nothing was copied."""
        if not (copied := self.up + self.down):
            return None
        return (min(self.up_on_lines, self.up) + min(self.down_on_lines, self.down)) / copied


class ScriptRun(Record, extra="ignore"):  # earlier profiles have processes
    """One observed run of a script that was not changed."""

    arguments: tuple[Text, ...] = ()
    module: bool = optional("Run as `python -m`", False)
    exit_code: int = 0
    error: Text = optional("The exception that ended it", "")
    seconds: Seconds = Field(description="From the script's first line until the GPU was done")
    overhead_seconds: Seconds = Field(description="What recording took of that, at least")
    played: Word | None = optional("Without a GPU: what stood in for it (a mock of CuPy, PyTorch on the CPU)")
    loops: tuple[LineLoop, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    copied: CopiedBytes | None = optional("With --count-bytes, where CUPTI can be had")
    unseen: tuple[Text, ...] = optional("What could not be recorded, and why", ())
    sources: tuple[SourceFile, ...] = ()
    ceilings: tuple[Ceiling, ...] = optional("One for each loop with crossings, or one for the run", ())
    predictions: tuple[LinePrediction, ...] = ()
    advice: tuple[LineAdvice, ...] = ()

    def is_accounted(self) -> bool:
        """Whether the lines have what the driver copied, as far as that is known, and all processes."""
        share = self.copied.share if self.copied else None
        complete = share is None or share >= ACCOUNTED
        return complete and not any(what.startswith(PROCESSES) for what in self.unseen)


class LineAdvice(Record):
    """A rule's advice on a line."""

    place: Place
    crossing: Count = Field(description="Index into the crossings")
    advice: Advice


ScriptRun.model_rebuild()
