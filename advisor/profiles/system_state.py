"""State of the machine at one moment: GPU, Jetson board, host; and its software, the environment.

A figure that could not be read is None, and `absent` says why under the figure's name.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from advisor.profiles.amounts import Bytes, Count, Hertz, Number, Seconds, Share
from advisor.profiles.base import Record, Text, Word, optional, table

Moment = Literal["before", "under-load", "after"]
Limit = Bytes | Literal["unlimited"]


class GpuState(Record):
    """One GPU as NVML describes it. No serial number, no UUID, no names of processes."""

    moment: Moment = Field(
        description="before: no process of advisor used the GPU; under-load: right after a frame, in the "
        "process that ran it; after: the last process had ended, so the GPU may already have gone idle"
    )
    clock_seconds: Seconds = Field(description="A steady clock; only differences mean anything")
    pci_address: Word | None = optional("domain:bus:device.function, as in sysfs")
    driver: Word | None = None
    performance_state: int | None = optional("0 is the fastest, 15 the slowest")
    sm_hertz: Hertz | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    throttle_reasons: tuple[Word, ...] | None = optional("What held the clocks down; empty when nothing did")
    throttled_seconds: dict[Word, Seconds] = table("By cause, since the driver was loaded; differences count")
    link_generation: Number | None = optional("PCIe generation now; an idle GPU may lower it")
    link_generation_max: Number | None = optional("Highest that this GPU has in this slot")
    link_width: Number | None = None
    link_width_max: Number | None = None
    other_processes: int | None = optional("Compute processes of others")
    other_processes_bytes: Bytes | None = None
    utilization: Share | None = optional("Share of the last sixth to whole second in which a kernel ran")
    absent: dict[Word, Text] = Field(default_factory=dict)


class CpuClocks(Record):
    """The CPU's clocks at one moment. `hertz` is the fastest core's: idle cores are clocked down."""

    governors: tuple[Word, ...] = ()
    hertz: Hertz | None = None
    max_hertz: Hertz | None = optional("What the governor may go up to on that core")


class TegraState(Record):
    """A Jetson board at one moment, from /proc, /sys and nvpmodel's files."""

    moment: Moment
    board: Word | None = None
    l4t_release: Word | None = optional("Jetson Linux, such as R36.4.3")
    power_mode: Word | None = None
    best_power_mode: Word | None = optional("The mode that caps GPU, memory and CPU the least")
    gpu_hertz: Hertz | None = None
    cpu: CpuClocks = CpuClocks()
    over_current_events: dict[Word, int] = table("By cause: clocks lowered for the power supply, since boot")
    throttle_alerts: tuple[Word, ...] | None = optional("Cooling devices that hold clocks down for heat")
    absent: dict[Word, Text] = Field(default_factory=dict)


class NumaNode(Record):
    """One node; a node without CPUs is memory of a device, as on GH200."""

    node: Count
    cpus: Word = Field(description="CPUs as Linux lists them, such as 0-7,16-23")
    memory_bytes: Bytes | None = None


class HostState(Record):
    """The host as memory strategies depend on it."""

    cpu: CpuClocks = CpuClocks()
    numa_nodes: tuple[NumaNode, ...] = ()
    gpu_numa_node: int | None = optional("The NUMA node the GPU is attached to")
    memory_available_bytes: Bytes | None = None
    memory_limit: Limit | None = optional("Limit of the control group")
    locked_memory_limit: Limit | None = optional("RLIMIT_MEMLOCK, soft")
    huge_pages: Word | None = optional("Transparent ones: always, madvise or never")
    allowed_cpus: Word | None = optional("CPUs of this process, as Linux lists them")
    wsl: bool = False
    container: bool = False
    absent: dict[Word, Text] = Field(default_factory=dict)


class Environment(Record):
    """The machine and the software, without the user's name, and without the host's unless asked for."""

    system: Word
    machine: Word
    python: Word
    packages: dict[Word, Word] = table("Package name to version")
    cpu_model: Word | None = None
    cpu_count: int | None = None
    memory_bytes: Bytes | None = None
    gpu: dict[Word, Word | int | float] = table("Driver, CUDA runtime and other properties of the GPU")
    host_name: Text | None = optional("Only where --include-host asked for it")
    host: HostState | None = optional("Before anything was measured")
    cpu_busy: Share | None = optional("Share of the CPU that other programs used at the start of the run")
    gpu_readings: tuple[GpuState, ...] = optional("The GPU before, perhaps under load, and afterwards", ())
    tegra_readings: tuple[TegraState, ...] = optional("The same of a Jetson board", ())
    absent: dict[Word, Text] = table("What could not be read, and the reason")
    warnings: tuple[Text, ...] = optional("What limits the figures", ())
