"""What a GPU is, asked of the CUDA driver alone: a script may bring PyTorch or Numba and no CuPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any
from uuid import UUID

from advisor.devices.entries import memory_class
from advisor.errors import NothingMeasured
from advisor.profiles.schema import Device

ATTRIBUTES = {
    "multiprocessor_count": 16,
    "integrated": 18,
    "can_map_host_memory": 19,
    "l2_cache_size": 38,
    "async_engine_count": 40,
    "managed_memory": 83,
    "host_native_atomic_supported": 86,
    "pageable_memory_access": 88,
    "concurrent_managed_access": 89,
    "host_register_supported": 99,
    "pageable_memory_access_uses_host_page_tables": 100,
    "direct_managed_mem_access_from_host": 101,
    "memory_pools_supported": 115,
}
"""CUdevice_attribute of cuda.h, by CUDA's names in snake case; CuPy's have the same letters."""
_MAJOR, _MINOR = 75, 76


class Driver:
    """One GPU. Raises `NothingMeasured` where the driver shows none of that number."""

    def __init__(self, gpu: int, library: Callable[[str], Any] = ctypes.CDLL) -> None:
        self._gpu = gpu
        try:
            self._cuda = library("libcuda.so.1")
        except OSError as problem:
            raise NothingMeasured(
                f"there is no CUDA driver: {problem}", next_step="Add --no-gpu to predict without a GPU."
            ) from None
        self._ask("cuInit", 0)
        self._device = self._number("cuDeviceGet", gpu)

    def device(self) -> Device:
        """Without the attributes that an old driver does not know."""
        known = {name: self._attribute(number) for name, number in ATTRIBUTES.items()}
        attributes: dict[str, int | float | str | bool] = {
            name: value for name, value in known.items() if value is not None
        }
        attributes["compute_capability"] = f"{self._attribute(_MAJOR)}.{self._attribute(_MINOR)}"
        attributes["total_global_mem"] = self._number("cuDeviceTotalMem_v2", self._device, of=ctypes.c_size_t)
        name = self._text("cuDeviceGetName", 256)
        return Device(name=name, kind="cuda", memory_class=memory_class(attributes), attributes=attributes)

    def environment(self) -> dict[str, str | int | float]:
        version = self._number("cuDriverGetVersion")
        place = self._text("cuDeviceGetPCIBusId", 32)
        return {"cuda_driver": f"{version // 1000}.{version % 1000 // 10}", "pci_bus_id": place}

    def uuid(self) -> str:
        """Empty where the driver has none; version 2 of the call tells the parts of a GPU (MIG) apart."""
        number = (ctypes.c_ubyte * 16)()
        call = getattr(self._cuda, "cuDeviceGetUuid_v2", None) or self._cuda.cuDeviceGetUuid
        known = call(ctypes.byref(number), self._device) == 0 and any(number)
        return str(UUID(bytes=bytes(number))) if known else ""

    def _attribute(self, number: int) -> int | None:
        value = ctypes.c_int()
        failed = self._cuda.cuDeviceGetAttribute(ctypes.byref(value), number, self._device)
        return None if failed else value.value

    def _text(self, call: str, length: int) -> str:
        buffer = ctypes.create_string_buffer(length)
        self._ask(call, buffer, length, self._device)
        return buffer.value.decode(errors="replace")

    def _number(self, call: str, *arguments: int, of: type[Any] = ctypes.c_int) -> int:
        answer = of()
        self._ask(call, ctypes.byref(answer), *arguments)
        return int(answer.value)

    def _ask(self, call: str, *arguments: Any) -> None:
        if code := getattr(self._cuda, call)(*arguments):
            raise NothingMeasured(
                f"GPU {self._gpu} cannot be used: {call} returned {code}",
                next_step="Check the driver with nvidia-smi, or add --no-gpu to predict without a GPU.",
            )
