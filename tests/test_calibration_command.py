"""`advisor devices` as its users type it; from measurements to a catalogue entry, and predictions with it."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from builders import altered, profile, vector_add_trace
from calibrating import (
    DISCRETE,
    MIB,
    QUICK,
    SIZES,
    Answers,
    CpuWithKernels,
    FakeClock,
    KnownGpu,
    bench_on,
    died,
    run_of,
)
from hypothesis import given
from hypothesis import strategies as st
from rendering import Accepted, refusals
from running import Command, advisor, eventually, having
from test_cli import ADVISOR, begun

from advisor.calibration import calibrations
from advisor.calibration.calibrations import GROUPS, Calibration, Request, by_name, calibrate, write
from advisor.cli.console import Around
from advisor.devices.catalogue import load, names
from advisor.devices.entries import CatalogueEntry, Figure
from advisor.errors import FileProblem, NothingMeasured
from advisor.measure.jobs import CalibrationJob, Problem
from advisor.measure.launcher import Ended
from advisor.measure.progress import Silent
from advisor.model.machines import describe_all
from advisor.model.predict import predict
from advisor.profiles.schema import Profile

HOST = by_name("host").keys


@pytest.fixture
def quick(command: Command) -> Answers:
    answers = Answers()
    command.around = Around(calibrating=answers)
    return answers


def test_devices_are_listed_and_shown(command: Command) -> None:
    assert command("devices").out == f"{describe_all()}\n"
    entry = command("devices", "show", "Orin_Nano")
    assert (entry.code, entry.err) == (0, "")
    assert entry.out.startswith("Jetson Orin Nano 8GB (orin-nano)\n")
    assert [command("devices", "show", name).code for name in ("orin-nan", "missing.toml")] == [2, 5]


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
    "--out=",
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


def test_a_gpu_is_used_where_there_is_one_and_cupy(command: Command, quick: Answers, tmp_path: Path) -> None:
    command.around = replace(having(gpus=1, cupy=False), calibrating=quick)
    without = command("devices", "calibrate")
    assert (without.code, "CuPy" in without.err, [job.backend for job in quick.jobs]) == (0, True, ["cpu"])
    quick.jobs.clear()
    command.around = replace(having(gpus=2), calibrating=quick)
    result = command("devices", "calibrate", "--gpu", "1", "--out", "my card.toml", "--name", "Card one")
    assert (result.code, {job.gpu for job in quick.jobs}) == (0, {1})
    assert load(str(tmp_path / "my card.toml")).name == "Card one"
    assert "wrote my card.toml\n  next: advisor profile WORKLOAD.py --target 'my card.toml'" in result.err


def test_ctrl_c_writes_nothing(tmp_path: Path) -> None:
    with begun(ADVISOR, tmp_path, "devices", "calibrate", *BASE, "--out", "mine.toml") as process:
        assert process.stderr.readline() == "[1/1] CPU memory\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted: nothing was written"
    assert eventually(lambda: list(tmp_path.iterdir()) == [])


# From measurements to an entry


def traced() -> Profile:
    """A vector addition without figures, to predict."""
    return profile(traffic=vector_add_trace())


def on_gpu(launch: Any = None, **request: Any) -> Calibration:
    return calibrate(Request(**{"backend": "cuda", **request}), Silent(), launch or Answers())


def saved(calibration: Calibration, folder: Path) -> CatalogueEntry:
    path = folder / "mine.toml"
    path.write_text(calibration.toml(), encoding="utf-8")
    return load(str(path))


def without_origin(entry: CatalogueEntry) -> dict[str, Any]:
    return entry.model_dump(exclude={"origin"})


def test_a_gpu_makes_an_entry_that_loads_and_predicts(tmp_path: Path) -> None:
    calibration = on_gpu()
    entry = saved(calibration, tmp_path)
    assert calibration.entry is not None
    assert without_origin(entry) == without_origin(calibration.entry)
    assert (entry.name, entry.memory_class) == (DISCRETE.name, "discrete")
    assert entry.figures.memory_bytes.value == 8 << 30
    assert entry.figures.l2_bytes.value == 4 * MIB
    assert all(getattr(entry.figures, key) is not None for group in GROUPS for key in group.keys)
    rows = {row.strategy: row.status for row in predict(traced(), entry).results}
    assert rows["pageable"] == rows["pinned"] == rows["managed"] == "predicted"


def test_what_dies_or_is_absent_has_its_reason(tmp_path: Path) -> None:
    calibration = on_gpu(Answers(managed=died, zero_copy=lambda: Ended(None, "timeout", "it hung")))
    entry = saved(calibration, tmp_path)
    assert entry.figures.fault_seconds is None
    assert entry.figures.zero_copy_read_bytes_per_second is None
    assert entry.figures.launch_seconds is not None
    missing = calibration.missing_by_reason()
    assert missing[died().reason] == list(by_name("managed").keys)
    assert missing["it hung"] == list(by_name("zero-copy").keys)
    assert f": {died().reason}.\n" in calibration.toml()
    problem = Problem(cause="device", message="CUDA: no kernel image\nis available")
    key = "l2_bytes_per_second"
    calibration = on_gpu(
        Answers(
            latencies=lambda: Ended(problem, "finished"),
            device=lambda: Ended(run_of("device", without=(key,)), "finished"),
        )
    )
    assert calibration.missing["launch_seconds"] == problem.message
    assert key in calibration.missing
    saved(calibration, tmp_path)  # the comment is one line still


def test_what_cannot_be_calibrated_is_refused(accepted: Accepted) -> None:
    dead = {group.name.replace("-", "_"): died for group in GROUPS if group.needs_gpu}
    wrong = Problem(cause="wrong", error="NothingMeasured", message="there is no GPU 9", next_step="x")
    stopped = Answers(page_locked=lambda: Ended(wrong, "finished"))
    calls: dict[str, Callable[[], object]] = {
        "no rate of the memory": partial(on_gpu, Answers(device=died)),
        "no rates of copies": partial(on_gpu, Answers(transfers=died)),
        "no group on the GPU": partial(on_gpu, Answers(**dead)),
        "no group at all": partial(on_gpu, Answers(host=died, **dead)),
        "a GPU that is not there": partial(on_gpu, stopped, gpu=9),
        "a base beside a GPU": Request("cuda", base=load("h200")).check,
        "a Jetson's CPU on a PC": partial(Request("cpu", base=load("nano")).check, "x86_64"),
        "a Jetson's own CPU": partial(Request("cpu", base=load("nano")).check, "aarch64"),
        "a card": partial(Request("cpu", base=load("h200")).check, "x86_64"),
    }
    accepted(refusals(calls), "not-calibrated.txt")
    assert [(job.group, job.backend, job.gpu) for job in stopped.jobs] == [
        ("host", "cpu", 9),
        ("page-locked", "cuda", 9),
    ]
    with pytest.raises(NothingMeasured) as refused:
        on_gpu(Answers(device=died))
    assert "killed by SIGBUS" in refused.value.detail


def test_no_group_starts_once_the_time_is_up() -> None:
    clock, launch = FakeClock(), Answers()

    def slow(job: CalibrationJob) -> Ended:
        clock.advance(20.0)
        return launch(job)

    calibration = calibrate(Request("cuda"), Silent(), slow, clock)
    assert [job.group for job in launch.jobs] == [group.name for group in GROUPS[:5]]
    assert "90 s" in calibration.missing["fault_seconds"]


# The host alone


def test_the_host_takes_its_place_in_a_cards_entry(tmp_path: Path) -> None:
    base = load("rtx-4090")
    launch = Answers()
    calibration = calibrate(Request("cpu", base=base), Silent(), launch)
    assert [job.group for job in launch.jobs] == ["host"]
    entry = saved(calibration, tmp_path)
    assert entry.name != base.name
    assert entry.figures.host_read_bytes_per_second.value == 10e9
    assert entry.figures.pinned_to_device_bytes_per_second == base.figures.pinned_to_device_bytes_per_second
    assert entry.attributes == base.attributes
    other = Figure(value=1e9, source="another host")
    base = altered(base, "figures", host_pinned_read_bytes_per_second=other)
    entry = calibrate(Request("cpu", base=base), Silent(), Answers()).entry
    assert entry.figures.host_pinned_read_bytes_per_second is None


# The file


def test_every_entry_of_the_catalogue_survives_being_written(tmp_path: Path) -> None:
    path = tmp_path / "written.toml"
    for name in names():
        entry = load(name)
        path.write_text(write(entry, ["a comment", "and\nanother"]), encoding="utf-8")
        assert without_origin(load(str(path))) == without_origin(entry), name


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(TEXTS, st.lists(TEXTS, max_size=3), st.floats(1e-9, 1e15), TEXTS)
def test_whatever_a_device_is_called_the_file_can_be_read(
    name: str, comments: list[str], value: float, source: str
) -> None:
    base = altered(load("h200"), "figures", launch_seconds=Figure(value=value, source=source))
    entry = altered(base, "", name=name.strip())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "odd.toml"
        path.write_text(write(entry, comments), encoding="utf-8")
        assert without_origin(load(str(path))) == without_origin(entry)


# All of it without processes


@pytest.mark.parametrize("make", [CpuWithKernels, KnownGpu])
def test_real_groups_make_an_entry_that_predicts(make: Callable[[], Any], tmp_path: Path) -> None:
    def launch(job: CalibrationJob) -> Ended:
        backend = make()
        if make is KnownGpu:
            backend.kernel_seconds = {name: [1e-3] * 10000 for name in ("copy_once", "read_once")}
        bench = bench_on(backend, sizes=SIZES, limits=QUICK)
        by_name(job.group).measure(bench)
        return Ended(bench.result(), "finished")

    calibration = calibrate(Request("cuda"), Silent(), launch)
    entry = saved(calibration, tmp_path)
    rows = {r.strategy: r.status for r in predict(traced(), entry).results}
    assert rows["pinned"] == rows["zero-copy"] == "predicted"
