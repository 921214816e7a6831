"""A worker's machine: its GPUs by UUID as the CUDA driver shows them, and the versions that must fit.

In a process that ends at once (`main`): a worker that has opened CUDA would keep memory of every GPU.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import socket
import sys
import uuid
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from advisor.devices.host import ROOT, Tree, cpu_model
from advisor.devices.memory_class import memory_class
from advisor.fleets.planning import Gpu, Machine
from advisor.measure.backends import driver_version, has_cupy
from advisor.version import __version__

# cuda.h, CUdevice_attribute.
_ATTRIBUTES = {
    "integrated": 18,
    "pageable_memory_access": 88,
    "pageable_memory_access_uses_host_page_tables": 100,
}
_MAJOR, _MINOR = 75, 76
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
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return
    for index in range(count.value):
        device = ctypes.c_int(0)
        if driver.cuDeviceGet(ctypes.byref(device), index) == 0:
            yield _gpu(driver, device, index)


def _gpu(driver: Any, device: ctypes.c_int, index: int) -> Gpu:
    def attribute(number: int) -> int:
        value = ctypes.c_int(0)
        return value.value if driver.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0 else 0

    name, number = ctypes.create_string_buffer(256), (ctypes.c_ubyte * 16)()
    driver.cuDeviceGetName(name, 256, device)
    # Version 2 tells the parts of a GPU (MIG) apart.
    read_uuid = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid
    known = read_uuid(ctypes.byref(number), device) == 0 and any(number)
    facts: dict[str, int | float | str | bool] = {key: attribute(n) for key, n in _ATTRIBUTES.items()}
    facts["compute_capability"] = f"{attribute(_MAJOR)}.{attribute(_MINOR)}"
    return Gpu(
        uuid=_visible(str(uuid.UUID(bytes=bytes(number))), index) if known else "",
        name=name.value.decode("utf-8", "replace") or "GPU",
        memory_class=memory_class(facts),
        integrated=bool(facts["integrated"]),
    )


def _visible(number: str, index: int) -> str:
    """The UUID with its prefix, or the name of a part of a GPU (MIG) from CUDA_VISIBLE_DEVICES."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    given = named[index].strip() if index < len(named) else ""
    return given if given.startswith("MIG-") else f"GPU-{number}"
