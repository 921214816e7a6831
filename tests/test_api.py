"""The Python API: profiling from a program and from a notebook, loading, comparing, showing."""

from __future__ import annotations

import inspect
import linecache
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np
import pytest
from builders import cpu_profile, measured, profile
from every import every
from rendering import Accepted, refusals
from running import FILES, REPOSITORY, ran

import advisor
from advisor.api import Arguments, naming_arguments
from advisor.errors import AdvisorError, UsageError
from advisor.measure.options import OPTIONS

HEAD = """\
import numpy as np
from advisor import Buffer, In, Out, Workload, device, host, workload

"""
BODY = """\
@workload
def double(n: int = 64) -> Workload:
    def produce(a: Out, frame: int) -> None:
        a.fill(frame + OFFSET)

    def compute(xp, a: In, b: Out) -> None:
        xp.multiply(a, 2, out=b)

    def consume(b: In) -> None:
        assert b[0] >= 2 * OFFSET
        total(b)

    stages = [host(produce), device(compute), host(consume)]
    return Workload({name: Buffer(n, np.float32) for name in "ab"}, stages)
"""
HELPER = """\
def total(array):
    return float(array.sum()) * np.pi
"""
DOCUMENT = (REPOSITORY / "docs/api.md").read_text(encoding="utf-8")
FEW = {"strategies": ("pageable",), "targets": ("h200",), "rounds": 1, "max_seconds": 300.0}


def notebook(*cells: str, **given: Any) -> dict[str, Any]:
    """The names of a notebook's process after these cells, with their source where IPython keeps it."""
    scope: dict[str, Any] = {"__name__": "__main__", **given}
    for number, cell in enumerate(cells):
        name = f"/tmp/ipykernel_1/{abs(hash((number, cell)))}.py"
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        exec(compile(cell, name, "exec"), scope)
    return scope


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, from which modules are imported too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def profiled(workload: Any, parameters: Mapping[str, Any] | None = None, **options: Any) -> advisor.Profile:
    return advisor.profile(workload, parameters, no_gpu=True, quiet=True, **{**FEW, **options})


def test_a_file_by_its_path_and_what_to_conclude_by(here: Path) -> None:
    """A plain string is one name."""
    wishes = {"objective": "footprint", "memory_budget": "2GiB", "rules": {"zero-copy-reread.passes": 3}}
    names = {"strategies": "pageable", "targets": "h200", "ignore": "ping-pong-migration"}
    given = {"n": np.int64(32), "dtype": "float64", "factor": -0.1, "negative": True, "note": "a=b c"}
    found = profiled(FILES / "several.py::many", given, **wishes, **names)
    assert (found.workload.parameters, set(found.measured())) == (given, {"pageable"})
    assert {buffer.dtype for buffer in found.workload.buffers} == {"float64"}
    assert [p.device.name for p in found.predictions] == ["H200 SXM"]
    assert "several.py::many --set n=32 --set dtype=float64 " in found.command
    wanted = found.preferences
    assert wanted.ignored == {"ping-pong-migration": "advisor.profile"}
    assert (wanted.objective, wanted.memory_budget_bytes) == ("footprint", 2 << 30)
    assert wanted.thresholds == {"zero-copy-reread.passes": 3.0}
    assert list(here.iterdir()) == []


def test_a_function_of_an_imported_file_is_run_from_that_file(here: Path) -> None:
    (here / "doubling.py").write_text(f"{HEAD}OFFSET = 1\n{HELPER}\n{BODY}", encoding="utf-8")
    import doubling  # type: ignore[import-not-found]

    found = profiled(doubling.double, {"n": 16})
    assert (found.workload.file, found.workload.name) == ("doubling.py", "double")
    assert found.recommendation is not None or found.predictions


def test_a_cell_brings_what_it_uses_from_other_cells(here: Path) -> None:
    """Imports, a number and a function of earlier cells; a neighbour of the notebook; no call of the cell."""
    (here / "beside.py").write_text("PI = 3\n", encoding="utf-8")
    helper = "import beside\n" + HELPER.replace("np.pi", "beside.PI")
    found, again, other = (
        profiled(notebook(HEAD, f"OFFSET = {offset}", helper, BODY + more)["double"])
        for offset, more in ((2.5, "\nraised = False\n"), (2.5, ""), (3.5, ""))
    )
    assert (set(found.measured()), found.workload.file) == ({"pageable"}, "double.py")
    assert again.workload.sha256 == found.workload.sha256 != other.workload.sha256


WRONG: tuple[dict[str, Any], ...] = (
    *({"rounds": "a"}, {"targets": 3}, {"strategies": [3]}, {"parameters": [1]}),
    *({"rules": 3}, {"rules": {"nothing": 3}}, {"ignore": "nothing"}),
)


def test_what_no_other_process_can_run_and_wrong_arguments_are_refused(accepted: Accepted) -> None:
    @advisor.workload
    def inner() -> Any: ...

    calls: dict[str, Callable[[], object]] = {
        "a number": partial(profiled, 3),
        "a function within another": partial(profiled, inner),
        "the result of a workload": partial(profiled, notebook(HEAD, "OFFSET = 1", BODY)["double"]()),
        "against=3": partial(advisor.compare_versions, "w.py", against=3),  # type: ignore[arg-type]
    }
    scope = notebook(HEAD, HELPER, "table = np.arange(3)\nOFFSET = table", BODY)
    calls["what this process alone has"] = partial(profiled, scope["double"])
    for value in (" a ", None, [1], b"x"):
        calls[f"n={value!r}"] = partial(profiled, FILES / "counter.py", {"n": value})
    for option in WRONG:
        calls[f"{option}"] = partial(profiled, "w.py", **option)
    accepted(refusals(calls), "api-refused.txt")
    with pytest.raises(AdvisorError):  # unknown names are the worker's to tell
        profiled(notebook(HEAD + BODY.replace("double", "typed"))["typed"])


def test_profiling_while_the_file_is_imported_does_not_start_processes_without_end(tmp_path: Path) -> None:
    call = "import advisor\nadvisor.profile(double, no_gpu=True, rounds=1)\n"
    script = f"{HEAD}OFFSET = 1\n{HELPER}\n{BODY}\n{call}"
    (tmp_path / "w.py").write_text(script, encoding="utf-8")
    said = ran([sys.executable, "w.py"], tmp_path)
    assert said.returncode == 1
    assert "calls advisor.profile at import time" in said.stderr
    assert 'if __name__ == "__main__":' in said.stderr


def test_load_compare_and_show(tmp_path: Path) -> None:
    later = profile(created="2026-01-03T00:00:00+00:00", results=(measured("pageable", 0.060),))
    for name, made in (("a", profile()), ("b", later)):
        made.save(tmp_path / f"{name}.json")
    first, second = advisor.load(tmp_path / "a.json"), advisor.load(tmp_path / "b.json")
    found = first.compare(second)
    assert [(row.strategy, row.outcome) for row in found.rows] == [("pageable", "slower")]
    assert found.rows[0].ratio.value == pytest.approx(1.5)
    assert advisor.compare(first, second).rows == found.rows
    assert second.compare(first).rows[0].outcome == "faster"


def test_a_notebook_shows_the_report_in_a_frame_of_its_own() -> None:
    named = cpu_profile(workload=cpu_profile().workload.model_copy(update={"name": "<b>x"}))
    shown = advisor.Profile.of(named)._repr_html_()
    assert len(repr(advisor.Profile.of(named))) < 400
    assert str(advisor.Profile.of(named)) == repr(advisor.Profile.of(named))
    assert shown.count("<iframe") == 1
    assert 'sandbox="allow-scripts"' in shown
    assert "<b>" not in shown
    assert "<script" not in shown
    frame = shown.partition('srcdoc="')[2].partition('"')[0]
    assert "&lt;!doctype html&gt;" in frame
    assert "<" not in frame


@every(
    ("text", "argument"),
    [
        ("Raise --max-seconds 9, or add --set n=3.", "Raise max_seconds 9, or add parameters n=3."),
        ("Omit --fail-if, or add --anyway.", "Omit --fail-if, or add anyway."),
    ],
)
def test_an_option_in_a_message_becomes_an_argument(text: str, argument: str) -> None:
    with pytest.raises(UsageError) as told, naming_arguments():
        raise UsageError("wrong", next_step=text)
    assert told.value.next_step == argument


def test_its_parameters_are_the_options_that_a_program_has_a_use_for() -> None:
    """In `help`, for type checkers, and with the defaults of the command."""
    taken = {name: option for name, option in OPTIONS.items() if option.call}
    shown = inspect.signature(advisor.profile).parameters
    typed = get_type_hints(Arguments)
    assert list(typed) == list(shown)[2:]
    assert set(shown) == set(taken)
    for name, kind in typed.items():
        assert shown[name].default == taken[name].default
        assert shown[name].annotation == kind
        assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"`{name}`" in DOCUMENT, "docs/api.md"
    for function in (advisor.profile, advisor.compare_versions):
        with pytest.raises(TypeError, match="'round'"):
            function("w.py", round=3)  # type: ignore[operator]


def test_a_script_is_profiled_by_line(tmp_path: Path) -> None:
    lines = "import cupy\nfor n in range(4):\n    cupy.asarray([1.0, 2.0]).get()\n"
    (tmp_path / "s.py").write_text(lines, encoding="utf-8")
    profile = advisor.profile(tmp_path / "s.py", no_gpu=True, quiet=True)
    assert "memory can change" in repr(profile)
    with pytest.raises(UsageError, match="parameters applies only to workloads"):
        advisor.profile(tmp_path / "s.py", {"n": 4}, no_gpu=True, quiet=True)


def test_a_cell_runs_as_a_script_beside_the_notebook_s_modules(here: Path) -> None:
    (here / "own.py").write_text("import cupy, sys\nFRAMES = int(sys.argv[1])\n", encoding="utf-8")
    magics: dict[str, Any] = {}
    shell = SimpleNamespace(register_magic_function=lambda made, _, name: magics.update({name: made}))
    advisor.load_ipython_extension(shell)
    before = dict(os.environ)
    cell = "import own\nfor n in range(own.FRAMES):\n    own.cupy.asarray([1.0, 2.0]).get()\n"
    profile = magics["advisor"]("7", cell)
    assert profile.script.loops[0].frames == 7
    assert dict(os.environ) == before
    assert [path.name for path in here.iterdir()] == ["own.py"]
    with pytest.raises(UsageError, match="No closing quotation") as refused:
        magics["advisor"]("7 'x", cell)
    assert refused.value._render_traceback_() == [f"error: {refused.value}"]
