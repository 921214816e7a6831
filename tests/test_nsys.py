"""Running nsys: found, told what it understands, and whatever it does wrong costs the trace alone.

A shell script stands in its place here; the real one is in test_real_nsys.py.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import builders
import pytest
from fakes import job
from nsys_exports import Export
from running import REPOSITORY, Command, FakeLauncher, cpu_settings, eventually, is_gone

from advisor import pipeline
from advisor.measure.jobs import Job
from advisor.measure.progress import Silent
from advisor.nsys import capturing as nsys_module
from advisor.nsys.capturing import NO_GPU_TO_TRACE, NsysCaptures, NsysFailed, find
from advisor.profiles.schema import Device, Profile
from advisor.profiles.traces import NsysTrace

CPU = Device(name="CPU", kind="cpu")
MS = 1_000_000

SCRIPT = """#!/bin/bash
# Stands in for nsys: {does} says what `profile` does.
case "$1" in
--version) echo "NVIDIA Nsight Systems version {version}-234433681190v0" ;;
profile)
    if [ "$2" = --help ]; then echo "  --trace= --sample= --cpuctxsw= --force-overwrite= {more}"; exit; fi
    while [ "${{1#--}}" != "$1" ] || [ "$1" = profile ]; do
        case "$1" in --output=*) report=${{1#--output=}} ;; esac
        shift
    done
    {does} ;;
export) cp "{export}" "${{@: -2:1}}" ;;
esac
"""
RUNS = '"$@"; code=$?; echo report >"$report.nsys-rep"; exit $code'


def fake(directory: Path, does: str = RUNS, **given: Path | str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path, given = directory / "nsys", {"version": "2023.4.4.54", "more": "", "export": "", **given}
    path.write_text(SCRIPT.format(does=does, **given))
    path.chmod(0o755)
    return path


def capture_job(directory: Path, strategy: str = "pageable", **changes: object) -> Job:
    file = REPOSITORY / "workloads" / "vector_add.py"
    fields = {"task": "capture", "backend": "cpu", "file": str(file), "assignments": {"n": "64"}, "frames": 2}
    places = {"directory": str(directory / strategy), "reference": str(directory / "results")}
    return job(**{**fields, **places, "strategy": strategy, **changes})


def export_of(path: Path, strategy: str = "pageable") -> Path:
    export = Export(path).strategy(strategy)
    export.range("host:produce", 10 * MS, 12 * MS)
    return export.done()


def captured(path: Path | None, *jobs: Job, **options: object) -> NsysTrace:
    captures = NsysCaptures(path, **options)  # type: ignore[arg-type]
    return captures(jobs, CPU, Silent())


# Where it is


def test_where_nsys_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    nsys = find()
    assert (nsys.path, nsys.version, nsys.name) == (path, (2023, 4, 4), "nsys 2023.4.4")
    monkeypatch.setenv("PATH", "/nowhere")
    root = tmp_path / "opt/nvidia/nsight-systems"
    fake(root / "2022.4.2/target-linux-x64", version="2022.4.2.1")
    newest = fake(root / "2024.10.1/bin", version="2024.10.1.2")
    fake(tmp_path / "usr/lib/nsight-systems/bin", version="2023.4.4.54")
    assert find(root=tmp_path).path == newest
    with pytest.raises(NsysFailed, match="not found on PATH"):
        find(root=tmp_path / "empty")


def test_the_one_that_is_given(tmp_path: Path) -> None:
    path = fake(tmp_path)
    assert find(path).path == find(tmp_path).path == path
    with pytest.raises(NsysFailed, match="there is no nsys at"):
        find(tmp_path / "elsewhere")
    path.write_text("#!/bin/sh\necho something else\n")
    with pytest.raises(NsysFailed, match="does not report its version"):
        find(path)
    path.chmod(0o644)
    with pytest.raises(NsysFailed, match="Permission denied"):
        find(path)


# What it is told

FAULTS = "--cuda-memory-usage= --cuda-um-cpu-page-faults= --cuda-um-gpu-page-faults="


MANAGED = {"concurrent_managed_access": 1}


@pytest.mark.parametrize(
    ("device", "known", "faults"),
    [
        (builders.cuda_device("discrete", **MANAGED), FAULTS, True),
        (builders.cuda_device("discrete", **MANAGED), "", False),
        (builders.cuda_device("tegra-coherent", **MANAGED), FAULTS, False),
        (builders.cuda_device("discrete", concurrent_managed_access=0), FAULTS, False),
        (CPU, FAULTS, False),
    ],
)
def test_only_what_the_device_and_this_version_can(
    tmp_path: Path, device: Device, known: str, faults: bool
) -> None:
    command = find(fake(tmp_path, more=known)).command(device, Path("/out/x"), ["python"])
    on_gpu = device.kind == "cuda"
    assert ("--cuda-um-gpu-page-faults=true" in command) == faults
    assert ("--cuda-um-cpu-page-faults=true" in command) == faults
    assert ("--cuda-memory-usage=true" in command) == (on_gpu and bool(known))
    wanted = {"--sample=none", "--cpuctxsw=none", "--output=/out/x", f"--trace={'cuda,' * on_gpu}nvtx"}
    assert wanted <= set(command)
    assert command[-1] == "python"


def test_its_progress_bars_are_no_message(tmp_path: Path) -> None:
    does = r'printf "[1/1] [=30%%  ] a\r[1/1] [=100%%] a\n\nthe disk is full\n"; exit 3'
    path = fake(tmp_path, does)
    with pytest.raises(NsysFailed, match=r"code 3: the disk is full$"):
        nsys_module.run([str(path), "profile", "--output=x"])


@pytest.mark.parametrize("often", [1, 2])
def test_a_collision_with_another_that_starts_is_tried_again_once(tmp_path: Path, often: int) -> None:
    fails = f'[ $(wc -l <"$0.starts") -gt {often} ] || {{ echo "= sem_open"; exit 1; }}'
    path = fake(tmp_path, f'echo >>"$0.starts"; {fails}; echo ran')
    with nullcontext() if often == 1 else pytest.raises(NsysFailed, match="code 1"):
        assert nsys_module.run([str(path), "profile", "--output=x"]) == "ran"
    assert len(Path(f"{path}.starts").read_text()) == 2


# What it does


def test_each_strategy_is_read_and_its_report_kept_where_asked(tmp_path: Path) -> None:
    path = fake(tmp_path, export=export_of(tmp_path / "e.sqlite"))
    trace = captured(path, capture_job(tmp_path), keep=tmp_path / "kept")
    assert (tmp_path / "kept" / "pageable.nsys-rep").read_text() == "report\n"
    assert trace.reason == ""
    assert trace.tool == "nsys 2023.4.4"
    assert [(t.strategy, t.frame_seconds) for t in trace.strategies] == [("pageable", 0.01)]
    left = {file.name for file in (tmp_path / "pageable").iterdir()}
    assert not left & {"capture.nsys-rep", "capture.sqlite"}, "they are large"
    trace = captured(tmp_path / "none", capture_job(tmp_path))
    assert trace.strategies == ()
    assert "there is no nsys at" in trace.reason
    assert "--nsys PATH" in trace.reason


def test_an_nsys_that_hangs_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time begins once it has started that."""
    note, wait = tmp_path / "pid", subprocess.Popen.wait

    def wait_from_then(process: subprocess.Popen[bytes], seconds: float | None = None) -> int:
        assert seconds != 1.05 or eventually(lambda: note.exists() and note.read_text() != "")
        return wait(process, seconds)

    monkeypatch.setattr(subprocess.Popen, "wait", wait_from_then)
    path = fake(tmp_path, f"setsid sleep 600 & echo $! >'{note}'; wait")
    trace = captured(path, capture_job(tmp_path, seconds=0.01), starting_seconds=1.0)
    assert "1 s" in trace.reason
    assert eventually(lambda: is_gone(int(note.read_text())))


NOT_TRIED = "not tried, since nsys failed before"
UNDER = "under nsys"


@pytest.mark.parametrize(
    ("does", "n", "export", "reasons"),
    [
        ("echo 'it is wrong'; exit 1", 64, "whole", ("profile failed with code 1: it is wrong", NOT_TRIED)),
        ("exit 0", 64, "whole", ("wrote no report: no output", NOT_TRIED)),
        ('"$@"; echo >"$report.qdstrm"', 64, "whole", ("QdstrmImporter, which converts", NOT_TRIED)),
        (RUNS, "none", "whole", (UNDER, "")),  # the first workload fails
        ('echo report >"$report.nsys-rep"; exit 9', 64, "whole", (UNDER, UNDER)),  # both processes die
        ('"$@"; echo report >"$report.nsys-rep"; exit 1', "none", "whole", (UNDER, "")),  # nsys complains
        (RUNS, 64, "none", ("export failed with code 1", NOT_TRIED)),
        (RUNS, 64, "empty", ("nvtx", "nvtx")),
    ],
)
def test_what_goes_wrong_costs_strategies_their_trace(
    does: str, n: object, export: str, reasons: tuple[str, str], tmp_path: Path
) -> None:
    """An nsys that fails is tried once."""
    file = tmp_path / "e.sqlite"
    if export != "none":
        Export(file).done() if export == "empty" else export_of(file)
    path = fake(tmp_path, f"echo >>'{tmp_path}/tries'; {does}", export=file)
    first = capture_job(tmp_path, "zero-copy", assignments={"n": str(n)})
    trace = captured(path, first, capture_job(tmp_path))
    missing = {each.strategy: each.reason for each in trace.missing}
    for strategy, reason in zip(("zero-copy", "pageable"), reasons, strict=True):
        assert (strategy in missing) == bool(reason)
        assert reason in missing.get(strategy, "")
    assert len((tmp_path / "tries").read_text()) == 2 - (NOT_TRIED in reasons)
    assert trace.reason == ("" if "" in reasons else missing["zero-copy"])


# In the flow


def profiled(folder: Path, captures: object, launcher: FakeLauncher, **options: Any) -> Profile:
    settings = cpu_settings(**options)
    return pipeline.profile(settings, Silent(), keep_in=folder, launcher=launcher, captures=captures)  # type: ignore[arg-type]


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_measured_strategies_are_traced_after_everything_else(interrupted: bool, tmp_path: Path) -> None:
    requests: list[tuple[str, str, int]] = []

    def captures(jobs: list[Job], device: Device, progress: object) -> NsysTrace:
        requests.extend((j.task, j.strategy, j.frames) for j in jobs)
        if interrupted:
            raise KeyboardInterrupt
        return NsysTrace(tool="nsys 1.2.3")

    result = profiled(tmp_path, captures, FakeLauncher(), trace=("nsys",))
    assert requests == [("capture", "pageable", 5), ("capture", "zero-copy", 5)]
    assert [row.status for row in result.results] == ["measured", "measured"]
    assert pipeline.was_interrupted(result) == interrupted
    assert result.trace == NsysTrace(**({"reason": "interrupted"} if interrupted else {"tool": "nsys 1.2.3"}))


def test_what_is_not_asked_for_or_not_on_a_gpu_is_not_traced(tmp_path: Path) -> None:
    trace = NsysTrace(tool="nsys 1.2.3")
    on_cpu, wanted = {"device": builders.cpu_profile().device}, {"trace": ("nsys",)}
    cases: list[tuple[dict[str, Any], dict[str, Any], NsysTrace]] = [
        (on_cpu, wanted, NsysTrace(reason=NO_GPU_TO_TRACE)),
        (on_cpu, {**wanted, "nsys": tmp_path / "nsys"}, trace),
        ({}, {}, NsysTrace(reason="not asked for")),
    ]
    for device, options, expected in cases:
        assert profiled(tmp_path, lambda *_: trace, FakeLauncher(**device), **options).trace == expected


def test_the_options_of_the_documentation_exist(command: Command) -> None:
    text = (REPOSITORY / "docs" / "traces.md").read_text(encoding="utf-8")
    of_nsys = {"--cuda-memory-usage", "--cudabacktrace", "--sample"}
    named = set(re.findall(r"--[a-z][a-z-]+", text)) - of_nsys
    helps = "".join(command(name, "--help").out for name in ("trace", "new", "profile"))
    assert {option for option in named if f"{option} " not in helps} == set()
