"""The process that records one of tests' scripts: started, or forked by the tests' server."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from advisor.measure.jobs import ScriptJob
from advisor.measure.recording.worker import record


def main(_: list[str]) -> None:
    """Records the script of the working directory's job."""
    directory = Path.cwd()  # the script may go elsewhere
    if torch := sys.modules.pop("torch", None):
        sys.meta_path.insert(0, Imported(torch))
    job = ScriptJob.model_validate_json((directory / "job.json").read_text())
    (directory / "record").write_text(record(job).model_dump_json())


class Imported(Loader, MetaPathFinder):
    """Gives a library that the server has, when the script imports it."""

    def __init__(self, library: ModuleType) -> None:
        self.library, self.spec = library, library.__spec__

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name == self.library.__name__ else None

    def create_module(self, _: ModuleSpec) -> ModuleType:
        return self.library

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
