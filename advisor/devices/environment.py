"""The machine, as far as a reader of the figures must know it.

No user, host or directory names, no serial numbers, no names of other processes.
"""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Sequence

import psutil

from advisor import units
from advisor.devices.caveats import cautions, moved_clocks
from advisor.devices.gpus import gpu_state, gpu_states
from advisor.devices.host import (
    THIS_MACHINE,
    Machine,
    Tree,
    cpu_model,
    gpu_numa_node,
    host_state,
    sysfs_address,
)
from advisor.devices.tegra import tegra_state
from advisor.profiles.redaction import here
from advisor.profiles.secrets import masked
from advisor.profiles.system_state import Environment, GpuState
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
    index: int | None = None,
    under_load: Sequence[GpuState] = (),
    machine: Machine = THIS_MACHINE,
) -> Environment:
    """The environment with the readings after the last process, and with the warnings that follow from all.

    `device_pci` is the measured GPU's PCI bus id as CUDA tells it, `index` its number; None for both where
    no GPU was measured. `under_load` are readings that the measuring processes took right after their frames:
    all are judged, the most telling one is kept.
    """
    if device_pci is None and index is None:
        return environment.model_copy(update={"gpu_readings": (), "tegra_readings": ()})
    before = _of_gpu(environment.gpu_readings, device_pci)
    after = gpu_state(device_pci, index or 0, moment="after", machine=machine)
    board = tegra_state(moment="after", root=machine.root)
    unread = after.absent.get("nvml")  # then clocks, throttling and other processes are unknown
    boards = environment.tegra_readings if board is None else (*environment.tegra_readings, board)
    host = environment.host
    if host is not None:
        node = None if device_pci is None else gpu_numa_node(device_pci, root=machine.root)
        absent = (
            {} if node is not None else {"gpu_numa_node": "the kernel does not report the GPU's NUMA node"}
        )
        host = host.model_copy(update={"gpu_numa_node": node, "absent": {**host.absent, **absent}})
    return environment.model_copy(
        update={
            "host": host,
            "gpu_readings": (*before, *_most_telling(under_load), after),
            "tegra_readings": boards,
            "absent": {**environment.absent, **({"gpu_readings": unread} if unread else {})},
            "warnings": (*environment.warnings, *cautions((*before, *under_load, after), boards)),
        }
    )


LONGEST_COMMAND = 10_000
"""Characters that a profile keeps of the command, and no person types."""


def command_line(arguments: Sequence[str]) -> str:
    """The command as typed, without secrets and the names of people, hosts and their folders."""
    typed = here().hide(shlex.join(["advisor", *masked(arguments)]))
    return bounded(typed.encode("utf-8", "replace").decode("utf-8"), LONGEST_COMMAND)


def _of_gpu(readings: tuple[GpuState, ...], device_pci: str | None) -> tuple[GpuState, ...]:
    """The readings of that GPU: by its address, else the only one that could be meant."""
    address = None if device_pci is None else sysfs_address(device_pci)
    mine = tuple(r for r in readings if address is not None and r.pci_address == address)
    # An integrated GPU has an address in CUDA alone.
    sole = len(readings) == 1 and None in (address, readings[0].pci_address)
    return mine or (readings if sole else ())


def _most_telling(under_load: Sequence[GpuState]) -> tuple[GpuState, ...]:
    """The reading that gave the most cause for a warning, the last of equals.

    Where the clock moved, the slowest and the fastest are kept too.
    """
    if not under_load:
        return ()
    trouble = [(len(r.throttle_reasons or ()), r.other_processes or 0, i) for i, r in enumerate(under_load)]
    indices = {max(trouble)[-1]}
    if moved_clocks(under_load):
        clocks = [(r.sm_hertz, i) for i, r in enumerate(under_load) if r.sm_hertz]
        indices |= {min(clocks)[-1], max(clocks)[-1]}
    return tuple(under_load[index] for index in sorted(indices))
