"""`advisor doctor`: each thing that can be amiss is found, with what it means and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import builders
from machines import FakeNvml
from rendering import Accepted
from running import REPOSITORY, Command

from advisor.cli.console import Around
from advisor.devices.gpus import GpuLinks
from advisor.devices.host import Machine
from advisor.doctor import Facts, Probe, examine, gather, probe
from advisor.measure.launcher import Ended
from advisor.nsys.capturing import Nsys
from advisor.profiles.conclusions import Finding, State
from advisor.profiles.schema import MemoryClass
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
    fields: dict[str, Any] = {
        "driver": 13000,
        "gpus": 1,
        "packages": packages(cupy_cuda13x="14.2.0", cuda_bindings="13.0.1", nvidia_ml_py="13", nvtx="0.2.11"),
        "probe": Probe(device=CAPABLE, free_bytes=GIB),
        "host": HostState(memory_available_bytes=64 * GIB, locked_memory_limit="unlimited"),
        "board": None,
        "readings": (HEALTHY,),
        "gpu_node": None,
        "nsys": Nsys(Path("/usr/bin/nsys"), (2023, 4, 4)),
        "counters_for_root": False,
    }
    return Facts(**{**fields, **changes})


def packages(**versions: str) -> dict[str, str]:
    return {name.replace("_", "-"): version for name, version in versions.items()}


def nsys(*version: int, nvtx: str) -> dict[str, Any]:
    return {"nsys": Nsys(Path("nsys"), version), "packages": {"nvtx": nvtx}}


def host(**state: Any) -> dict[str, Any]:
    return {"host": HostState(**state)}


def joined(reaches: bool, port: str) -> dict[str, Any]:
    """Two GPUs with NVLink between them."""
    one, other = "0000:3b:00.0", "0000:5e:00.0"
    links = (
        GpuLinks(one, reaches=(other,) if reaches else (), nvlinks=18, root_port="0000:00:01.0"),
        GpuLinks(other, reaches=(one,) if reaches else (), nvlinks=18, root_port=port),
    )
    return {"gpus": 2, "links": links}


def on(memory_class: MemoryClass = "discrete", **attributes: int) -> dict[str, Any]:
    return {"probe": Probe(device=builders.cuda_device(memory_class, **attributes))}


def board(mode: str) -> TegraState:
    return TegraState(moment="before", power_mode=mode, best_power_mode="MAXN")


PLAIN, TABLES = "plain memory (HMM, ATS)", "pageable_memory_access_uses_host_page_tables"
CUPY = packages(cupy_cuda13x="14")
PARTIAL = HEALTHY.model_copy(update={"throttle_reasons": None, "absent": {"throttle_reasons": "not told"}})
NODES = tuple(NumaNode(node=n, cpus=f"{n}") for n in (0, 1))
CASES: list[tuple[str, str, State, dict[str, Any]]] = [
    ("no driver", "driver", "missing", {"driver": None, "gpus": 0, "probe": None}),
    ("no GPU is visible", "driver", "missing", {"gpus": 0, "probe": None}),
    ("no NVRTC", "first kernel", "missing", {"probe": Probe(problem="a first kernel failed: no NVRTC")}),
    ("what the probe says", "first kernel", "missing", {"probe": Probe(problem="x", next_step="do y")}),
    ("no CuPy, CUDA 13", "CuPy", "missing", {"packages": {}}),
    ("no CuPy, CUDA 12", "CuPy", "missing", {"driver": 12040, "packages": {}, "probe": None}),
    ("no CuPy, CUDA 11", "CuPy", "missing", {"driver": 11040, "packages": {}, "probe": None}),
    ("a CuPy that is too new", "CuPy", "missing", {"driver": 12040, "packages": CUPY}),
    ("an older CuPy", "CuPy", "ok", {"packages": packages(cupy_cuda12x="14")}),
    ("two of CuPy", "CuPy", "limited", {"packages": {**CUPY, **packages(cupy_cuda12x="14")}}),
    ("no concurrent access", "managed memory", "limited", on(concurrent_managed_access=0)),
    ("concurrent access", "managed memory", "ok", on(concurrent_managed_access=1)),
    ("no bindings", "managed memory", "limited", {"packages": CUPY}),
    ("no HMM", PLAIN, "limited", on(pageable_memory_access=0)),
    ("one memory", "page faults", "limited", on(concurrent_managed_access=1, integrated=1)),
    ("a card", "page faults", "ok", on(concurrent_managed_access=1, integrated=0)),
    ("no NVML", "NVML", "limited", {"readings": (), "packages": CUPY}),
    ("an NVML that lacks something", "NVML", "limited", {"readings": (PARTIAL,)}),
    ("no nsys", "nsys", "missing", {"nsys": "nsys is not installed"}),
    ("an old nsys", "nsys", "ok", nsys(2022, 4, 2, nvtx="0.2.11")),
    ("an nvtx that is too new for it", "nsys", "limited", nsys(2023, 4, 4, nvtx="0.2.12")),
    ("an old nvtx", "nsys", "ok", nsys(2023, 4, 4, nvtx="0.2.9")),
    ("both new", "nsys", "ok", nsys(2025, 1, 1, nvtx="0.2.16")),
    ("little memory", "memory", "limited", host(memory_available_bytes=GIB)),
    ("a limit of memory", "memory", "limited", host(memory_available_bytes=64 * GIB, memory_limit=GIB)),
    ("enough memory", "memory", "ok", host(memory_available_bytes=64 * GIB, memory_limit="unlimited")),
    ("a limit of locked memory", "locked memory", "info", host(locked_memory_limit=65536)),
    ("a high one", "locked memory", "ok", host(locked_memory_limit=1 << 40)),
    ("a container", "runs in", "info", host(container=True)),
    ("two nodes", "NUMA", "limited", host(numa_nodes=NODES)),
    ("the GPU's node", "NUMA", "ok", {**host(numa_nodes=NODES), "gpu_node": 1}),
    ("a node without CPUs", "NUMA", "ok", host(numa_nodes=(NODES[0], NumaNode(node=2, cpus="")))),
    ("joined, each with its port", "GPU 0 and 1", "ok", joined(True, "0000:00:02.0")),
    ("joined below one port", "GPU 0 and 1", "ok", joined(True, "0000:00:01.0")),
    ("not joined", "GPU 0 and 1", "limited", joined(False, "0000:00:02.0")),
    ("no power mode", "power mode", "info", {"board": TegraState(moment="before")}),
    ("WSL", "runs in", "info", host(wsl=True)),
    ("several GPUs", "driver", "ok", {"gpus": 2}),
    ("no GPU, no CuPy", "CuPy", "info", {"gpus": 0, "probe": None, "packages": {}}),
    ("page tables", PLAIN, "ok", on(pageable_memory_access=1, **{TABLES: 1})),
    ("integrated", PLAIN, "limited", on(integrated=1)),
    ("memory that is not told", "memory", "info", {"host": HostState()}),
    ("a limit that is not told", "locked memory", "info", {"host": HostState()}),
    ("bindings but no NVML", "NVML", "limited", {"readings": ()}),
    ("a weak power mode", "power mode", "limited", {"board": board("15W")}),
    ("the best power mode", "power mode", "ok", {"board": board("MAXN")}),
]


def test_what_is_amiss_what_it_means_and_what_to_do(accepted: Accepted) -> None:
    text = []
    for name, subject, state, changes in CASES:
        checkup = examine(facts(**changes))
        (finding,) = (f for f in checkup.findings if f.subject == subject)
        assert finding.state == state, name
        text += [f"## {subject}: {name}{'' if checkup.ready else ', not ready'}", *said(finding)]
    accepted("\n".join(text), "doctor.txt")


def said(finding: Finding) -> list[str]:
    return [finding.found, finding.means, finding.next_step, ""]


def test_a_machine_on_which_all_works_is_ready_and_one_without_a_gpu_predicts(accepted: Accepted) -> None:
    checkup, without = examine(facts()), examine(facts(driver=None, gpus=0, probe=None, readings=()))
    assert {finding.state for finding in checkup.findings} <= {"ok", "info"}
    assert checkup.ready
    assert without.ready
    text = [line for finding in checkup.findings for line in (f"## {finding.subject}", *said(finding))]
    accepted("\n".join([checkup.verdict, without.verdict, "", *text]), "doctor-healthy.txt")


# Gathering


def test_what_is_gathered(tmp_path: Path) -> None:
    assert gather(machine=Machine(tmp_path, FakeNvml([]))).counters_for_root is None
    params = tmp_path / "proc/driver/nvidia/params"
    params.parent.mkdir(parents=True)
    for value, only in (("1", True), ("0", False)):
        params.write_text(f"ResmanDebugLevel: 1\nRmProfilingAdminOnly: {value}\n")
        assert gather(machine=Machine(tmp_path, FakeNvml([]))).counters_for_root is only
    result = probe(0)
    assert result.device is None
    assert result.problem
    assert result.next_step


def test_a_process_that_dies_is_a_problem() -> None:
    ended = Ended(None, "died", "exited with code 7")
    assert probe(0, lambda _: ended).problem == "the process that tried the GPU exited with code 7"


def test_every_subject_is_documented() -> None:
    text = (REPOSITORY / "docs" / "doctor.md").read_text(encoding="utf-8")
    findings = examine(facts(board=board("15W"), **host(container=True))).findings
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    assert rows[1:] == [finding.subject for finding in findings]


# The command


def test_the_command(command: Command) -> None:
    command.around = Around(facts=lambda gpu, nsys: facts(probe=Probe(problem="no")))
    result = command("doctor")
    assert result.code == 4
    assert "it cannot be measured yet" in result.out
    checkup = json.loads(command("doctor", "--json").out)
    assert checkup["ready"] is False
    command.around = Around(facts=lambda gpu, nsys: facts())
    assert command("doctor").code == 0
