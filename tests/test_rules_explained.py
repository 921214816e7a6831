"""`advisor rules` and `advisor rules ID`: every rule in the list, with bad and good code and an example."""

from __future__ import annotations

import ast
import builtins
import importlib
import io
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every import every
from rendering import Accepted
from running import Command

from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from advisor.rules.advise import advise
from advisor.rules.base import Rule, Threshold, path, read
from advisor.rules.registry import RULES, by_id, describe, explain, overview
from advisor.rules.snippets.libraries import opening
from advisor.strategies.arena import nodes

HERE = Path(__file__).parent
MEASURED = tuple(HERE / "data" / f"h200-{name}.json" for name in ("vector_add", "reread-8"))
TESTS = tuple(sorted(path.stem for path in HERE.glob("test_rules*.py")))


def examples_of(rule_id: str) -> list[str]:
    """What the rule advises on these runs, as its `example` has it."""
    runs = [(f"{run.workload.name} on {run.device.name}, measured", run) for run in map(_advised, MEASURED)]
    own = HERE / "data" / "rules" / f"{rule_id}.json"
    tests = (getattr(importlib.import_module(name), "EXAMPLES", {}).get(rule_id) for name in TESTS)
    made = (_advised(own) if own.exists() else None, *tests)
    runs += [(f"{run.device.name}, made-up figures", advise(run)) for run in made if run is not None]
    advice = ((told, one) for told, run in runs for one in run.advice if one.rule == rule_id)
    whole = [f"{told}: {one.detail}" for told, one in advice if one.outcome == "advice"]
    lines = importlib.import_module("test_rules_lines")
    if whole or rule_id not in lines.RUNS:
        return whole
    said = lines.said(lines.RUNS[rule_id], device=lines.ON.get(rule_id, lines.CARD))  # of a script's line
    return [f"camera.py, made-up figures: {said[rule_id].detail}"]


@cache
def _advised(path: Path) -> Profile:
    return advise(load(path))


DOCUMENT = Path(__file__).parent.parent / "docs" / "rules.md"
STAGES = {"produce", "compute"}
HOMES = {"np": "numpy", "runtime": "cuda.bindings.runtime", "cupyx": "cupyx.profiler"}
ROOTS = {"cupy", "cupyx", "np", "pynvml", "runtime"}
ACCEPT = "accept with: python -m pytest tests/test_rules_explained.py --accept"


def test_the_examples_are_what_the_rules_say_of_runs(request: pytest.FixtureRequest) -> None:
    """Of several runs, one that was measured comes first."""
    for rule in RULES:
        said = examples_of(rule.id)
        if request.config.getoption("--accept") and rule.text.example not in said:
            text = path(rule.id).read_text(encoding="utf-8").partition("## Example\n")[0]
            example = textwrap.fill(said[0], 110, break_long_words=False, break_on_hyphens=False)
            path(rule.id).write_text(f"{text}## Example\n\n{example}\n", encoding="utf-8")
            assert read(rule.id).example in said
        else:
            assert rule.text.example in said, ACCEPT


def test_the_document_is_made_of_the_rules_texts(request: pytest.FixtureRequest) -> None:
    head = DOCUMENT.read_text(encoding="utf-8").partition("\n## `")[0]
    now = "\n".join((head, *map(describe, RULES)))
    if request.config.getoption("--accept"):
        DOCUMENT.write_text(now, encoding="utf-8")
    assert now == DOCUMENT.read_text(encoding="utf-8"), ACCEPT


@pytest.mark.parametrize("rule_id", ["zero-copy-reread", "missing-synchronisation"])
def test_a_rule_is_explained_as_accepted(rule_id: str, accepted: Accepted) -> None:
    accepted(explain(by_id(rule_id)) + "\n", f"rule-{rule_id}.txt")


def test_every_rule_is_explained_with_code_and_an_example() -> None:
    for rule in RULES:
        text = explain(rule)
        assert rule.text.bad != rule.text.good
        for label, code in (("Bad", rule.text.bad), ("Good", rule.text.good)):
            assert 2 <= len(code.splitlines()) <= 8
            assert max(map(len, code.splitlines())) <= 76
            assert f"\n{label}:\n\n{textwrap.indent(code, '    ')}\n" in text
            bare = {name for name in called(code) if "." not in name} - {*vars(builtins), *STAGES, "Path"}
            assert all(f"def {name}(" in opening(code) for name in bare)
        assert rule.text.explanation
        assert rule.text.sources
        assert all(threshold.source for threshold in rule.text.thresholds)
        prose = [line for line in text.splitlines() if not line.startswith("    ")]
        assert [line for line in prose if len(line) > 80 and "- http" not in line] == []


def called(code: str) -> Iterator[str]:
    """The dotted names that the code uses, the longest of each."""
    tree = ast.parse(code)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner and "(" not in ast.unparse(node):
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


CODE = [code for rule in RULES for code in (rule.text.bad, rule.text.good)]


@pytest.mark.parametrize(
    "name", sorted({n for code in CODE for n in called(code) if n.partition(".")[0] in ROOTS})
)
def test_the_library_has_what_the_code_calls(name: str) -> None:
    root, *parts = name.split(".")
    found = pytest.importorskip(HOMES.get(root, root))
    found = sys.modules[root] if root == "cupyx" else found
    for part in parts:
        found = getattr(found, part)


@pytest.mark.gpu
@pytest.mark.parametrize("which", ["bad", "good"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_the_code_runs_on_a_gpu(
    rule: Rule, which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With arrays of the names that it uses, and stages of one kernel."""
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("no usable GPU")
    code, there = getattr(rule.text, which), cupy.cuda.runtime.getDeviceCount()
    if rule.text.several_gpus and there < 2:
        pytest.skip(f"needs two GPUs; CUDA sees {there}")
    if "numactl" in code and not (shutil.which("numactl") and len(nodes()) > 1):
        pytest.skip("numactl is missing, or a second NUMA node")
    monkeypatch.chdir(tmp_path)
    Path("pipeline.py").touch()
    Path("timed.py").write_text("print(0.5)")
    exec(f"{opening(code)}\n{code}", around(cupy, "pynvml" in code))
    cupy.cuda.Device().synchronize()


def around(cupy: Any, nvml: bool) -> dict[str, Any]:
    """What the user's program has where the code stands."""
    from cuda.bindings import runtime
    from cupyx import empty_pinned, profiler  # noqa: F401

    shape = (1 << 10, 256)
    pinned = [empty_pinned(shape, np.float32) for _ in range(3)]
    ones = np.ones(shape, np.float32)
    modules = {"cupy": cupy, "cupyx": sys.modules["cupyx"], "np": np, "runtime": runtime, "sys": sys}
    if nvml:
        modules["pynvml"] = pytest.importorskip("pynvml")
        modules["pynvml"].nvmlInit()
    stages = {"produce": lambda array: array.fill(1), "compute": lambda array: cupy.add(array, 1, out=array)}
    numbers = {"frames": 2, "size": ones.nbytes, "total": 10 << 20, "rows": 300, "gain": 2.0, "offset": 1.0}
    arrays = {f"host_{name}": np.ones(256, np.float32) for name in ("gain", "offset", "scale")}
    arrays |= {"host": pinned[0], "batches": pinned[1:], "device": cupy.zeros(shape, np.float32)}
    arrays |= {"data": ones, "image": ones.copy(), "raw": ones.copy(), "terms": [ones, ones]}
    arrays |= {"source": io.BytesIO(bytes(10 << 20)), "indices": cupy.arange(0, 1 << 10, 7), "shape": shape}
    modules |= {"subprocess": subprocess, "Path": Path, "stream": cupy.cuda.get_current_stream()}
    return modules | stages | numbers | arrays


def test_the_list_has_every_rule_with_its_classes(command: Command) -> None:
    said = command("rules")
    assert said.code == 0
    assert said.out == overview(RULES) + "\n"
    assert max(map(len, said.out.splitlines())) <= 80
    flat = " ".join(said.out.split())
    assert all(f"{rule.id}: {rule.text.title}, on " in flat for rule in RULES)


@every(
    ("unit", "value", "text"),
    [("bytes", 4 << 20, "4.00 MiB"), ("bytes", float("inf"), "inf"), ("seconds", 1e-5, "1e-05 s")],
)
def test_a_threshold_is_written_with_its_unit(unit: str, value: float, text: str) -> None:
    assert Threshold("x", 1.0, unit, "", "").written(value) == text  # type: ignore[arg-type]
