"""What the profile of a script keeps in place of a workload's rows."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from advisor.profiles.base import (
    Bytes,
    Interval,
    Name,
    PositiveSeconds,
    Record,
    Seconds,
    Text,
    Word,
    optional,
    table,
)
from advisor.profiles.row_figures import FrameEnergy, FrameFigures

Count = Annotated[int, Field(ge=0)]


class ScriptRange(Record):
    """An NVTX range of the script, all its times in one run together."""

    name: Name
    count: Count
    seconds: Seconds = Field(description="By the stream's clock, from the range's begin to its end")


class ScriptCopies(Record):
    """Copies that the script made by CuPy's own functions (array, asarray, set, get, asnumpy) in one run."""

    to_device: Count
    to_device_bytes: Bytes
    to_host: Count
    to_host_bytes: Bytes


class ScriptMemory(Record):
    """What CuPy's memory hooks saw in one run."""

    requests: Count = Field(description="Arrays that asked the pool for memory")
    allocations: Count = Field(description="Times that the pool asked CUDA for more")
    reserved_bytes: Bytes = Field(description="What the pool took from CUDA")
    peak_bytes: Bytes = Field(description="The most that was in use at once")


class ScriptMeasured(FrameFigures):
    """The script under one strategy. Ranges, copies and memory come from a run of their own."""

    strategy: Word
    run_seconds: tuple[PositiveSeconds, ...] = Field(min_length=1, description="One process each, raw")
    median_seconds: PositiveSeconds
    interval_seconds: Interval
    setup_seconds: Seconds = Field(description="CUDA context and allocator, before the script begins")
    ranges: tuple[ScriptRange, ...] = ()
    copies: ScriptCopies
    memory: ScriptMemory | None = optional("None where the strategy's allocator has no hooks")
    energy: FrameEnergy | None = optional("Of a run; its frames are runs")
    absent: dict[Word, Text] = table("What has no figure, and why")
    verified: bool = Field(description="Something could be compared with the unchanged script, and is equal")
    notes: tuple[Text, ...] = ()

    @property
    def rounds(self) -> tuple[tuple[float, ...], ...]:
        """`run_seconds` by process."""
        return tuple((seconds,) for seconds in self.run_seconds)


class ScriptRun(Record):
    """A script in place of a workload; its strategies without figures are in the profile's `results`."""

    arguments: tuple[Text, ...]
    baseline: Word
    warm_up_seconds: PositiveSeconds = Field(description="The first run, which compiles kernels")
    compared: tuple[Text, ...] = Field(description="What was compared with the unchanged script's")
    measured: tuple[ScriptMeasured, ...] = ()
