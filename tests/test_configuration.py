"""What rules go by: options, advisor.toml, pyproject.toml and the workload file; wrong values by name."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args
from unittest.mock import Mock

import pytest
from builders import MIB, footprint, measured, profile, vector_add_trace
from rendering import Accepted, refusals
from running import REPOSITORY, Command, asked

from advisor import configuration
from advisor.configuration import OptionSource, command_line, places, preferences
from advisor.measure.options import OPTIONS, Option
from advisor.profiles import reading
from advisor.profiles.conclusions import Objective, Preferences
from advisor.profiles.schema import Profile
from advisor.rules.advise import advise, apply, cases
from advisor.rules.registry import RULES
from advisor.strategies.registry import STRATEGIES

PASSES = "zero-copy-reread.passes"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def read(directory: Path, *rules: str, recorded: Preferences | None = None, **options: object) -> Preferences:
    return preferences(places(command_line(rules=list(rules), **options), directory), recorded)


def test_the_command_line_goes_before_advisor_toml_and_that_before_pyproject(tmp_path: Path) -> None:
    write(
        tmp_path / "pyproject.toml",
        '[tool.advisor]\nobjective = "footprint"\nignore = ["pageable-transfer"]\n'
        "[tool.advisor.rule.zero-copy-reread]\npasses = 4\nslowdown = 3\n",
    )
    assert read(tmp_path).thresholds == {PASSES: 4, "zero-copy-reread.slowdown": 3}
    write(
        tmp_path / "advisor.toml",
        'rule.zero-copy-reread.passes = 5\nignore = ["duplicate-allocation"]\nmemory-budget = 1024\n',
    )
    both = read(tmp_path)
    assert both.thresholds == {PASSES: 5, "zero-copy-reread.slowdown": 3}
    assert (both.objective, both.memory_budget_bytes) == ("footprint", 1024)
    assert both.ignored == {
        "pageable-transfer": "pyproject.toml: [tool.advisor]",
        "duplicate-allocation": "advisor.toml",
    }
    given = {"ignore": ["zero-copy-reread"], "objective": "throughput", "memory_budget": "2GiB"}
    in_units = ("duplicate-allocation.bytes=4MiB", "pageable-transfer.share=25%")
    said = read(tmp_path, f"{PASSES}=6", *in_units, **given)
    assert said.thresholds == {
        PASSES: 6, "zero-copy-reread.slowdown": 3,
        "duplicate-allocation.bytes": 4 * MIB, "pageable-transfer.share": 0.25,
    }  # fmt: skip
    assert (said.objective, said.memory_budget_bytes) == ("throughput", 2 << 30)
    assert said.ignored["zero-copy-reread"] == "--ignore"


def test_what_a_program_says_goes_before_advisor_toml_though_it_be_the_default(tmp_path: Path) -> None:
    write(tmp_path / "advisor.toml", "rounds = 2\nmax-seconds = 30\nstrategy = ['zero-copy']\n")
    for given, expected in (
        ({}, (2, 30.0, ("zero-copy",))),
        ({"rounds": 3, "strategies": ()}, (3, 30.0, ())),
    ):
        merged = configuration.merged(places(configuration.arguments(workload="w.py", **given), tmp_path))
        assert (merged.rounds, merged.max_seconds, merged.strategies) == expected


def test_the_nearest_directory_upwards_counts_and_only_that(tmp_path: Path) -> None:
    write(tmp_path / "advisor.toml", "rule.zero-copy-reread.passes = 5\n")
    write(tmp_path / "project/pyproject.toml", "[project]\nname = 'x'\n")
    inner = tmp_path / "project/src"
    inner.mkdir()
    assert read(inner).thresholds == {PASSES: 5}, "a pyproject.toml without the section does not count"
    write(tmp_path / "project/pyproject.toml", "[tool.advisor]\nobjective = 'footprint'\n")
    assert read(inner) == Preferences(objective="footprint")
    (inner / "advisor.toml").write_text(f'[rule]\n"{PASSES}" = "2"\n', encoding="utf-8-sig")
    assert read(inner).thresholds == {PASSES: 2}, "a dotted key in quotes, and a byte order mark"


THRESHOLDS = (
    *(f"{PASSES}={value}" for value in ("abc", "", "nan", "inf", "-1", "25%")),
    *("pageable-transfer.share=1.5", "uncached-host-read.slowdown=50%", PASSES, "zero-copy-reread=2"),
    *("zero-copy-reread.=2", "zero-copy-rered.passes=2", "zero-copy-reread.pases=2"),
)
IN_FILES = (
    "rule.zero-copy-reread.passes = true",
    "rule = 3",
    "rule.nothing.passes = 1",
    "rules.zero-copy-reread.passes = 1",
    "rounds = 3\nzebra = 1\nquokka = 2",
    'ignore = ["pageable"]',
    'objective = "thoughput"',
    "memory-budget = 0",
    'memory-budget = "2 GiBs"',
    'out = "\\u0000"',
)
VALUES: tuple[tuple[str, object], ...] = (
    *(("rounds", 0), ("rounds", 2.5), ("timeout", -1), ("max_seconds", "x"), ("numa", "near")),
    *(("objective", "tim"), ("memory_budget", "2 GiBs"), ("seed", 2**32)),
)
"""Wrong wherever they are said: on the command line, in either file, by a program."""
GIVEN: tuple[dict[str, object], ...] = (
    *({"rounds": True}, {"rounds": "3"}, {"max_seconds": float("nan")}, {"no_gpu": "maybe"}),
    *({"trace": ["nsys", "chrom"]}, {"nsys": 3}),
)
"""What only looks like a value, given by a program."""


def test_what_is_wrong_is_refused_by_name_with_the_next_step(tmp_path: Path, accepted: Accepted) -> None:
    calls: dict[str, Callable[[], object]] = {
        f"--rule {text}": partial(read, tmp_path, text) for text in THRESHOLDS
    }
    for number, text in enumerate(IN_FILES):
        write(tmp_path / f"{number}/advisor.toml", text)
        calls[f"advisor.toml: {text}"] = partial(read, tmp_path / f"{number}")
    for name, value in VALUES:
        here, toml = tmp_path / f"{name} {value}", f"{name.replace('_', '-')} = {value!r}\n"
        write(here / "one/advisor.toml", toml)
        write(here / "two/pyproject.toml", f"[tool.advisor]\n{toml}")
        calls |= {
            f"--{name} {value}": partial(command_line, **{name: str(value)}),
            f"advisor.toml: {toml[:-1]}": partial(read, here / "one"),
            f"pyproject.toml: {toml[:-1]}": partial(read, here / "two"),
        }
    for given in (*GIVEN, *(dict([value]) for value in VALUES)):
        calls[f"advisor.profile(**{given})"] = partial(configuration.arguments, **given)
    for name in (name for name, option in OPTIONS.items() if not option.script):
        calls[f"{name} of a script"] = partial(places, OptionSource("", {name: "x"}), script=True)
    wrong: tuple[dict[str, Any], ...] = (
        *({"host": ""}, {"host": "fast"}, {"gpu": 0, "gpus": "0,1"}, {"gpus": "1,1"}),
        *({"keep_nsys": True}, {"workload": "caf\udce9.py"}),
    )
    calls |= {f"{given!a}": partial(asked, given.pop("workload", "w.py"), **given) for given in wrong}
    said = command_line(workload="s.py", max_seconds=9)
    calls["--max-seconds of a script"] = partial(places, said, tmp_path, script=True)
    write(tmp_path / "no table/pyproject.toml", "[tool]\nadvisor = 3\n")
    calls["pyproject.toml: advisor = 3"] = partial(read, tmp_path / "no table")
    accepted(refusals(calls), "options-refused.txt")


def twice_read(**fields: object) -> Profile:
    """A kernel reads zero-copy memory twice a frame and is the slower for it."""
    rows = (
        measured("pageable", 0.060),
        measured("pinned", 0.020, stage_seconds={"add": 0.002}, transfer_seconds=0.002),
        measured(
            "zero-copy",
            0.040,
            stage_seconds={"add": 0.030},
            transfer_seconds=0.0,
            footprint=footprint(pinned=192 * MIB),
        ),
    )
    return profile(results=rows, traffic=vector_add_trace(passes=2), **fields)


def outcome(run: Profile, rule: str = "zero-copy-reread") -> str:
    return next(advice.outcome for advice in run.advice if advice.rule == rule)


def test_a_silenced_rule_is_shown_as_such_and_not_asked() -> None:
    run = advise(twice_read(preferences=Preferences(ignored={"zero-copy-reread": "advisor.toml"})))
    (found,) = [advice for advice in run.advice if advice.rule == "zero-copy-reread"]
    assert (found.outcome, found.snippet, found.gain) == ("silenced", None, None)
    assert "advisor.toml" in found.detail
    (case,) = cases(run)
    rule = replace(RULES[0], judge=Mock(side_effect=AssertionError("asked")))
    assert apply(rule, case, {}, silenced_by="--ignore").outcome == "silenced"
    assert apply(rule, case, {}).outcome == "error"


def test_report_makes_advice_again_and_records_by_what(command: Command, tmp_path: Path) -> None:
    advise(twice_read()).save(tmp_path / "profile.json")
    said = command("report", "profile.json", "--format", "json", "--out", "again", "--rule", f"{PASSES}=3")
    assert said.code == 0
    again = reading.load(tmp_path / "again/profile.json")
    assert again.preferences == Preferences(thresholds={PASSES: 3.0})
    assert outcome(again) == "pass"
    write(tmp_path / "advisor.toml", 'ignore = ["zero-copy-reread"]\n')
    assert command("report", "profile.json", "--format", "json", "--out", "third").code == 0
    assert outcome(reading.load(tmp_path / "third/profile.json")) == "silenced"


def test_a_workload_that_silences_an_unknown_rule_is_refused_before_it_is_measured(
    command: Command, tmp_path: Path
) -> None:
    source = (REPOSITORY / "workloads/vector_add.py").read_text(encoding="utf-8")
    marked = source.replace("frame=[", 'ignore=["pagable-transfer"], frame=[')
    assert marked != source
    write(tmp_path / "w.py", marked)
    said = command("profile", "w.py", "--set", "n=500", "--no-gpu", "--rounds", "1")
    assert said.code == 3
    assert "mean 'pageable-transfer'" in said.err
    assert "[3]" not in said.err, "only the workload was checked and traced"
    write(tmp_path / "w.py", marked.replace("pagable", "pageable"))
    quick = ("--set", "n=500", "--no-gpu", "--rounds", "1", "--max-seconds", "300", "--target", "h200")
    assert command("profile", "w.py", *quick).code == 0
    made = reading.load(tmp_path / "advisor-report/profile.json")
    assert made.workload.ignore == ("pageable-transfer",)
    assert outcome(made, "pageable-transfer") == "silenced"


def test_every_key_of_a_file_is_an_option_of_the_command(command: Command, tmp_path: Path) -> None:
    write(
        tmp_path / "advisor.toml",
        'rounds = 2\nmax-seconds = 30\ntimeout = 30\nseed = 7\nnuma = "local"\nstrategy = "zero-copy"\n'
        'target = ["h200", "mine.toml"]\nformat = "json"\nout = "reports"\nno-environment = true\n'
        'trace = ["nsys"]\nallow-oversubscription = true\n',
    )
    shutil.copy(REPOSITORY / "advisor/devices/t4.toml", tmp_path / "mine.toml")
    write(tmp_path / "inner/w.py", (REPOSITORY / "workloads/vector_add.py").read_text(encoding="utf-8"))
    os.chdir(tmp_path / "inner")
    said = command("profile", "w.py", "--set", "n=500", "--no-gpu", "--rounds", "1")
    assert said.code == 0, said.err
    assert said.err.splitlines()[-1] == "wrote ../reports/profile.json"
    made = reading.load(tmp_path / "reports/profile.json")
    assert (made.method.rounds, made.method.max_seconds, made.method.seed) == (1, 30.0, 7)
    assert set(made.measured()) == {"zero-copy"}
    assert [prediction.device.name for prediction in made.predictions] == ["H200 SXM", "T4"]
    assert "environment" in made.environment.absent


def test_a_script_takes_from_the_files_what_means_something_for_it(tmp_path: Path) -> None:
    text = 'rounds = 7\nstrategy = ["pinned"]\nmax-seconds = 3\nobjective = "time"\n'
    write(tmp_path / "advisor.toml", text)
    said = command_line(workload="train.py", arguments=["--epochs", "1"], frame="31")
    sources = places(said, tmp_path, script=True)
    found = configuration.merged(sources)
    assert (found.rounds, found.max_seconds, found.strategies, found.objective) == (3, 3.0, (), None)
    made = configuration.make_settings(sources, backend="cuda", script=True)
    assert made.trial_seconds == 3.0
    assert (made.arguments, made.options.frame, made.timeout) == (("--epochs", "1"), "31", math.inf)


def test_what_a_run_is_asked_for() -> None:
    found = [(each.file, each.workload) for each in (asked("a/b.py"), asked("a/b.py::two"))]
    assert found == [(Path("a/b.py"), None), (Path("a/b.py"), "two")]
    assert asked("b.py").strategies == STRATEGIES
    chosen = asked("b.py", strategies=["zero-copy", "pageable", "zero-copy"]).strategies
    assert [strategy.name for strategy in chosen] == ["pageable", "zero-copy"], "in the order of the table"
    assert configuration.parse_formats("md,md,,html, json") == ("md", "html", "json")


def test_a_cpu_run_predicts_the_default_devices_unless_told_which() -> None:
    assert (asked("b.py").targets, asked("b.py").targets_under) == ((), "linux")
    assert asked("b.py", target_os="windows").targets_under == "windows"
    assert asked("b.py", backend="cuda").targets_under is None
    assert asked("b.py", targets=["h200"]).targets_under is None
    chosen = asked("b.py", backend="cuda", targets=["h200", "orin-nano", "h200"])
    assert [target.origin for target in chosen.targets] == ["h200", "orin-nano"]


DOCUMENT = REPOSITORY / "docs" / "configuration.md"


@pytest.mark.parametrize("block", [0, 1])
def test_the_documented_files_are_read(tmp_path: Path, block: int) -> None:
    text = DOCUMENT.read_text(encoding="utf-8").split("```toml\n")[block + 1].partition("```")[0]
    write(tmp_path / ("pyproject.toml" if "[tool.advisor]" in text else "advisor.toml"), text)
    assert read(tmp_path).thresholds[PASSES] == 2
    assert set(read(tmp_path).ignored) == {"small-transfers"}


def row(option: Option) -> str:
    """Of the table of options."""
    written = f"--{option.key} {option.metavar or ''}".strip().replace("|", "\\|")
    cells = (
        f"`{written}`",
        f"`{option.key}`" if option.file else "",
        f"`{option.name}`" if option.call else "",
        "yes" if option.script else "",
        option.help + (f" ({option.facts})" if option.facts else ""),
    )
    return f"| {' | '.join(cells)} |"


def test_every_option_and_objective_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for option in OPTIONS.values():
        assert option.positional or row(option) in text
    for objective in get_args(Objective):
        assert f"| `{objective}` |" in text


def test_rates_of_the_host_are_those_of_a_profiles_targets_too(tmp_path: Path) -> None:
    source = command_line(workload="w.py", targets=["h200"], host="pinned_up=1GB/s")
    (target,) = configuration.make_settings(places(source, tmp_path), backend="cpu").targets
    assert target.figures.pinned_to_device_bytes_per_second.value == 1e9
