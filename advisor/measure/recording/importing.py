"""Modules of the user's get their loops counted as they are imported; GPU libraries get their recorder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from advisor.measure.recording.lines import OwnFiles
from advisor.measure.recording.loops import Loops


class _Counted(SourceFileLoader):
    """Compiles a module of the user's with its loops counted; no bytecode is read or written."""

    def __init__(self, name: str, path: str, loops: Loops) -> None:
        super().__init__(name, path)
        self._loops = loops

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self._loops.compiled(self.get_data(path), path)


class _Given(Loader):
    """Loads a module that is there already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, _: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None: ...


class Finder(MetaPathFinder):
    """Goes before Python's own finders.

    installs: what to call once a library is imported. plays: what is called before, and may give a module in
    its place.
    """

    def __init__(
        self,
        own: OwnFiles,
        loops: Loops,
        installs: Mapping[str, Callable[[ModuleType], None]],
        plays: Mapping[str, Callable[[], ModuleType | None]],
    ) -> None:
        self._own, self._loops, self._installs, self._plays = own, loops, dict(installs), dict(plays)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if (play := self._plays.pop(name, None)) and (module := play()) is not None:
            spec: ModuleSpec | None = ModuleSpec(name, _Given(module), is_package=True)
        else:
            spec = self._others(name, path, target)
        if spec is None:
            return None
        if name in self._installs and spec.loader is not None:
            _afterwards(spec, self._installs.pop(name))
            return spec
        if type(spec.loader) is SourceFileLoader and spec.origin and spec.origin in self._own:
            spec.loader = _Counted(name, spec.origin, self._loops)
            spec.cached = None
        return spec

    def _others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        """What the next finder says: a library may have one of its own, as numba-cuda has."""
        finders = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in finders)
        return next((spec for spec in specs if spec is not None), None)

    def install_imported(self) -> None:
        """For libraries that are there already."""
        for name in [name for name in self._installs if name in sys.modules]:
            self._installs.pop(name)(sys.modules[name])


def _afterwards(spec: ModuleSpec, install: Callable[[ModuleType], None]) -> None:
    """Has a loader call `install` once the module is whole."""
    loader: Any = spec.loader
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        run(module)
        install(module)

    loader.exec_module = exec_module
