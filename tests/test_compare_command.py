"""`advisor compare`, several devices in `advisor report`, and `--out -`: as their users start them."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from builders import cpu_profile, failed, measured, profile, vector_add_workload
from rendering import Accepted, refusals
from running import FILES, QUICK, REPOSITORY, Command, Said, missing
from test_comparing import later
from test_device_comparison import on

from advisor.cli.app import app
from advisor.errors import FileProblem, NothingMeasured, UsageError, WorkloadError
from advisor.profiles import reading
from advisor.profiles.schema import Profile
from advisor.rules.advise import concluded

COUNTER = FILES / "counter.py"


@pytest.fixture(autouse=True)
def saved(command: Command) -> None:
    """In its folder."""
    profile().save(Path("base.json"))
    later().save(Path("same.json"))
    slower = (measured("pageable", 0.040), measured("pinned", 0.030))
    later(results=slower).save(Path("slower.json"))
    wide = (measured("pageable", 0.041, spread=0.9), measured("pinned", 0.0205, spread=0.9))
    later(results=wide).save(Path("noisy.json"))
    later(results=(failed("pageable"), failed("pinned"))).save(Path("failed.json"))


def save(made: Profile, name: str) -> str:
    made.save(Path(name))
    return name


def left() -> set[str]:
    """Files that were not there at the start."""
    return {str(p) for p in Path().rglob("*") if p.is_file() and p.suffix != ".json"}


def compare(command: Command, head: str, *options: str) -> Said:
    return command("compare", "base.json", head, *options)


@pytest.mark.parametrize(
    ("head", "options", "code", "told"),
    [
        ("same.json", (), 0, ""),
        ("slower.json", (), 1, "gate slower=5%: failed\n"),
        ("slower.json", ("--strategy", "pageable"), 0, ""),
        ("noisy.json", (), 0, "gate slower=5%: inconclusive (--strict would fail)\n"),
        ("noisy.json", ("--strict",), 1, "gate slower=5%: inconclusive\n"),
        ("same.json", ("--strict",), 0, ""),
    ],
)
def test_the_exit_code_is_the_gates(
    command: Command, head: str, options: tuple[str, ...], code: int, told: str
) -> None:
    said = compare(command, head, "--fail-if", "slower=5%", *options)
    assert said.code == code, said
    assert said.err.partition("compare.md\n")[2] == told
    assert left() == {"advisor-comparison/compare.html", "advisor-comparison/compare.md"}
    assert compare(command, head, "--fail-if", "slower=5%", *options, "--quiet").err == ""


WRONG = (
    *("missing.json", "failed.json", "cpu.json", "base.json --fail-if slower=5%", ""),
    *("same.json --fail-if results-differ", "same.json --fail-if x", "same.json --against main"),
    *("same.json --strategy x", "same.json --out -", "same.json --out w.txt/x"),
)


def test_wrong_input(command: Command, accepted: Accepted) -> None:
    Path("w.txt").write_text("{", encoding="utf-8")
    save(cpu_profile(), "cpu.json")
    lines = (
        *(f"compare base.json {words}" for words in WRONG),
        *("profile counter.py --out -", "predict base.json --out -", "report empty"),
        "profile counter.py --out - --format md --sweep n=1,2",
    )
    Path("empty").mkdir()
    shutil.copy(COUNTER, "counter.py")
    accepted(refusals({line: partial(command, *line.split()) for line in lines}), "comparisons-refused.txt")
    assert left() == {"w.txt", "counter.py"}


def test_anyway_lets_a_gate_judge_other_parameters(command: Command) -> None:
    save(later(workload=vector_add_workload(4)), "n.json")
    said = compare(command, "n.json", "--fail-if", "slower=5%", "--strict")
    assert (said.code, "gate slower=5%: not applicable\n" in said.err) == (0, True)
    page = Path("advisor-comparison/compare.md").read_text()
    assert "Frames do different work: `n` is 4 instead of 16777216" in page
    assert compare(command, "n.json", "--fail-if", "slower=5%", "--anyway").code == 0


def test_a_directory_stands_for_the_profile_in_it(command: Command) -> None:
    for folder in "ab":
        Path(folder).mkdir()
        save(profile(created=folder), f"{folder}/profile.json")
    said = command("compare", "a/profile.json", "b/profile.json")
    assert not missing(said.out, "BASE: a/profile.json", "HEAD: b/profile.json"), "the same name"
    assert command("compare", "a", "b/").out == said.out
    assert command("report", "a").code == command("predict", "b", "--target", "t4").code == 0
    assert Path("a/report.html").exists()
    assert not Path("report.html").exists()


def test_no_folder_outside_the_working_directory_is_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("alice", "here"):
        Path(folder).mkdir()
        save(profile(created=folder), f"{folder}/profile.json")
    monkeypatch.chdir("here")
    said = command("compare", tmp_path / "alice/profile.json", "profile.json")
    assert "alice" in said.out  # the name that is there is the time of the profile
    assert "alice/" not in said.out
    assert "alice/" not in Path("advisor-comparison/compare.html").read_text(encoding="utf-8")


def test_profile_in_one_form_on_stdout_leaves_no_file(command: Command) -> None:
    before = set(Path().iterdir())
    said = command("profile", COUNTER, "--no-gpu", *QUICK, "--format", "json", "--out", "-", "-q")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out)["workload"]["name"] == "counter"
    assert set(Path().iterdir()) == before


def test_several_devices_on_one_page(command: Command) -> None:
    for name in "ab":
        save(on(name), f"{name}.json")
    said = command("report", "a.json", "b.json")
    assert said.code == 0
    assert said.out.startswith("vector_add on 2 devices\n")
    assert left() == {"devices.html", "devices.md"}


@pytest.mark.parametrize(
    ("arguments", "heading"),
    [
        (("report", "base.json"), "### vector\\_add on Test discrete"),
        (("report", "a.json", "b.json"), "### vector\\_add on 2 devices"),
        (("compare", "base.json", "same.json"), "### vector\\_add, HEAD vs. BASE"),
    ],
)
def test_every_command_adds_to_the_summary_of_a_github_job(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], heading: str
) -> None:
    for name in "ab":
        save(on(name), f"{name}.json")
    Path("summary").write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary")
    said = command(*arguments, "--format", "md", "--out", "-")
    assert (said.code, said.out.startswith(heading), said.err) == (0, True, "")
    assert left() == {"summary"}
    lines = Path("summary").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "before"
    assert lines[1].startswith(heading)
    assert sum(line.startswith("### ") for line in lines) == 1


def test_every_command_is_in_the_readme() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    names = [each.name or each.callback.__name__ for each in app.registered_commands if each.callback]
    assert "compare" in names
    assert [name for name in names if f"`advisor {name}" not in text] == []


def test_the_exit_codes_are_the_same_in_help_and_documentation(command: Command) -> None:
    text = " ".join((REPOSITORY / "docs" / "commands.md").read_text(encoding="utf-8").split())
    told = " ".join(command("--help").out.split())
    for code in (error.exit_code for error in (UsageError, WorkloadError, NothingMeasured, FileProblem)):
        assert f"; {code} " in text
        assert f"; {code} " in told
    for form in (text, told):
        assert re.search(r"0 done; 1 a gate (of `advisor compare` )?failed;", form)
        assert "70 internal error" in form
        assert "130 interrupted" in form


def test_figures_that_are_not_those_of_their_blocks_are_made_again(command: Command) -> None:
    base = REPOSITORY / "reports/h200/vector_add/profile.json"
    made = json.loads(base.read_text(encoding="utf-8"))
    for row in made["results"]:
        if row["status"] == "measured":
            row["median_seconds"] *= 2
            row["interval_seconds"] = [2 * end for end in row["interval_seconds"]]
    Path("twice.json").write_text(json.dumps(made), encoding="utf-8")
    assert command("compare", str(base), "twice.json").code == 0
    before, after = (concluded(reading.load(path)).measured() for path in (base, "twice.json"))
    blocks = [name for name, row in before.items() if row.samples == "blocks"]
    assert blocks
    assert all(after[name].median_seconds == pytest.approx(before[name].median_seconds) for name in blocks)


def test_a_baseline_has_a_name(command: Command) -> None:
    small = ("--no-gpu", *QUICK, "--set", "n=4096", "--quiet")
    file = str(REPOSITORY / "workloads" / "vector_add.py")
    for wrong in ("--save=../main", "--save=-", "--save=a\tb", "--save=main --out=- --format=md"):
        assert command("profile", file, *wrong.split(" ")).code == UsageError.exit_code
    said = command("profile", file, *small, "--save", "main")
    assert (said.code, Path("advisor-baselines/main/profile.json").is_file()) == (0, True), said
    said = command("compare", "main")
    page = Path("advisor-comparison/compare.md").read_text(encoding="utf-8")
    assert (said.code, "BASE and HEAD are the same run" in page) == (0, True), said
    shutil.move("advisor-report", "later")
    assert command("compare", "main", "later").code == 0
    assert "advisor-report" in command("compare", "main").err
    another = command("compare", "another")
    assert (another.code, "another is neither a profile nor a saved baseline" in another.err) == (5, True)
