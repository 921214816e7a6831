"""Which extra this machine needs: prints [cuda13], [cuda12] or nothing. `python -m advisor.extras`.

Standard library only, since it runs before anything is installed.
"""

from __future__ import annotations

import ctypes


def cuda_extra() -> str:
    """The extra for the CUDA version that the installed driver supports; empty without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    version = ctypes.c_int(0)
    if driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return ""
    return "[cuda13]" if version.value >= 13000 else "[cuda12]" if version.value >= 12000 else ""


if __name__ == "__main__":
    print(cuda_extra())
