"""NVRTC by ctypes, from NVIDIA's wheels or the system: compiles for any GPU that it knows, and needs none."""

from __future__ import annotations

import ctypes
import ctypes.util
import sysconfig
from pathlib import Path
from typing import Any


def libraries() -> list[Path | str]:
    """Every NVRTC of the wheels here, newest first, then the system's."""
    packages = Path(sysconfig.get_paths()["purelib"])
    found: list[Path | str] = sorted(packages.glob("nvidia/**/libnvrtc.so.*"), reverse=True)
    system = ctypes.util.find_library("nvrtc")
    return [*found, *([system] if system else [])]


class Nvrtc:
    def __init__(self, path: Path | str) -> None:
        self._library = ctypes.CDLL(str(path))
        self._include = Path(path).parent.parent / "include"

    @property
    def architectures(self) -> list[int]:
        """75 for sm_75, and so on."""
        count = ctypes.c_int()
        self._require(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        known = (ctypes.c_int * count.value)()
        self._require(self._library.nvrtcGetSupportedArchs(known))
        return list(known)

    def log(self, source: str, architecture: int, *options: str) -> str:
        """Compiles; the compiler's log, empty where it has nothing to say, and an error where it fails."""
        program = ctypes.c_void_p()
        given = [f"--gpu-architecture=sm_{architecture}", *options]
        if self._include.is_dir():
            given.append(f"-I{self._include}")
        self._require(
            self._library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None)
        )
        try:
            texts: Any = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
            failed = self._library.nvrtcCompileProgram(program, len(given), texts)
            size = ctypes.c_size_t()
            self._require(self._library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
            text = ctypes.create_string_buffer(size.value)
            self._require(self._library.nvrtcGetProgramLog(program, text))
            said = text.value.decode()
            assert not failed or "error" in said, f"NVRTC failed with {failed}"
            return said
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _require(self, outcome: int) -> None:
        assert outcome == 0, f"NVRTC failed with {outcome}"
