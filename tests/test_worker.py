"""What a worker checks before it believes a figure: annotations, results, the user's own check."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path

import pytest
from every import every
from field import InProcess
from rendering import Accepted, refusals
from running import MISBEHAVING, cpu_settings, measured_run

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
    directory.mkdir(exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return ran(cpu_settings(path), directory / "run", launch)


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
    at: int, explained: str, tmp_path: Path, all_frames: None
) -> None:
    asked = cpu_settings(MISBEHAVING, "how=differ", f"at={at}", "only_shared=true")
    good, bad = ran(asked, tmp_path, HERE).rows
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


CHECKED = {
    body: f"{PLAIN}def k(b, frame):\n    {body}\n{AB}, check=k)"
    for body in ("assert (b == frame + 2).all()", "return (b == frame + 2).all()")
}
RAISING = {
    "cupy itself": PLAIN.replace("xp.add(a, 1, out=b)", "import cupy; cupy.add(a, 1, out=b)") + AB + ")",
    "a stage that is wrapped": PLAIN.replace("def c(", "p = __import__('functools').lru_cache(p)\ndef c(")
    + AB + ")",
    "more memory than there is": PLAIN + AB.replace("Buffer(n", "Buffer(2**48") + ")",
    "a stage of the user's library": PLAIN.partition("def r(")[0]
    + "from library.stages import r\n" + AB + ")",
}  # fmt: skip


def test_what_fails_before_the_strategies_is_told_as_the_users(
    tmp_path: Path, accepted: Accepted, monkeypatch: pytest.MonkeyPatch, all_frames: None
) -> None:
    """Also where no frame of the workload's own file is in the traceback, since the stage lives elsewhere."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    texts, library = CHECKED | RAISING, tmp_path / "a stage of the user's library" / "library"
    library.mkdir(parents=True)
    stages = f"{HEAD}\ndef r(b: In) -> None:\n    b.summ()\n"
    (library / "stages.py").write_text(stages, encoding="utf-8")
    calls = {name: partial(of, text, tmp_path / name) for name, text in texts.items()}
    told = re.sub(r"[\d.]+ [KMGT]iB", "SIZE", refusals(calls).replace(str(tmp_path), "FOLDER"))
    accepted(told, "workloads-raise.txt")


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
