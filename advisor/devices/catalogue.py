"""The devices that can be predicted for: one TOML file each, every figure with its source beside it.

A user's own file has the same form (`load` takes its path). What has no source is left out of a file;
the model then takes a default for the memory class and says so.
"""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import Field, ValidationError, model_validator

from advisor.devices.memory_class import memory_class
from advisor.errors import FileProblem, UsageError
from advisor.profiles import Device, MemoryClass, Record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_TARGETS = ("orin-nano", "rtx-4090", "h200")
"""A Jetson, a desktop card and a data-centre card."""

_HOME = Path(__file__).parent

Positive = Annotated[float, Field(gt=0)]
Source = Annotated[str, Field(min_length=1)]


class Figure(Record):
    """A physical figure in the unit its name ends in, with its source.

    `low` and `high` are the range its sources span; without them the figure is one measurement.
    """

    value: Positive
    low: Positive | None = None
    high: Positive | None = None
    source: Source

    @model_validator(mode="after")
    def _is_ordered(self) -> Figure:
        low, high = self.low or self.value, self.high or self.value
        if not low <= self.value <= high:
            raise ValueError(f"low <= value <= high, but they are {low:g}, {self.value:g} and {high:g}")
        return self


class Attribute(Record):
    """A CUDA device attribute, with its source."""

    value: int | str
    source: Source


class Figures(Record):
    """What the model needs to know. All but the first two may be absent."""

    memory_bytes: Figure
    device_memory_bytes_per_second: Figure = Field(description="The memory's peak, as specified")
    achievable_share: Figure | None = Field(default=None, description="Of that peak, by a streaming kernel")
    l2_bytes: Figure | None = None
    l2_bytes_per_second: Figure | None = None
    flops_per_second: Figure | None = Field(default=None, description="32 bit arithmetic")
    pinned_to_device_bytes_per_second: Figure | None = None
    pinned_to_host_bytes_per_second: Figure | None = None
    pageable_to_device_bytes_per_second: Figure | None = None
    pageable_to_host_bytes_per_second: Figure | None = None
    zero_copy_read_bytes_per_second: Figure | None = Field(
        default=None, description="Kernels reading mapped host memory"
    )
    zero_copy_write_bytes_per_second: Figure | None = None
    host_read_bytes_per_second: Figure | None = Field(
        default=None, description="One CPU thread over memory it caches"
    )
    host_write_bytes_per_second: Figure | None = None
    host_copy_bytes_per_second: Figure | None = Field(default=None, description="Bytes copied, not moved")
    host_uncached_read_bytes_per_second: Figure | None = Field(
        default=None, description="One CPU thread over memory it does not cache"
    )
    host_uncached_write_bytes_per_second: Figure | None = None
    host_cache_bytes: Figure | None = Field(default=None, description="The CPU's largest cache")
    launch_seconds: Figure | None = None
    synchronize_seconds: Figure | None = None
    pageable_copy_call_seconds: Figure | None = Field(default=None, description="A copy of no bytes")
    pinned_copy_call_seconds: Figure | None = None
    fault_seconds: Figure | None = Field(default=None, description="One fault of managed memory, served")
    migration_bytes: Figure | None = Field(default=None, description="What one fault brings over")

    @model_validator(mode="after")
    def _shares_are_shares(self) -> Figures:
        share = self.achievable_share
        if share is not None and max(share.value, share.high or 0) > 1:
            raise ValueError(f"achievable_share of at most 1, but it is {share.high or share.value:g}")
        return self


class CatalogueEntry(Record):
    """One device: what it is, what follows from it, and how fast its paths are."""

    name: str
    memory_class: MemoryClass
    attributes: dict[str, Attribute]
    figures: Figures
    origin: str = Field(description="The slug, or the path of a user's file")

    @model_validator(mode="after")
    def _is_complete(self) -> CatalogueEntry:
        for key in ("integrated", "compute_capability"):
            if key not in self.attributes:
                raise ValueError(f"attributes.{key}, which is missing")
        capability = self.attributes["compute_capability"].value
        if not re.fullmatch(r"\d+\.\d+", str(capability)):
            raise ValueError(f'attributes.compute_capability as in "8.7", but it is {capability!r}')
        computed = memory_class(self._attributes())
        if computed != self.memory_class:
            raise ValueError(f"memory_class = {computed!r}: that follows from the attributes")
        if self.memory_class.startswith("discrete"):
            for key in ("pinned_to_device_bytes_per_second", "pinned_to_host_bytes_per_second"):
                if getattr(self.figures, key) is None:
                    raise ValueError(f"figures.{key}, which is missing: a card's link has no default")
        return self

    def _attributes(self) -> dict[str, int | float | str | bool]:
        return {key: attribute.value for key, attribute in self.attributes.items()}

    def device(self) -> Device:
        """The device as profiles hold it."""
        attributes = self._attributes()
        if self.figures.l2_bytes is not None:
            attributes["l2_cache_size"] = int(self.figures.l2_bytes.value)
        attributes["total_global_mem"] = int(self.figures.memory_bytes.value)
        return Device(name=self.name, kind="catalogue", memory_class=self.memory_class, attributes=attributes)


def names() -> tuple[str, ...]:
    """The slugs of the devices that come with the program."""
    return tuple(sorted(path.stem for path in _HOME.glob("*.toml")))


def load(name_or_path: str) -> CatalogueEntry:
    """An entry by its slug, in any case, or by the path of a TOML file.

    Raises `UsageError` for an unknown name, `FileProblem` for a file that is missing or wrong.
    """
    if name_or_path.endswith(".toml") or "/" in name_or_path:
        return _read(Path(name_or_path), name_or_path)
    slug = "-".join(name_or_path.lower().replace("_", " ").split())
    if slug in names():
        return _read(_HOME / f"{slug}.toml", slug)
    near = difflib.get_close_matches(slug, names(), n=3, cutoff=0.4)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise UsageError(
        f"there is no device {name_or_path!r} in the catalogue{hint}",
        next_step=f"Choose from {', '.join(names())}, or give the path of a .toml file of your own.",
    )


def _read(path: Path, origin: str) -> CatalogueEntry:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileProblem(
            f"{path} does not exist", next_step=f"Give a file's path, or one of {', '.join(names())}."
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise FileProblem(
            f"{path} cannot be read: {problem}",
            next_step=f"It must be TOML in the form of {_HOME / DEFAULT_TARGETS[0]}.toml.",
        ) from None
    return _validate(content, path, origin)


def _validate(content: dict[str, Any], path: Path, origin: str) -> CatalogueEntry:
    try:
        return CatalogueEntry.model_validate({**content, "origin": origin})
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("int", "str"))
        raise FileProblem(
            f"{path}: {where + ': ' if where else ''}{_expected(first)}",
            next_step=f"Compare with {_HOME / DEFAULT_TARGETS[0]}.toml; each figure is "
            '{ value = ..., source = "..." }, and what is not known is left out.',
        ) from None


def _expected(error: Any) -> str:
    if error["type"] == "value_error":
        return f"expected {error['ctx']['error']}"
    if error["type"] == "extra_forbidden":
        return "is not a key of a catalogue file"
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "literal_error":
        return f"expected one of {', '.join(get_args(MemoryClass))}, but it is {error['input']!r}"
    return f"expected {error['msg'].removeprefix('Input should be ')}, but it is {error['input']!r}"
