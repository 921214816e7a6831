"""One device as numbers for the terms: each figure's likely value and its draws.

What is taken for a figure that a catalogue entry leaves out stands in defaults.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field, model_validator

from advisor import units
from advisor.devices import entries
from advisor.devices.catalogue import System, load, names, under
from advisor.devices.entries import CatalogueEntry, Figure, Figures, Positive, Text, moves_whole
from advisor.model import terms
from advisor.model.terms import Values, constant, log_triangular, triangular
from advisor.profiles.base import Record
from advisor.profiles.files import parse_toml
from advisor.profiles.schema import MemoryClass
from advisor.texts import from_markdown

PATH = Path(__file__).parent / "defaults.toml"

# Pinned copies over PCIe 3 x16 in the published tables lie between 9.6 and 13.0 GB/s: 15 % about the middle.
SPREAD = 1.15
"""Range of a figure that is a single measurement: this factor either way."""

Share = Annotated[float, Field(ge=0)]

_EXACT = frozenset(("memory_bytes", "device_memory_bytes_per_second", "l2_bytes", "migration_bytes"))


class Default(Figure):
    """A figure with its range and its source, or a share of the figure `of` of the same device.

    `figures`: how many published or measured figures it is fitted to (tests/left_out.py), about `prior`, what
    its sources say; 0 where it is read. `only`: the one device that its sources measured.
    """

    value: Share
    low: Share
    high: Positive
    of: str | None = None
    figures: int = 0
    prior: Positive | None = None
    only: str | None = None


class Layer(Record):
    """Defaults for the devices that meet all of its conditions; None: any will do."""

    memory_classes: Annotated[tuple[MemoryClass, ...], Field(strict=False)] = get_args(MemoryClass)
    integrated: bool | None = None
    concurrent: bool | None = None
    """Both sides may use managed memory at once."""
    compute_capabilities: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    figures: dict[str, Default]

    def covers(self, entry: CatalogueEntry) -> bool:
        capability = entry.attributes["compute_capability"].value
        return (
            entry.memory_class in self.memory_classes
            and self.integrated in (None, shares_memory(entry))
            and self.concurrent in (None, not moves_whole(entry.device().attributes))
            and (self.compute_capabilities is None or capability in self.compute_capabilities)
        )


class Defaults(Record):
    """All of the file. `names`: figures in words, where their key does not say enough."""

    names: dict[str, Text]
    layers: Annotated[tuple[Layer, ...], Field(strict=False)]

    @model_validator(mode="after")
    def _are_figures(self) -> Defaults:
        known = (*Figures.model_fields, *self.names)
        used = {
            name for layer in self.layers for key, each in layer.figures.items() for name in (key, each.of)
        }
        if unknown := used - {*known, None}:
            raise ValueError(f"{unknown} are not figures of a device")
        return self


@lru_cache(maxsize=1)
def defaults() -> Defaults:
    return Defaults.model_validate(parse_toml(PATH.read_text(encoding="utf-8")))


def default(name: str, entry: CatalogueEntry, among: Defaults | None = None) -> Default | None:
    """The default for a figure of that device, or None: then its term is left out or declined.

    The last layer's counts, of those whose base the device has.
    """
    for layer in reversed((among or defaults()).layers):
        figure = layer.figures.get(name)
        if figure and layer.covers(entry):
            base = figure.of and (getattr(entry.figures, figure.of, None) or default(figure.of, entry, among))
            if figure.of is None or base is not None:
                return figure
    return None


def shares_memory(entry: CatalogueEntry) -> bool:
    """Whether CPU and GPU have one DRAM: all that CUDA calls integrated."""
    return bool(entry.attributes["integrated"].value)


@dataclass
class Machine:
    """The figures of one device as draws. `assumed`: the defaults that were used, by figure."""

    entry: CatalogueEntry
    among: Defaults = field(default_factory=lambda: defaults())
    assumed: dict[str, Figure] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    _values: dict[str, Values | None] = field(default_factory=dict)

    @property
    def shares_memory(self) -> bool:
        return shares_memory(self.entry)

    @property
    def multiprocessors(self) -> int | None:
        """How many the GPU has; None where the entry does not say."""
        known = self.entry.attributes.get("multiprocessor_count")
        return None if known is None else int(known.value)

    @property
    def calibrated(self) -> bool:
        """Whether the entry was measured: only calibration writes down what CUDA reports of the memory."""
        return "total_global_mem" in self.entry.attributes

    def find(self, name: str) -> Values | None:
        """The figure's likely value and draws; None where there is neither a figure nor a default."""
        if name not in self._values:
            figure = self._figure(name)
            if figure is None:
                self.missing.add(name)
            elif not self.has(name):
                self.assumed[name] = figure
            self._values[name] = None if figure is None else self._drawn(name, figure)
        return self._values[name]

    def get(self, name: str) -> Values:
        """Draws of a figure that every class has or has a default for."""
        value = self.find(name)
        assert value is not None, name
        return value

    def has(self, name: str) -> bool:
        """Whether the entry itself has the figure: only calibration measures some."""
        return getattr(self.entry.figures, name, None) is not None

    def exact(self, name: str) -> float:
        """A figure that is no estimate, or 0 where it is not known."""
        value = self.find(name)
        return 0.0 if value is None else float(value[0])

    def memory_rate(self) -> Values:
        """Bytes per second that the best streaming kernel reaches in the device's memory."""
        return self.get("device_memory_bytes_per_second") * self.get("achievable_share")

    def kernel_rate(self) -> Values:
        """Bytes per second that an ordinary kernel reaches."""
        return self.memory_rate() * self.get("kernel_memory_share")

    def pageable_rate(self, direction: Literal["to_device", "to_host"]) -> Values:
        """Rate of copies from or to pageable memory: as published, or staged by the CPU.

        How far the CPU's copies hide behind the link's transfers is not known: likely not at all.
        """
        if (published := self.find(f"pageable_{direction}_bytes_per_second")) is not None:
            return published
        link, host = self.get(f"pinned_{direction}_bytes_per_second"), self.get("staging_bytes_per_second")
        return np.asarray(terms.staged_rate(link, host, self.model("staging_hidden")))

    def _drawn(self, name: str, figure: Figure) -> Values:
        share = None if self.has(name) else self._default(name)
        if share and share.of:
            return self.get(share.of) * self._draws(name, share)
        return self._draws(name, figure)

    def _figure(self, name: str) -> Figure | None:
        """The entry's own, or the default in that figure's unit."""
        known: Figure | None = getattr(self.entry.figures, name, None)
        figure = known or self._default(name)
        if not isinstance(figure, Default) or figure.of is None:
            return figure
        base = self.figure(figure.of).value
        low, value, high = (share * base for share in (figure.low, figure.value, figure.high))
        return Figure(value=value, low=low, high=high, source=f"{figure.value:g} {figure.source}")

    def figure(self, name: str) -> Figure:
        """A figure of the entry, or a default that there is for every device of its class."""
        figure = self._figure(name)
        assert figure is not None, name
        return figure

    def model(self, name: str) -> Values:
        """A constant of the model's own, which no list of assumptions names, or what calibration measured."""
        if name not in self._values:
            self._values[name] = self._drawn(name, self.figure(name))
        return self.get(name)

    def _default(self, name: str) -> Default | None:
        return default(name, self.entry, self.among)

    def _draws(self, name: str, figure: Figure) -> Values:
        if name in _EXACT:
            return constant(figure.value)
        if figure.low == 0:
            return self.drawn(0.0, figure.value, figure.high or figure.value, name)
        alone = figure.low is None and figure.high is None
        low = figure.value / SPREAD if alone else figure.low or figure.value
        high = figure.value * SPREAD if alone else figure.high or figure.value
        return log_triangular(low, figure.value, high, name)

    def drawn(self, low: float, mode: float, high: float, name: str) -> Values:
        """A share that is no figure of the device: drawn on a linear scale."""
        return triangular(low, mode, high, name)


_HEADINGS = ("device", "name", "memory class", "memory", "bandwidth")


def describe_all() -> str:
    """The devices of the catalogue as a table, by memory class and bandwidth."""
    order: tuple[MemoryClass, ...] = get_args(MemoryClass)
    catalogued = [load(name) for name in names()]
    catalogued.sort(key=lambda entry: (order.index(entry.memory_class), _bandwidth(entry)))
    rows = [_HEADINGS]
    for entry in catalogued:
        memory = units.size(entry.figures.memory_bytes.value)
        rows.append((entry.origin, entry.name, entry.memory_class, memory, units.rate(_bandwidth(entry))))
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    # Names to the left, numbers to the right.
    return "\n".join("  ".join(f"{c:{a}{w}}" for c, a, w in zip(r, "<<<>>", wide, strict=True)) for r in rows)


def describe_one(name_or_path: str, system: System = "linux") -> str:
    """One device as text: memory class and what follows, figures with sources, defaults taken.

    Raises `UsageError` for an unknown name, with the nearest, and `FileProblem` for a file that is wrong.
    """
    entry = under(load(name_or_path), system)
    kind, device_attributes = entry.memory_class, entry.device().attributes
    follows = entries.FOLLOWS[kind] | ({"managed": entries.WHOLE} if moves_whole(device_attributes) else {})
    attributes = ((f"{key} = {a.value}", a.source) for key, a in entry.attributes.items())
    figures = ((f"{key} = {value(key, figure)}", figure.source) for key, figure in _known(entry).items())
    parts = (
        f"{entry.name} ({entry.origin})",
        _section(f"Memory class {kind}: {entries.explained(kind, device_attributes)}", follows.items()),
        _section("Attributes", attributes),
        _section("Figures", figures),
        *_absent(entry),
    )
    return from_markdown("\n\n".join(filter(None, parts)))


def value(key: str, figure: Figure, span: str = " ({} to {})") -> str:
    """A figure with its unit, and its range where it has one: 650 GB/s (580 GB/s to 700 GB/s)."""
    write = next(write for end, (_, write) in _UNITS.items() if key.endswith(end))
    low, high = figure.low or figure.value, figure.high or figure.value
    return write(figure.value) + ("" if low == high else span.format(write(low), write(high)))


_UNITS: dict[str, tuple[str, Callable[[float], str]]] = {
    "flops_per_second": ("rate", lambda x: f"{units.digits(x / 1e12)} TFLOP/s"),
    "bytes_per_second": ("rate", units.rate),
    "bytes": ("size", units.size),
    "seconds": ("time", units.seconds),
    "share": ("share", units.percent),
    "slowdown": ("slowdown", units.ratio),
}
"""What a figure is, by the end of its key, and how it is written."""


def _bandwidth(entry: CatalogueEntry) -> float:
    return entry.figures.device_memory_bytes_per_second.value


def _known(entry: CatalogueEntry) -> dict[str, Figure]:
    figures = ((key, getattr(entry.figures, key)) for key in Figures.model_fields)
    return {key: figure for key, figure in figures if figure is not None}


def _absent(entry: CatalogueEntry) -> Iterator[str]:
    """Absent figures: the model's assumptions, and those that it does not need."""
    machine, absent = Machine(entry), [key for key in Figures.model_fields if key not in _known(entry)]
    assumed = [key for key in absent if machine.find(key) is not None]
    figures = ((key, machine.assumed[key]) for key in assumed)
    yield _section(
        "Not known; assumed by the model",
        ((f"{key} = {value(key, figure)}", figure.source) for key, figure in figures),
    )
    without = ", ".join(in_words(key) for key in absent if key not in assumed)
    yield f"Not known and not needed by the model: {without}" * bool(without)


def in_words(key: str) -> str:
    """The figure's name: `host pinned read rate` for host_pinned_read_bytes_per_second."""
    if key in defaults().names:
        return defaults().names[key]
    end = next(end for end in _UNITS if key.endswith(end))
    return f"{key.removesuffix(end).replace('_', ' ')}{_UNITS[end][0]}"


def _section(title: str, items: Iterable[tuple[str, str]]) -> str:
    """A title above a list; nothing without items."""
    lines = [f"- {name}: {text}" for name, text in items]
    return "\n\n".join((title, "\n".join(lines))) if lines else ""
