"""The machine, as far as a reader of the figures must know it; warnings from its readings: what was seen, its
effect on the times, the remedy.

No user, host or directory names, no serial numbers, no names of other processes.
"""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psutil

from advisor import units
from advisor.devices.gpus import gpu_state, gpu_states
from advisor.devices.host import (
    THIS_MACHINE,
    Machine,
    Tree,
    cpu_model,
    gpu_numa_node,
    host_state,
    sysfs_address,
    tegra_state,
)
from advisor.profiles.redaction import here
from advisor.profiles.secrets import masked
from advisor.profiles.system_state import Environment, GpuState, TegraState
from advisor.texts import bounded

_BUSY = 0.25
"""Share of all cores in use by others from which figures are taken to suffer; chosen, not measured."""
_LOOK_SECONDS = 0.2


def environment(*, machine: Machine = THIS_MACHINE, busy: float | None = None) -> Environment:
    """This machine, before anything is measured; what cannot be read is absent, with the reason.

    `busy` is the share of all cores that others use; where it is not given, it is looked at for a moment.
    All GPUs are read, since it is not known yet which one will be measured; `finished` keeps that one.
    """
    model = cpu_model(Tree(machine.root))
    busy = psutil.cpu_percent(interval=_LOOK_SECONDS) / 100 if busy is None else busy
    noise = (
        f"Other programs used {units.percent(busy)} of the CPU at the start of the run. Close them to get "
        "narrower intervals."
    )
    board = tegra_state(moment="before", root=machine.root)
    return Environment(
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        python=platform.python_version(),
        cpu_model=model,
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        host=host_state(root=machine.root),
        cpu_busy=min(busy, 1.0),
        gpu_readings=gpu_states(moment="before", machine=machine),
        tegra_readings=() if board is None else (board,),
        absent={} if model else {"cpu_model": "not named in /proc/cpuinfo"},
        warnings=(noise,) if busy > _BUSY else (),
    )


def finished(
    environment: Environment,
    device_pci: str | None,
    *,
    under_load: Sequence[GpuState] = (),
    machine: Machine = THIS_MACHINE,
) -> Environment:
    """The environment with the readings after the last process, and with the warnings that follow from all.

    `device_pci` is the measured GPU's PCI bus id as CUDA tells it; None where no GPU was measured.
    `under_load` are readings that the measuring processes took right after their frames: all are judged, the
    most telling one is kept.
    """
    if device_pci is None:
        return environment.model_copy(update={"gpu_readings": (), "tegra_readings": ()})
    before = _of_gpu(environment.gpu_readings, device_pci)
    after = gpu_state(device_pci, moment="after", machine=machine)
    board = tegra_state(moment="after", root=machine.root)
    boards = environment.tegra_readings if board is None else (*environment.tegra_readings, board)
    changes: dict[str, object] = {
        "gpu_readings": (*before, *_most_telling(under_load), after),
        "tegra_readings": boards,
        "warnings": (*environment.warnings, *cautions((*before, *under_load, after), boards)),
    }
    if unread := after.absent.get("nvml"):  # then clocks, throttling and other processes are unknown
        changes["absent"] = {**environment.absent, "gpu_readings": unread}
    if host := environment.host:
        node = gpu_numa_node(device_pci, root=machine.root)
        absent = host.absent
        if node is None:
            absent = {**absent, "gpu_numa_node": "the kernel does not report the GPU's NUMA node"}
        changes["host"] = host.model_copy(update={"gpu_numa_node": node, "absent": absent})
    return environment.model_copy(update=changes)


LONGEST_COMMAND = 10_000
"""Characters that a profile keeps of the command, and no person types."""


def command_line(arguments: Sequence[str]) -> str:
    """The command as typed, without secrets and the names of people, hosts and their folders."""
    typed = here().hide(shlex.join(["advisor", *masked(arguments)]))
    return bounded(typed.encode("utf-8", "replace").decode("utf-8"), LONGEST_COMMAND)


def _of_gpu(readings: tuple[GpuState, ...], device_pci: str) -> tuple[GpuState, ...]:
    """The readings of that GPU: by its address, else the only one that could be meant."""
    mine = tuple(r for r in readings if r.pci_address == sysfs_address(device_pci))
    # An integrated GPU has an address in CUDA alone.
    return mine or (readings if [r.pci_address for r in readings] == [None] else ())


def _most_telling(under_load: Sequence[GpuState]) -> tuple[GpuState, ...]:
    """The reading that gave the most cause for a warning, the last of equals.

    Where the clock moved, the slowest and the fastest are kept too.
    """
    trouble = [(len(r.throttle_reasons or ()), r.other_processes or 0, i) for i, r in enumerate(under_load)]
    indices = {max(trouble)[-1]} if trouble else set()
    if moved_clocks(under_load):
        clocks = [(r.sm_hertz, i) for i, r in enumerate(under_load) if r.sm_hertz]
        indices |= {min(clocks)[-1], max(clocks)[-1]}
    return tuple(under_load[index] for index in sorted(indices))


# Below these shares a reading is taken for noise; they are this program's choice, not a vendor's figure.
_GPU_BUSY = 0.10
_THROTTLED_SHARE = 0.01
_NEAR_MAXIMUM = 0.90
_MOVED = 1.05
# CUDA runs in P0 or P2; from P3 on the GPU saves power and may have slowed its link.
_AWAKE = (0, 1, 2)
_COOL = "Improve the cooling, or let the device cool down, then profile again."
_ASK = "See nvidia-smi -q -d PERFORMANCE."
_LIMIT = "Raise its power limit (nvidia-smi -pl), or accept this as its speed in this machine."


def cautions(gpu: Sequence[GpuState], tegra: Sequence[TegraState]) -> tuple[str, ...]:
    """Warnings from the readings of one GPU and one board, each in the order taken."""
    return (*_gpu_cautions(gpu), *(_board_cautions(tegra) if tegra else ()))


def _gpu_cautions(readings: Sequence[GpuState]) -> Iterator[str]:
    reasons = dict.fromkeys(reason for r in readings for reason in r.throttle_reasons or ())
    shares = _throttled_shares(readings)
    lasting = (f"{cause} for {units.percent(share)} of the time" for cause, share in shares.items())
    if causes := [*reasons, *lasting]:
        remedies = dict.fromkeys(map(_remedy, (*reasons, *shares)))
        yield (
            f"The GPU throttled ({', '.join(causes)}): its clocks were reduced. Times are longer than at "
            f"full clocks and may drift between strategies. {' '.join(remedies)}"
        )
    if clocks := moved_clocks(readings):
        low, high = map(units.frequency, clocks)
        yield (
            f"The GPU's clock was between {low} and {high} under load, depending on the strategy: kernels "
            "were not compared at the same clock. Lock the clock (nvidia-smi --lock-gpu-clocks, or sudo "
            "jetson_clocks on a Jetson) and profile again."
        )
    if others := _other_users(readings):
        yield (
            f"{others}: this makes the times longer and noisier. Stop the other processes (nvidia-smi lists "
            "them) or choose another GPU with --gpu, then profile again."
        )
    link = pcie_link(readings)
    if link.factor > 1:
        yield (
            f"The PCIe link ran at {link.runs}; this GPU and system can do {link.best}. Copies and zero-copy "
            f"accesses can take up to {units.ratio(link.factor)} as long. Check the slot, the risers and the "
            "PCIe settings in the firmware."
        )


def _remedy(cause: str) -> str:
    """By the words of gpus.py for reasons of the moment and for counted causes."""
    if cause in ("power cap", "power"):
        return _LIMIT
    return _COOL if cause == "heat" or cause.startswith("thermal") else _ASK


def _throttled_shares(readings: Sequence[GpuState]) -> dict[str, float]:
    """Share of the time between the first and the last reading, by cause."""
    counted = [r for r in readings if r.throttled_seconds]
    if not counted or (elapsed := counted[-1].clock_seconds - counted[0].clock_seconds) <= 0:
        return {}
    before, after = counted[0].throttled_seconds, counted[-1].throttled_seconds
    shares = {each: min((after[each] - before[each]) / elapsed, 1.0) for each in after if each in before}
    return {cause: share for cause, share in shares.items() if share > _THROTTLED_SHARE}


def moved_clocks(readings: Sequence[GpuState]) -> tuple[int, int] | None:
    """The lowest and the highest clock that the GPU had under load; None where it kept to one within 5 %.

    An idle GPU lowers its clock, so readings before and after the load do not show it.
    """
    loaded = [r.sm_hertz for r in readings if r.moment == "under-load" and r.sm_hertz]
    return (min(loaded), max(loaded)) if loaded and max(loaded) > min(loaded) * _MOVED else None


def _other_users(readings: Sequence[GpuState]) -> str:
    others = max((r.other_processes or 0 for r in readings), default=0)
    busy = max((r.utilization or 0.0 for r in readings if r.moment == "before"), default=0.0)
    if others:
        memory = max((r.other_processes_bytes or 0 for r in readings), default=0)
        whose = f"{others} other {'process' if others == 1 else 'processes'} used the GPU"
        return f"{whose} ({units.size(memory)} of its memory)" if memory else whose
    return f"The GPU was {units.percent(busy)} busy before advisor started using it" * (busy >= _GPU_BUSY)


class PcieLink(NamedTuple):
    """Generation and lanes as seen, and the best that NVML reports for this GPU and system; 0 is unknown."""

    generation: int
    width: int
    best_generation: int
    best_width: int

    @property
    def factor(self) -> float:
        """How much longer a copy can take: each generation doubles the rate of a lane, near enough."""
        generations = self.best_generation - self.generation if self.generation else 0
        lanes = self.best_width / self.width if self.width else 1.0
        return 2.0 ** max(generations, 0) * max(lanes, 1.0)

    @property
    def runs(self) -> str:
        """generation 3 ×8, as far as it is known."""
        lanes = f"×{self.width}" if self.width else ""
        return f"generation {self.generation} {lanes}".strip() if self.generation else lanes

    @property
    def best(self) -> str:
        return self._replace(generation=self.best_generation, width=self.best_width).runs


def pcie_link(readings: Sequence[GpuState]) -> PcieLink:
    """An idle GPU may lower its generation, so only readings of one that is awake count for that."""
    awake = [r for r in readings if r.moment == "under-load" or r.performance_state in _AWAKE]
    present = ([r.link_generation for r in awake], [r.link_width for r in readings])
    best = ([r.link_generation_max for r in readings], [r.link_width_max for r in readings])
    return PcieLink(*(max(filter(None, each), default=0) for each in (*present, *best)))


def _board_cautions(readings: Sequence[TegraState]) -> Iterator[str]:
    first, last = readings[0], readings[-1]
    if last.power_mode != last.best_power_mode:
        yield (
            f"The board ran in power mode {last.power_mode}; {last.best_power_mode} allows higher clocks. "
            f"The results apply to {last.power_mode} only. If your product runs in another mode, set it with "
            "sudo nvpmodel -m (modes are listed in /etc/nvpmodel.conf), then profile again."
        )
    hertz, most, governors = last.cpu.hertz, last.cpu.max_hertz, last.cpu.governors
    if hertz and most and governors not in ((), ("performance",)) and hertz < most * _NEAR_MAXIMUM:
        yield (
            f"The CPU governor {', '.join(governors)} kept the CPU at {units.frequency(hertz)} of "
            f"{units.frequency(most)}: host stages are slower and noisier than at full clocks. Lock "
            "the clocks with sudo jetson_clocks and profile again."
        )
    before = first.over_current_events
    grown = {cause: n - before.get(cause, n) for cause, n in last.over_current_events.items()}
    if events := [f"{cause} {count} times" for cause, count in grown.items() if count > 0]:
        yield (
            f"The board throttled for its power supply while measuring ({', '.join(events)}): times are "
            "longer than at full clocks. Use a stronger supply or a lower power mode, then profile again."
        )
    if alerts := dict.fromkeys(alert for r in readings for alert in r.throttle_alerts or ()):
        yield (
            f"The board throttled for heat ({', '.join(alerts)}): times are longer than at full clocks and "
            "may drift. Improve the cooling, or let the device cool down, then profile again."
        )
