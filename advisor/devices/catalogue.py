"""The devices that can be predicted for: one TOML file each, every figure with its source beside it.

A user's own file has the same form (`load` takes its path). What has no source is left out of a file;
the model then takes a default for the memory class and says so.

Under Windows and WSL managed memory has no concurrent access: it moves whole before a launch, and neither has
HMM (CUDA Programming Guide 2.4, "Unified and System Memory").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from advisor.devices.entries import ATTRIBUTES, Attribute, CatalogueEntry, Figure, Figures
from advisor.errors import FileProblem, UsageError, nearest
from advisor.profiles.files import read_toml
from advisor.profiles.schema import MOST_GPUS
from advisor.texts import quoted, shortened

DEFAULT_TARGETS = ("orin-nano", "rtx-4090", "h200")
"""A Jetson, a desktop card and a data-centre card."""

_HOME = Path(__file__).parent
_SEVERAL = re.compile(r"([0-9]{1,6})x([^0-9].*)")
_TIMES = " x "
_VENDOR_WORDS = ("nvidia-", "jetson-", "geforce-", "tesla-")


@cache
def names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _HOME.glob("*.toml")))


def load(name_or_path: str) -> CatalogueEntry:
    """An entry by its slug, in any case and with or without "Jetson" and the like, or by a TOML file's path.

    2xh200 is two of one machine; of a file of your own, its `gpus` says how many.

    Raises `UsageError` for an unknown name, `FileProblem` for a file that is missing or wrong.
    """
    if name_or_path.endswith(".toml") or "/" in name_or_path:
        return _read(Path(name_or_path), name_or_path)
    slug = "-".join(name_or_path.lower().replace("_", " ").split())
    for word in _VENDOR_WORDS:
        slug = slug.removeprefix(word)
    if slug in names():
        return _shipped(slug)
    if several := _SEVERAL.fullmatch(slug):
        return _times(int(several[1]), load(several[2]))
    raise UsageError(
        f"there is no device {name_or_path!r} in the catalogue{nearest(slug, names(), 3)}",
        next_step="`advisor devices` lists them. Or give the path of your own .toml file.",
    )


def named(device: str | None) -> CatalogueEntry | None:
    """The entry of a card as its driver names it (NVIDIA A100-SXM4-80GB); None if in doubt.

    A Grace Hopper's name has the size of its CPU's memory.
    """
    words, size = _words(device or "")
    alike = (load(name) for name in names() if words & set(name.split("-")))
    named_so = [(entry, of) for entry in alike for its, of in [_words(entry.name)] if its == words]
    matches = [e for e, of in named_so if "" in (size, of) or of == size or e.memory_class == "coherent"]
    return matches[0] if len(matches) == 1 else None


_COMMON = r"\(.*?\)|\d+ ?GB|HBM\w*|SXM\d?|\b(NVIDIA|GeForce|Tesla|GPU|Generation)\b"
"""Words that names of different cards have in common."""


def _words(name: str) -> tuple[set[str], str]:
    """The words that distinguish one card from another, and the size of its memory."""
    size = re.search(r"(\d+) ?GB", name, re.IGNORECASE)
    own = re.sub(_COMMON, " ", name, flags=re.IGNORECASE).lower()
    return set(re.findall(r"[^\s-]+", own)), size[1] if size else ""


def of_device(name: str) -> CatalogueEntry | None:
    """The entry of the catalogue for a device's name, or for several of it; None if there is none."""
    count, _, one = name.rpartition(_TIMES)
    match = next((entry for entry in map(load, names()) if entry.device().name == one), None)
    return _times(int(count), match) if match and count else match


def _times(count: int, entry: CatalogueEntry) -> CatalogueEntry:
    """A device several times. Raises `UsageError` for none, and for more than a workload can have."""
    if not 1 <= count <= MOST_GPUS:
        raise UsageError(
            f"{count}x{entry.origin} is not a target: there can be 1 to {MOST_GPUS} GPUs",
            next_step=f"Write 2x{entry.origin} for two.",
        )
    if count == 1:
        return entry
    changed = {"gpus": count, "name": f"{count}{_TIMES}{entry.name}", "origin": f"{count}x{entry.origin}"}
    return entry.model_copy(update=changed)


@cache
def _shipped(slug: str) -> CatalogueEntry:
    return _read(_HOME / f"{slug}.toml", slug)


def _read(path: Path, origin: str) -> CatalogueEntry:
    try:
        content = read_toml(path)
    except FileNotFoundError:
        raise FileProblem(
            f"{path} does not exist", next_step=f"Give the path of a file, or one of {', '.join(names())}."
        ) from None
    except (OSError, ValueError) as problem:
        why = (problem.strerror or str(problem)).lower() if isinstance(problem, OSError) else problem
        step = f"It must be a TOML file like {_HOME / DEFAULT_TARGETS[0]}.toml."
        raise FileProblem(f"{path} cannot be read: {why}", next_step=step) from None
    wrong = "origin: is not a key of a catalogue file"
    if "origin" not in content:
        try:
            return CatalogueEntry.model_validate({**content, "origin": origin})
        except ValidationError as problem:
            wrong = invalid(problem)
    raise FileProblem(
        f"{path}: {wrong}",
        next_step=f"Compare with {_HOME / DEFAULT_TARGETS[0]}.toml; each figure is "
        '{ value = ..., source = "..." }, omit unknown figures.',
    )


def invalid(problem: ValidationError) -> str:
    """The first thing that is wrong, with its key, and how much more there is."""
    errors = problem.errors()
    # A key that is misspelt is missing too: the misspelling says more.
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")
    where = shortened(".".join(str(part) for part in first["loc"] if part not in ("int", "str")))
    more = len({error["loc"][:2] for error in errors}) - 1
    rest = f" (and {more} more to fix)" if more else ""
    return f"{where + ': ' if where else ''}{_expected(first)}{rest}"


def _expected(error: Any) -> str:
    kind, value = error["type"], quoted(error["input"])
    if kind == "value_error":
        return f"expected {error['ctx']['error']}"
    if kind == "extra_forbidden":
        return f"is not a key of a catalogue file{_meant(str(error['loc'][-1]), error['loc'])}"
    if kind == "missing":
        return "is missing"
    if kind in ("model_type", "dict_type"):
        example = ' as in { value = 68e9, source = "data sheet" }' if len(error["loc"]) > 1 else ""
        return f"expected a table{example}, but it is {value}"
    return f"expected {error['msg'].removeprefix('Input should be ')}, but it is {value}"


def _meant(key: str, loc: tuple[int | str, ...]) -> str:
    """Where an unknown key belongs, or the known ones that are like it."""
    table = "figures" if key in Figures.model_fields else "attributes" if key in ATTRIBUTES else None
    if table and table != loc[0]:
        return f"; it belongs under [{table}]" if len(loc) < 3 else ""
    known: Iterable[str] = Figures.model_fields if len(loc) == 2 else Figure.model_fields
    if len(loc) == 1:
        known = (name for name in CatalogueEntry.model_fields if name != "origin")
    elif loc[0] == "attributes":
        known = Attribute.model_fields
    return nearest(key, known, 3)


System = Literal["linux", "windows", "wsl"]

_NAMES: dict[System, str] = {"linux": "Linux", "windows": "Windows", "wsl": "WSL"}
_LACKING = ("concurrent_managed_access", "pageable_memory_access")
_SOURCE = "CUDA Programming Guide 2.4, Unified and System Memory: 0 on Windows and WSL"


def default_targets(system: System, gpus: int = 1) -> tuple[str, ...]:
    """The devices to predict for where none is named: those that run the system and can have so many GPUs."""
    if system == "linux" and gpus == 1:
        return DEFAULT_TARGETS
    cards = (name for name in DEFAULT_TARGETS if not load(name).attributes["integrated"].value)
    return tuple(f"{gpus}x{card}" if gpus > 1 else card for card in cards)


def under(entry: CatalogueEntry, system: System) -> CatalogueEntry:
    """The entry as that system has it. Raises `UsageError` where the device does not run it."""
    if system == "linux":
        return entry
    if entry.attributes["integrated"].value or entry.memory_class == "coherent":
        step = "Omit --os, or give a card with --target."
        raise UsageError(f"--os {system} does not fit {entry.name}, which runs Linux only", next_step=step)
    if "total_global_mem" in entry.attributes:
        wrong = f"--os {system} does not fit {entry.origin}: its figures were measured on one system"
        step = f"Omit --os, and calibrate on the machine with {_NAMES[system]}."
        raise UsageError(wrong, next_step=step)
    lacking = {name: Attribute(value=0, source=_SOURCE) for name in _LACKING}
    attributes = {**entry.attributes, **lacking}
    changed = {"name": f"{entry.name} ({_NAMES[system]})", "origin": f"{entry.origin} --os {system}"}
    return entry.model_copy(update={**changed, "attributes": attributes, "memory_class": "discrete"})
