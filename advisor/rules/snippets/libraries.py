"""How CuPy, PyTorch and Numba write each placement (libraries.toml), and what their code imports or calls."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.profiles.files import read_toml
from advisor.profiles.schema import BufferRecord, Device
from advisor.strategies.placement import Placement, flag_is_off

_IMPORTS = {name: f"import {name}" for name in ("ctypes", "cupy", "math", "mmap", "weakref")} | {
    "np": "import numpy as np",
    "runtime": "from cuda.bindings import runtime  # CuPy cannot prefetch to the CPU",
}


def _split(text: str) -> dict[str, str]:
    """Functions by name, each behind two empty lines."""
    return {part.partition("(")[0]: f"\n\ndef {part.rstrip()}\n" for part in f"\n{text}".split("\ndef ")[1:]}


_TEXT = Path(__file__).with_name("functions.txt").read_text(encoding="utf-8")
_FUNCTIONS, _ATTACHING = map(_split, _TEXT.split("# For a GPU that cannot prefetch:\n"))


def opening(code: str, imports: Sequence[str] = (), *, attaches: bool = False) -> str:
    """These imports and the functions that the code calls, with what they call and import themselves.

    attaches: `prefetch` attaches memory to the stream, for a GPU that cannot prefetch.
    """
    functions = _FUNCTIONS | (_ATTACHING if attaches else {})
    needed: set[str] = set()
    while called := {name for name in functions if name not in needed and f"{name}(" in code}:
        needed |= called
        code = "".join(functions[name] for name in called)
    text = "".join(functions[name] for name in functions if name in needed)
    lines = {*imports, *(line for name, line in _IMPORTS.items() if re.search(rf"(?<![.\w]){name}\.", text))}
    standard = sorted(line for line in lines if line.split()[1] in sys.stdlib_module_names)
    others = sorted(lines - set(standard), key=lambda line: (line.startswith("from"), line))
    return "\n".join((*standard, *([""] if standard else []), *others, text))


@dataclass(frozen=True)
class Way:
    """How one placement is written."""

    allocate: Sequence[str]
    to_device: str = ""
    to_host: str = ""
    attaches: bool = False
    """`prefetch` attaches the memory to the stream, which cannot be the library's own then."""
    rebinds: bool = False
    """An upload makes a new device array, so that `frame` must bind its name again."""
    elsewhere: str = ""

    @property
    def copies(self) -> bool:
        """It has two memories, and copies between them."""
        return "{device}" in self.to_device


@dataclass(frozen=True)
class OnGpu:
    allocating: str
    running: str
    stream: str
    mark: Sequence[str]
    order: str
    to_peer: str


@dataclass(frozen=True)
class Library:
    """An array library. `stream` binds that name to the one that kernels run on."""

    imports: Sequence[str]
    stream: str
    on_gpu: OnGpu
    ways: Mapping[str, Mapping[str, Any]]
    in_device: str
    types: Sequence[str] = ()
    """NumPy names of the types that it has; empty for all."""

    def way(self, placement: Placement, buffer: BufferRecord, device: Device) -> Way | None:
        """None where it has no call for the placement."""
        facts = self.ways.get(_memory(placement))
        if facts is None or (self.types and buffer.dtype not in self.types):
            return None
        flags = [_FLAGS[flag] for flag in placement.host_flags if flag in _FLAGS]
        if flags and not any(name in facts["allocate"][0] for name in ("{flags}", "{write_combined}")):
            return None
        hints = map(_ADVICE.__getitem__, placement.hints if placement.prefetched else ())
        advice = (f'advise({{host}}, "{advice}", "{side}")' for advice, side in hints)
        texts = {
            "{in_device}": self.in_device,
            "{flags}": f", {' | '.join(flags)}" if flags else "",
            "{write_combined}": str(placement.write_combined),
        }

        def filled(line: str) -> str:
            return re.sub("|".join(texts), lambda name: texts[name[0]], line)

        return Way(
            **{
                **facts,
                "allocate": (*map(filled, facts["allocate"]), *advice),
                "elsewhere": filled(facts.get("elsewhere", "")),
                "attaches": placement.prefetched and flag_is_off(device, "concurrent_managed_access"),
            }
        )


_ADVICE = {
    "read-mostly": ("cudaMemAdviseSetReadMostly", "device"),
    "prefer-device": ("cudaMemAdviseSetPreferredLocation", "device"),
    "accessed-by-device": ("cudaMemAdviseSetAccessedBy", "device"),
    "accessed-by-host": ("cudaMemAdviseSetAccessedBy", "host"),
}
_FLAGS = {
    "write-combined": "cupy.cuda.runtime.hostAllocWriteCombined",
    "portable": "cupy.cuda.runtime.hostAllocPortable",
}
"""`mapped_empty` adds the flag for mapped memory itself."""


def _memory(placement: Placement) -> str:
    """The name of its memory in libraries.toml."""
    facts = ("registered", "staged", "prefetched")
    kind = next((fact for fact in facts if getattr(placement, fact)), placement.host_kind)
    shared = placement.host_kind == placement.device_kind != "device"
    return f"shared-{kind}" if shared else kind


CUPY, TORCH, NUMBA = (
    Library(**{**facts, "on_gpu": OnGpu(**facts["on_gpu"])})
    for facts in read_toml(Path(__file__).with_suffix(".toml")).values()
)
