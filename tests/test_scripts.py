"""Script mode with real processes and a CuPy on NumPy: what is imposed, seen, compared, and refused."""

from __future__ import annotations

import html
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import nvtx
import pytest
from builders import cuda_device, script_profile
from fakes import FakeClock
from rendering import shown
from running import FILES, Command, advisor, having, missing, python_path
from shared_server import server

import advisor as public
from advisor import pipeline
from advisor.errors import UsageError, WorkloadError
from advisor.measure.jobs import Job, ScriptSample
from advisor.measure.launcher import ProcessLauncher
from advisor.measure.nvtx_ranges import RangeWatch
from advisor.measure.progress import Silent
from advisor.measure.results import of_runs
from advisor.measure.settings import Settings
from advisor.profiles import reading
from advisor.profiles.outputs import MANIFEST
from advisor.profiles.row_figures import FrameEnergy, ScriptCopies, ScriptMeasured
from advisor.profiles.schema import WRONG_RESULTS, Profile
from advisor.profiles.traces import Activity, NoTrace, NsysTrace, StrategyTrace
from advisor.strategies.scripts import SCRIPT_STRATEGIES, UNCHANGED, choose, code
from advisor.verdicts.measured import recommend_script
from advisor.workloads.scripts import Results, is_script

TRAIN = FILES / "train.py"
FAKES = Path(__file__).resolve().parent / "fake_packages"


@pytest.fixture
def fake_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process finds the CuPy on NumPy, and no cuda-bindings."""
    monkeypatch.setenv("PYTHONPATH", python_path(FAKES))


def run(
    *arguments: str,
    only: tuple[str, ...] = ("stream-ordered-pool",),
    file: Path = TRAIN,
    keep_in: Path | None = None,
    **options: Any,
) -> Profile:
    with tempfile.TemporaryDirectory() as scratch:
        settings = script_settings(*arguments, only=only, file=file, **options)
        launcher = ProcessLauncher(settings.timeout, server=server())
        return pipeline.profile(settings, Silent(), keep_in=keep_in or Path(scratch), launcher=launcher)


def script_settings(
    *arguments: str, only: tuple[str, ...] = (), file: Path = TRAIN, **options: Any
) -> Settings:
    given: dict[str, Any] = {"rounds": 1, "timeout": 60.0, "seed": 0, "command": "advisor profile", **options}
    return Settings(
        file=file,
        workload=None,
        arguments=arguments,
        assignments={},
        backend="cuda",
        gpu=0,
        strategies=choose(only),
        targets=(),
        max_seconds=60.0,
        **given,
    )


def rows(found: Profile) -> dict[str, ScriptMeasured]:
    assert found.script is not None
    return {row.strategy: row for row in found.script.measured}


def reasons(found: Profile) -> dict[str, str]:
    return {row.strategy: row.reason for row in found.results if row.status != "measured"}


@pytest.mark.usefixtures("fake_cupy")
def test_every_strategy_is_run_and_the_best_is_recommended(tmp_path: Path) -> None:
    found = run("--epochs", "4", "--keep", only=(), rounds=2, keep_in=tmp_path)
    measured = rows(found)
    assert list(measured) == [
        UNCHANGED, "unpinned-staging", "managed-pool", "zero-copy-pool", "stream-ordered-pool"
    ]  # fmt: skip
    assert reasons(found)["system-pool"]
    assert "cuda-bindings" in reasons(found)["managed-prefetch-pool"]
    assert all(len(row.run_seconds) == 2 and row.verified for row in measured.values())
    times = {name: row.median_seconds for name, row in measured.items()}
    assert times["stream-ordered-pool"] < times[UNCHANGED] < times["managed-pool"] < times["zero-copy-pool"]
    assert times["unpinned-staging"] > times[UNCHANGED] + 0.2, "the fake waits where nothing is staged"
    assert found.recommendation is not None
    assert found.recommendation.strategy == "stream-ordered-pool"
    assert found.device.name == "Fake GPU"
    kept = pipeline.concluded(reading.load(tmp_path / pipeline.PARTIAL))
    assert (kept.script, kept.results, kept.created) == (found.script, found.results, found.created)
    assert {state.moment for state in found.environment.gpu_readings} >= {"under-load"}
    found.save(tmp_path / "profile.json")
    again = reading.load(tmp_path / "profile.json")
    assert again == found
    for text in (shown(again, form) for form in ("details", "md", "html")):
        assert "train.py" in text
        assert "zero-copy-pool" in text
        assert "to start from" in text


@pytest.mark.usefixtures("fake_cupy")
def test_cpu_time_is_that_of_a_run_with_its_children_and_energy_is_absent_with_a_reason(
    tmp_path: Path,
) -> None:
    file = tmp_path / "burns.py"
    file.write_text(
        "import os, time, cupy\n"
        "def burn():\n"
        "    end = time.process_time() + 0.2\n"
        "    while time.process_time() < end: pass\n"
        "burn()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    burn()\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    found = run(file=file)
    base = rows(found)[UNCHANGED]
    assert base.cpu_seconds is not None
    assert 0.4 <= base.cpu_seconds < 2
    assert base.energy is None
    assert base.absent["energy"]
    said = html.unescape(shown(found, "html"))
    assert missing(said, "CPU time per run", base.absent["energy"]) == []


def test_a_row_has_the_energy_of_all_its_runs() -> None:
    def sample(joules: float | None, cpu: float) -> ScriptSample:
        taken = joules and FrameEnergy(
            joules=joules, watts=50 + joules / 2, idle_watts=50, seconds=2, frames=1, source="a fake"
        )
        return ScriptSample(
            seconds=2, setup_seconds=0, compared=(), cpu_seconds=cpu, energy=taken or None,
            unmetered="" if taken else "too short",
        )  # fmt: skip

    found = of_runs([sample(10, 1.0), sample(20, 3.0), sample(None, 2.0)])
    assert (found["cpu_seconds"], found["energy"].joules) == (2.0, pytest.approx(15))
    assert (found["energy"].frames, found["energy"].seconds) == (2, 4)
    assert of_runs([sample(None, 1.0)])["absent"] == {"energy": "too short"}


@pytest.mark.usefixtures("fake_cupy")
def test_ranges_copies_and_memory_are_seen_in_a_run_of_their_own() -> None:
    measured = rows(run("--epochs", "3", "--keep"))
    base = measured[UNCHANGED]
    (epoch,) = base.ranges
    assert (epoch.name, epoch.count) == ("epoch", 3)
    assert 3 * 0.08 <= epoch.seconds < base.median_seconds * 3
    assert base.copies == ScriptCopies(to_device=1, to_device_bytes=4000, to_host=1, to_host_bytes=4000)
    assert base.memory is not None
    assert (base.memory.requests, base.memory.reserved_bytes) == (4, 16000)
    assert measured["stream-ordered-pool"].memory is None, "CUDA's own pool has no hooks"


def test_a_script_s_own_exit_code_ends_it_all(fake_cupy: None) -> None:
    with pytest.raises(WorkloadError, match="exit code 3"):
        run("--epochs", "1", "--act", "exit")
    with pytest.raises(WorkloadError, match="exit code 1: ValueError") as caught:
        run("--epochs", "1", "--act", "fail")
    assert "ValueError" in caught.value.detail.splitlines()[-1]
    assert "runpy" not in caught.value.detail
    with pytest.raises(WorkloadError, match="did not finish") as caught:
        run("--epochs", "1", "--act", "_exit")
    assert "os._exit" in caught.value.next_step


def test_missing_arguments_are_asked_for(fake_cupy: None) -> None:
    with pytest.raises(WorkloadError, match="exit code 2") as caught:
        run()
    assert "-- --epochs 1" in caught.value.next_step
    assert "required: --epochs" in caught.value.detail


@pytest.mark.usefixtures("fake_cupy")
def test_a_script_that_sets_the_allocator_is_measured_as_it_is_alone() -> None:
    found = run("--epochs", "1", "--act", "allocator")
    line = 1 + TRAIN.read_text().splitlines().index(
        "        cupy.cuda.set_allocator(cupy.cuda.MemoryPool().malloc)"
    )
    assert f"train.py, line {line}" in reasons(found)["stream-ordered-pool"]
    (note,) = rows(found)[UNCHANGED].notes
    assert f"train.py, line {line}" in note


@pytest.mark.usefixtures("fake_cupy")
def test_a_fork_is_told_and_its_child_leaves_no_outcome() -> None:
    found = run("--epochs", "1", "--act", "fork")
    assert any("forked 1 times" in note for note in rows(found)[UNCHANGED].notes)


@pytest.mark.usefixtures("fake_cupy")
def test_what_is_printed_is_compared_where_it_is_the_same_in_every_run() -> None:
    differs = run("--epochs", "1", "--act", "differ")
    assert "its output differs" in reasons(differs)["stream-ordered-pool"]
    random = run("--epochs", "1", "--act", "random")
    assert reasons(random) == {}
    assert not rows(random)[UNCHANGED].verified
    assert any("exit status" in note for note in random.notes)


@pytest.mark.usefixtures("fake_cupy")
def test_results_are_compared_element_by_element(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text(
        "import cupy, numpy as np, advisor\n"
        "a = cupy.asarray(np.arange(4.0))\n"
        "b = a + (1 if a.memory.kind == 'device' else 1.5)\n"
        "advisor.result(b, 'b')\n"
    )
    found = run(file=script)
    ((strategy, reason),) = reasons(found).items()
    assert strategy == "stream-ordered-pool"
    assert not missing(reason, WRONG_RESULTS, "4 of 4 elements", "'0-b'", "error is 0.5")
    assert rows(found)[UNCHANGED].verified


@pytest.mark.usefixtures("fake_cupy")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("if on_device: advisor.result([1.0])", "advisor.result"),
        ("advisor.result(np.ones(4 if on_device else 3))", "'0' is float64 (3,), not float64 (4,)"),
    ],
)
def test_missing_results_and_those_of_another_shape_are_wrong(
    given: str, reason: str, tmp_path: Path
) -> None:
    script = tmp_path / "s.py"
    script.write_text(
        "import cupy, numpy as np, advisor\n"
        "on_device = cupy.asarray([0.0]).memory.kind == 'device'\n"
        f"{given}\n"
    )
    ((strategy, told),) = reasons(run(file=script)).items()
    assert (strategy, reason in told) == ("stream-ordered-pool", True)


def test_results_of_other_libraries_are_kept_too(tmp_path: Path) -> None:
    class Tensor:
        def detach(self) -> Tensor:
            return self

        def cpu(self) -> list[float]:
            return [1.0, 2.0]

    class NumbaArray:
        def copy_to_host(self) -> list[float]:
            return [3.0]

    results = Results(tmp_path / "kept")
    with results.listening():
        for name, given in (("tensor", Tensor()), ("", NumbaArray()), ("a/b", [4, 5])):
            public.result(given, name)
    assert results.names == ["0-tensor", "1", "2-a_b"]
    assert [np.load(tmp_path / "kept" / f"{name}.npy").tolist() for name in results.names] == [
        [1.0, 2.0], [3.0], [4, 5]
    ]  # fmt: skip
    assert results.seconds > 0


def test_result_is_nothing_outside_of_script_mode() -> None:
    marker = object()
    assert public.result(marker, "anything") is marker


def test_ranges_of_the_nvtx_package_are_heard_in_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mark moves the clock by a second; the nested range is inside the outer one."""
    for name in ("annotate", "push_range", "pop_range"):
        monkeypatch.setattr(nvtx, name, getattr(nvtx, name))
    clock = FakeClock(1.0)
    watch = RangeWatch(Ticking(clock))
    watch.listen_to_nvtx()
    with nvtx.annotate("outer", color="red"), nvtx.annotate(message="inner"):
        pass
    nvtx.push_range("pushed")
    nvtx.pop_range()
    nvtx.pop_range()

    @nvtx.annotate("called")
    def named(value: int) -> int:
        return value + 1

    @nvtx.annotate()
    def unnamed() -> None: ...

    assert named(1) == 2
    unnamed()
    assert named.__name__ == "named"
    found = {r.name: (r.count, r.seconds) for r in watch.ranges()}
    assert found == {
        "inner": (1, 1.0), "outer": (1, 3.0), "pushed": (1, 1.0), "called": (1, 1.0), "unnamed": (1, 1.0)
    }  # fmt: skip


class Ticking:
    """A stream's clock that a test moves."""

    def __init__(self, clock: FakeClock) -> None:
        self.mark = clock

    def seconds_between(self, begin: float, end: float) -> float:
        return end - begin


# The command line


def test_without_a_gpu_it_says_what_it_would_run_and_why_it_cannot(tmp_path: Path) -> None:
    done = advisor("profile", TRAIN, "--no-gpu", "--", "--epochs", "1", cwd=tmp_path)
    assert done.returncode == 4
    assert " 29 times" in done.stdout
    assert all(f"  {s.name}: {s.summary}" in done.stdout for s in SCRIPT_STRATEGIES)
    assert "--no-gpu" in done.stderr
    assert not (tmp_path / "advisor-report").exists()


@pytest.mark.usefixtures("fake_cupy")
def test_the_command_writes_a_report(command: Command, tmp_path: Path) -> None:
    command.around = having(gpus=1)
    said = command(
        "profile", TRAIN, "--rounds", "1", "--strategy", "managed-pool", "--", "--epochs", "2", "--keep"
    )
    assert said.code == 0, said.err
    saved = json.loads((tmp_path / "advisor-report" / "profile.json").read_text())
    assert saved["script"]["arguments"] == ["--epochs", "2", "--keep"]
    assert [row["strategy"] for row in saved["script"]["measured"]] == [UNCHANGED, "managed-pool"]
    assert "train.py --epochs 2 --keep on Fake GPU" in said.out
    assert "Undecided: " in said.out, "one run of each has no spread"
    for given in ("advisor-report", "advisor-report/profile.json"):
        assert command("report", given).out == said.out


@pytest.mark.usefixtures("fake_cupy")
def test_no_form_of_a_script_s_report_tells_its_secrets(command: Command, tmp_path: Path) -> None:
    """Given as arguments, said in an exception's text, written as a range's name; homes of others too."""
    command.around = having(gpus=1)
    (tmp_path / "s.py").write_text(
        "import sys, cupy, nvtx\n"
        "a = cupy.asarray([0.0])\n"
        "with nvtx.annotate(f'login {sys.argv[3]}'):\n"
        "    pass\n"
        "if a.memory.kind != 'device':\n"
        "    raise ValueError(f'no access with {sys.argv[3]} to {sys.argv[4]}')\n"
        "print('done')\n"
    )
    given = ("--token=hf_abcdefghijklmnopqrst", "--password", "hunter2", "--data=/home/alice/set")
    said = command(
        "profile", "s.py", "--rounds", "1", "--strategy", "managed-pool", "--strategy", "stream-ordered-pool",
        "--", *given,
    )  # fmt: skip
    assert said.code == 0, said.err
    written = {path.name: path.read_text() for path in (tmp_path / "advisor-report").iterdir()}
    assert set(written) == {MANIFEST, "profile.json", "report.html", "report.md"}
    for name, text in {**written, "stdout": said.out}.items():
        assert "hf_abcdef" not in text, name
        assert "hunter2" not in text, name
        assert "alice" not in text, name
    saved = json.loads(written["profile.json"])
    assert saved["script"]["arguments"] == ["--token=***", "--password", "***", "--data=~/set"]
    assert "no access with ***" in saved["results"][0]["reason"]
    assert saved["script"]["measured"][0]["ranges"][0]["name"] == "login ***"


@pytest.mark.usefixtures("fake_cupy")
def test_each_measured_strategy_of_a_script_is_traced_once_more_as_a_whole(tmp_path: Path) -> None:
    asked: list[Job] = []

    def captures(jobs: list[Job], *_: object) -> NsysTrace:
        asked.extend(jobs)
        seen = StrategyTrace(
            strategy=UNCHANGED, frames=1, frame_seconds=1.5, activity=Activity(gpu_page_faults=7)
        )
        reason = "it failed: no access with hunter2"
        return NsysTrace(
            strategies=(seen,), missing=(NoTrace(strategy="stream-ordered-pool", reason=reason),)
        )

    given = ("--epochs", "1", "--act", "token=hunter2")
    settings = script_settings(*given, only=("stream-ordered-pool",), trace=("nsys",))
    found = pipeline.profile(settings, Silent(), keep_in=tmp_path, captures=captures)  # type: ignore[arg-type]
    assert [(job.task, job.strategy, job.arguments) for job in asked] == [
        ("capture", UNCHANGED, given),
        ("capture", "stream-ordered-pool", given),
    ]
    assert "hunter2" not in found.to_json()
    (seen,) = found.trace.strategies
    assert (seen.strategy, seen.activity.gpu_page_faults) == (UNCHANGED, 7)
    assert "1.50" in shown(found, "html")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--set", "n=1", "--", "--epochs", "1"), 2, "--set applies only to workloads"),
        (("--nsys", "nsys", "--", "--epochs", "1"), 2, "--nsys has no effect without --trace nsys"),
        (("--strategy", "pinned"), 2, "cannot be run under 'pinned'"),
        (("--rounds", "0"), 2, "--rounds 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    arguments: tuple[str, ...], code: int, says: str, command: Command
) -> None:
    said = command("profile", TRAIN, *arguments)
    assert said.code == code
    assert says in said.error[0]


def test_an_option_of_the_script_s_before_the_dashes_is_explained(command: Command) -> None:
    said = command("profile", TRAIN, "--epochs", "1")
    assert said.code == 2
    assert " --." in said.err


def test_a_workload_takes_no_arguments(command: Command) -> None:
    said = command("profile", FILES / "counter.py", "--", "--epochs", "1")
    assert said.code == 2
    assert "takes no arguments" in said.error[0]


@pytest.mark.parametrize(
    ("text", "arguments", "script"),
    [
        ("import cupy as cp\n", (), True),
        ("def f():\n    from cupyx.scipy import fft\n", (), True),
        ("import torch.nn as nn\n", (), True),
        ("from numba import cuda\n", (), True),
        ("import torch\nfrom advisor import workload\n", (), False),
        ("import numpy\n", (), False),
        ("import numpy\n", ("--epochs",), True),
        ("import cupy\nfrom advisor import workload\n", (), False),
        ("import cupy\nimport advisor\n@advisor.workload\ndef w(): ...\n", (), False),
        ("import cupy\nfrom advisor import Workload\n", (), False),
        ("import cupy\nfrom advisor import result\n", (), True),
        ("import cupy\nimport advisor as a\n@a.workload\ndef w(): ...\n", (), False),
        ("import cupy\nfrom advisor import workload as w\n@w\ndef f(): ...\n", (), False),
        ("import cupy\nfrom mine import *\n@workload\ndef w(): ...\n", (), False),
        ("import cupy\nimport advisor\nw = advisor.Workload\n", (), False),
        ("import cupy\nworkload = args.workload\nfrom mine import workload\n", (), True),
        ("import cupy (\n", (), False),
    ],
)
def test_a_script_is_told_from_its_text(
    text: str, arguments: tuple[str, ...], script: bool, tmp_path: Path
) -> None:
    (tmp_path / "f.py").write_text(text)
    assert is_script(tmp_path / "f.py", None, arguments) is script
    assert not is_script(tmp_path / "f.py", "name", arguments)
    assert not is_script(tmp_path / "missing.py", None, arguments)


_CHANGES_NOTHING = ": CuPy's allocators change nothing in it, so there is nothing to compare\n"


@pytest.mark.usefixtures("fake_cupy")
@pytest.mark.parametrize(
    ("text", "answer", "guide"),
    [
        ("import cupy", "s.py makes no array with CuPy", "docs/tutorial.md"),
        ("import cupy\nif 0: cupy.zeros(3)", "s.py makes no array with CuPy", "docs/tutorial.md"),
        ("print('done')", "s.py makes no array with CuPy", "docs/tutorial.md"),
        ("import torch", "s.py uses PyTorch, not CuPy", "docs/frameworks/pytorch.md"),
        ("import cupy, torch", "s.py uses PyTorch, not CuPy", "docs/frameworks/pytorch.md"),
        ("import importlib as i; i.import_module('numba')", "s.py uses Numba, not CuPy", "numba.md"),
    ],
)
def test_a_script_in_which_nothing_can_change_has_that_answer(
    text: str, answer: str, guide: str, command: Command, tmp_path: Path
) -> None:
    """By what a run used, not by what it imports."""
    command.around = having(gpus=1)
    for name, content in {"s": text, "torch": "", "numba": ""}.items():
        (tmp_path / f"{name}.py").write_text(content + "\n")
    said = command("profile", "s.py", "--", "--epochs", "1")
    assert (said.code, said.out) == (0, answer + _CHANGES_NOTHING)
    assert guide in said.err
    assert not list((tmp_path / "advisor-report").glob("*.json"))


@pytest.mark.usefixtures("fake_cupy")
@pytest.mark.parametrize("text", ["cupy.asarray([1.0])", "import helper", "cupy.asarray([1.0]).get()"])
def test_a_script_that_uses_cupy_is_compared_whatever_else_it_imports(text: str, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import cupy\ncupy.asarray([1.0])\n")
    (tmp_path / "torch.py").write_text("")
    (tmp_path / "s.py").write_text(f"import cupy, torch\n{text}\n")
    found = run(file=tmp_path / "s.py")
    assert set(rows(found)) == {UNCHANGED, "stream-ordered-pool"}
    assert any("also uses PyTorch" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "code", "answer"),
    [
        ("import torch", 0, "s.py imports PyTorch, not CuPy"),
        ("def f():\n    import numba, torch", 0, "s.py imports Numba and PyTorch, not CuPy"),
        ("import plain, numpy, pandas", 0, "s.py does not import CuPy"),
        ("import torch, helper", 4, ""),
        ("import torch, cudf", 4, ""),
        ("import torch, importlib", 4, ""),
        ("import cupy", 4, ""),
    ],
)
def test_without_a_gpu_a_script_that_imports_no_cupy_has_that_answer_too(
    text: str, code: int, answer: str, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "helper.py").write_text("import helper, plain\nimport cupyx\n")
    (tmp_path / "plain.py").write_text("import numpy\n")
    (tmp_path / "s.py").write_text(text + "\n")
    said = command("profile", "s.py", "--no-gpu", "--", "1")
    assert said.code == code
    assert said.out == answer + _CHANGES_NOTHING if answer else "29 times" in said.out


def test_preferences_leave_the_verdict_of_a_script_alone(command: Command) -> None:
    """They are of frames and of memory by kind; advisor.toml may be there for other profiles."""
    script_profile(managed_pool=2.0).save(Path("script.json"))
    Path("advisor.toml").write_text('objective = "footprint"\n')
    said = command("report", "script.json")
    assert said.code == 0
    assert UNCHANGED in said.out


def test_nothing_can_be_predicted_of_a_script(command: Command) -> None:
    script_profile().save(Path("script.json"))
    said = command("predict", "script.json")
    assert said.code == 2
    assert "script.json" in said.error[0]
    assert "advisor new" in said.error[1]


# Strategies and verdicts


def test_strategies_know_what_a_device_lacks() -> None:
    able = cuda_device(
        managed_memory=1,
        concurrent_managed_access=1,
        can_map_host_memory=1,
        memory_pools_supported=1,
        pageable_memory_access=1,
    )
    assert {s.name: s.unavailable(able) for s in SCRIPT_STRATEGIES} == dict.fromkeys(
        s.name for s in SCRIPT_STRATEGIES
    )
    poor = cuda_device(
        managed_memory=0,
        concurrent_managed_access=0,
        can_map_host_memory=0,
        memory_pools_supported=0,
        pageable_memory_access=0,
    )
    assert [s.name for s in SCRIPT_STRATEGIES if not s.unavailable(poor)] == [UNCHANGED, "unpinned-staging"]
    for strategy in SCRIPT_STRATEGIES:
        compile(code(strategy.name), strategy.name, "exec")
    with pytest.raises(UsageError, match="managed-pool"):
        choose(["managed"])


def measured(strategy: str, *seconds: float, verified: bool = True) -> ScriptMeasured:
    return ScriptMeasured(
        strategy=strategy,
        run_seconds=seconds,
        median_seconds=sorted(seconds)[len(seconds) // 2],
        interval_seconds=(min(seconds), max(seconds)),
        setup_seconds=0.1,
        copies=ScriptCopies(to_device=0, to_device_bytes=0, to_host=0, to_host_bytes=0),
        verified=verified,
    )


@pytest.mark.parametrize(
    ("others", "strategy", "verdict"),
    [
        ((0.5, 0.501, 0.499), "managed-pool", "fastest"),
        ((2.0, 2.01, 1.99), UNCHANGED, "keep"),
        ((0.999, 1.0, 1.001), UNCHANGED, "keep"),
        ((0.5, 1.0, 1.6), "managed-pool", "open"),
    ],
)
def test_a_verdict_is_never_inside_the_noise(
    others: tuple[float, ...], strategy: str | None, verdict: str
) -> None:
    rows = [measured(UNCHANGED, 1.0, 1.001, 0.999), measured("managed-pool", *others)]
    found = recommend_script(rows, 0.95)
    assert found is not None
    assert (found.strategy, found.verdict) == (strategy, verdict)
    assert (found.verdict == "open") == (found.bound is None or found.bound > 0.05)
    if verdict == "fastest":
        assert "managed-pool" in found.next_step
        assert found.speedup == pytest.approx(2, rel=0.01)


def test_one_run_each_is_no_verdict_and_none_is_none() -> None:
    found = recommend_script([measured(UNCHANGED, 1.0), measured("managed-pool", 0.1)], 0.95)
    assert found is not None
    assert (found.strategy, found.verdict, found.bound) == ("managed-pool", "open", None)
    assert "--rounds" in found.next_step
    assert recommend_script([], 0.95) is None
    alone = recommend_script([measured(UNCHANGED, 1.0, verified=False)], 0.95)
    assert alone is not None
    assert UNCHANGED in alone.reason
