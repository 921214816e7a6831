"""A worker's machine: its GPUs by UUID as the CUDA driver shows them, and the versions that must fit.

In a process that ends at once (`main`): a worker that has opened CUDA would keep memory of every GPU.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata

from advisor.devices.host import ROOT, Tree, cpu_model
from advisor.devices.memory_class import memory_class
from advisor.errors import NothingMeasured
from advisor.fleets.planning import Gpu, Machine
from advisor.measure.backends import driver_version, gpu_count, has_cupy
from advisor.measure.backends.driver import Driver
from advisor.version import __version__

_CUPY = re.compile(r"cupy(?:-cuda(\d+)x)?", re.IGNORECASE)


def machine() -> Machine:
    cupy, built_for = _cupy()
    return Machine(
        host=socket.gethostname(),
        advisor=__version__,
        python=platform.python_version(),
        cpu=(cpu_model(Tree(ROOT)) or platform.machine())[:300],
        cupy=cupy,
        cupy_cuda=built_for,
        driver_cuda=driver_version(),
        gpus=tuple(_gpus()),
    )


def main(_: list[str]) -> None:
    print(machine().model_dump_json(), flush=True)
    sys.stdout.flush()
    os._exit(0)  # the driver's own exit handlers have nothing to do


def _cupy() -> tuple[str | None, int | None]:
    """CuPy's version, and the CUDA release of its wheel; None each where it is not known."""
    for each in metadata.distributions():
        named = _CUPY.fullmatch(each.metadata["Name"] or "")
        if named:
            return each.version, int(named[1]) if named[1] else None
    return "unknown" if has_cupy() else None, None


def _gpus() -> Iterator[Gpu]:
    for index in range(gpu_count()):
        with suppress(NothingMeasured):
            gpu = Driver(index)
            device, number = gpu.device(), gpu.uuid()
            yield Gpu(
                uuid=_visible(number, index) if number else "",
                name=device.name or "GPU",
                memory_class=memory_class(device.attributes),
                integrated=bool(device.attributes.get("integrated")),
            )


def _visible(number: str, index: int) -> str:
    """The UUID with its prefix, or the name of a part of a GPU (MIG) from CUDA_VISIBLE_DEVICES."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    name = named[index].strip() if index < len(named) else ""
    return name if name.startswith("MIG-") else f"GPU-{number}"
