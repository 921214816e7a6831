"""Loading a user's file: every way it can be wrong has one clear message."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest
from rendering import Accepted, refusals
from running import asked, missing

from advisor import pipeline
from advisor.errors import WorkloadError
from advisor.measure.processes import WORKERS
from advisor.workloads.loading import Loaded, load, user_traceback
from advisor.workloads.outline import imported_early, is_script, targets
from advisor.workloads.starters import template

HEAD = """\
import numpy as np
from advisor import Buffer, In, Out, Workload, device, host, workload

def produce(a: Out): a.fill(1)
"""
RETURN = 'return Workload({"a": Buffer(n, np.float32)}, frame=[host(produce)])'
ONE = f'{HEAD}\n@workload\ndef one(n: int = 4):\n    """The first."""\n    {RETURN}\n'
TWO = f'{ONE}\n@workload\ndef two(n: int = 4):\n    """The second.\n\n    At length."""\n    {RETURN}\n'


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def written(folder: Path, text: str, name: str = "sample.py") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(dedent(text), encoding="utf-8")
    return path


def refused(path: Path, name: str | None = None, **settings: str) -> WorkloadError:
    with pytest.raises(WorkloadError) as raised:
        load(path, name, settings)
    assert raised.value.next_step
    assert "advisor/loading.py" not in raised.value.detail
    return raised.value


def test_a_workload_is_loaded_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, ONE)
    (tmp_path / "elsewhere").mkdir()
    names = {"elsewhere": "sample.py", "..": f"{tmp_path.name}/sample.py", ".": "sample.py"}
    for folder, name in names.items():
        monkeypatch.chdir(tmp_path / folder)
        loaded = load(path, None, {"n": "2**3"})
        assert loaded.record.file == name
    record = loaded.record
    assert (record.name, record.summary) == ("one", "The first.")
    assert record.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert record.parameters == {"n": 8}
    assert record.buffers[0].bytes == 32
    assert [stage.name for stage in record.stages] == ["produce"]
    assert loaded.bound.frame[0].access == {"a": "out"}


def test_the_example_of_the_message_works(tmp_path: Path) -> None:
    path = written(tmp_path, template("minimal.txt"))
    loaded: Loaded = load(path, "double", {})
    assert [stage.side for stage in loaded.bound.frame] == ["host", "device", "host"]


def test_a_syntax_error_shows_its_file_and_line(tmp_path: Path) -> None:
    path = written(tmp_path, "x = 1\ndef f(:\n")
    error = refused(path)
    assert not missing(error.message, str(path), "line 2")
    assert f'File "{path}", line 2' in error.detail
    assert "def f(:" in error.detail
    assert "Traceback" not in error.detail
    written(tmp_path, "def f(:\n", "neighbour_with_error.py")
    error = refused(written(tmp_path, "import neighbour_with_error\n"))
    assert not missing(error.message, "neighbour_with_error.py", "line 1")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("bytes([255]).decode()", "UnicodeDecodeError"),
    ],
)
def test_what_is_raised_on_import_is_shown_as_the_users(tmp_path: Path, line: str, kind: str) -> None:
    path = written(tmp_path, f"# first\n{line}\n")
    error = refused(path)
    assert error.message == f"importing {path} raised {kind}"
    assert str(path) in error.next_step
    lines = error.detail.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{path}", line 2, in <module>'
    assert lines[2].strip() == line
    assert lines[-1].startswith(kind)
    (tmp_path / "link.py").symlink_to(path)
    assert "Traceback" in refused(tmp_path / "link.py").detail


NO_WORKLOAD = {
    "a generator": "@workload\ndef make(): yield 1",
    "a number": "make = workload(lambda: 3)",
    "nothing": "@workload\ndef one(): pass",
    "a dtype that is none": (
        "from advisor import Buffer, Workload, host\nimport numpy as np\n@workload\ndef make():\n"
        "    return Workload({'good': Buffer(4, 'f4'), 'bad': Buffer(4, 'f33')}, [host(print)])"
    ),
    "an error of ours": "from advisor import host\nhost(print, every=0)",
    "no CuPy": "raise ModuleNotFoundError(name='cupy')",
    "no workload": "x = 1",
}


def test_what_is_no_workload_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepted: Accepted
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = {}
    for number, (name, text) in enumerate(NO_WORKLOAD.items()):
        path = written(Path(), f"from advisor import workload\n{text}\n", f"file{number}.py")
        calls[name] = partial(load, path, None, {})
    two = written(Path(), TWO)
    for name in (None, "tow", "qqq"):
        calls[f"sample.py::{name}"] = partial(load, two, name, {})
    for missing_file in ("sampel.py", "nowhere/x", "."):
        calls[missing_file] = partial(load, Path(missing_file), None, {})
    for package, file in (("without", "helper.py"), ("camera", "__main__.py")):
        written(Path(package), "x = 1", file)
        calls[f"{package}/"] = partial(targets, package)
    accepted(refusals(calls), "workloads-refused.txt")
    assert load(two, "two", {}).record.name == "two"


@pytest.mark.parametrize("statement", ["exit(2)", "np.zeros(-1)"])
def test_a_workload_function_that_raises(tmp_path: Path, statement: str) -> None:
    path = written(tmp_path, f"{HEAD}\n@workload\ndef one(n: int = 4):\n    {statement}\n")
    error = refused(path)
    assert error.message.startswith("workload 'one' raised ")
    assert error.detail.splitlines()[1] == f'  File "{path}", line 8, in one'


def test_the_traceback_of_a_decorator_beside_the_users_file(tmp_path: Path) -> None:
    """A wrapper that fails before it calls the stage: no frame of the user's file is on the stack."""
    decorator = """\
        import functools
        def checked(function):
            @functools.wraps(function)
            def wrapper(**arguments):
                raise RuntimeError("in the wrapper")
            return wrapper
        """
    written(tmp_path, decorator, "decorators_of_mine.py")
    text = f"from decorators_of_mine import checked\n{ONE}".replace("def produce", "@checked\ndef produce")
    path = written(tmp_path, text)
    function = load(path, None, {}).bound.frame[0].stage.function
    with pytest.raises(RuntimeError) as raised:
        function(a=None)
    shown = user_traceback(raised.value, path).splitlines()
    assert shown[0] == "Traceback (most recent call last):"
    assert shown[1] == f'  File "{tmp_path / "decorators_of_mine.py"}", line 5, in wrapper'
    assert "test_loading" not in "\n".join(shown)


@pytest.mark.parametrize("place", ["loop.py", "package/inner/loop.py"])
def test_a_file_is_a_script_where_what_it_imports_beside_it_uses_cupy(tmp_path: Path, place: str) -> None:
    module = tmp_path / place
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text("import cupy\n")
    main = written(tmp_path, f"from {Path(place).parts[0].removesuffix('.py')} import main\n", "main.py")
    assert is_script(main, None, ())
    module.write_text("import numpy\n")
    assert not is_script(main, None, ())


# What the text of a file says before it runs


@pytest.mark.parametrize(
    ("text", "own", "libraries"),
    [
        ("import torch.nn as nn", "", ["torch"]),
        ("def late():\n    from numba import cuda\n    import torch", "", ["torch", "numba"]),
        ("import numpy\nimport torchvision", "", []),
        ("import os, torch\nos.environ['OMP_NUM_THREADS'] = '1'", "", []),
        ("from os import environ\nimport torch", "", []),
        ("import torch(", "", []),
        ("import torch, numba", "torch.py", ["numba"]),
        ("import torch, numba", "torch/__init__.py", ["numba"]),
    ],
)
def test_slow_libraries_that_a_file_imports(
    text: str, own: str, libraries: list[str], tmp_path: Path
) -> None:
    """A module of the user's own, beside the file, is not the library."""
    if own:
        (tmp_path / own).parent.mkdir(exist_ok=True)
        (tmp_path / own).touch()
    assert imported_early(written(tmp_path, text)) == libraries
    assert imported_early(tmp_path / "none.py") == []


def test_the_process_that_forks_a_run_s_workers_imports_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "workload.py"
    file.write_text("import torch", encoding="utf-8")
    monkeypatch.setattr(pipeline, "fork_server", nullcontext)
    with pipeline._launching(asked(file), None) as launcher:
        assert launcher.server == [*WORKERS, "torch"]
