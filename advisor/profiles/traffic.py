"""What the traced CPU run saw of each stage: its traffic by buffer, its work beside that, and its waits."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from advisor.profiles.base import Name, Record, Seconds, Text, Word


class Again(Record):
    """What a library's routine reads again of a buffer, past its first pass, where no cache serves it."""

    call: Text
    where: Text | None = Field(default=None, description="File and line of the call")
    bytes: float = Field(ge=0, description="As counted over a link (advisor/measure/routines.toml)")
    shared_bytes: float = Field(default=0, ge=0, description="What every multiprocessor reads for itself")
    readers: float = Field(default=1, ge=1, description="How many of them at most: the blocks that read it")


class Traffic(Record):
    """What one stage reads and writes of one buffer in one frame. Bytes count every pass over the data."""

    stage: Name
    buffer: Word
    bytes_read: float = Field(ge=0)
    bytes_written: float = Field(ge=0)
    source: Literal["traced", "declared", "assumed"] = Field(
        description="Seen by tracing, declared by the user, or assumed to be one pass"
    )
    again: tuple[Again, ...] = ()


class StageWork(Record):
    """What a stage did in the traced CPU run, beside its buffers. `seconds` was measured on this CPU."""

    stage: Name
    flops: float | None = None
    temporary_bytes: float = Field(default=0, ge=0, description="Read and written in temporary arrays")
    calls: int | None = Field(
        default=None, ge=0, description="NumPy calls that did work; None where the GPU runs another function"
    )
    seconds: Seconds | None = None


class Wait(Record):
    """A call in a device stage that waits for the GPU."""

    stage: Name
    line: Text = Field(description="File and line: pipeline.py:23")
    call: Text
    write: Text = Field(description="What to write in its place")
    count: float = Field(gt=0, description="Times in a frame")
