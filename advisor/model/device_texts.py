"""The catalogue in words: all devices in a table, and one with its figures, their sources, and the defaults.

It stands here because it says which defaults the model takes; the devices themselves know nothing of it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import get_args

from advisor import units
from advisor.devices.catalogue import System, load, names, under
from advisor.devices.entries import CatalogueEntry, Figure, Figures
from advisor.devices.memory_class import FOLLOWS, WHOLE, explained, moves_whole
from advisor.model.machines import Machine
from advisor.profiles.schema import MemoryClass

WIDTH = 80

_HEADINGS = ("device", "name", "memory class", "memory", "bandwidth")
_WITHOUT = {
    "flops_per_second": "kernels are assumed to be memory-bound",
    "l2_bytes": "every pass of a kernel is assumed to read from memory",
    "pageable_to_device_bytes_per_second": "computed from the CPU's copy rate and the pinned one",
    "pageable_to_host_bytes_per_second": "computed from the CPU's copy rate and the pinned one",
    "peer_bytes_per_second": "needed only for the strategy peer on several GPUs",
}
"""What becomes of a figure that is neither known nor has a default."""


def describe_all() -> str:
    """The devices of the catalogue as a table of 80 columns, by memory class and bandwidth."""
    order: tuple[MemoryClass, ...] = get_args(MemoryClass)
    entries = [load(name) for name in names()]
    entries.sort(key=lambda entry: (order.index(entry.memory_class), _bandwidth(entry)))
    rows = [_HEADINGS]
    for entry in entries:
        memory = units.size(entry.figures.memory_bytes.value)
        rows.append((entry.origin, entry.name, entry.memory_class, memory, units.rate(_bandwidth(entry))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # Names to the left, numbers to the right.
    return "\n".join(
        "  ".join(f"{c:{a}{w}}" for c, a, w in zip(row, "<<<>>", widths, strict=True)) for row in rows
    )


def describe_one(name_or_path: str, system: System = "linux") -> str:
    """One device as text of 80 columns: memory class and what follows, figures with sources, defaults taken.

    Raises `UsageError` for an unknown name, with the nearest, and `FileProblem` for a file that is wrong.
    """
    entry = under(load(name_or_path), system)
    kind, device_attributes = entry.memory_class, entry.device().attributes
    of_each = FOLLOWS[kind] | ({"managed": WHOLE} if moves_whole(device_attributes) else {})
    follows = (_wrapped(f"{of:<12}{text}", "  ", " " * 14) for of, text in of_each.items())
    attributes = ((f"{key} = {a.value}", a.source) for key, a in entry.attributes.items())
    parts = (
        f"{entry.name} ({entry.origin})",
        "\n".join((_wrapped(f"Memory class {kind}: {explained(kind, device_attributes)}"), *follows)),
        _section("Attributes", attributes),
        _section("Figures", (_line(key, figure) for key, figure in _known(entry).items())),
        *_absent(entry),
    )
    return "\n\n".join(part for part in parts if part)


def value(key: str, figure: Figure, span: str = " ({} to {})") -> str:
    """A figure with its unit, and its range where it has one: 650 GB/s (580 GB/s to 700 GB/s)."""
    write = next(write for end, write in _WRITE if key.endswith(end))
    low, high = figure.low or figure.value, figure.high or figure.value
    return write(figure.value) + ("" if low == high else span.format(write(low), write(high)))


_WRITE = (
    ("flops_per_second", lambda x: f"{units.digits(x / 1e12)} TFLOP/s"),
    ("bytes_per_second", units.rate),
    ("bytes", units.size),
    ("seconds", units.seconds),
    ("share", units.percent),
    ("slowdown", units.ratio),
)


def _bandwidth(entry: CatalogueEntry) -> float:
    return entry.figures.device_memory_bytes_per_second.value


def _known(entry: CatalogueEntry) -> dict[str, Figure]:
    figures = ((key, getattr(entry.figures, key)) for key in Figures.model_fields)
    return {key: figure for key, figure in figures if figure is not None}


def _absent(entry: CatalogueEntry) -> Iterator[str]:
    """Absent figures: the model's assumptions, and those that it does not need."""
    absent = [key for key in Figures.model_fields if key not in _known(entry)]
    machine = Machine(entry)
    defaults = [key for key in absent if machine.find(key) is not None]
    without = [key for key in absent if key not in defaults]
    yield _section("Not known; assumed by the model", (_line(key, machine.assumed[key]) for key in defaults))
    reasons = {key: _WITHOUT.get(key, "not used for this memory class") for key in without}
    alike = {why: ", ".join(key for key in without if reasons[key] == why) for why in reasons.values()}
    yield _section("Not known and not needed by the model", ((keys, why) for why, keys in alike.items()))


def _line(key: str, figure: Figure) -> tuple[str, str]:
    return f"{key} = {value(key, figure)}", figure.source


def _section(title: str, lines: Iterable[tuple[str, str]]) -> str:
    """A title, and lines each with what stands below it, indented. Nothing without lines."""
    indent = " " * 6
    texts = [f"{_wrapped(head, '  ', indent)}\n{_wrapped(below, indent, indent)}" for head, below in lines]
    return "\n".join((title, *texts)) if texts else ""


def _wrapped(text: str, first: str = "", later: str = "  ") -> str:
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
