"""Allocators of CuPy and PyTorch for a script in place of the default pool; allocators.toml lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from advisor.profiles.files import read_toml

VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
"""PyTorch reads it before the first array on the GPU: no line of a file sets it with certainty in time."""


@dataclass(frozen=True)
class Allocator:
    name: str
    library: Literal["cupy", "torch"]
    title: str
    setting: str
    before: str = ""

    def lines(self, cupy: str) -> tuple[str, ...]:
        """Lines for a file after its imports."""
        text = f"{self.before}{{cupy}}.cuda.set_allocator({self.setting})  # {self.title}"
        return tuple(text.replace("{cupy}", cupy).split("\n"))

    def callable(self, cupy: Any) -> Callable[[int], Any] | None:
        """The allocator itself, by the same text. None: memory is not pooled."""
        names: dict[str, Any] = {"cupy": cupy}
        exec(self.before.replace("{cupy}", "cupy"), names)
        allocator: Callable[[int], Any] | None = eval(self.setting.replace("{cupy}", "cupy"), names)
        return allocator


_LISTED = read_toml(Path(__file__).with_suffix(".toml")).items()
BY_NAME = {name: Allocator(name, **facts) for name, facts in _LISTED}
