"""The GitHub action: its file, its example, and its shell parts with what needs no GitHub."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from builders import profile
from every import every
from running import FILES, REPOSITORY, environment, eventually, ran
from test_comparing import later
from test_revisions import commit, git

from advisor.profiles.reading import load
from advisor.profiles.schema import Profile
from tests.forking import started

ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
COMMENT = yaml.safe_load((REPOSITORY / "action/comment/action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for action in (ACTION, COMMENT) for step in action["runs"]["steps"]}
STAND_IN = """#!/usr/bin/env bash
printf '%s\\n' "$@" >"$ADVISOR_TEST/arguments"
if [ -f "$ADVISOR_TEST/made.json" ]; then
    mkdir -p "$ADVISOR_OUT"
    cp "$ADVISOR_TEST/made.json" "$ADVISOR_OUT/profile.json"
fi
if [ "$1" = compare ]; then echo compared >"$ADVISOR_OUT/compare.md"; fi
exit "${ADVISOR_TEST_CODE:-0}"
"""
GH = """#!/usr/bin/env bash
printf '%s\\n' "$@" >>"$ADVISOR_TEST/gh"
for argument in "$@"; do
    case "$argument" in body=@*) cp "${argument#body=@}" "$ADVISOR_TEST/body" ;; esac
done
case " $* " in
*" user "*) cat "$ADVISOR_TEST/login" 2>/dev/null || exit 1 ;;
*" --jq "*"/pulls "* | *"/pulls "*" --jq "*) cat "$ADVISOR_TEST/pulls" 2>/dev/null ;;
*" --jq "*) cat "$ADVISOR_TEST/found" 2>/dev/null ;;
esac
exit "${GH_TEST_CODE:-0}"
"""


VERSIONS = {"ADVISOR_BASE": "0" * 40}
BASELINE = {"ADVISOR_BASELINE": "base.json"}
GATED = {"ADVISOR_FAIL_IF": "slower=5%"}


@dataclass
class Job:
    """A runner's folder, with our programs first on the path."""

    root: Path
    outputs: dict[str, str] = field(default_factory=dict)

    def program(self, name: str, text: str) -> None:
        (self.root / "bin").mkdir(exist_ok=True)
        path = self.root / "bin" / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def save(self, made: Profile, name: str) -> None:
        (self.root / name).parent.mkdir(exist_ok=True)
        made.save(self.root / name)

    def reports(self, **texts: str) -> None:
        (self.root / "out").mkdir(exist_ok=True)
        for name, text in texts.items():
            (self.root / f"out/{name}.md").write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    @property
    def asked(self) -> str:
        """What gh was asked."""
        return " ".join(self.read("gh").split("\n"))

    def __call__(
        self, part: str, folder: Path | None = None, command: Sequence[str] = (), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        output = self.root / "output"
        output.write_text("", encoding="utf-8")
        given = {
            "GITHUB_OUTPUT": str(output),
            "ADVISOR_OUT": "out",
            "ADVISOR_WORKLOAD": "w.py",
            "ADVISOR_TEST": str(self.root),
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            **variables,
        }
        words = [*command] or ["bash", str(REPOSITORY / "action" / f"{part}.sh")]
        ended = ran(words, folder or self.root, **given)
        self.outputs = dict(line.split("=", 1) for line in self.read("output").splitlines())
        return ended

    def compare(self, **variables: str) -> tuple[str, str]:
        """The code and the outcome of comparing after a profile that ended well, and what was said."""
        self.said = self("compare", **{"ADVISOR_PROFILE_CODE": "0", **variables}).stderr
        return self.outputs["code"], self.outputs["outcome"]

    def comment(self, **variables: str) -> subprocess.CompletedProcess[str]:
        given = {"GITHUB_REPOSITORY": "o/r", "ADVISOR_PULL_REQUEST": "7", "ADVISOR_MARK": "advisor-report"}
        given["ADVISOR_RUN_URL"] = "https://github.com/o/r/actions/runs/1"
        ended = self("comment", **{**given, **variables})
        assert ended.returncode == 0
        return ended


@pytest.fixture
def job(tmp_path: Path) -> Job:
    made = Job(tmp_path)
    made.program("advisor", started().program)
    made.program("gh", GH)
    return made


def test_the_action_runs_its_scripts_with_the_variables_that_they_read() -> None:
    """What a pull request can choose reaches the shell as a variable alone."""
    assert ACTION["runs"]["using"] == COMMENT["runs"]["using"] == "composite"
    texts = {path.name: path.read_text(encoding="utf-8") for path in (REPOSITORY / "action").glob("*.sh")}
    shared = {name for text in texts.values() for name in re.findall(r"^\. .*/(\w+\.sh)", text, re.MULTILINE)}
    started_ones = set()
    for step in (step for step in STEPS.values() if "run" in step):
        (script,) = re.findall(r"(\w+\.sh)", step["run"])
        started_ones.add(script)
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
        used = set(re.findall(r"\bADVISOR_\w+", texts[script]))
        assert used == {name for name in step["env"] if name.startswith("ADVISOR_")}
    assert started_ones.isdisjoint(shared)
    assert started_ones | shared == set(texts)


def test_every_input_is_used_and_documented() -> None:
    docs = (REPOSITORY / "docs/ci.md").read_text(encoding="utf-8")
    for action, file in ((ACTION, "action.yml"), (COMMENT, "action/comment/action.yml")):
        text = (REPOSITORY / file).read_text(encoding="utf-8")
        for name, told in action["inputs"].items():
            assert told["description"]
            assert f"| `{name}` |" in docs
        assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])


def workflows() -> list[str]:
    """The workflows of docs/ci.md."""
    text = (REPOSITORY / "docs/ci.md").read_text(encoding="utf-8")
    return re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)


def test_the_job_that_runs_the_workload_may_not_write() -> None:
    """Neither the action nor the example's job; the job that may runs no code of the request."""
    assert "token" not in (REPOSITORY / "action.yml").read_text(encoding="utf-8").lower()
    workflow = yaml.safe_load(next(each for each in workflows() if "needs: advise" in each))
    assert workflow["permissions"] == {"contents": "read"}
    advise, comment = (workflow["jobs"][name] for name in ("advise", "comment"))
    assert "permissions" not in advise
    checkout, ours = advise["steps"]
    assert checkout["with"] == {"fetch-depth": 0, "persist-credentials": False}
    assert set(ours["with"]) <= set(ACTION["inputs"])
    assert ours["with"]["fail-if"].split() == ["slower=5%", "footprint=+10%"]
    assert comment["permissions"] == {"pull-requests": "write"}
    assert comment["needs"] == "advise"
    (step,) = comment["steps"]
    assert step["uses"].rpartition("@")[0] == "OWNER/gpu-memory-advisor/action/comment"
    for part in (*map(STEPS.get, ("Compare", "Keep the report", "Gate")), comment):
        assert part["if"].startswith("always()"), "after a failure, too"
    assert ACTION["runs"]["steps"][-1]["name"] == "Gate"


def test_scripts_are_accepted_by_bash_and_shellcheck() -> None:
    """`-x` reads what a script sources, whose path is from the root."""
    for path in (REPOSITORY / "action").glob("*.sh"):
        subprocess.run(["bash", "-n", str(path)], check=True)
        assert "set -euo pipefail" in path.read_text(encoding="utf-8")
        if shutil.which("shellcheck"):
            subprocess.run(["shellcheck", "-x", str(path)], cwd=REPOSITORY, check=True)


@pytest.mark.skipif(not shutil.which("actionlint"), reason="actionlint is not installed")
def test_workflows_are_accepted_by_actionlint(tmp_path: Path) -> None:
    labels = tmp_path / "actionlint.yaml"
    labels.write_text("self-hosted-runner:\n  labels: [gpu]\n", encoding="utf-8")
    for number, workflow in enumerate(workflows()):
        file = tmp_path / f"{number}.yml"
        file.write_text(workflow, encoding="utf-8")
        subprocess.run(["actionlint", "-config-file", str(labels), str(file)], check=True)


def test_options_are_split_by_lines_and_never_by_a_shell(job: Job) -> None:
    job.program("advisor", STAND_IN)
    options = "--set n=2**10\n\n   --set name=a b $(touch taken) `touch taken`  \n--anyway\n--no-gpu\n"
    assert job("profile", ADVISOR_WORKLOAD="w.py; touch taken", ADVISOR_OPTIONS=options).returncode == 0
    given = job.read("arguments").splitlines()
    assert given[:2] == ["profile", "w.py; touch taken"]
    assert given[6:] == ["--set", "n=2**10", "--set", "name=a b $(touch taken) `touch taken`", "--no-gpu"]
    assert not (job.root / "taken").exists()


@pytest.mark.parametrize("code", ["0", "3", "130"])
def test_a_profile_that_fails_is_told_later_and_an_older_one_does_not_stand_for_it(
    job: Job, code: str
) -> None:
    job.program("advisor", STAND_IN)
    job.save(profile(), "out/profile.json")
    if code == "0":
        job.save(profile(), "made.json")
    assert job("profile", ADVISOR_TEST_CODE=code).returncode == 0
    assert job.outputs == {"code": code, **({"profile": "out/profile.json"} if code == "0" else {})}
    for compared, exit_code in (("0", int(code)), ("", int(code) or 4)):  # without one, that step never ended
        ended = job("gate", ADVISOR_PROFILE_CODE=code, ADVISOR_COMPARE_CODE=compared)
        assert (ended.returncode, "::error::" in ended.stderr) == (exit_code, bool(exit_code))
    assert job("gate", ADVISOR_PROFILE_CODE="", ADVISOR_COMPARE_CODE="").returncode == 4


@every(
    ("problem", "told"),
    [("", "this is not a pull request: set the input against"), ("it is shallow", "and it is shallow")],
)
def test_gates_without_anything_to_compare_with_are_a_mistake_and_neither_is_fine(
    job: Job, problem: str, told: str
) -> None:
    assert job.compare(**GATED, ADVISOR_BASE_PROBLEM=problem) == ("2", "failed")
    assert told in job.said
    assert job.compare(ADVISOR_BASE_PROBLEM=problem) == ("0", "ungated")
    assert ("::warning::" in job.said) == bool(problem)


@every(("code", "is_left"), [("0", False), ("3", False), ("130", True)])
def test_nothing_is_compared_after_a_profile_that_failed(job: Job, code: str, is_left: bool) -> None:
    """Whether it says so or only left nothing; half a profile does not stand for a whole one, nor what the
    workload wrote for a comparison."""
    job.save(profile(), "base.json")
    job.reports(compare="### the same\n")
    if is_left:
        job.save(later(), "out/profile.json")
    assert job.compare(**BASELINE, **GATED, ADVISOR_PROFILE_CODE=code)[1] == "failed"
    assert not (job.root / "out/compare.md").exists()


WORKLOAD = (FILES / "counter.py").read_text(encoding="utf-8")
SUM = "shown.sum()"
MERGE = "refs/pull/7/merge"


@dataclass
class Upstream:
    """A repository with a pull request as GitHub keeps it: the branch's head, and its merge into main."""

    folder: Path
    commits: dict[str, str]

    def cloned(self, job: Job, reference: str = MERGE, *depth: str) -> Path:
        """As actions/checkout does it: an empty repository that fetches all, or the last commits alone."""
        folder = job.root / "checkout"
        folder.mkdir()
        git(folder, "init", "-q")
        wanted = [f"{reference}:refs/remotes/pull/7"] + ["refs/heads/*:refs/remotes/origin/*"] * (not depth)
        git(folder, "fetch", "-q", *depth, self.folder.as_uri(), *wanted)
        git(folder, "checkout", "-q", "--detach", "refs/remotes/pull/7")
        return folder

    def event(self, job: Job) -> str:
        """The file of a pull_request event, with what matters of it and what an author chose."""
        pull_request = {
            "number": 7,
            "title": "$(touch taken)\ncommit=0",
            "head": {"ref": "topic", "sha": self.commits["head"], "repo": {"fork": True}},
            "base": {"ref": "main", "sha": self.commits["base"], "repo": {"fork": False}},
        }
        path = job.root / "event.json"
        path.write_text(json.dumps({"number": 7, "pull_request": pull_request}), encoding="utf-8")
        return str(path)


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    """main went on after the branch began; `later` came after the event, and is in the merge.

    The branch shows the sum twenty times in place of once.
    """
    folder = tmp_path / "upstream"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commits = {"fork point": commit(folder, WORKLOAD)}
    git(folder, "checkout", "-qb", "topic")
    commits["head"] = commit(folder, WORKLOAD.replace(SUM, f"[{SUM} for _ in range(20)]"))
    git(folder, "checkout", "-q", "main")
    commits["base"] = commit(folder, f"# new\n{WORKLOAD}")
    commits["later"] = commit(folder, f"# newer\n{WORKLOAD}")
    git(folder, "checkout", "-q", "--detach", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    git(folder, "update-ref", MERGE, "HEAD")
    git(folder, "update-ref", "refs/pull/7/head", "topic")
    git(folder, "branch", "-qD", "topic")
    return Upstream(folder, commits)


@pytest.mark.parametrize(("reference", "expected"), [(MERGE, "later"), ("refs/pull/7/head", "fork point")])
def test_the_base_is_what_the_pull_request_changed(
    job: Job, upstream: Upstream, reference: str, expected: str
) -> None:
    """Of its merge what it was merged into, newer than the event or not; of its head where it began. A
    checkout of another user is trusted."""
    folder = upstream.cloned(job, reference)
    given = {"GITHUB_EVENT_PATH": upstream.event(job), "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    ended = job("base", folder=folder, **given)
    assert ended.returncode == 0, ended.stderr
    assert job.outputs == {"commit": upstream.commits[expected]}
    assert not (folder / "taken").exists()


@pytest.mark.parametrize("reference", [MERGE, "refs/pull/7/head"])
def test_a_clone_without_the_base_is_told_what_to_do(job: Job, upstream: Upstream, reference: str) -> None:
    shallow, empty = upstream.cloned(job, reference, "--depth=1"), job.root / "empty"
    empty.mkdir()
    for folder, step in ((shallow, "Give actions/checkout the input fetch-depth: 0"), (empty, "install git")):
        job("base", folder=folder, GITHUB_EVENT_PATH=upstream.event(job))
        assert job.outputs["commit"] == ""
        assert step in job.outputs["problem"]


def test_a_revision_that_is_asked_for_comes_before_the_events(job: Job, upstream: Upstream) -> None:
    folder, event = upstream.cloned(job), upstream.event(job)
    job("base", folder=folder, ADVISOR_AGAINST="origin/main~2", GITHUB_EVENT_PATH=event)
    assert job.outputs == {"commit": upstream.commits["fork point"]}
    for wrong in ("--help", "missing", "x\ncommit=0", "$(touch taken)"):
        assert job("base", folder=folder, ADVISOR_AGAINST=wrong).returncode == 0
        assert job.outputs["commit"] == ""
        assert "git knows no revision" in job.outputs["problem"]
    assert not (folder / "taken").exists()


def test_without_a_pull_request_there_is_no_base_and_no_problem(job: Job, upstream: Upstream) -> None:
    folder, event = upstream.cloned(job), job.root / "event.json"
    for text in ("{", '{"pull_request": {"base": {"sha": "--help"}}}', '{"ref": "refs/heads/main"}'):
        event.write_text(text, encoding="utf-8")
        assert job("base", folder=folder, GITHUB_EVENT_PATH=str(event)).returncode == 0
        assert job.outputs == {}


def test_a_comparison_gets_the_options_of_a_profile_that_it_has(job: Job) -> None:
    job.program("advisor", STAND_IN)
    job.save(profile(), "out/profile.json")
    options = "--set n=2**10\n--rounds 10\n--no-gpu\n--max-seconds 60\n--trace nsys\n--anyway\n"
    given = {"ADVISOR_STRATEGIES": "pinned", "ADVISOR_STRICT": "true", "ADVISOR_OPTIONS": options}
    more = ["--out", "out", "--strategy", "pinned", "--fail-if", "slower=5%", "--strict"]
    run = ["--run", "w.py", "--against", "0" * 40, "--set", "n=2**10", "--no-gpu", "--max-seconds", "60"]
    for sides, arguments in ((VERSIONS, run), (BASELINE, ["base.json", "out/profile.json"])):
        assert job.compare(**sides, **GATED, **given) == ("0", "passed")
        assert job.read("arguments").splitlines() == ["compare", *arguments, "--anyway", *more]


def test_what_lies_in_the_workspace_is_not_imported(job: Job, upstream: Upstream) -> None:
    """By the installer, by what finds the base, and by what comments."""
    folder = upstream.cloned(job)
    for place in (folder, job.root):
        for name in ("json", "re", "os", "pip", "site", "sitecustomize"):
            (place / f"{name}.py").write_text(f"open({str(job.root / 'taken')!r}, 'w')\n", encoding="utf-8")
    given = {"RUNNER_TEMP": str(job.root / "temp"), "GITHUB_PATH": str(job.root / "paths")}
    ended = job("install", folder=folder, GITHUB_ACTION_PATH=str(job.root / "nothing"), **given)
    assert ended.returncode != 0, "there is nothing to install"
    assert "include-system-site-packages = true" in job.read("temp/gpu-memory-advisor/pyvenv.cfg")
    job("base", folder=folder, GITHUB_EVENT_PATH=upstream.event(job))
    assert job.outputs == {"commit": upstream.commits["later"]}
    job.reports(report="x")
    job.comment()
    assert (job.root / "body").exists()
    assert not (job.root / "taken").exists()


READING = """#!/usr/bin/env bash
pid=$$
while [ "$pid" != "$ADVISOR_TEST_PID" ] && [ "$pid" -gt 1 ]; do
    tr '\\0' '\\n' <"/proc/$pid/environ" >>"$ADVISOR_TEST/environments"
    pid="$(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f2)"
done
"""


@pytest.mark.parametrize("step", ["Profile", "Compare"])
def test_no_parent_of_the_workload_holds_a_token(job: Job, step: str) -> None:
    """In a step as a runner starts it."""
    job.program("advisor", READING)
    job.save(profile(), "out/profile.json")
    given = {"ADVISOR_TEST_PID": str(os.getpid()), "ADVISOR_PROFILE_CODE": "0", **VERSIONS}
    tokens = {"GITHUB_TOKEN": "s3cret-1", "GH_TOKEN": "s3cret-2", "ACTIONS_RUNTIME_TOKEN": "s3cret-3"}
    command = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"])
    ended = job(step, command=command, GITHUB_ACTION_PATH=str(REPOSITORY), **given, **tokens)
    assert ended.returncode == 0, ended.stderr
    environments = job.read("environments")
    assert "ADVISOR_WORKLOAD=w.py" in environments
    assert "s3cret" not in environments


LATE = """env -i setsid bash -c '(sleep 1; echo X=1 | tee -a "$0"/command-*) &' "$ADVISOR_TEST" &"""
EACH = 'for file in "$ADVISOR_TEST"/command-*; do'
PLANTING = (
    LATE,
    f'{EACH} echo "PATH=/planted" >>"$file"; done',
    f'{EACH} rm "$file"; ln -s "$ADVISOR_TEST/victim" "$file"; done',
    f"""{EACH} printf 'PATH=/x' >"$file"; mv "$file" "$file.moved"; mkdir "$file"; done""",
)


@pytest.mark.parametrize("program", PLANTING)
def test_files_of_later_steps_are_restored_and_nobody_writes_to_them_later(job: Job, program: str) -> None:
    job.program("advisor", f"#!/usr/bin/env bash\n{program}\n")
    (job.root / "victim").write_text("precious\n", encoding="utf-8")
    files = {name: job.root / f"command-{name}" for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE")}
    for file in files.values():
        file.write_text("BEFORE=1\n", encoding="utf-8")
    assert job("profile", **{name: str(file) for name, file in files.items()}).returncode == 0
    time.sleep(1.5 if program == LATE else 0)
    assert {file.read_text(encoding="utf-8") for file in files.values()} == {"BEFORE=1\n"}
    assert not any(file.is_symlink() for file in files.values())
    assert job.read("victim") == "precious\n"
    assert job.outputs == {"code": "0"}


WAITING = """#!/usr/bin/env bash
(sleep 0.2 & echo "$!" >"$ADVISOR_TEST/orphan")
trap 'exit 7' TERM
touch "$ADVISOR_TEST/ready"
for _ in {1..600}; do
    [ -e "$ADVISOR_TEST/signalled" ] || kill -0 "$(cat "$ADVISOR_TEST/orphan")" 2>/dev/null || exit 3
    sleep 0.1
done
"""


@pytest.mark.parametrize(("signalled", "code"), [(False, 3), (True, 7)], ids=["an orphan", "a signal"])
def test_a_command_sees_its_orphans_go_and_gets_signals(tmp_path: Path, signalled: bool, code: int) -> None:
    (tmp_path / "program").write_text(WAITING, encoding="utf-8")
    if signalled:
        (tmp_path / "signalled").touch()
    contained = str(REPOSITORY / "action/contained.py")
    given = environment(ADVISOR_TEST=str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-I", contained, "bash", str(tmp_path / "program")], env=given
    )
    assert eventually((tmp_path / "ready").exists)
    if signalled:
        process.terminate()
    assert process.wait(120) == code


PLANTING_LINKS = """#!/usr/bin/env bash
if [ -n "${ADVISOR_TEST_WHOLE:-}" ]; then ln -s "$ADVISOR_TEST/elsewhere" "$ADVISOR_OUT"; exit; fi
mkdir -p "$ADVISOR_OUT/deep"
ln -s "$ADVISOR_TEST/secret" "$ADVISOR_OUT/report.md"
ln -s "$ADVISOR_TEST/elsewhere" "$ADVISOR_OUT/deep/folder"
mkfifo "$ADVISOR_OUT/profile.json"
"""


@pytest.mark.parametrize("whole", ["", "1"])
def test_links_in_place_of_a_report_are_refused_with_one_warning(job: Job, whole: str) -> None:
    job.program("advisor", PLANTING_LINKS)
    (job.root / "elsewhere").mkdir()
    for name in ("elsewhere/report.md", "secret"):
        (job.root / name).write_text("hunter2", encoding="utf-8")
    ended = job("profile", ADVISOR_TEST_WHOLE=whole)
    assert (job.outputs, ended.stderr.count("::warning::")) == ({"code": "0"}, 1)
    assert [path for path in (job.root / "out").rglob("*") if not path.is_dir()] == []
    assert (job.root / "elsewhere/report.md").exists()


def test_gates_with_nothing_compared_fail_the_job(job: Job) -> None:
    job.save(profile(), "base.json")
    job("profile", ADVISOR_OPTIONS="--help")
    assert job.outputs == {"code": "0"}
    assert job.compare(**BASELINE, **GATED) == ("4", "failed")
    assert job.said.count("::error::Nothing was compared: ") == 1
    assert job("gate", ADVISOR_PROFILE_CODE="0", ADVISOR_COMPARE_CODE="4").returncode == 4
    assert job.compare(**BASELINE) == ("0", "ungated")
    assert job.said.count("::warning::Nothing was compared: ") == 1


def test_a_baseline_is_no_option(job: Job) -> None:
    job.save(later(), "out/profile.json")
    assert job.compare(**GATED, ADVISOR_BASELINE="--help") == ("5", "failed")
    job.program("advisor", "#!/usr/bin/env bash\nexit 0\n")
    assert job.compare(**GATED, ADVISOR_BASELINE="--help") == ("4", "failed")


def test_the_first_run_writes_a_comment_and_the_next_one_updates_it(job: Job) -> None:
    """One of its own: anybody can write the mark."""
    job.reports(report="the report @nobody", compare="the comparison")
    job.comment()
    assert "--method POST repos/o/r/issues/7/comments" in job.asked
    assert 'select(.user.login == "github-actions[bot]" and (.body | startswith(' in job.asked
    assert job.read("body").startswith(
        "<!-- gpu-memory-advisor: advisor-report -->\nthe comparison\n\n"
        "<details><summary>Report of HEAD</summary>\n\nthe report @&#8203;nobody\n"
    )
    (job.root / "gh").unlink()
    for name, text in (("found", "123\n456\n"), ("login", "a-bot\n")):
        (job.root / name).write_text(text, encoding="utf-8")
    job.comment()
    assert 'select(.user.login == "a-bot" and' in job.asked
    assert "--method PATCH repos/o/r/issues/comments/123 --field" in job.asked
    assert "POST" not in job.asked


FORGED = r"""<!-- gpu-memory-advisor: advisor-report -->
# @everyone see #12, o/r#13 and GH-14
![a](https://evil.example/a.png) [b](https://evil.example) [c] <img src=https://evil.example/x onerror=y>
&#64;mallory &commat;mallory \@mallory \\[d](https://evil.example) \[e](//evil.example)
www.evil.example me@evil.example
[c]: https://evil.example
<details onclick=x><summary>@mallory</summary>
$\href{https://evil.example}{x}$ https:\//evil.example <https://evil.example> mailto:a@b.example
/merge
   ```
@indented ![f](https://evil.example/f.png)
```python extra
@not-a-fence
```
~~~
![g](https://evil.example/g.png)
~~~
- ```
  @list
<details>
"""


def test_a_forged_report_can_do_nothing_as_a_comment(job: Job) -> None:
    job.reports(report=FORGED)
    job.comment()
    body = job.read("body")
    assert body.count("<!--") == 1
    prose, own = body.partition("-->")[2].rsplit("The charts and", 1)
    assert own.startswith(" the full report are in the artifact [")
    live = re.sub(r"(?ms)^\n(`{3,})[a-z]*\n.*?\n\1$", "", prose)
    assert not re.search(r"@(?!&#8203;)|#(?=[A-Za-z0-9])(?<!&#)|:\\*/|www\.|mailto:|\$|`{3}|~{3}", live)
    assert not re.search(r"(?<!\\)(\\\\)*\[", live)
    assert set(re.findall(r"<[^>]*>", live)) <= {"<details>", "</details>", "<summary>", "</summary>"}
    assert not re.search(r"&(?!amp;|lt;|gt;|#8203;|#36;)", live)
    assert not re.search(r"(?m)^\s*/", live)


def test_a_report_of_ours_is_posted_as_it_is(job: Job) -> None:
    """But for blank lines around its code."""
    text = (REPOSITORY / "reports/no-gpu/vector_add/report.md").read_text(encoding="utf-8")
    job.reports(report=text)
    job.comment()
    lines = [line for line in job.read("body").splitlines()[1:-1] if line]
    assert lines == [line for line in text.splitlines() if line]


@pytest.mark.parametrize("what", ["a FIFO", "a link", "a folder", "a folder that is a link"])
def test_what_is_no_file_is_not_posted_and_warned_of_once(job: Job, what: str) -> None:
    out = job.root / "out"
    (job.root / "elsewhere").mkdir()
    (job.root / "elsewhere/report.md").write_text("hunter2", encoding="utf-8")
    if what == "a folder that is a link":
        out.symlink_to(job.root / "elsewhere")
    else:
        out.mkdir()
        made = {"a FIFO": os.mkfifo, "a folder": os.mkdir}
        made.get(what, lambda path: path.symlink_to("../elsewhere/report.md"))(out / "report.md")
    assert job.comment().stderr.count("::warning::") == 1
    assert not (job.root / "body").exists()


@pytest.mark.parametrize(("found", "posted"), [("12\n", True), ("12; x", False)])
def test_after_a_workflow_the_pull_request_is_the_one_with_its_head(
    job: Job, found: str, posted: bool
) -> None:
    job.reports(report="x")
    (job.root / "pulls").write_text(found, encoding="utf-8")
    head = {"ADVISOR_HEAD": "stranger:topic", "ADVISOR_HEAD_COMMIT": "ab" * 20}
    ended = job.comment(ADVISOR_PULL_REQUEST="", **head)
    assert "head=stranger:topic" in job.asked
    assert f'select(.head.sha == "{"ab" * 20}")' in job.asked
    assert ("--method POST repos/o/r/issues/12/comments" in job.asked) == posted
    assert ended.stderr.count("::warning::") == (not posted)


def test_a_token_that_may_not_write_costs_the_comment_alone(job: Job) -> None:
    job.reports(report="x")
    said = job.comment(GH_TEST_CODE="1").stderr
    assert "::warning::The report could not be posted as a comment (reading)" in said


def test_what_is_cut_stays_closed_and_says_so(job: Job) -> None:
    lines = "<details><summary>A</summary>\n\n```python\nx = 1\n```\n" + "a line é\n" * 10_000
    job.reports(compare=lines, report=lines)
    job.comment()
    body = job.read("body")
    assert body.count("<details>") == body.count("</details>") == 3
    assert body.count("\n*Cut here: the rest is in the artifact.*\n") == 2
    assert len(body.encode()) < 65_536


def test_without_a_report_only_an_earlier_comment_is_updated(job: Job) -> None:
    job.comment()
    assert "--method" not in job.asked
    (job.root / "found").write_text("123\n", encoding="utf-8")
    job.comment()
    assert "--method PATCH repos/o/r/issues/comments/123 --field" in job.asked
    assert "**No report of this push**" in job.read("body")
    assert STEPS["Fetch the report"]["continue-on-error"] is True


@every(
    ("code", "message", "told"),
    [
        ("0", "", "**Gates passed.**"),
        ("1", "gate slower=5%: failed", "**Gates failed.**"),
        ("0", "gate slower=5%: inconclusive", "**Gates are inconclusive** because of noise."),
        ("0", "gate slower=5%: not applicable", "**Gates do not apply** to this change."),
        ("3", "error: HEAD: no camera", "**Gates failed.** HEAD: no camera"),
    ],
)
def test_the_comment_begins_with_the_outcome(job: Job, code: str, message: str, told: str) -> None:
    job.program("advisor", STAND_IN.replace("exit", f"echo '{message}' >&2\nexit"))
    job.save(profile(), "out/profile.json")
    job.compare(**VERSIONS, **GATED, ADVISOR_TEST_CODE=code)
    job.comment()
    assert job.read("body").splitlines()[1] == told


PYTHON = """#!/usr/bin/env bash
for argument in "$@"; do
    case "$argument" in
    pip) shift; echo "pip $*" >>"$ADVISOR_TEST/installed"; exit "${PIP_CODE:-0}" ;;
    venv) if [ -n "${NO_ENSUREPIP:-}" ] && [[ "$*" != *--without-pip* ]]; then exit 1; fi ;;
    esac
done
exec REAL "$@"
"""


def test_advisor_has_an_environment_of_its_own_on_stock_debian(job: Job) -> None:
    """Which has no `python`, and whose venv has no pip; with pip it is in the test of the workspace."""
    job.program("python3", PYTHON.replace("REAL", sys.executable))
    (job.root / "paths").touch()
    given = {"RUNNER_TEMP": str(job.root / "temp"), "GITHUB_PATH": str(job.root / "paths")}
    given |= {"PATH": f"{job.root / 'bin'}:/usr/bin:/bin", "NO_ENSUREPIP": "1"}
    for name in ("bash", "python"):
        (job.root / "bin" / name).unlink(missing_ok=True)
    ended = job("install", GITHUB_ACTION_PATH=str(job.root / "nothing"), **given)
    venv = job.root / "temp/gpu-memory-advisor"
    assert ended.returncode == 0, ended.stderr
    assert f"--python {venv}/bin/python install" in job.read("installed").splitlines()[-1]
    assert job.read("paths") == f"{venv}/programs\n"
    assert [path.name for path in (venv / "programs").iterdir()] == ["advisor"]
    assert "include-system-site-packages = true" in job.read("temp/gpu-memory-advisor/pyvenv.cfg")
    assert job("install", GITHUB_ACTION_PATH="x", **given, PIP_CODE="1").returncode != 0


def test_a_pull_request_is_judged_in_one_run_of_both_versions(job: Job, upstream: Upstream) -> None:
    """All of it with the program that users start: base, profile, both versions, gate, comment."""
    job.program("advisor", f'#!/usr/bin/env bash\nexec {sys.executable} -m advisor "$@"\n')
    folder = upstream.cloned(job)
    before = git(folder, "status", "--porcelain", "--ignored")
    job("base", folder=folder, GITHUB_EVENT_PATH=upstream.event(job))
    base = job.outputs["commit"]
    options = "--no-gpu\n--set n=2**18\n--max-seconds 120\n--rounds 1\n--target h200"
    given = {"ADVISOR_WORKLOAD": "app/w.py", "ADVISOR_OPTIONS": options, "ADVISOR_OUT": str(job.root / "out")}
    ended = job("profile", folder=folder, **given)
    assert job.outputs["code"] == "0", ended.stderr
    gates = {"ADVISOR_BASE": base, "ADVISOR_PROFILE_CODE": "0", "ADVISOR_FAIL_IF": "slower=20%"}
    ended = job("compare", folder=folder, **given, **gates)
    assert job.outputs == {"code": "1", "outcome": "failed"}, ended.stderr
    assert job("gate", ADVISOR_PROFILE_CODE="0", ADVISOR_COMPARE_CODE="1").returncode == 1
    assert {"compare.html", "report.html", "profile.json"} <= {p.name for p in (job.root / "out").iterdir()}
    assert load(job.root / "out/profile.json").commit is not None
    job.comment()
    lines = job.read("body").splitlines()
    assert lines[1] == "**Gates failed.**"
    assert "slower by" in lines[3]
    assert "stage show" in lines[3]
    assert git(folder, "worktree", "list").count("\n") == 0
    assert git(folder, "status", "--porcelain", "--ignored") == before
