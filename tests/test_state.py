"""Programs with a state pass as they are; programs that go by chance, or read what they say they overwrite,
are told apart."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fakes import RecordingBackend, attempted
from field import profiled
from rendering import Accepted, refusals
from running import FILES, MISBEHAVING, missing
from test_worker import of

from advisor.measure.jobs import Problem, ReferenceRun, Sample
from advisor.measure.kept_results import MOST_FRAMES, KeptResults
from advisor.profiles.schema import WRONG_RESULTS, Measured, Skipped

pytestmark = pytest.mark.usefixtures("all_frames")
STATE = FILES / "state.py"


def outcome(name: str, strategy: str, directory: Path, **changes: Any) -> Any:
    given = {"workload": name, "seconds": 0.03, "backend": RecordingBackend(haste="lazy"), **changes}
    return attempted(STATE, strategy, directory, **given)


def test_a_race_is_found_while_frames_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device for which nobody waits: the host reads results before they are there."""
    assert outcome("background", "pageable", tmp_path, task="reference") == ReferenceRun()
    monkeypatch.setattr(RecordingBackend, "wait", lambda *_: None)
    problem = outcome("background", "pinned-pipelined", tmp_path)
    assert isinstance(problem, Problem)
    assert problem.cause == "differs"
    assert not missing(problem.message, "`mask`", "from frame 1 on")


@pytest.mark.parametrize("strategy", ["pageable", "pinned-pipelined"])
def test_frames_of_either_set_are_compared(strategy: str, tmp_path: Path) -> None:
    """Each frame of the reference run is given another result in turn, and each is missed."""
    assert outcome("alarm", "pageable", tmp_path, task="reference", seconds=60.0) == ReferenceRun()
    for frame in range(MOST_FRAMES):
        file = tmp_path / "results" / str(frame) / "alarm.npy"
        right = file.read_bytes()
        file.write_bytes(right[:-1] + bytes([1 - right[-1]]))
        problem = outcome("alarm", strategy, tmp_path, seconds=5.0)
        file.write_bytes(right)
        assert isinstance(problem, Problem)
        assert problem.cause == "differs"
        assert not missing(
            problem.message, "1.6 % of its elements", "`alarm`", f"from frame {frame} on" if frame else ""
        )
        assert ("`rng`" in problem.message) == (strategy == "pageable"), "the reference run's own"


def test_of_large_results_some_elements_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.measure.kept_results._WHOLE_BYTES", 0)
    monkeypatch.setattr("advisor.measure.kept_results._SOME", 10)
    assert outcome("alarm", "pageable", tmp_path, task="reference", seconds=60.0) == ReferenceRun()
    sizes = [(tmp_path / "results" / str(frame) / "alarm.npy").stat().st_size for frame in range(3)]
    assert sizes == [128 + 64, 128 + 64, 128 + 10]
    assert isinstance(outcome("alarm", "zero-copy", tmp_path), Sample)
    repeated = KeptResults(tmp_path / "results").repeated()
    assert (repeated.frames > 2, repeated.unlike) == (True, {}), "as many as a second holds"


def test_what_gave_wrong_results_is_recommended_nowhere() -> None:
    given = ("how=differ", "at=12", "only_shared=true")
    profile = profiled(MISBEHAVING, *given, targets=("agx-orin", "h200"))
    for prediction in profile.predictions:
        row = next(row for row in prediction.results if row.strategy == "zero-copy")
        assert isinstance(row, Skipped)
        assert not missing(row.reason, WRONG_RESULTS, "from frame 12 on")
        assert prediction.recommendation.strategy != "zero-copy"


CHANCE = """
rng = np.random.default_rng()
def p(a: Out, frame: int) -> None:
    a[...] = frame if frame < {first} else rng.random(n)
def c(xp, a: In, b: Out, d: Out) -> None:
    xp.add(a, 1, out=b)
    d.fill(3)
def r(b: In, d: In) -> None:
    b.sum()
buffers = {{name: Buffer(n, "f4") for name in "abd"}}
return Workload(buffers, [host(p), device(c), host(r)])
"""


@pytest.mark.parametrize("first", [0, 7])
def test_what_goes_by_chance_is_told_and_the_rest_is_compared(first: int, tmp_path: Path) -> None:
    result = of(CHANCE.format(first=first), tmp_path)
    assert all(isinstance(row, Measured) and not row.verified for row in result.rows)
    assert not missing(result.notes[0], f"'b' from frame {first} on", "pageable", "`rng`")
    assert "'d'" not in result.notes[0]


READS = """
def p(a: Out, frame: int) -> None:
    a.fill(frame)
def c(xp, a: In, b: Out, d: Out) -> None:
    d.fill(b.size)
    {body}
def r(b: In, d: In) -> None:
    b.sum()
buffers = {{name: Buffer(n, "f4") for name in "abd"}}
return Workload(buffers, [host(p), device(c), host(r)])
"""


READING = ("b += a", "xp.maximum(a, b, out=b)", "b[0] += 1; b[1:] = a[1:]")
WRITING = (
    *("b.fill(2); b += a", "b[0] = 1; b[1:] = b[0]"),
    "xp.cumsum(a, out=b); xp.sqrt(b, out=b, casting='unsafe')",
)


def test_a_stage_that_reads_its_out_before_it_writes_is_named_with_buffer_and_line(
    tmp_path: Path, accepted: Accepted
) -> None:
    texts = {body: READS.format(body=body) for body in READING}
    calls = {body: partial(of, text, tmp_path / f"{n}") for n, (body, text) in enumerate(texts.items())}
    accepted(refusals(calls), "outputs-read.txt")


@pytest.mark.parametrize("body", WRITING)
def test_a_stage_that_writes_its_out_first_may_read_it(body: str, tmp_path: Path) -> None:
    rows = of(READS.format(body=body), tmp_path).rows
    assert all(isinstance(row, Measured) and row.verified for row in rows), rows
