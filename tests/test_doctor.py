"""`advisor doctor`: each thing that can be amiss is found, with what it means and what to do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import builders
import pytest
from every import every
from machines import FakeNvml
from running import REPOSITORY, Command, missing

from advisor.cli.console import Around
from advisor.devices.gpus import GpuLinks
from advisor.devices.host import Machine
from advisor.doctor import Facts, Probe, _links, examine, gather, probe
from advisor.nsys.program import Nsys
from advisor.profiles.conclusions import Finding
from advisor.profiles.system_state import GpuState, HostState, NumaNode, TegraState

GIB = 1 << 30
CAPABLE = builders.cuda_device(
    "discrete-hmm", concurrent_managed_access=1, pageable_memory_access=1, integrated=0
)
HEALTHY = GpuState(
    moment="before",
    clock_seconds=1.0,
    driver="580.1",
    sm_hertz=1,
    throttle_reasons=(),
    temperature_celsius=40.0,
)


def facts(**changes: Any) -> Facts:
    """A machine on which everything works."""
    given: dict[str, Any] = {
        "driver": 13000,
        "gpus": 1,
        "packages": {
            "cupy-cuda13x": "14.2.0",
            "cuda-bindings": "13.0.1",
            "nvidia-ml-py": "13",
            "nvtx": "0.2.11",
        },
        "probe": Probe(device=CAPABLE, free_bytes=GIB),
        "host": HostState(memory_available_bytes=64 * GIB, locked_memory_limit="unlimited"),
        "board": None,
        "readings": (HEALTHY,),
        "gpu_node": None,
        "nsys": Nsys(Path("/usr/bin/nsys"), (2023, 4, 4)),
        "counters_for_root": False,
    }
    return Facts(**{**given, **changes})


def of(subject: str, **changes: Any) -> Finding:
    (found,) = (f for f in examine(facts(**changes)).findings if f.subject == subject)
    return found


def test_machines_on_which_all_works_or_little() -> None:
    checkup = examine(facts())
    assert checkup.ready
    assert {f.state for f in checkup.findings} <= {"ok", "info"}
    assert all(f.found and f.means for f in checkup.findings)
    checkup = examine(facts(driver=None, gpus=0, probe=None, readings=()))
    assert checkup.ready
    assert "predicts" in checkup.verdict
    assert of("driver", driver=None, gpus=0, probe=None).state == "missing"
    assert "CUDA_VISIBLE_DEVICES" in of("driver", gpus=0, probe=None).next_step
    broken = Probe(problem="a first kernel failed: no NVRTC")
    for changes in ({"probe": broken}, {"probe": None, "packages": {}}):
        assert not examine(facts(**changes)).ready
    found = of("first kernel", probe=broken)
    assert (found.state, found.found) == ("missing", broken.problem)
    assert "Toolkit" in found.next_step
    assert of("first kernel", probe=Probe(problem="x", next_step="do y")).next_step == "do y"


@every(
    ("driver", "packages", "state", "says"),
    [
        (13000, {}, "missing", "[cuda13]"),
        (12040, {}, "missing", "[cuda12]"),
        (12040, {"cupy-cuda13x": "14"}, "missing", "install cupy-cuda12x"),
        (13000, {"cupy-cuda12x": "14"}, "ok", ""),
        (
            13000,
            {"cupy-cuda12x": "14", "cupy-cuda13x": "14"},
            "limited",
            "uninstall cupy-cuda12x cupy-cuda13x",
        ),
    ],
)
def test_cupy_and_the_driver(driver: int, packages: dict[str, str], state: str, says: str) -> None:
    found = of("CuPy", driver=driver, packages=packages)
    assert found.state == state
    assert says in found.next_step


@every(
    ("attributes", "subject", "state"),
    [
        ({"concurrent_managed_access": 0}, "managed memory", "limited"),
        ({"concurrent_managed_access": 1}, "managed memory", "ok"),
        ({"pageable_memory_access": 0}, "plain memory (HMM, ATS)", "limited"),
        ({"concurrent_managed_access": 1, "integrated": 1}, "page faults", "limited"),
        ({"concurrent_managed_access": 1, "integrated": 0}, "page faults", "ok"),
    ],
)
def test_what_the_gpus_memory_allows(attributes: dict[str, int], subject: str, state: str) -> None:
    device = builders.cuda_device("discrete", **attributes)
    assert of(subject, probe=Probe(device=device)).state == state


def test_nvml_or_nsys_that_is_not_there() -> None:
    assert "cuda-bindings" in of("managed memory", packages={"cupy-cuda13x": "14"}).next_step
    assert "nvidia-ml-py" in of("NVML", readings=(), packages={"cupy-cuda13x": "14"}).next_step
    partial = HEALTHY.model_copy(
        update={"throttle_reasons": None, "absent": {"throttle_reasons": "not told"}}
    )
    assert of("NVML", readings=(partial,)).found == "not told"


@every(
    ("nsys", "nvtx", "fits"),
    [
        ((2022, 4, 2), (0, 2, 11), True),
        ((2023, 4, 4), (0, 2, 12), False),
        ((2023, 4, 4), (0, 2, 9), True),
        ((2025, 1, 1), (0, 2, 16), True),
    ],
)
def test_nsys_and_nvtx(nsys: tuple[int, ...], nvtx: tuple[int, ...], fits: bool) -> None:
    packages = {"nvtx": ".".join(map(str, nvtx))}
    found = of("nsys", nsys=Nsys(Path("nsys"), nsys), packages=packages)
    assert found.state == ("ok" if fits else "limited")
    assert ("nvtx<0.2.12" in found.next_step) != fits


def test_no_nsys_costs_the_trace_alone() -> None:
    found = of("nsys", nsys="nsys is not installed")
    assert (found.state, found.found) == ("missing", "nsys is not installed")
    assert examine(facts(nsys="nsys is not installed")).ready


@every(
    ("host", "subject", "state"),
    [
        (HostState(memory_available_bytes=GIB), "memory", "limited"),
        (HostState(memory_available_bytes=64 * GIB, memory_limit=GIB), "memory", "limited"),
        (HostState(memory_available_bytes=64 * GIB, memory_limit="unlimited"), "memory", "ok"),
        (HostState(locked_memory_limit=65536), "locked memory", "info"),
        (HostState(locked_memory_limit=1 << 40), "locked memory", "ok"),
        (HostState(container=True), "runs in", "info"),
    ],
)
def test_the_host(host: HostState, subject: str, state: str) -> None:
    assert of(subject, host=host).state == state


def test_numa_and_the_power_mode_of_a_board() -> None:
    nodes = tuple(NumaNode(node=n, cpus=f"{n}") for n in (0, 1))
    far = NumaNode(node=2, cpus="")
    assert of("NUMA", host=HostState(numa_nodes=nodes)).state == "limited"
    assert "node 1" in of("NUMA", host=HostState(numa_nodes=nodes), gpu_node=1).found
    assert of("NUMA", host=HostState(numa_nodes=(nodes[0], far))).found == "one node"
    weak = TegraState(moment="before", power_mode="15W", best_power_mode="MAXN")
    assert of("power mode", board=weak).state == "limited"
    best = TegraState(moment="before", power_mode="MAXN", best_power_mode="MAXN")
    assert of("power mode", board=best).state == "ok"


# Gathering


def test_what_is_gathered(tmp_path: Path) -> None:
    assert gather(machine=Machine(tmp_path, FakeNvml([]))).counters_for_root is None
    params = tmp_path / "proc/driver/nvidia/params"
    params.parent.mkdir(parents=True)
    for value, only in (("1", True), ("0", False)):
        params.write_text(f"ResmanDebugLevel: 1\nRmProfilingAdminOnly: {value}\n")
        assert gather(machine=Machine(tmp_path, FakeNvml([]))).counters_for_root is only
    told = probe(0)
    assert told.device is None
    assert told.problem
    assert told.next_step


@every(
    ("code", "seconds", "says"),
    [
        ("import os; os._exit(7)", 300.0, "exited with code 7"),
        ("import time; time.sleep(600)", 1.0, "did not answer"),
    ],
    ids=["dies", "hangs"],
)
def test_a_process_that_dies_or_hangs_is_a_problem(code: str, seconds: float, says: str) -> None:
    assert says in probe(0, seconds=seconds, command=lambda *_: [sys.executable, "-c", code]).problem


def test_every_subject_is_documented() -> None:
    text = (REPOSITORY / "docs" / "doctor.md").read_text(encoding="utf-8")
    weak = TegraState(moment="before", power_mode="15W", best_power_mode="MAXN")
    found = examine(facts(board=weak, host=HostState(container=True))).findings
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    assert rows[1:] == [finding.subject for finding in found]


# The command


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command = Command(monkeypatch, capsys)
    command.around = Around(facts=lambda gpu, nsys: facts(probe=Probe(problem="no")))
    said = command("doctor")
    assert said.code == 4
    assert "it cannot be measured yet" in said.out
    told = json.loads(command("doctor", "--json").out)
    assert told["ready"] is False
    command.around = Around(facts=lambda gpu, nsys: facts())
    assert command("doctor").code == 0


@every(
    ("reaches", "port", "said"),
    [
        (True, "0000:00:02.0", ("ok", "NVLink, peer access", "without the host")),
        (True, "0000:00:01.0", ("ok", "NVLink, peer access", "root port 0000:00:01.0")),
        (False, "0000:00:02.0", ("limited", "no peer access", "staged in host memory")),
    ],
)
def test_how_two_gpus_are_joined(reaches: bool, port: str, said: tuple[str, ...]) -> None:
    one, other = "0000:3b:00.0", "0000:5e:00.0"
    gpus = (
        GpuLinks(one, reaches=(other,) if reaches else (), nvlinks=18, root_port="0000:00:01.0"),
        GpuLinks(other, reaches=(one,) if reaches else (), nvlinks=18, root_port=port),
    )
    (found,) = _links(gpus)
    assert found.subject == "GPU 0 and 1"
    assert not missing(f"{found.state} {found.found} {found.means}", *said)
    assert not [*_links(gpus[:1])]
