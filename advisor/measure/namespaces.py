"""Versions of the user's code apart from one another: modules, import paths, a folder.

A version's own modules are all that it imports from outside the libraries' folders, so two versions of
`helpers.py` never meet in `sys.modules`. Of a version that is a checkout of its own, what would be found in
the user's (by PYTHONPATH, an editable install, the working directory) is found in the same place there.
"""

from __future__ import annotations

import builtins
import csv
import importlib.machinery
import inspect
import json
import os
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.util import spec_from_file_location
from pathlib import Path, PurePosixPath
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from advisor.measure.jobs import Tree
from advisor.texts import listed
from advisor.workloads.loading import MODULE_PREFIX

_OURS = "advisor"
OUR_FOLDER = Path(__file__).resolve().parents[1]
_NO_WORKLOADS = (f"{OUR_FOLDER}/", f"{Path(np.__file__).parent}/", "<")
_PACKAGES = {"site-packages", "dist-packages"}
"""Where packages are installed, in whatever prefix: ROS has its own in PYTHONPATH."""
Spec = importlib.machinery.ModuleSpec


@dataclass
class Namespace:
    """The modules of one version; they are in `sys.modules` while it is entered."""

    tree: Tree | None = None
    modules: dict[str, ModuleType] = field(default_factory=dict)
    path: list[str] | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        around, path = dict(sys.modules), list(sys.path)
        finder = _Moved(self.tree) if self.tree else None
        sys.modules.update(self.modules)
        if self.path is not None:
            sys.path[:] = self.path
        if finder:
            sys.meta_path.insert(0, finder)
        try:
            with beginning_in(Path(self.tree.folder)) if self.tree else nullcontext():
                yield
        finally:
            self.modules = {n: m for n, m in list(sys.modules.items()) if n not in around and _is_own(n, m)}
            for name in self.modules:
                del sys.modules[name]
            self.path, sys.path[:] = list(sys.path), path
            if finder:
                sys.meta_path.remove(finder)


def compiled() -> tuple[str, ...]:
    """Compiled extensions among the user's modules that are there: a process may not hold two of one name."""
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    there = ((name, module) for name, module in list(sys.modules.items()) if _is_own(name, module))
    return tuple(name for name, module in there if str(_origin(module) or "").endswith(suffixes))


def _is_own(name: str, module: object) -> bool:
    """Whether a module is the user's; one without a file is not."""
    if name.startswith(MODULE_PREFIX):
        return True
    places = [_origin(module)] if _origin(module) else list(_fact(module, "__path__") or ())
    return bool(places) and all(is_users(str(place)) for place in places)


def _origin(module: object) -> str | None:
    file = _fact(module, "__file__")
    return file if isinstance(file, str) else None


def _fact(module: object, name: str) -> Any:
    """The module's own attribute; a lazy module imports others when asked for one that it lacks."""
    return getattr(module, "__dict__", {}).get(name)


@cache
def is_users(place: str) -> bool:
    """Whether code is the user's: neither ours, nor a library's, nor generated (`<string>`)."""
    return not (place.startswith("<") or is_library(place) or Path(place).is_relative_to(OUR_FOLDER))


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The nearest frame of the user's code, from this one outwards; else of a library, for workloads that are
    installed."""
    library = None
    while frame is not None and not is_users(file := frame.f_code.co_filename):
        library = library or (None if file.startswith(_NO_WORKLOADS) else frame)
        frame = frame.f_back
    return frame or library


@cache
def is_library(place: str) -> bool:
    """Whether it is in the standard library or of an installed package, be it another prefix's or in a folder
    of its own (`pip install --target`)."""
    path = Path(place)
    if not _PACKAGES.isdisjoint(path.parts) or any(path.is_relative_to(folder) for folder in _LIBRARIES):
        return True
    return any(path.relative_to(folder).as_posix() in _recorded(folder) for folder in path.parents)


@cache
def _recorded(folder: Path) -> frozenset[str]:
    """Files of the distributions that were installed into this folder, and the folders that these are in. By
    their RECORD, which an installer alone writes: a checkout has none, and that of an editable install lists
    none of the checkout's files."""
    files: set[PurePosixPath] = set()
    with suppress(OSError):
        for record in folder.glob("*.dist-info/RECORD"):
            rows = csv.reader(record.read_text(encoding="utf-8", errors="replace").splitlines())
            files.update(PurePosixPath(row[0]) for row in rows if row and not row[0].startswith(("/", "..")))
    folders = {parent for file in files for parent in file.parents}
    return frozenset(str(each) for each in (files | folders) - {PurePosixPath(".")})


_STANDARD = {Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib")}
_LIBRARIES = (*_STANDARD, *(folder.resolve() for folder in _STANDARD))


class _Moved(MetaPathFinder):
    def __init__(self, tree: Tree) -> None:
        self.user, self.checkout = Path(tree.user).resolve(), Path(tree.checkout).resolve()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Spec | None:
        if name.partition(".")[0] == _OURS:
            return None
        others = (each for each in sys.meta_path if each is not self and hasattr(each, "find_spec"))
        spec = next(filter(None, (each.find_spec(name, path, target) for each in others)), None)
        if spec is None or not (spec.has_location or spec.submodule_search_locations):
            return spec
        folders = [self._there(Path(folder)) for folder in spec.submodule_search_locations or ()]
        if not spec.has_location:
            spec.submodule_search_locations = [str(folder) for folder in folders if folder.exists()]
            return spec
        here = Path(str(spec.origin)).resolve()
        there = self._there(here)
        if there == here:
            return spec
        if not there.is_file():
            raise ModuleNotFoundError(
                f"No module named {name!r} in this version: the checkout does not contain "
                f"{here.relative_to(self.user)}",
                name=name,
            )
        packages = [*map(str, folders)] if spec.submodule_search_locations else None
        return spec_from_file_location(name, there, submodule_search_locations=packages)

    def _there(self, path: Path) -> Path:
        path = path.resolve()
        if path.is_relative_to(self.checkout) or is_library(str(path)) or not path.is_relative_to(self.user):
            return path
        return self.checkout / path.relative_to(self.user)


def same_folder(user: Path, checkout: Path) -> Path:
    """The working directory's place in the checkout; itself where it lies elsewhere or is not there."""
    here = Path.cwd().resolve()
    there = checkout / here.relative_to(user.resolve()) if here.is_relative_to(user.resolve()) else here
    return there if there.is_dir() else here


_START: list[Path] = []


def start_here() -> None:
    """Remembers the working directory, to which the paths of a job are relative."""
    with suppress(OSError):
        _START[:] = [Path.cwd()]


@contextmanager
def beginning_in(folder: Path) -> Iterator[None]:
    """Makes a folder the working directory within, and where `back_to_start` goes."""
    start, here = list(_START), Path.cwd()
    _START[:] = [folder]
    back_to_start()
    try:
        yield
    finally:
        _START[:] = start
        os.chdir(here)


def back_to_start() -> None:
    """Goes back to it; the user's code may have gone elsewhere."""
    with suppress(OSError):
        for start in _START:
            os.chdir(start)


_NEEDED: tuple[ModuleType | type, ...] = (
    *(builtins, os, time, json, inspect, threading, traceback, np),
    Path,
)


class ModuleSnapshot:
    """Attributes of the modules that a worker needs, before the user's code may replace them."""

    def __init__(self) -> None:
        self._before = [dict(vars(module)) for module in _NEEDED]

    def restore(self) -> str:
        """Puts back what was replaced or removed; its names, as in a message, or nothing."""
        names = []
        for module, before in zip(_NEEDED, self._before, strict=True):
            now = vars(module)
            changed = [name for name, value in before.items() if now.get(name) is not value]
            for name in changed:
                setattr(module, name, before[name])
            names += [f"{module.__name__}.{name}" for name in changed]
        return listed(names, 3)
