"""What the text of a workload's file says before anything of it is run: libraries to import once."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from running import asked

from advisor import pipeline
from advisor.errors import WorkloadError
from advisor.measure.processes import WORKERS
from advisor.workloads.outline import imported_early, targets


@pytest.mark.parametrize(
    ("text", "libraries"),
    [
        ("import torch.nn as nn", ["torch"]),
        ("def late():\n    from numba import cuda\n    import torch", ["torch", "numba"]),
        ("import numpy\nimport torchvision", []),
        ("import os, torch\nos.environ['OMP_NUM_THREADS'] = '1'", []),
        ("from os import environ\nimport torch", []),
        ("import torch(", []),
    ],
)
def test_slow_libraries_that_a_file_imports(text: str, libraries: list[str], tmp_path: Path) -> None:
    file = tmp_path / "workload.py"
    file.write_text(text, encoding="utf-8")
    assert imported_early(file) == libraries


@pytest.mark.parametrize("own", ["torch.py", "torch/__init__.py"])
def test_a_module_of_the_users_own_is_not_the_library(own: str, tmp_path: Path) -> None:
    (tmp_path / own).parent.mkdir(exist_ok=True)
    (tmp_path / own).touch()
    file = tmp_path / "workload.py"
    file.write_text("import torch, numba", encoding="utf-8")
    assert imported_early(file) == ["numba"]
    assert imported_early(tmp_path / "none.py") == []


def test_the_process_that_forks_a_run_s_workers_imports_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "workload.py"
    file.write_text("import torch", encoding="utf-8")
    monkeypatch.setattr(pipeline, "fork_server", nullcontext)
    with pipeline._launching(asked(file), None) as launcher:
        assert launcher.server == [*WORKERS, "torch"]


def test_a_package_without_workloads_is_named_as_a_script(tmp_path: Path) -> None:
    package = tmp_path / "camera"
    package.mkdir()
    for has_main, step in ((False, "Give the folder"), (True, "advisor profile -m camera.")):
        if has_main:
            (package / "__main__.py").touch()
        with pytest.raises(WorkloadError) as refused:
            targets(str(package))
        assert step in refused.value.next_step
