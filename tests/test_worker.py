"""What a worker checks before it believes a figure: annotations, results, the user's own check."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from every import every
from field import InProcess
from running import MISBEHAVING, cpu_settings, measured_run, missing

from advisor.errors import AdvisorError, WorkloadError
from advisor.measure import worker
from advisor.measure.jobs import Settings
from advisor.measure.launcher import Launcher
from advisor.measure.measurement import Run
from advisor.measure.progress import Silent
from advisor.profiles.schema import Failed, Measured
from tests.forking import launching

HEAD = """
import ctypes, os
import numpy as np
from advisor import Buffer, In, InOut, Out, Workload, device, host, workload
"""


def ran(asked: Settings, directory: Path, launch: Launcher | None = None) -> Run:
    return measured_run(asked, launch or launching(asked), Silent(), directory)


HERE = InProcess()


def of(text: str, directory: Path, launch: Launcher | None = HERE) -> Run:
    """A run, in this process unless told otherwise, of a workload whose body stands here."""
    body = "\n".join(f"    {line}" for line in text.strip("\n").splitlines())
    source = f"{HEAD}\n@workload\ndef w(n: int = 64) -> Workload:\n{body}\n"
    path = directory / "w.py"
    path.write_text(source, encoding="utf-8")
    return ran(cpu_settings(path), directory / "run", launch)


def refusal(text: str, directory: Path) -> AdvisorError:
    with pytest.raises(AdvisorError) as raised:
        of(text, directory)
    return raised.value


AB = 'return Workload({"a": Buffer(n, "f4"), "b": Buffer(n, "f4")}, [host(p), device(c), host(r)]'
PLAIN = """
def p(a: Out, frame: int) -> None:
    a.fill(frame)
def c(xp, a: In, b: Out) -> None:
    xp.add(a, 1, out=b)
def r(b: In) -> None:
    b.sum()
"""


@pytest.mark.parametrize(("at", "explained"), [(2, "6.19e-07"), (13, "6.24e-06")])
def test_a_strategy_with_other_results_is_failed_however_fast(
    at: int, explained: str, tmp_path: Path
) -> None:
    asked = cpu_settings(MISBEHAVING, "how=differ", f"at={at}", "only_shared=true")
    good, bad = ran(asked, tmp_path).rows
    assert isinstance(good, Measured)
    assert good.verified
    assert isinstance(bad, Failed)
    assert bad.reason == (
        "its results are wrong: `b` differs in 1.6 % of its elements, largest 1 at [3] "
        f"from frame {at} on: {at + 2}.0 instead of {at + 1}.0 in the reference run; rounding "
        f"explains at most {explained} near zero"
    )


DIVERGING = """
def start(u: Out) -> None:
    u.fill(1)
def step(xp, u: InOut) -> None:
    xp.multiply(u, 10, out=u)
def look(u: In) -> None:
    u.sum()
def check(u: In) -> None:
    assert np.isfinite(u).all(), "it diverges"
return Workload({"u": Buffer(n, "f4")}, [device(step), host(look)], setup=[host(start)], check=check)
"""


def test_the_check_sees_the_last_frames_too(tmp_path: Path) -> None:
    """Frame 2 is finite; some forty frames later nothing is."""
    rows = of(DIVERGING, tmp_path, launch=None).rows
    assert {row.status for row in rows} == {"failed"}
    assert all("it diverges" in row.reason for row in rows if isinstance(row, Failed))


def test_randomness_of_the_seeded_kinds_is_the_same_everywhere(tmp_path: Path) -> None:
    """rng of course; and numpy.random's and random's global state, for workloads that ignore rng."""
    text = """
import random
def p(a: Out, rng) -> None:
    a[:] = rng.random(n) + np.random.random(n) + random.random()
""" + PLAIN.partition("    a.fill(frame)\n")[2]
    result = of(text + AB + ")", tmp_path, launch=None)
    assert all(isinstance(row, Measured) and row.verified for row in result.rows)


@pytest.mark.parametrize("body", ["assert (b == frame + 2).all()", "return (b == frame + 2).all()"])
def test_a_check_that_does_not_hold_is_the_users_error(tmp_path: Path, body: str) -> None:
    text = PLAIN + f"def k(b, frame):\n    {body}\n" + AB + ", check=k)"
    error = refusal(text, tmp_path)
    assert isinstance(error, WorkloadError)
    assert not missing(error.message, "check", "frame 15", "AssertionError")


@pytest.mark.parametrize(
    ("old", "new", "message", "step"),
    [
        ("xp.add(a, 1, out=b)", "import cupy; cupy.add(a, 1, out=b)", "cupy", "Take xp as a parameter"),
        (
            "def c(",
            "p = __import__('functools').lru_cache(p)\ndef c(",
            "stage 'p' (w.py:8), frame 0: TypeError",
            "lru_cache",
        ),
    ],
)
def test_what_a_stage_raises_has_the_remedy_of_its_side(
    old: str, new: str, message: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    error = refusal(PLAIN.replace(old, new) + AB + ")", tmp_path)
    assert message in error.message
    assert step in error.next_step
    assert ("CPU twin" in error.next_step) == ("cupy" in new)


TOOLKIT = "CuPy failed to load libnvrtc.so.13: OSError: libnvrtc.so.13: cannot open shared object file"
UNKNOWN = AttributeError("module 'cupy' has no attribute 'ad'")


@every(
    ("error", "on_gpu", "cause", "step"),
    [
        (UNKNOWN, False, "twin", "cpu=numpy_function"),
        (UNKNOWN, True, "raised", ""),
        (RuntimeError(TOOLKIT), True, "raised", "cupy-cuda13x[ctk]"),
    ],
)
def test_a_cpu_twin_is_no_remedy_on_a_gpu_and_a_missing_toolkit_is_named(
    error: Exception, on_gpu: bool, cause: str, step: str
) -> None:
    def stage() -> None:
        raise error

    try:
        stage()
    except Exception as raised:
        told = worker._explain(raised, Path(__file__), on_gpu=on_gpu)
    assert told.cause == cause
    assert step in told.next_step
    assert on_gpu == ("cpu=" not in told.next_step)
    assert str(error) in told.message


def test_memory_that_the_machine_does_not_have_is_told_before_anything_runs(tmp_path: Path) -> None:
    error = refusal(PLAIN + AB.replace("Buffer(n", "Buffer(2**48") + ")", tmp_path)
    told = f"{error.message} {error.next_step}"
    assert not missing(told, "in two copies", "buffer 'a'", "(281474976710656,)", "--sweep")


def test_a_stage_of_the_users_library_is_shown_as_theirs(tmp_path: Path) -> None:
    """No frame of the workload's own file is in the traceback of a stage that lives elsewhere."""
    (tmp_path / "library").mkdir()
    stages = f"{HEAD}\ndef r(b: In) -> None:\n    b.summ()\n"
    (tmp_path / "library/stages.py").write_text(stages, encoding="utf-8")
    text = PLAIN.partition("def r(")[0] + "from library.stages import r\n"
    error = refusal(text + AB + ")", tmp_path)
    assert error.message == "stages.py:7, in r: neither NumPy nor CuPy has 'summ'; did you mean 'sum'?"
    files = [line for line in error.detail.splitlines() if line.startswith("  File")]
    assert files == [f'  File "{tmp_path}/library/stages.py", line 7, in r']
