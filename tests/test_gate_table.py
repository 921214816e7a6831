"""The table of docs/ci.md, row by row: exit codes by the command line, colours by the action."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import cuda_device
from every import every
from running import REPOSITORY, Command, Said
from test_action import STAND_IN, Job, job
from test_versions import compared

from advisor import api, stats
from advisor.errors import AdvisorError, FileProblem, NothingMeasured, NothingToCompare, WorkloadError
from advisor.profiles.schema import WRONG_RESULTS, Device
from advisor.verdicts.comparing.comparisons import ComparedDevice, Recommended
from advisor.verdicts.comparing.gates import judge, parse_gates
from advisor.verdicts.comparing.results import BufferDifference, Results
from advisor.verdicts.comparing.rows import OneSided
from advisor.verdicts.comparing.versions import VersionComparison
from advisor.verdicts.versions import Question

__all__ = ["job"]
SAME, SLOWER, OPEN = (1.0, 0.99, 1.01), (1.2, 1.15, 1.25), (1.04, 0.98, 1.10)
WRONG = Results(("out",), (BufferDifference("out", 0, 12, 100, 3.1, (4, 7)),))
EQUAL = Results(("out",))
WORK = ("n is 8192 instead of 4096",)


def versions(ends: tuple[float, float, float], results: Results = EQUAL, **changes: Any) -> VersionComparison:
    return replace(compared({"pageable": ends}), results=results, **changes)


OUTCOMES: dict[str, VersionComparison | AdvisorError] = {
    "not slower": versions(SAME),
    "slower": versions(SLOWER),
    "open": versions(OPEN),
    "wrong": versions((0.7, 0.68, 0.72), WRONG),
    "results differ between": versions(SAME, Results(unrepeatable=("out",))),
    "frames do different work:": versions(
        SLOWER, Results(absent="frames do different work"), changed_work=WORK
    ),
    "frames do different work, and": versions(SAME, replace(WRONG, values="n=8192"), changed_work=WORK),
    "the workload is new": NothingToCompare("w.py is new: BASE (main) does not have it"),
    "crashed in BASE": NothingToCompare("BASE: it raised ValueError: no camera"),
    "crashed in HEAD": WorkloadError("HEAD: it raised ValueError: no camera"),
    "the workload's file is gone": FileProblem("w.py does not exist"),
    "nothing to compare": NothingMeasured("nothing was compared within --max-seconds 4"),
    "no GPU, and": NothingMeasured("there is no GPU 0: the CUDA driver reports none"),
    "no GPU: compared": versions(SAME),
}


def rows() -> dict[str, list[str]]:
    """The table: outcome to exit code, exit code with --strict, job, strict job."""
    text = (REPOSITORY / "docs/ci.md").read_text(encoding="utf-8")
    table = text.partition("| outcome | exit code |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {first: ["0", "0", "green", "green"] if rest[0] == "as above" else rest for first, *rest in cells}


def test_every_row_has_its_case() -> None:
    assert [next(name for name in OUTCOMES if row.startswith(name)) for row in rows()] == list(OUTCOMES)


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """`advisor compare --run` of versions that are what the row says."""

    def comparing(outcome: VersionComparison | AdvisorError, *options: str) -> Said:
        def run_versions(*_: Any, **__: Any) -> VersionComparison:
            if isinstance(outcome, AdvisorError):
                raise outcome
            return outcome

        monkeypatch.setattr(api, "run_versions", run_versions)
        Path("w.py").write_text("from advisor import workload\n", encoding="utf-8")
        return command("compare", "--run", "w.py", "--fail-if", "slower=5%", "--out", "out", *options)

    return comparing


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("row", rows())
def test_a_row_has_its_exit_code_and_colour(
    run: Callable[..., Said], job: Job, row: str, strict: bool
) -> None:
    name = next(name for name in OUTCOMES if row.startswith(name))
    said = run(OUTCOMES[name], *["--strict"] * strict)
    code, colour = rows()[row][strict], rows()[row][2 + strict]
    assert said.code == int(code), said
    (job.root / "messages").write_text(said.err, encoding="utf-8")
    job.program("advisor", STAND_IN.replace("exit", 'cat "$ADVISOR_TEST/messages" >&2\nexit'))
    (job.root / "out").mkdir(exist_ok=True)
    (job.root / "out/profile.json").write_text("{}", encoding="utf-8")
    given = {"ADVISOR_PROFILE_CODE": "0", "ADVISOR_BASE": "0" * 40, "ADVISOR_WORKLOAD": "w.py"}
    ended = job("compare", **given, ADVISOR_FAIL_IF="slower=5%", ADVISOR_TEST_CODE=str(said.code))
    told = re.findall(r"(?m)^::(warning|notice)::", ended.stderr)
    gate = job("gate", ADVISOR_PROFILE_CODE="0", ADVISOR_COMPARE_CODE=job.outputs["code"])
    job_colour = "red" if gate.returncode else ", with a ".join(["green", *told])
    assert job_colour == colour


@every(
    ("changes", "slower", "results"),
    [
        ({"gaps": (OneSided("pinned", "HEAD", "failed", WRONG_RESULTS),)}, "failed", "failed"),
        ({"gaps": (OneSided("pinned", "BASE", "failed", WRONG_RESULTS),)}, "not applicable", "passed"),
        ({"gaps": (OneSided("pinned", "BASE and HEAD", "failed", "oh"),)}, "inconclusive", "passed"),
        ({"gaps": (OneSided("staged", "HEAD", "failed", WRONG_RESULTS),)}, "passed", "passed"),
        ({"left": {"HEAD pinned": "oh"}}, "inconclusive", "passed"),
    ],
)
def test_a_strategy_of_the_code_that_was_not_compared(changes: Any, slower: str, results: str) -> None:
    found = compared({"pageable": SAME}, question=Question(strategies=("pinned",)), **changes)
    rulings = judge(replace(found, results=EQUAL), parse_gates(["slower=5%", "results-differ"]))
    assert [each.status for each in rulings] == [slower, results]


def test_wanted_changes_pass_with_anyway(run: Callable[..., Said]) -> None:
    assert run(OUTCOMES["wrong"], "--anyway").code == 0
    assert run(OUTCOMES["wrong"], "--anyway", "--fail-if", "results-differ").code == 1
    assert run(OUTCOMES["frames do different work:"], "--anyway").code == 1


@every(("change", "status"), [("changed", "failed"), ("same", "passed")])
def test_recommendations_are_judged_by_predictions_where_there_is_no_gpu(change: Any, status: str) -> None:
    found = versions(SAME)
    cpu = replace(found.devices[0], device=Device(name="CPU", kind="cpu"))
    told = Recommended("pinned", "zero-copy", change, "")
    predicted = ComparedDevice(cuda_device(), "predicted", (), (), told)
    found = replace(found, devices=(cpu, predicted))
    (ruling,) = judge(found, parse_gates(["recommendation-changes"]))
    assert ruling.status == status


@every(("value", "status"), [(1.5, "inconclusive"), (4.0, "failed")])
def test_an_untrusted_run_fails_by_what_its_control_cannot_explain(value: float, status: str) -> None:
    found = compared({"pageable": (value, value / 1.1, value * 1.1)}, noise=stats.Ratio(1.3, 1.2, 1.4))
    (ruling,) = judge(found, parse_gates(["slower=5%"]))
    assert ruling.status == status
