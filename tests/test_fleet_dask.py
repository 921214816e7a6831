"""`advisor fleet` with a real scheduler and workers, as processes of this machine (see fleet_workers.py)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from builders import altered, cpu_profile
from rendering import Accepted, refusals
from running import Command, children, environment, eventually, kill_children

from tests.faults.case import workload as one
from tests.forking import server

pytest.importorskip("distributed", reason="the extra fleet is not installed")

from distributed import Client, LocalCluster

import advisor
from advisor import configuration
from advisor.fleets import dask_cluster, fleet, remote
from advisor.fleets.dask_cluster import DaskCluster, connected, local
from advisor.fleets.fleet import SchedulerLost
from advisor.fleets.planning import Answer
from advisor.fleets.request import Selection, make_request

WORKERS = Path(__file__).parent / "fleet_workers.py"
SOURCE = one(top="from mine import LEVEL", produce="a.fill(LEVEL)").replace("def work(", "def tiny(")
IN_PROCESS = {"dashboard_address": "127.0.0.1:0", "processes": False, "threads_per_worker": 1}
QUICK = {"max_seconds": 120.0, "rounds": 1, "strategies": ["pageable"], "targets": ["h200"]}


@contextmanager
def program(*arguments: str | Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python program that ends, with all it started, at the end of the block."""
    command = [sys.executable, *map(str, arguments)]
    process = subprocess.Popen(
        command, env=environment(**variables), stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        kill_children(process.pid, recursive=True)
        process.kill()
        process.wait()


@contextmanager
def scheduler() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    listens = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-jupyter")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scheduler.json")
        with program("-m", "distributed.cli.dask_scheduler", *listens, "--scheduler-file", file) as process:
            assert eventually(lambda: file.is_file() and file.read_text().endswith("\n}"))
            with connected(None, file, None):
                yield json.loads(file.read_text())["address"], process


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workload")
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text("LEVEL = 3\n")
    (folder / "tiny.py").write_text(SOURCE)
    return folder / "tiny.py"


@contextmanager
def workers(address: str, file: Path, folder: Path, *hosts: str) -> Iterator[None]:
    """Workers of these hosts and kinds, which answer with a profile of that file."""
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    made = altered(cpu_profile(), "workload", sha256=sha256)
    answer = folder / "answer.json"
    answer.write_text(Answer(status="profiled", profile=made.to_json()).model_dump_json())
    variables = {"ADVISOR_TEST_ANSWER": str(answer), "ADVISOR_TEST_BEGUN": str(folder)}
    with program(WORKERS, address, *hosts, **variables):
        yield


def until_joined(address: str, count: int) -> None:
    with connected(address, None, None) as cluster:
        assert eventually(lambda: len(cluster.workers()) == count)


def run(address: str, file: Path, out: Path, *, resume: bool = False) -> fleet.Outcome:
    source = configuration.arguments(workload=str(file), quiet=True, formats="json", **QUICK)
    made = make_request(source, Selection(), (), send=(), wait=30, task_seconds=300)
    request = replace(made, another=2, joining=0.5)
    with connected(address, None, None) as cluster:
        return fleet.run(request, lambda: cluster, out, resume=resume)


def statuses(outcome: fleet.Outcome) -> dict[str, int]:
    return Counter(row.status for row in outcome.record.rows)


def test_sixteen_workers_of_which_some_die_hang_or_do_not_fit(workload: Path, tmp_path: Path) -> None:
    """On fifteen hosts: one dies with its task and has a twin, one dies without one; one makes a profile."""
    plain = [f"h{i}:plain" for i in range(9)]
    odd = ["twin:dies", "twin:plain", "alone:dies", "old:old", "bare:bare", "slow:slow", "real:real"]
    with scheduler() as (address, _), workers(address, workload, tmp_path, *plain, *odd):
        until_joined(address, 16)
        outcome = run(address, workload, tmp_path / "out")
    assert statuses(outcome) == {"profiled": 12, "failed": 1, "unfit": 2}
    reasons = [row.reason for row in outcome.record.rows if row.status != "profiled"]
    wanted = ("advisor 0.0.9 is installed there", "advisor is not installed there", "the worker was lost")
    assert all(any(text in reason for reason in reasons) for text in wanted), reasons
    profiles = [json.loads(file.read_text()) for file in (tmp_path / "out").glob("*/profile.json")]
    assert len(profiles) == 12
    real = [made for made in profiles if made["workload"]["name"] == "tiny"]
    assert [made["workload"]["parameters"] for made in real] == [{"n": 64}], "with the package sent along"
    assert real[0]["predictions"]


def test_a_lost_scheduler_keeps_what_is_done_and_resume_goes_on(workload: Path, tmp_path: Path) -> None:
    hosts = ("a:plain", "b:plain", "c:hangs")
    out = tmp_path / "out"

    def kill_once_two_are_done(process: subprocess.Popen[bytes]) -> None:
        assert eventually(lambda: len(list(out.glob("*/row.json"))) == 2)
        assert eventually((tmp_path / "c-hangs").exists)
        os.killpg(process.pid, signal.SIGKILL)

    with scheduler() as (address, process), workers(address, workload, tmp_path, *hosts):
        until_joined(address, 3)
        killer = threading.Thread(target=kill_once_two_are_done, args=(process,))
        killer.start()
        stopped = run(address, workload, out)
        killer.join()
    assert isinstance(stopped.stopped, SchedulerLost)
    assert statuses(stopped) == {"profiled": 2, "not run": 1}
    with scheduler() as (address, _), workers(address, workload, tmp_path, "c:plain", "a:dies"):
        until_joined(address, 2)
        again = run(address, workload, out, resume=True)
    assert statuses(again) == {"profiled": 3}


def test_local_workers_listen_to_this_machine_only() -> None:
    with local(1, None) as cluster:
        assert eventually(lambda: len(cluster.workers()) == 1)
        open_ports = []
        for process in (psutil.Process(), *children(os.getpid(), recursive=True)):
            with suppress(psutil.Error):  # of what an earlier test left, which may end just now
                open_ports += [c for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
        assert {c.laddr.ip for c in open_ports} == {"127.0.0.1"}


WRONG = (
    *("", "--local 1 --scheduler tcp://127.0.0.1:1", "--scheduler tcp://127.0.0.1:1"),
    *("--scheduler tls://127.0.0.1:1", "--scheduler-file damaged.json", "--local 1 --tls-cert x.pem"),
    *("--local 0", "--local x", "--wait -1", "--local 1 --out -", "--local 1 --target mine.toml"),
    *("--local 1 --send nowhere", "tiny.py --local 1", "tiny.py --local 1 --emit x.toml"),
    *("plain.py --local 1", "--local 1 --sweep n=1,2 --set n=3", "--local 1 --sweep n=1,2 --sweep m=1,2"),
)


def test_wrong_input_is_answered_before_anything_runs(
    command: Command, workload: Path, monkeypatch: pytest.MonkeyPatch, accepted: Accepted
) -> None:
    monkeypatch.chdir(workload.parent)
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    (workload.parent / "damaged.json").write_text("[]")
    (workload.parent / "plain.py").write_text("import numpy as np\n")
    monkeypatch.setattr(dask_cluster, "_CONNECT_SECONDS", 0.3)
    calls = {
        f"fleet tiny.py {words}": partial(command, "fleet", "tiny.py", *words.split()) for words in WRONG
    }
    accepted(re.sub("reached: .*", "reached: …", refusals(calls)), "fleets-refused.txt")


def test_several_workloads_get_a_folder_each_on_one_cluster(
    command: Command, workload: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a worker in this process."""
    started = []

    @contextmanager
    def here(*arguments: object) -> Iterator[DaskCluster]:
        started.append(arguments)
        with LocalCluster(n_workers=1, **IN_PROCESS) as workers, Client(workers) as client:
            yield DaskCluster(client)

    monkeypatch.setattr(dask_cluster, "local", here)
    monkeypatch.setattr(remote, "start", partial(remote.start, server=server()))
    second = workload.with_name("second.py")
    second.write_text(SOURCE.replace("def tiny", "def other"))
    quick = ("--rounds", "1", "--strategy", "pageable", "--target", "h200", "--no-gpu", "--max-seconds", "60")
    out = tmp_path / "out"
    called = ("fleet", workload, second, "--local", "1", "--out", out, *quick)
    assert command(*called).code == 0
    assert started == [(1, None)]
    shutil.rmtree(out / "other")
    said = command(*called, "--resume")
    assert said.code == 0, said.err
    assert "resumed: 1 profiled before" in said.err
    rows = {path.parent.parent.name: json.loads(path.read_text()) for path in out.glob("*/*/row.json")}
    assert {name: row["status"] for name, row in rows.items()} == {"tiny": "profiled", "other": "profiled"}


def test_a_program_gives_its_client_and_gets_the_devices(
    workload: Path, tmp_path: Path, accepted: Accepted
) -> None:
    out = tmp_path / "out"
    wrong: tuple[dict[str, Any], ...] = (
        *({"scheduler": "tcp://127.0.0.1:1", "local": 1}, {"scheduler": 3}, {"local": "2"}, {"local": 0}),
        *({"workload": 3}, {"local": 1, "send": "data.bin"}, {"local": 1, "where": "kind=cpu"}),
        {"local": 1, "where": {"x": "1"}},
    )
    calls = {f"{given}": partial(advisor.fleet, **{"workload": workload, **given}) for given in wrong}
    accepted(refusals(calls), "fleet-calls-refused.txt")
    for unknown in ("gpu", "round"):
        with pytest.raises(TypeError, match=f"'{unknown}'"):
            advisor.fleet(workload, local=1, **{unknown: 0})
    with LocalCluster(n_workers=1, **IN_PROCESS) as workers, Client(workers) as client:
        quick = {"strategies": "pageable", "rounds": 1, "targets": "h200", "no_gpu": True, "quiet": True}
        devices = advisor.fleet(workload, {"n": 8}, scheduler=client, out=out, **quick)
        assert client.status == "running"
    (row,) = devices.rows
    assert devices.profile(row).workload.parameters == {"n": 8}
    assert (out / "fleet.html").is_file()
    assert row.device in devices._repr_html_()


def test_two_commands_lock_a_device_wait_for_each_other_and_scale_an_adaptive_cluster() -> None:
    with (
        LocalCluster(n_workers=0, **IN_PROCESS) as workers,
        Client(workers) as mine,
        Client(workers) as other,
    ):
        workers.adapt(minimum=0, maximum=1, interval="100ms")
        first, second = DaskCluster(mine), DaskCluster(other)
        assert first.workers() == set()
        probe = first.start("", "inspect")
        assert eventually(lambda: len(first.workers()) == 1 or bool(first.replies(0))), "it goes again"
        first.cancel(probe)
        assert first.lock("GPU-1")
        assert not second.lock("GPU-1")
        first.unlock("GPU-1")
        assert second.lock("GPU-1")


def test_a_machine_that_is_not_read_in_time_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_INSPECTION_SECONDS", 0.01)
    with pytest.raises(RuntimeError, match="not read within"):
        remote.inspect()


def test_without_dask_the_extra_is_named(
    command: Command, workload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "advisor.fleets.dask_cluster", raising=False)
    monkeypatch.delattr("advisor.fleets.dask_cluster", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = command("fleet", workload, "--local", "1")
    assert said.code == 4
    assert "pip install 'gpu-memory-advisor[fleet]'" in said.err
