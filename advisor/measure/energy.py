"""Windows for energy: what a contestant's frames take in two seconds, and what the device takes idle.

Counters tick: NVML renews its figures of power every 20 to 100 ms, by the GPU (Yang, Adamek and Armour,
"Part-time power measurements: nvidia-smi's lack of attention", 2023). A window goes from tick to tick, so
that none is cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from advisor.devices.energy import Meter, Unmetered, metering
from advisor.devices.host import THIS_MACHINE, Machine
from advisor.errors import UsageError
from advisor.measure.jobs import FinalRound
from advisor.measure.sampling import Clock
from advisor.measure.sessions import RoundResults, Session, SessionLoop
from advisor.profiles.schema import Device

WINDOW_SECONDS = 2.0
IDLE_SECONDS = 1.0
LONGEST_TICK = 0.5
"""Seconds after which a counter that does not change is used as it is."""
NO_TIME = "no time left after the final; raise --max-seconds"
_LOOK_SECONDS = 0.005
"""Between two looks at the counter, since asking takes time from the frames."""


def require_meter(device: Device, pci_bus_id: str | None, gpu: int, machine: Machine = THIS_MACHINE) -> None:
    """Raises `UsageError` where nothing counts the device's energy, before the time is spent on it.

    On the CPU device nothing is measured that a verdict counts: predictions are by time, and say so.
    """
    if device.kind != "cuda":
        return
    try:
        with metering(pci_bus_id, gpu, machine):
            pass
    except Unmetered as problem:
        raise UsageError(
            f"energy cannot be measured here: {problem}", next_step="Choose another --objective."
        ) from None


@dataclass(frozen=True)
class Window:
    frames: int
    seconds: float
    joules: tuple[float, ...]


def window(
    frame: Callable[[int], None],
    first: int,
    meters: Sequence[Meter],
    clock: Clock,
    seconds: float = WINDOW_SECONDS,
) -> Window:
    """Runs frames from that index on, from one tick of the counters to the first one after `seconds`.

    meters: one for each GPU. Raises `Unmetered` where a counter is lost.
    """
    start, began, before = _tick(frame, first, meters, clock)
    index = start
    while clock() < began + seconds:
        frame(index)
        index += 1
    end, ended, after = _tick(frame, index, meters, clock)
    taken = tuple(now - then for then, now in zip(before, after, strict=True))
    return Window(end - start, ended - began, taken)


def idle_watts(
    meters: Sequence[Meter],
    clock: Clock,
    sleep: Callable[[float], None] = time.sleep,
    seconds: float = IDLE_SECONDS,
) -> tuple[float, ...]:

    def wait(_: int) -> None:
        sleep(_LOOK_SECONDS)

    rested = window(wait, 0, meters, clock, seconds)
    return tuple(max(joules, 0.0) / rested.seconds for joules in rested.joules)


def _tick(
    frame: Callable[[int], None], index: int, meters: Sequence[Meter], clock: Clock
) -> tuple[int, float, tuple[float, ...]]:
    """The next frame's index, the moment, and the joules of each meter."""
    before, begin = _counts(meters), clock()
    while True:
        looked = clock()
        while clock() < looked + _LOOK_SECONDS:
            frame(index)
            index += 1
        joules, now = _counts(meters), clock()
        if joules != before or now >= begin + LONGEST_TICK:
            return index, now, joules


def _counts(meters: Sequence[Meter]) -> tuple[float, ...]:
    return tuple(meter.joules() for meter in meters)


@dataclass
class Windows(RoundResults):
    absent: str = NO_TIME

    def why(self, name: str) -> str:
        if name in self.left:
            return f"it failed in its energy window: {self.left[name].message}"
        return self.unmeasurable or self.absent


def after_final(
    taken: Windows,
    names: Sequence[str],
    start: Callable[[], Session],
    clock: Clock,
    deadline: float,
    spare: float,
    warm_frames: int,
) -> None:
    """One process that takes a window of each contestant in turn, as many as end before the deadline.

    taken: is filled as they end, so that Ctrl-C leaves what there is. spare: seconds that a process takes to
    start, and a contestant's buffers to be placed. warm_frames: before each window.
    """
    each = WINDOW_SECONDS + 2 * LONGEST_TICK + spare
    if clock() + IDLE_SECONDS + LONGEST_TICK + each > deadline:
        return
    loop = SessionLoop(taken, clock)

    def requests() -> Iterator[FinalRound]:
        for place, name in enumerate(names):
            if clock() + each > deadline:
                return
            yield FinalRound(round=place, order=(name,), warm_frames=warm_frames)

    if not loop.run(start, requests()):
        taken.absent = "the energy process did not start"
    elif loop.broken_by:
        taken.absent = f"the energy process ended during {loop.broken_by}"
