"""What the model takes for a figure that a catalogue entry leaves out: defaults.toml, checked."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import Annotated, get_args

from pydantic import Field, ValidationError, field_validator, model_validator

from advisor.devices.catalogue import CatalogueEntry, Figure, Figures
from advisor.devices.entries import Positive, Text, nearest
from advisor.errors import FileProblem
from advisor.profiles.base import Record
from advisor.profiles.schema import MemoryClass

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PATH = Path(__file__).parent / "defaults.toml"


class Default(Figure):
    """A figure with its range and its source, or a share of the figure `of` of the same device."""

    low: Positive
    high: Positive
    of: str | None = None

    def of_base(self, base: Figure) -> Figure:
        """The share as a figure of its own, in the base's unit."""
        low, value, high = (share * base.value for share in (self.low, self.value, self.high))
        return Figure(value=value, low=low, high=high, source=f"{self.value:g} {self.source}")


class Layer(Record):
    """Defaults for the devices that meet all of its conditions; None: any will do."""

    memory_classes: Annotated[tuple[MemoryClass, ...], Field(strict=False)] = get_args(MemoryClass)
    integrated: bool | None = None
    compute_capabilities: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    figures: dict[str, Default]

    def covers(self, entry: CatalogueEntry) -> bool:
        """Whether the device meets the conditions."""
        capability = entry.attributes["compute_capability"].value
        return (
            entry.memory_class in self.memory_classes
            and self.integrated in (None, shares_memory(entry))
            and (self.compute_capabilities is None or capability in self.compute_capabilities)
        )


class Defaults(Record):
    """All of the file. `names`: the figures that no catalogue entry has, in words."""

    names: dict[str, Text]
    layers: Annotated[tuple[Layer, ...], Field(strict=False)]

    @field_validator("names")
    @classmethod
    def _are_new(cls, names: dict[str, str]) -> dict[str, str]:
        if twice := sorted(names.keys() & Figures.model_fields.keys()):
            raise ValueError(f"figures that no catalogue entry has, but it has {twice[0]}")
        return names

    @model_validator(mode="after")
    def _are_figures(self) -> Defaults:
        known = (*Figures.model_fields, *self.names)
        for layer in self.layers:
            for key, default in layer.figures.items():
                for name in (key, default.of or key):
                    if name not in known:
                        raise ValueError(f"figures of a device, but {name} is none{nearest(name, known)}")
        return self


def read(path: Path) -> Defaults:
    """The file's content. Raises `FileProblem` that names the first wrong key."""
    try:
        return Defaults.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        what = str(problem)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"]))
        what = f"{where or 'the file'}: {first['msg'].replace('Value error, ', 'expected ')}"
    raise FileProblem(
        f"{path}: {what}", next_step='Each figure is { value = ..., low = ..., high = ..., source = "..." }.'
    )


@lru_cache(maxsize=1)
def defaults() -> Defaults:
    """The file that comes with the program."""
    return read(PATH)


def default(name: str, entry: CatalogueEntry) -> Default | None:
    """The default for a figure of that device, or None: then its term is left out or declined."""
    layers = (layer for layer in reversed(defaults().layers) if name in layer.figures)
    return next((layer.figures[name] for layer in layers if layer.covers(entry)), None)


def host_slowdown(entry: CatalogueEntry) -> Default:
    """How much longer a compute-bound host stage may take on the device's CPU: a factor."""
    found = default("host_slowdown", entry)
    assert found is not None
    return found


def shares_memory(entry: CatalogueEntry) -> bool:
    """Whether CPU and GPU have one DRAM: all that CUDA calls integrated."""
    return bool(entry.attributes["integrated"].value)
