"""CuPy mocked on the CPU: what it runs, refuses and waits for."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cupy_cases import REFUSED, RUNS, Case
from every import every
from test_traffic import figures
from test_traffic import run as traced

from advisor.measure.cupy_mock.arrays import DeviceArray, MockModule
from advisor.measure.cupy_mock.checks import Refusal, Unknowable, Watch, coverage
from advisor.measure.jobs import Job, TraceRun
from advisor.measure.routines import gathered_beyond
from advisor.measure.worker import attempt
from tests.faults.case import workload


def stand_in() -> tuple[Watch, Any, DeviceArray]:
    watch = Watch(coverage("14.2"), {})
    return watch, MockModule(watch), DeviceArray(np.arange(64, dtype=np.float32), watch)


def run(case: Case) -> Watch:
    watch, xp, a = stand_in()
    case(xp, a, a.reshape(8, 8).copy())
    return watch


@pytest.mark.filterwarnings("ignore")  # NumPy's, of divisions by 0
@pytest.mark.parametrize("case", RUNS.values(), ids=RUNS)
def test_what_cupy_runs_is_never_refused(case: Case) -> None:
    """`Unknowable` is no judgement; no other exception may come of it."""
    with suppress(Unknowable):
        run(case)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_cupy_refuses_is_refused(case: Case) -> None:
    with pytest.raises(Refusal) as refused:
        run(case)
    assert refused.value.place.file.endswith("cupy_cases.py")
    assert refused.value.write.endswith(".")


@every(
    ("case", "calls"),
    [
        (lambda xp, a, m: float(a.max()), ["float()"]),
        (
            lambda xp, a, m: [1 for row in m if (row > 3).any()],
            ["the truth value of an array (if, while, and, or)"],
        ),
        (lambda xp, a, m: a.get() if a[0].item() else m.tolist(), [".item()", ".tolist()"]),
        (lambda xp, a, m: (xp.nonzero(a), xp.where(a > 3), xp.where(a > 3, a, 0)), ["nonzero()", "where()"]),
        (lambda xp, a, m: (a[a > 3], a[[1, 2]], a[2], m[:, 1:]), ["indexing with a mask"]),
        (lambda xp, a, m: (xp.asnumpy(a), range(int(a[3]))), [".get()", "int()"]),
        (lambda xp, a, m: f"{a[0]:.1f}{a[1]}", ["format()"]),
        (lambda xp, a, m: a - a.mean() / a.max() + xp.minimum(a, a[3]) - len(m) * m.size, []),
    ],
)
def test_what_waits_for_the_gpu(case: Case, calls: list[str]) -> None:
    waits = run(case).waits
    assert [call for _, _, call, _ in waits] == calls
    assert all(line.startswith(f"{Path(__file__).name}:") for _, line, _, _ in waits)


def test_each_time_counts_and_the_buffer_is_named() -> None:
    assert [*run(lambda xp, a, m: [float(row[0]) for row in m]).waits.values()] == [8]
    watch, _, a = stand_in()
    watch.buffers = {"image": a.plain}
    with pytest.raises(Refusal) as refused:
        np.asarray(a[3:9])
    assert refused.value.buffer == "image"


def test_coverage_goes_by_version() -> None:
    old, new = coverage("13.6.0"), coverage("99.0")
    assert (old.version, new.version, coverage("1.0").version) == ("13.4", "14.2", "13.4")
    assert "cumulative_sum" in new.names
    assert "kind" in (new.ndarray["sort"] or "")
    assert "kind" not in (old.ndarray["sort"] or "")
    assert new.refused("a axis * dtype", 2, {"dtype": 1}) == ""
    assert new.refused("a axis * dtype", 3, {}) == "3 arguments by position"
    assert new.refused("*args **", 9, {"x": 1}) == new.refused(None, 9, {"x": 1}) == ""
    assert new.refused("*shape order", 4, {"order": "C"}) == ""


def test_the_mock_counts_what_a_device_stage_moves() -> None:
    """Checks and traffic come from one run: the memory of a mocked array is traced."""
    watch = Watch(coverage("14.2"), {})

    def stage(**buffers: Any) -> None:
        a, b = (DeviceArray(buffers[name], watch) for name in "ab")
        b[...] = MockModule(watch).sqrt(a) + a[0]
        assert float(b.sum()) == 128

    a, b = np.ones((2, 8, 8), np.float32)
    trace = traced(stage, "device", {"a": "in", "b": "inout"}, a=a, b=b)
    assert figures(trace) == [(256 + 32, 0, "traced"), (256, 256, "traced")]
    assert [call for _, _, call, _ in watch.waits] == ["float()"]
    assert trace.work[0].calls == 4


def test_a_stage_that_cannot_be_judged_is_traced_in_numpy_on_a_load_of_its_own(tmp_path: Path) -> None:
    """What a module kept of the checked load is none of the second one's."""
    file = tmp_path / "keeping.py"
    adds = "b[...] = a * KEPT.setdefault('w', xp.ones(n, xp.float32)); b.flat[0]"
    file.write_text(workload(top="from mock_cache import KEPT", add=adds), encoding="utf-8")
    (tmp_path / "mock_cache.py").write_text("KEPT = {}\n", encoding="utf-8")
    names = {"file": str(file), "directory": str(tmp_path), "reference": str(tmp_path)}
    usual = {"task": "trace", "backend": "cpu", "strategy": "zero-copy", "workload": None, "assignments": {}}
    outcome = attempt(Job.model_validate({**names, **usual, "gpu": 0, "seconds": 0.01, "seed": 0}))
    assert isinstance(outcome, TraceRun), outcome
    assert {each.source for each in outcome.trace.traffic} == {"traced"}
    assert outcome.refused == ()


def test_rows_gathered_by_the_mock_lie_together() -> None:
    """It asks NumPy with a trailing Ellipsis, which selects the same."""
    array, rows = np.zeros((1 << 14, 16), np.float32), np.arange(0, 1 << 14, 7)
    assert gathered_beyond(array, (rows, ...)) == gathered_beyond(array, rows) == 0
