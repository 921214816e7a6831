"""Energy: NVML's counter of a GPU, or the power rails of a Jetson, whose monitors sysfs shows.

NVML counts what the card takes, not the host. A Jetson's rails feed CPU, GPU and memory alike. Paths and
labels of the rails: Jetson Linux Developer Guide, "Software-Based Power Consumption Modeling", and the Linux
kernel's documentation of the driver ina3221.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from advisor.devices.gpus import Queries, Unreachable, handle_of, opened
from advisor.devices.host import THIS_MACHINE, Machine, Tree, is_tegra
from advisor.errors import UsageError
from advisor.profiles.schema import Device

INPUTS = ("VDD_IN", "POM_5V_IN", "VIN")
"""Rails that feed the whole module, the others behind them: Orin NX and Nano, Xavier NX, TX2; Nano; Thor."""
UNUSED = "NC"
"""The label of a channel that nothing is connected to."""
PERIOD_SECONDS = 0.01
"""Between two readings of the rails: a monitor converts its three channels within a few milliseconds."""
_MONITORS = ("ina3221", "ina238")
_OLD_RAILS = "sys/bus/i2c/drivers/ina3221x/*/iio:device*/rail_name_*"


class Unmetered(Exception):
    """Nothing here counts energy; the text says why."""


@contextmanager
def metering(pci_bus_id: str | None, machine: Machine = THIS_MACHINE) -> Iterator[Meter]:
    """The meter of that GPU: a Jetson's rails where this is one, else NVML. Raises `Unmetered`."""
    tree = Tree(machine.root)
    if is_tegra(root=machine.root) and rails_watts(tree):
        with _integrating(Rails(lambda: rails_watts(tree))) as meter:
            yield meter
        return
    try:
        with opened(machine.nvml) as module:
            counter = _Nvml(Queries(module, handle_of(module, pci_bus_id)))
            counter.joules()
            yield counter
    except Unreachable as problem:
        raise Unmetered(str(problem)) from None


@dataclass
class _Nvml:
    queries: Queries
    source: str = "NVML's energy counter: the card, without the host"

    def joules(self) -> float:
        """nvmlDeviceGetTotalEnergyConsumption, in millijoules since the driver was loaded; from Volta on."""
        millijoules = self.queries.query("energy", "nvmlDeviceGetTotalEnergyConsumption")
        if millijoules is None:
            raise Unmetered(f"NVML's energy counter: {self.queries.absent['energy']}")
        return float(millijoules) / 1000


@dataclass
class Rails:
    """Integrates the power of a Jetson's rails by the trapezoidal rule, at every reading."""

    read: Callable[[], Mapping[str, float]]
    clock: Callable[[], float] = time.monotonic
    count: float = 0.0
    lock: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        watts = self.read()
        self._names = counted(watts)
        self._at, self._watts = self.clock(), self._total(watts)

    @property
    def source(self) -> str:
        return f"the board's power rails {', '.join(self._names)}: CPU, GPU and memory together"

    def joules(self) -> float:
        """Reads the rails, and adds what they gave since the reading before."""
        with self.lock:
            watts, now = self._total(self.read()), self.clock()
            self.count += (watts + self._watts) / 2 * (now - self._at)
            self._at, self._watts = now, watts
            return self.count

    def _total(self, watts: Mapping[str, float]) -> float:
        missing = [name for name in self._names if name not in watts]
        if missing:
            raise Unmetered(f"the power rail {missing[0]} can no longer be read")
        return sum(watts[name] for name in self._names)


Meter: TypeAlias = _Nvml | Rails
"""Counts energy from an arbitrary origin. Raises `Unmetered` if the counter can no longer be read."""


@contextmanager
def _integrating(rails: Rails) -> Iterator[Rails]:
    """Reads the rails continuously in a thread: peaks of power may be shorter than frames."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(PERIOD_SECONDS):
            try:
                rails.joules()
            except Unmetered:
                return  # the next caller gets the error

    thread = threading.Thread(target=watch, name="rails", daemon=True)
    thread.start()
    try:
        yield rails
    finally:
        ended.set()
        thread.join()


def counted(watts: Mapping[str, float]) -> tuple[str, ...]:
    inputs = [name for name in INPUTS if name in watts]
    return tuple(inputs[:1] or watts)


def rails_watts(tree: Tree) -> dict[str, float]:
    """Power of each rail that can be read: hwmon from R35 on (and mainline), industrial I/O on R32."""
    rails: dict[str, float] = {}
    for folder in tree.glob("sys/class/hwmon/hwmon*"):
        if tree.text(f"{folder}/name") in _MONITORS:
            rails |= _monitored(tree, folder)
    for path in tree.glob(_OLD_RAILS):
        folder, _, file = path.rpartition("/")
        power = tree.number(f"{folder}/in_power{file.rpartition('_')[2]}_input")
        name = tree.text(path)
        if name and name != UNUSED and power is not None:
            rails[name] = power / 1000
    return rails


def _monitored(tree: Tree, folder: str) -> dict[str, float]:
    """Millivolts and milliamperes of up to three channels; an INA238 has one, in microwatts."""
    rails = {}
    if (power := tree.number(f"{folder}/power1_input")) is not None:
        rails["VIN"] = power / 1e6
    for channel in (1, 2, 3):
        name = tree.text(f"{folder}/in{channel}_label")
        volts, amperes = (tree.number(f"{folder}/{kind}{channel}_input") for kind in ("in", "curr"))
        if name and name != UNUSED and volts is not None and amperes is not None:
            rails[name] = volts * amperes / 1e6
    return rails


def require_meter(device: Device, pci_bus_id: str | None, machine: Machine = THIS_MACHINE) -> None:
    """Raises `UsageError` where nothing counts the device's energy, before the time is spent on it.

    On the CPU device no verdict is measured: predictions are by time, and say so.
    """
    if device.kind != "cuda":
        return
    try:
        with metering(pci_bus_id, machine):
            pass
    except Unmetered as problem:
        step = "Choose another --objective."
        raise UsageError(f"energy cannot be measured here: {problem}", next_step=step) from None
