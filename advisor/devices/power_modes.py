"""A Jetson's power modes, from nvpmodel's own files. `nvpmodel -q` may need root, the files do not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from advisor.devices.files import Tree

STATUS = "var/lib/nvpmodel/status"
CONFIGURATION = "etc/nvpmodel.conf"
_UNCAPPED = float("inf")
_MODE = re.compile(r"<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+?)\s*>", re.ASCII)
_LINE = re.compile(r"^(\w+)\s+(\w+)\s+(-?\d+)\s*$", re.ASCII)


@dataclass(frozen=True)
class PowerMode:
    """One mode. The caps are in the units of the file and only compared; no cap is infinite."""

    number: int
    name: str
    gpu: float
    memory: float
    cores: int
    cpu: float

    @property
    def strength(self) -> tuple[float, float, int, float]:
        """What the mode allows. Its number says nothing: 0 is the strongest on most boards, 2 on some."""
        return (self.gpu, self.memory, self.cores, self.cpu)


def power_modes(tree: Tree) -> tuple[PowerMode, ...]:
    """The modes that the board offers, in the order of the file."""
    parts = _MODE.split(tree.text(CONFIGURATION) or "")[1:]
    return tuple(
        _mode(int(number), name, body)
        for number, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    )


def active_mode(tree: Tree) -> int | None:
    """The number of the mode that was set, from `pmode:0002`, on older releases `pmode:0002 fmode:quiet`."""
    found = re.search(r"pmode:\s*(\d+)", tree.text(STATUS) or "", re.ASCII)
    return int(found[1]) if found else None


def _mode(number: int, name: str, body: str) -> PowerMode:
    lines = [match.groups() for line in body.splitlines() if (match := _LINE.match(line.strip()))]
    return PowerMode(
        number,
        name,
        gpu=_cap(lines, "GPU"),
        memory=_cap(lines, "EMC"),
        cores=sum(int(value) for part, _, value in lines if part == "CPU_ONLINE"),
        cpu=_cap(lines, "CPU_"),
    )


def _cap(lines: list[tuple[str, ...]], part: str) -> float:
    """The highest MAX_FREQ of what begins with `part`. The file writes -1 or 0 for no cap."""
    caps = [int(value) for name, key, value in lines if name.startswith(part) and key == "MAX_FREQ"]
    return max((float(cap) if cap > 0 else _UNCAPPED for cap in caps), default=_UNCAPPED)
