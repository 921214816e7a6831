"""What a script puts out, so that strategies can be compared: stdout, and what `advisor.result` is given."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

ArrayT = TypeVar("ArrayT")
Keep = Callable[[Any, str], None]
_keep: Keep | None = None


def result(array: ArrayT, name: str = "") -> ArrayT:
    """Gives the array back; under `advisor profile` also keeps it, to be compared between strategies.

    array: CuPy, NumPy, or whatever NumPy can read. name: for messages; a number without. Where the script is
    run by itself it does nothing. Its time is not counted.
    """
    if _keep is not None:
        _keep(array, name)
    return array


class Results:
    """Keeps what `advisor.result` is given as .npy files. `seconds` is the time that took."""

    def __init__(self, directory: Path) -> None:
        self.names: list[str] = []
        self.seconds = 0.0
        self.unobserved: Callable[[], AbstractContextManager[object]] = nullcontext
        """In which its own copies are made, so that nobody counts them as the script's."""
        self._directory = directory

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While the script runs."""
        global _keep
        _keep = self.keep
        try:
            yield
        finally:
            _keep = None

    def keep(self, array: Any, name: str) -> None:
        """Copies it to the host and saves it."""
        begin = time.perf_counter()
        with self.unobserved():
            plain = _on_host(array)
        plain_name = re.sub(r"[^\w-]", "_", name)[:60]
        label = f"{len(self.names)}-{plain_name}" if name else str(len(self.names))
        self._directory.mkdir(parents=True, exist_ok=True)
        np.save(self._directory / f"{label}.npy", plain, allow_pickle=False)
        self.names.append(label)
        self.seconds += time.perf_counter() - begin


def _on_host(array: Any) -> Any:
    """CuPy's arrays have get, PyTorch's cpu, Numba's copy_to_host; anything else NumPy reads itself."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    for method in ("get", "copy_to_host"):
        if hasattr(array, method):
            return np.asarray(getattr(array, method)())
    return np.asarray(array)


@contextmanager
def stdout_into(path: Path) -> Iterator[None]:
    """Descriptor 1 goes into a file, so that what C libraries and child processes print is there too."""
    sys.stdout.flush()
    before = os.dup(1)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            sys.stdout.flush()
            os.dup2(before, 1)
            os.close(before)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
