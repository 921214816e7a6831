"""`advisor devices ...` as its users type it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from calibrating import Answers, died
from rendering import Accepted, refusals
from running import Command, advisor, environment, eventually, having

from advisor.calibration import calibrations
from advisor.calibration.calibrations import Request, by_name, calibrate
from advisor.cli.console import Around
from advisor.devices.catalogue import load, names
from advisor.errors import FileProblem
from advisor.measure.jobs import CalibrationJob, Problem
from advisor.measure.launcher import ProcessLauncher
from advisor.measure.progress import Silent
from advisor.strategies.backend import BackendName

HOST = by_name("host").keys


@pytest.fixture
def quick(command: Command) -> Answers:
    answers = Answers()
    command.around = Around(calibrating=answers)
    return answers


def test_devices_are_listed_and_shown(command: Command) -> None:
    result = command("devices")
    assert result.code == 0
    assert {line.split()[0] for line in result.out.splitlines()[1:]} == set(names())
    entry = command("devices", "show", "Orin_Nano")
    assert (entry.code, entry.err) == (0, "")
    assert entry.out.startswith("Jetson Orin Nano 8GB (orin-nano)\n")
    unknown = command("devices", "show", "orin-nan")
    assert (unknown.code, unknown.out) == (2, "")
    assert "'orin-nano' or" in unknown.err
    assert command("devices", "show", "missing.toml").code == 5


def test_a_real_run_without_a_gpu_goes_into_a_cards_entry_that_predicts(tmp_path: Path) -> None:
    result = advisor(
        "devices", "calibrate", "--host", "--base", "rtx-4090", "--out", "mine.toml", cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()][:3] == list(HOST)
    assert "GB/s (" in result.stdout
    assert result.stderr.splitlines()[0] == "[1/1] CPU memory"
    assert "advisor profile WORKLOAD.py --target mine.toml" in result.stderr
    entry = load(str(tmp_path / "mine.toml"))
    for key in HOST:
        figure = getattr(entry.figures, key)
        assert 0 < figure.low <= figure.value <= figure.high
        assert figure.value < 1e12
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_without_a_file_and_on_a_full_disk_the_entry_is_printed(
    command: Command, quick: Answers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(path: Path, text: str) -> None:
        raise FileProblem(f"{path} cannot be written: No space left on device")

    calibrate = ("devices", "calibrate", "--host", "--base", "h200", "--name", "H200 in the rack")
    printed = command(*calibrate)
    assert (printed.code, "--out mine.toml" in printed.err) == (0, True)
    monkeypatch.setattr(calibrations, "write_atomically", full)
    lost = command(*calibrate, "--out", str(tmp_path / "mine.toml"))
    assert (lost.code, lost.out) == (FileProblem.exit_code, "")
    for text in (printed.out, lost.err.partition("Save the entry below to a file.\n")[2]):
        (tmp_path / "saved.toml").write_text(text)
        entry = load(str(tmp_path / "saved.toml"))
        assert (entry.name, getattr(entry.figures, HOST[0]).value > 0) == ("H200 in the rack", True)


@pytest.mark.parametrize("busy", [0.0, 0.9])
def test_what_is_missing_and_what_disturbed_is_told(
    quick: Answers, monkeypatch: pytest.MonkeyPatch, busy: float
) -> None:
    here = calibrations.environment(busy=busy)
    monkeypatch.setattr(calibrations, "environment", lambda: here)
    calibration = calibrate(Request("cuda"), Silent(), Answers(managed=died))
    *warnings, missing, reason = calibrations.remarks(calibration, None).splitlines()[: 2 + bool(busy)]
    assert missing == f"missing: {', '.join(by_name('managed').keys)}"
    assert "SIGBUS" in reason
    assert [line[:46] for line in warnings] == ["warning: Other programs used 90 % of the CPU a"] * bool(busy)
    assert ("# Other programs used 90 % of the CPU" in calibration.toml()) == bool(busy)


BASE = ("--host", "--base", "rtx-4090")
WRONG = (
    *("--host --out x.toml", "--host --base rtx-4090 --out x", "--host --base rtx-4090 --out there.toml"),
    *("--host --base rtx-4090 --out folder.toml", "--host --base no.toml", "--host --gpu 0", "--gpu 0"),
)


def test_wrong_input_is_told_before_anything_is_measured(
    command: Command, quick: Answers, tmp_path: Path, accepted: Accepted
) -> None:
    (tmp_path / "there.toml").write_text("mine")
    (tmp_path / "folder.toml").mkdir()
    command.around = replace(having(gpus=0), calibrating=quick)
    calls = {words: partial(command, "devices", "calibrate", *words.split()) for words in WRONG}
    calls["--name ' '"] = partial(command, "devices", "calibrate", *BASE, "--name", " ")
    accepted(refusals(calls), "calibrations-refused.txt")
    assert quick.jobs == []
    assert (tmp_path / "there.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("group", "backend", "cause"), [("latencies", "cuda", "wrong"), ("nothing", "cpu", "device")]
)
def test_a_process_that_cannot_measure_its_group_says_so(
    group: str, backend: BackendName, cause: str, tmp_path: Path
) -> None:
    """GPU 99; a group that there is not."""
    job = CalibrationJob(group=group, backend=backend, gpu=99, directory=str(tmp_path / "job"))
    ended = ProcessLauncher(300, worker="advisor.calibration.calibrations")(job)
    assert isinstance(ended.outcome, Problem), ended
    assert ended.outcome.cause == cause
    assert (ended.outcome.error == "NothingMeasured") == (backend == "cuda")


def test_a_gpu_is_used_where_there_is_one_and_cupy(command: Command, quick: Answers, tmp_path: Path) -> None:
    command.around = replace(having(gpus=1, cupy=False), calibrating=quick)
    without = command("devices", "calibrate")
    assert (without.code, "CuPy" in without.err, [job.backend for job in quick.jobs]) == (0, True, ["cpu"])
    quick.jobs.clear()
    command.around = replace(having(gpus=2), calibrating=quick)
    result = command("devices", "calibrate", "--gpu", "1", "--out", "mine.toml", "--name", "Card one")
    assert (result.code, {job.gpu for job in quick.jobs}) == (0, {1})
    assert load(str(tmp_path / "mine.toml")).name == "Card one"
    assert "wrote mine.toml" in result.err


def test_ctrl_c_writes_nothing(tmp_path: Path) -> None:
    arguments = ["devices", "calibrate", *BASE, "--out", "mine.toml"]
    process = subprocess.Popen(
        [sys.executable, "-m", "advisor", *arguments],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stderr.readline() == "[1/1] CPU memory\n"
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted: nothing was written"
    assert eventually(lambda: list(tmp_path.iterdir()) == [])
