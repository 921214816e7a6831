"""The machine, as far as a reader of the figures must know it. No user, host or directory names."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path

import psutil

from advisor.profiles import Environment

_CPU_NAMES = ("model name", "Model", "Hardware")


def environment() -> Environment:
    """This machine, before anything is measured; what cannot be read is absent, with the reason."""
    model = _cpu_model()
    return Environment(
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        python=platform.python_version(),
        cpu_model=model,
        cpu_count=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        absent={} if model else {"cpu_model": "/proc/cpuinfo does not name it"},
        warnings=tuple(_warnings()),
    )


def command_line(arguments: Sequence[str]) -> str:
    """The command as typed, the home directory shortened."""
    home = str(Path.home())
    typed = shlex.join(["advisor", *(a.replace(home, "~") if home != "/" else a for a in arguments)])
    return typed.encode("utf-8", "replace").decode("utf-8")


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    fields = [line.partition(":")[::2] for line in lines]
    found = (value.strip() for wanted in _CPU_NAMES for name, value in fields if name.strip() == wanted)
    return next(found, None)


def _warnings() -> list[str]:
    """Other work on the machine makes figures noisy."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load > cores * 0.75:
        return [f"Other programs kept the CPU busy: load {load:.1f} on {cores} cores."]
    return []
