"""Which extra this machine needs: prints [cuda13], [cuda12] or nothing. `python -m advisor.extras`.

Standard library only, since it runs before anything is installed.
"""

from __future__ import annotations

import ctypes


def driver_version() -> int | None:
    """The newest CUDA that the driver supports, as CUDA writes it: 13000 is 13.0. None without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int(0)
    return version.value if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def dotted(version: int) -> str:
    """13.0 from 13000."""
    return f"{version // 1000}.{version % 1000 // 10}"


def cupy_package(driver: int | None) -> str:
    """What to install for CuPy with a driver for that CUDA, as in `pip install`; for CUDA 13 if unknown."""
    release = min(driver or 13000, 13000) // 1000
    return f"'gpu-memory-advisor[cuda{release}]'" if release > 11 else "cupy-cuda11x"


def cuda_extra() -> str:
    """The extra for the CUDA version that the installed driver supports; empty without a driver."""
    version = driver_version() or 0
    return "[cuda13]" if version >= 13000 else "[cuda12]" if version >= 12000 else ""


if __name__ == "__main__":
    print(cuda_extra())
