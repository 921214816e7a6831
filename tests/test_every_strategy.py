"""Every strategy gives the results of the reference run, in programs whose own check knows all frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import EVERY_HASTE, RecordingBackend, attempted
from running import FILES

from advisor.measure.jobs import ReferenceRun, Sample
from advisor.strategies.registry import STRATEGIES, by_name
from advisor.workloads.loading import load

Program = tuple[str, str | None, dict[str, str], str]
NOTHING = "nothing"
STATE, LOOP = "which carries data between frames", "the frame has a loop that the host ends"
PROGRAMS: tuple[Program, ...] = (
    ("state", "background", {}, NOTHING),
    ("state", "alarm", {}, NOTHING),
    ("parts_of_buffers", "ragged", {}, NOTHING),
    ("parts_of_buffers", "compaction", {}, NOTHING),
    ("parts_of_buffers", "large_state", {}, STATE),
    ("parts_of_buffers", "ring", {}, STATE),
    ("some_frames", None, {"weigh_every": "1"}, NOTHING),
    ("some_frames", None, {"weigh_every": "2"}, f"stage 'weigh' uses buffer 'w', {STATE}"),
    *(("until_converged", name, {}, LOOP) for name in ("kmeans", "jacobi", "two_loops")),
)
"""File, workload, parameters, and what keeps its frames from overlapping."""
NAMES = [strategy.name for strategy in STRATEGIES if not strategy.several_gpus]


def outcome(program: Program, strategy: str, directory: Path, **changes: Any) -> Any:
    file, workload, assignments, _ = program
    given = {"workload": workload, "assignments": assignments, **changes}
    return attempted(FILES / f"{file}.py", strategy, directory, **given)


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda program: "-".join(filter(None, program[:2])))
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, Path]:
    """A program, and where its reference run left the results."""
    folder = tmp_path_factory.mktemp("reference")
    assert outcome(request.param, "pageable", folder, task="reference", seconds=0.05) == ReferenceRun()
    return request.param, folder / "results"


@pytest.mark.parametrize("strategy", NAMES)
def test_every_strategy_gives_the_right_results(
    kept: tuple[Program, Path], strategy: str, tmp_path: Path
) -> None:
    """Nearly a Latin square: every program meets every haste, and so does every strategy. What overlaps
    frames meets all of them in the programs that it suits: there they tell races apart."""
    program, results = kept
    file, workload, assignments, obstacle = program
    if reason := by_name(strategy).unsuited(load(FILES / f"{file}.py", workload, assignments).record):
        assert by_name(strategy).pipelined
        assert obstacle in reason
        return
    turn = EVERY_HASTE[(PROGRAMS.index(program) + NAMES.index(strategy)) % len(EVERY_HASTE)]
    for haste in EVERY_HASTE if "pipelined" in strategy else (turn,):
        backend = RecordingBackend(haste=haste)
        sample = outcome(program, strategy, tmp_path, backend=backend, reference=results, seconds=0.03)
        assert isinstance(sample, Sample), sample
        assert sample.verified
