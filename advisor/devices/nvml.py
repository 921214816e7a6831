"""NVML through nvidia-ml-py, which may be missing, old, or fail at any call: then a figure is absent.

Nothing here raises but `Unreachable`, and that only inside this package.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any

from advisor.devices.host import sysfs_address

# Names of nvidia-ml-py's exceptions, and what they mean to a reader.
_MEANINGS = {
    "NVMLError_LibraryNotFound": "the NVIDIA driver's library libnvidia-ml is not installed",
    "NVMLError_DriverNotLoaded": "the NVIDIA driver is not loaded",
    "NVMLError_LibRmVersionMismatch": "the driver's library and its kernel module differ in version; "
    "restart the machine",
    "NVMLError_NotSupported": "NVML does not support it on this GPU",
    "NVMLError_FunctionNotFound": "the driver is too old to report it",
    "NVMLError_NoPermission": "NVML denies it to this user",
    "NVMLError_GpuIsLost": "the GPU has fallen off the bus",
}


class Unreachable(Exception):
    """NVML, or the GPU in it, cannot be reached; the text says why."""


class Queries:
    """Queries NVML, one figure of one GPU at a time; what it does not answer is noted in `absent`."""

    def __init__(self, module: Any, gpu: Any = None) -> None:
        self._module = module
        self._gpu = gpu
        self.absent: dict[str, str] = {}

    def query(self, figure: str, calls: str | tuple[str, ...], *arguments: Any, of_gpu: bool = True) -> Any:
        """The answer of the first call that gives one, else None; later calls are for older drivers."""
        given = (self._gpu, *arguments) if of_gpu else arguments
        for name in (calls,) if isinstance(calls, str) else calls:
            # Whatever goes wrong in a call (an NVMLError, a function that this nvidia-ml-py lacks, a text
            # that cannot be decoded) costs one figure, never the run.
            try:
                answer = getattr(self._module, name)(*given)
            except Exception as problem:
                self.absent[figure] = reason(problem)
            else:
                self.absent.pop(figure, None)
                return answer
        return None


@contextlib.contextmanager
def opened(module: Any = None) -> Iterator[Any]:
    """NVML, initialised; closed again at the end. `module` stands in for pynvml.

    Raises `Unreachable`.
    """
    try:
        nvml = module or importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception as problem:  # an outdated package of that name can fail in any way
        raise Unreachable(reason(problem)) from None
    try:
        yield nvml
    finally:
        with contextlib.suppress(Exception):
            nvml.nvmlShutdown()


def handle_of(nvml: Any, pci_bus_id: str | None, index: int) -> Any:
    """The GPU at that PCI address, which is sure: CUDA_VISIBLE_DEVICES renumbers CUDA's GPUs, and CUDA orders
    them by speed, NVML by address. Raises `Unreachable` rather than describe another GPU."""
    handles, seen = all_handles(nvml), os.environ
    if pci_bus_id is None:
        in_order = seen.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" and "CUDA_VISIBLE_DEVICES" not in seen
        if len(handles) == 1:
            return handles[0]
        if in_order and index < len(handles):
            return handles[index]
        raise Unreachable(
            f"NVML lists {len(handles)} GPUs, not in CUDA's order, and no PCI address identifies the one "
            "in use"
            if handles
            else "NVML lists no GPU"
        )
    queries = Queries(nvml)
    handle = queries.query("gpu", "nvmlDeviceGetHandleByPciBusId", pci_bus_id, of_gpu=False)
    if handle is not None:
        return handle
    # The only GPU may have no PCI address in NVML: integrated GPUs have one in CUDA alone.
    if len(handles) == 1 and address_of(nvml, handles[0]) is None:
        return handles[0]
    raise Unreachable(f"NVML has no GPU at {pci_bus_id}: {queries.absent['gpu']}")


def all_handles(nvml: Any) -> list[Any]:
    queries = Queries(nvml)
    count = queries.query("count", "nvmlDeviceGetCount", of_gpu=False) or 0
    handles = [queries.query("gpu", "nvmlDeviceGetHandleByIndex", i, of_gpu=False) for i in range(count)]
    return [handle for handle in handles if handle is not None]


def address_of(nvml: Any, handle: Any) -> str | None:
    """The GPU's PCI address as sysfs writes it; None for one that has none."""
    answer = Queries(nvml, handle).query("pci", "nvmlDeviceGetPciInfo")
    text = as_text(getattr(answer, "busId", None))
    return sysfs_address(text) if text else None


def as_text(answer: str | bytes | None) -> str | None:
    """A text, which old versions of nvidia-ml-py give as bytes."""
    return answer.decode("ascii", "replace") if isinstance(answer, bytes) else answer


def reason(problem: Exception) -> str:
    """Why a call failed, in words."""
    if isinstance(problem, ImportError):
        return "nvidia-ml-py is not installed; pip install nvidia-ml-py"
    if isinstance(problem, AttributeError):
        return "this nvidia-ml-py is too old for this query"
    kind = type(problem).__name__
    return _MEANINGS.get(kind, f"NVML failed: {str(problem) or kind}")
